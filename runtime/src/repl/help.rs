//! What `:help` says, and lines that fit a terminal.
//!
//! In: a number of columns. Out: lines. Guarantee: a line is longer only when it is one word.

use std::fmt::Write as _;

use super::input::COMMANDS;

/// What can be typed, on a terminal of so many columns.
pub fn text(columns: usize) -> String {
    let width = COMMANDS.iter().map(|(_, usage, _)| usage.len()).max().unwrap_or(0);
    let mut text = fitted(0, "Type a probe to attach it, `@x` to see a map, an expression to have its value:", columns);
    text.push('\n');
    for example in ["tracepoint:syscalls:sys_enter_openat { @[comm] = count(); }", "@", "nsecs"] {
        text.push_str(&fitted(2, example, columns));
    }
    text.push('\n');
    for (_, usage, words) in COMMANDS {
        if columns < width + BESIDE {
            let _ = writeln!(text, "  {usage}");
            text.push_str(&fitted(6, words, columns));
        } else {
            let words = fitted(width + 4, words, columns);
            let _ = write!(text, "  {usage:<width$}  {}", words.trim_start());
        }
    }
    text.push('\n');
    text.push_str(&fitted(0, "Tab completes, an open brace goes on in the next line, Control-D leaves.", columns));
    text
}

/// Words stand beside what they explain when so many columns are left for them.
const BESIDE: usize = 34;

/// Lines of at most so many columns, all of them indented, broken between words.
pub fn fitted(indent: usize, words: &str, columns: usize) -> String {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let room = columns.saturating_sub(indent).max(MIN_COLUMNS);
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > room {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    let margin = " ".repeat(indent);
    lines.iter().flat_map(|line| [margin.as_str(), line, "\n"]).collect()
}

/// Words are not broken into less than this.
const MIN_COLUMNS: usize = 10;
