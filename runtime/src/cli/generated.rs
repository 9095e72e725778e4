//! What is made of the command line's own description: completions and the manual page.
//!
//! In: a shell, or a command. Out: the shell's completions, or a manual page as roff, on standard output.

use std::io::{Write, stdout};

use clap_complete::Shell;

use super::exit::{Failure, OK, USAGE};
use super::{args, shells};

/// Writes a shell's completions.
pub fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut args::described(), "profiler", &mut text);
    let text = shells::extend(shell, String::from_utf8_lossy(&text).into_owned());
    write(text.as_bytes())
}

/// Writes the manual page, or that of a command.
pub fn man(command: Option<&str>) -> Result<u8, Failure> {
    let mut described = args::described();
    if let Some(name) = command {
        let Some(command) = described.find_subcommand(name) else {
            return Err(Failure::new(USAGE, format!("there is no command `{name}`")).help("`profiler help` lists them"));
        };
        described = command.clone();
    }
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(described).render(&mut text);
    rendered.map_err(|error| Failure::output("memory", &error))?;
    write(&text)
}

fn write(text: &[u8]) -> Result<u8, Failure> {
    let mut out = stdout().lock();
    out.write_all(text).and_then(|()| out.flush()).map_err(|error| Failure::output("standard output", &error))?;
    Ok(OK)
}
