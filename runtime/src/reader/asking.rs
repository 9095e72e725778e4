//! Questions about files, and who answers them.
//!
//! In: a question. Out: the answer; `None` if what reads is stuck, or was broken by it.
//! Guarantee: apart from this process, a question takes a bounded time (`pace.rs`).

use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Reader;
use super::child::{Children, End};
use super::pace::Pace;
use super::wire;

/// How often the progress of an answer is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long a question waits for space in the socket. Questions usually fit into it, so this does
/// not depend on when the other side gets a CPU.
const UNREAD: Duration = Duration::from_secs(60);

/// The lines to a process, each with a thread there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    /// Names of addresses.
    Names,
    /// Unwind tables.
    Tables,
}

impl Channel {
    pub(super) const COUNT: usize = 2;
}

/// Work on files.
pub(crate) trait Work {
    type Question: Serialize + DeserializeOwned;
    type Answer: Serialize + DeserializeOwned;
    /// The line on which it is asked for.
    const CHANNEL: Channel;

    /// Reads what the question needs. May block for ever.
    fn answer(&mut self, question: Self::Question) -> Self::Answer;
}

/// Asks for one kind of work.
#[derive(Debug)]
pub(crate) struct Asking<W>(Place<W>);

#[derive(Debug)]
enum Place<W> {
    Here(W),
    Apart { children: Arc<Children>, line: Option<Line> },
}

/// A line that has been opened.
#[derive(Debug)]
struct Line {
    end: End,
    /// The thread that answers, in procfs.
    thread: PathBuf,
}

/// Why there is no answer.
enum Failure {
    /// It does not get on.
    Stuck,
    /// The process has ended, by itself or by another one's hand.
    Ended,
    /// The process was killed because it did not get on with what the other line asked.
    GivenUp,
    /// There are no more.
    NoProcess,
}

impl<W: Work> Asking<W> {
    /// Nothing has been asked yet. If files are read in this process, `here` does the work.
    pub(crate) fn new(reader: &Reader, here: impl FnOnce() -> W) -> Asking<W> {
        Asking(match &reader.0 {
            None => Place::Here(here()),
            Some(children) => Place::Apart { children: Arc::clone(children), line: None },
        })
    }

    /// The answer. If the process ends over it, another one is asked, once: it may have ended for
    /// what the other line was asked. Where this is known, it does not count.
    pub(crate) fn ask(&mut self, question: W::Question) -> Option<W::Answer> {
        let (children, line) = match &mut self.0 {
            Place::Here(work) => return Some(work.answer(question)),
            Place::Apart { children, line } => (children, line),
        };
        let mut ended = 0;
        while ended < 2 {
            let opened = line.take().map_or_else(|| Line::open(children, W::CHANNEL), Ok);
            let answer = opened.and_then(|mut opened| {
                let answer = opened.ask(&question).map_err(|failure| opened.given_up(children, failure))?;
                *line = Some(opened);
                Ok(answer)
            });
            match answer {
                Ok(answer) => return Some(answer),
                Err(Failure::Stuck | Failure::NoProcess) => return None,
                Err(Failure::Ended) => ended += 1,
                Err(Failure::GivenUp) => {}
            }
        }
        None
    }
}

impl Line {
    fn open(children: &Children, channel: Channel) -> Result<Line, Failure> {
        let end = children.line(channel).ok_or(Failure::NoProcess)?;
        let mut line = Line { thread: PathBuf::from(format!("/proc/{}", end.pid)), end };
        let stream = &line.end.stream;
        let limited = stream.set_read_timeout(Some(LOOK)).and_then(|()| stream.set_write_timeout(Some(UNREAD)));
        // The first message says which thread it is.
        match limited.map_err(|_| Failure::Ended).and_then(|()| line.receive()) {
            Ok(thread) => Ok(Line { thread, ..line }),
            Err(failure) => Err(line.given_up(children, failure)),
        }
    }

    /// Gives up the process that failed; returns why it did.
    fn given_up(&self, children: &Children, failure: Failure) -> Failure {
        let is_stuck = matches!(failure, Failure::Stuck);
        if children.give_up(self.end.number, is_stuck) && !is_stuck { Failure::GivenUp } else { failure }
    }

    fn ask<Question: Serialize, Answer: DeserializeOwned>(&mut self, question: &Question) -> Result<Answer, Failure> {
        wire::send(&mut self.end.stream, question).map_err(|_| Failure::Ended)?;
        self.receive()
    }

    fn receive<Answer: DeserializeOwned>(&mut self) -> Result<Answer, Failure> {
        let mut waiting = Waiting { stream: &self.end.stream, pace: Pace::begin(self.thread.clone()) };
        wire::receive(&mut waiting)
            .map_err(|error| if error.kind() == ErrorKind::TimedOut { Failure::Stuck } else { Failure::Ended })
    }
}

/// Reads an answer as long as the thread that writes it gets on.
struct Waiting<'a> {
    stream: &'a std::os::unix::net::UnixStream,
    pace: Pace,
}

impl Read for Waiting<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(into) {
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => {
                    if self.pace.has_ended() {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                    if self.pace.is_stuck() {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                read => return read,
            }
        }
    }
}
