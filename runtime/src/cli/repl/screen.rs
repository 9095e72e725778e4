//! The terminal while a line is being edited on it: what programs print goes above the line.
//!
//! In: texts of any thread. Out: the same on the terminal, in their order, as lines. Guarantee: nobody who prints waits for the person who types; a line that comes
//! faster than a terminal shows lines is left out, and how many were is said.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustyline::ExternalPrinter;

/// What waits to be shown, at most; it is shown [`PAUSE`] later.
const MOST_BYTES: usize = 128 << 10;

/// The line being edited is drawn anew so often, at most.
const PAUSE: Duration = Duration::from_millis(40);

/// A terminal with a line that is edited, or none at the moment.
pub struct Screen {
    waiting: Mutex<Waiting>,
    has_come: Condvar,
}

/// Texts that the line editor has not shown yet.
#[derive(Default)]
struct Waiting {
    text: String,
    /// Lines that had no room.
    left_out: u64,
    is_editing: bool,
    is_over: bool,
}

impl Waiting {
    /// Adds lines as far as there is room.
    fn add(&mut self, text: &str) {
        if self.left_out == 0 && self.text.len() + text.len() <= MOST_BYTES {
            self.text.push_str(text);
        } else {
            self.left_out += text.lines().count() as u64;
        }
    }

    fn take(&mut self) -> String {
        let mut text = std::mem::take(&mut self.text);
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let plural = if left_out == 1 { "" } else { "s" };
            // Writing to a string does not fail.
            let _ = writeln!(text, "… {left_out} line{plural} left out: they came faster than a terminal shows them");
        }
        text
    }
}

impl Screen {
    /// Shows by `printer` what comes while a line is edited.
    pub fn new(mut printer: impl ExternalPrinter + Send + 'static) -> Arc<Screen> {
        let screen = Arc::new(Screen { waiting: Mutex::default(), has_come: Condvar::new() });
        let own = Arc::clone(&screen);
        // Ends with the process, or when it is told to.
        thread::spawn(move || {
            while let Some(text) = own.next() {
                // A terminal that is gone has no reader.
                let _ = printer.print(text);
                // What comes meanwhile is shown at once, and costs the line one drawing.
                thread::sleep(PAUSE);
            }
        });
        screen
    }

    fn locked(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be shown above the line; waits for it, and ends with the screen.
    fn next(&self) -> Option<String> {
        let is_idle = |waiting: &mut Waiting| !waiting.is_over && (waiting.text.is_empty() || !waiting.is_editing);
        let mut waiting = self.has_come.wait_while(self.locked(), is_idle).unwrap_or_else(PoisonError::into_inner);
        (!waiting.is_over).then(|| waiting.take())
    }

    /// Shows a text: at once, or above the line that is being edited.
    pub fn say(&self, text: &str) {
        let mut waiting = self.locked();
        if waiting.is_editing {
            waiting.add(text);
            self.has_come.notify_one();
        } else {
            show(text);
        }
    }

    /// Lets a line be edited.
    pub fn edit<T>(&self, read: impl FnOnce() -> T) -> T {
        self.locked().is_editing = true;
        let line = read();
        let mut waiting = self.locked();
        waiting.is_editing = false;
        show(&waiting.take());
        line
    }

    /// Shows nothing more above lines.
    pub fn end(&self) {
        self.locked().is_over = true;
        self.has_come.notify_one();
    }
}

fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    // A terminal that is gone has no reader.
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
        assert!(
            text.ends_with("x\n… 3 lines left out: they came faster than a terminal shows them\n"),
            "{}",
            text.len()
        );
        assert_eq!(waiting.take(), "");
    }
}
