//! Prints program output above the line being edited.
//!
//! In: texts from any thread. Out: the same on the terminal, in order, as lines. Guarantee:
//! printing never waits for the user; lines that arrive faster than a terminal shows them are
//! dropped and counted.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustyline::ExternalPrinter;

/// Limit in bytes of pending output; it is shown [`PAUSE`] later.
const MOST_BYTES: usize = 128 << 10;

/// Minimum time between redraws of the line being edited.
const PAUSE: Duration = Duration::from_millis(40);

/// A terminal, with or without a line being edited.
pub(super) struct Screen {
    waiting: Mutex<Waiting>,
    has_come: Condvar,
}

/// Text that is not on the screen yet.
#[derive(Default)]
pub(super) struct Waiting {
    text: String,
    /// Lines dropped because the buffer was full.
    left_out: u64,
    is_editing: bool,
    is_over: bool,
}

impl Waiting {
    /// Adds lines as long as there is space.
    pub(super) fn add(&mut self, text: &str) {
        if self.left_out == 0 && self.text.len() + text.len() <= MOST_BYTES {
            self.text.push_str(text);
        } else {
            self.left_out += text.lines().count() as u64;
        }
    }

    /// The text, with the number of lines that are left out of it.
    pub(super) fn take(&mut self) -> String {
        let mut text = std::mem::take(&mut self.text);
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let plural = if left_out == 1 { "" } else { "s" };
            // Writing to a string does not fail.
            let _ = writeln!(text, "… {left_out} line{plural} dropped: output is too fast for the terminal");
        }
        text
    }
}

impl Screen {
    /// Shows output through `printer` while a line is being edited.
    pub(super) fn new(mut printer: impl ExternalPrinter + Send + 'static) -> Arc<Screen> {
        let screen = Arc::new(Screen { waiting: Mutex::default(), has_come: Condvar::new() });
        let own = Arc::clone(&screen);
        // Runs until the process or the screen ends.
        thread::spawn(move || {
            while let Some(text) = own.next() {
                // The terminal may already be gone.
                let _ = printer.print(text);
                // Output that arrives meanwhile is shown together, with one redraw of the line.
                thread::sleep(PAUSE);
            }
        });
        screen
    }

    fn locked(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next output to show above the line; blocks until there is some, and returns `None` when
    /// the screen ends.
    fn next(&self) -> Option<String> {
        let is_idle = |waiting: &mut Waiting| !waiting.is_over && (waiting.text.is_empty() || !waiting.is_editing);
        let mut waiting = self.has_come.wait_while(self.locked(), is_idle).unwrap_or_else(PoisonError::into_inner);
        (!waiting.is_over).then(|| waiting.take())
    }

    /// Shows a text: directly, or above the line being edited.
    pub(super) fn say(&self, text: &str) {
        let mut waiting = self.locked();
        if waiting.is_editing {
            waiting.add(text);
            self.has_come.notify_one();
        } else {
            show(text);
        }
    }

    /// Reads a line, with output shown above it.
    pub(super) fn edit<T>(&self, read: impl FnOnce() -> T) -> T {
        self.locked().is_editing = true;
        let line = read();
        let mut waiting = self.locked();
        waiting.is_editing = false;
        show(&waiting.take());
        line
    }

    /// Stops showing output above lines.
    pub(super) fn end(&self) {
        self.locked().is_over = true;
        self.has_come.notify_one();
    }
}

fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    // The terminal may already be gone.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::{MOST_BYTES, Waiting};

    #[test]
    fn lines_that_have_no_room_are_counted() {
        let mut waiting = Waiting::default();
        waiting.add("one\n");
        assert_eq!(waiting.take(), "one\n");
        waiting.add(&"x\n".repeat(MOST_BYTES / 2));
        waiting.add("two\nthree\n");
        waiting.add("\n");
        let text = waiting.take();
        assert!(text.ends_with("x\n… 3 lines dropped: output is too fast for the terminal\n"), "{}", text.len());
        assert_eq!(waiting.take(), "");
    }
}
