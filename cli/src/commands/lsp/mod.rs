//! `profiler lsp`: a language server on standard input and output.
//!
//! In: messages of an editor. Out: diagnostics, completions, hover texts, formatted scripts.
//! Guarantee: whatever the input, the server runs until a client asks it to exit or its input ends.
//! Diagnostics are those of `profiler check`; after several changes at once, they are computed only
//! for the last state of a script.

mod answers;
mod frames;
mod server;

use std::io::{BufReader, stdin, stdout};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;

use super::exit::{Failure, MISTAKE, OK};
use frames::Frame;
use serde_json::Value;
use server::Server;

/// Capacity of the message queue: enough for a fast typist.
const WAITING: usize = 64;

/// Runs the language server.
pub(super) fn lsp() -> Result<u8, Failure> {
    let (sender, messages) = sync_channel(WAITING);
    // Ends with the process: nothing can interrupt its blocking read.
    thread::spawn(move || {
        let mut input = BufReader::new(stdin().lock());
        loop {
            let frame = frames::read(&mut input);
            let is_last = frame == Frame::End;
            if sender.send(frame).is_err() || is_last {
                return;
            }
        }
    });
    serve(&messages)
}

fn serve(messages: &Receiver<Frame>) -> Result<u8, Failure> {
    let mut server = Server::new();
    let mut out = stdout().lock();
    let mut send =
        |message: &Value| frames::write(&mut out, message).map_err(|error| Failure::output("standard output", &error));
    loop {
        let frame = match messages.try_recv() {
            Ok(frame) => frame,
            Err(TryRecvError::Disconnected) => Frame::End,
            Err(TryRecvError::Empty) => {
                server.diagnose().iter().try_for_each(&mut send)?;
                messages.recv().unwrap_or(Frame::End)
            }
        };
        let is_last = frame == Frame::End;
        match frame {
            Frame::Message(message) => {
                if let Some(reply) = server.take(&message) {
                    send(&reply)?;
                }
            }
            Frame::Garbage(words) => send(&server::failed(&Value::Null, server::PARSE_ERROR, &words))?,
            Frame::End => server.diagnose().iter().try_for_each(&mut send)?,
        }
        if server.has_ended() || is_last {
            return Ok(if server.was_shut_down() { OK } else { MISTAKE });
        }
    }
}
