//! The process that reads.
//!
//! In: questions on its two standard streams, which are sockets. Out: answers there.
//! Guarantee: it ends with the process that asks. It may read, and nothing else (`sys/reading.rs`).

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::{io, thread};

use super::asking::Work;
use super::wire;
use crate::host::budget;
use crate::starved;
use crate::symbols::kept::KeptFiles;
use crate::symbols::naming::Namer;
use crate::sys::reading::{give_up_rights, standard_pair};
use crate::unwind::reading::TableReader;

/// [`super::NAME`], as the kernel shows it: it would be `exe`.
const COMMAND: &CStr = c"profiler-reader";

/// Answers until the process that asks ends. It may reserve this many bytes for files. To be called
/// first: it closes every descriptor but the standard ones.
///
/// Fails if the rights of this process cannot be reduced; nothing is read then.
pub fn serve(most_bytes: usize) -> io::Result<()> {
    give_up_rights(COMMAND)?;
    budget::limit_to(most_bytes);
    let (names, tables) = standard_pair().ok_or(io::ErrorKind::AlreadyExists)?;
    let kept = Arc::new(KeptFiles::default());
    let shared = Arc::clone(&kept);
    thread::Builder::new().name("tables".into()).spawn(move || drop(answer(tables, TableReader::new(Some(shared)))))?;
    answer(names, Namer::new(Some(kept)))
}

/// Answers the questions of a line until it is closed.
fn answer<W: Work>(line: OwnedFd, mut work: W) -> io::Result<()> {
    let mut line = UnixStream::from(line);
    wire::send(&mut line, &starved::own())?;
    loop {
        let question = wire::receive(&mut line)?;
        wire::send(&mut line, &work.answer(question))?;
    }
}
