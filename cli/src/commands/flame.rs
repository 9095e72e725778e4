//! `profiler flame`: flame graphs of files of folded lines, and of the difference of two.
//!
//! In: files of folded lines. Out: an SVG file, or standard output, which may get text instead.
//! Guarantee: a file with an unreadable line gives an error with the place, and no picture.

use std::fs::File;
use std::io::{self, BufReader, Write};

use profiler_output::stacks::{Difference, Folded, Unreadable};

use super::args::FlameArguments;
use super::exit::{Failure, MISTAKE, OK};
use super::{stack_files, streams};

/// Draws a flame graph.
pub(super) fn flame(arguments: &FlameArguments) -> Result<u8, Failure> {
    let mut picture = Vec::new();
    let files = arguments.files.iter().map(|path| read(path, arguments.is_busy)).collect::<Result<Vec<_>, _>>()?;
    let drawn = match (files.as_slice(), arguments.files.as_slice()) {
        ([before, after], [from, to]) => {
            let is_reversed = arguments.is_reversed;
            Difference { before: (from, before), after: (to, after), is_reversed }.write(&mut picture)
        }
        ([stacks], [path]) if arguments.is_icicle => stacks.write_icicle(path, stack_files::look(), &mut picture),
        ([stacks], [path]) => stacks.write_flame_graph(path, &mut picture),
        _ => Ok(()),
    };
    drawn.map_err(|error| Failure::output("the flame graph", &error))?;
    match &arguments.output {
        Some(path) => streams::write_file(path, streams::result_file(path)?, |out| out.write_all(&picture))?,
        None => {
            let mut out = io::stdout().lock();
            out.write_all(&picture)
                .and_then(|()| out.flush())
                .map_err(|error| Failure::output("standard output", &error))?;
        }
    }
    Ok(OK)
}

/// Reads a file, and leaves idle threads out if only busy ones are wanted.
fn read(path: &str, is_busy: bool) -> Result<Folded, Failure> {
    let file = File::open(path).map_err(Unreadable::File);
    let mut stacks = file.and_then(|file| Folded::read(&mut BufReader::new(file))).map_err(|why| match why {
        Unreadable::File(error) => Failure::new(MISTAKE, format!("`{path}` cannot be read: {error}")),
        Unreadable::Line(line) => {
            Failure::new(MISTAKE, format!("line {line} of `{path}` is not a stack with a number"))
                .help("write folded lines with `--folded FILE`: `main;work 12`")
        }
    })?;
    if stacks.is_empty() {
        return Err(Failure::new(MISTAKE, format!("`{path}` has no stacks")));
    }
    if is_busy && !stacks.leave_out_idle() {
        let failure = Failure::new(MISTAKE, format!("the stacks of `{path}` have no states of threads"));
        return Err(failure.help("`--busy` needs states such as `poll`, which `wall/profile --folded FILE` writes"));
    }
    if stacks.is_empty() {
        return Err(Failure::new(MISTAKE, format!("all threads of `{path}` are idle, so `--busy` leaves nothing")));
    }
    Ok(stacks)
}
