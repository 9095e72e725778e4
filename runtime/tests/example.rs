//! The example of the crate's documentation, run.

#[path = "../examples/read_values.rs"]
#[allow(dead_code, reason = "its `main` prints")]
mod read_values;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use profiler_runtime::RunError;

#[test]
fn the_example_counts_our_own_calls() {
    // Calls until the example has ended, however long it takes to load.
    let name = "example-caller";
    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&has_ended);
    let caller = move || {
        while !ended.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let caller = std::thread::Builder::new().name(name.into()).spawn(caller).expect("a thread");
    let calls = read_values::calls(Duration::from_millis(300));
    has_ended.store(true, Ordering::Relaxed);
    match calls {
        Err(error) if matches!(error.downcast_ref(), Some(RunError::Load(_))) => println!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
        Ok(calls) => {
            let own = calls.by_name.iter().find(|(found, _)| found == name);
            assert!(own.is_some_and(|(_, count)| *count > 0), "{calls:?}");
        }
    }
    caller.join().expect("it ends");
}
