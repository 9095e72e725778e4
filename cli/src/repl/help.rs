//! The text of `:help`, and line wrapping.
//!
//! In: a number of columns. Out: lines. Guarantee: a line is longer only if it is a single word.

use std::fmt::Write as _;

use super::input::COMMANDS;

/// The help text for a terminal with `columns` columns.
pub fn text(columns: usize) -> String {
    let width = COMMANDS.iter().map(|(_, usage, _)| usage.len()).max().unwrap_or(0);
    let words = "Enter a probe to attach it, `@x` to print a map, an expression to evaluate it, or a recipe with its \
                 options to run it until Control-C:";
    let mut text = fitted(0, words, columns);
    text.push('\n');
    for example in ["tracepoint:syscalls:sys_enter_openat { @[comm] = count(); }", "@", "nsecs", "lock/futex --min 1ms"]
    {
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
    text.push_str(&fitted(0, "`help`, `?`, `quit` and `exit` also work without a colon. Tab completes, an open brace continues on the next line, Control-D exits.", columns));
    text
}

/// Explanations are next to their commands if at least this many columns are left for them.
const BESIDE: usize = 34;

/// Wraps text at words to `columns` columns, with every line indented.
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

/// Text is not wrapped to fewer columns than this.
const MIN_COLUMNS: usize = 10;
