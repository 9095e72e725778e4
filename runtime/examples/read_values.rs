//! Counts the system calls of each thread name for a second, and reads the counts.
//!
//! As root: `cargo run -p profiler-runtime --example read_values`.

use std::error::Error;
use std::time::Duration;

use profiler_compiler::{CATALOGUE, Options, Source, Value, compile};
use profiler_runtime::{Collected, Host, HostSymbols, RunOptions, run};

const SCRIPT: &str = "tracepoint:syscalls:sys_enter_* { @calls[comm] = count(); }";

/// System calls during a run.
#[derive(Debug)]
pub struct Calls {
    /// The number of calls of each thread name.
    pub by_name: Vec<(String, u64)>,
    /// How many calls were not counted.
    pub missing: u64,
}

/// Counts the system calls for a time.
pub fn calls(duration: Duration) -> Result<Calls, Box<dyn Error>> {
    let source = Source::new("calls.prof", SCRIPT);
    let compiled = compile(&source, &CATALOGUE, &Host::new(), &Options::default())
        .map_err(|problems| problems[0].message.clone())?;

    let mut results = Collected::default();
    let options = RunOptions { duration: Some(duration), ..RunOptions::default() };
    let outcome = run(&compiled.object, &CATALOGUE, options, &mut results, &HostSymbols::new())?;

    let count = |(name, count): (&Value, &Value)| match (name, count) {
        (Value::Str(name), Value::Uint(count)) => Some((String::from_utf8_lossy(name).into_owned(), *count)),
        _ => None,
    };
    let by_name = results.entries("@calls").filter_map(count).collect();
    Ok(Calls { by_name, missing: outcome.losses.iter().map(|(_, lost)| lost).sum() })
}

/// Prints the counts.
pub fn main() -> Result<(), Box<dyn Error>> {
    let Calls { by_name, missing } = calls(Duration::from_secs(1))?;
    for (name, count) in by_name {
        println!("{count:>8} {name}");
    }
    println!("{missing:>8} missing");
    Ok(())
}
