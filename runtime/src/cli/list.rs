//! `profiler list`: what can be probed on this machine.
//!
//! In: a pattern. Out: one probe a line on standard output, with `-v` its arguments below it.
//! Guarantee: a reader that stops reading (`| head`) ends it quietly.

use std::io::{BufWriter, Write, stdout};

use super::args::ListArguments;
use super::exit::{Failure, OK};
use super::{engine, parameters};

/// Lists probes.
pub fn list(arguments: &ListArguments) -> Result<u8, Failure> {
    let mut out = BufWriter::new(stdout().lock());
    if arguments.pattern.as_deref() == Some("modules") {
        let text = parameters::list_modules();
        return out.write_all(text.as_bytes()).map(|()| OK).map_err(|error| Failure::output("standard output", &error));
    }
    engine::list(arguments.pattern.as_deref(), arguments.pid, arguments.verbose, &mut out)?;
    out.flush().map_err(|error| Failure::output("standard output", &error))?;
    Ok(OK)
}
