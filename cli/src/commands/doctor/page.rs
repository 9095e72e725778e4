//! Text layout for the width of a terminal.
//!
//! In: titles, rows, paragraphs. Out: lines.
//! Guarantee: on a terminal no line is wider than the terminal, unless a single word is; elsewhere
//! lines are not wrapped.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, stdout};

use crate::doctor::{Row, State};
use profiler_runtime::sys::terminal;
use unicode_width::UnicodeWidthStr as _;

/// Columns of a row's mark, including the spaces around it.
const MARK_COLUMNS: usize = 8;

/// Minimum columns for the text next to a row's name; with fewer, the text goes below.
const LEAST_COLUMNS: usize = 24;

/// Output under construction.
#[derive(Debug)]
pub(super) struct Page {
    text: String,
    width: Option<usize>,
    is_coloured: bool,
}

impl Page {
    /// Detects width and colours of standard output.
    pub(super) fn of_standard_output() -> Page {
        let on_terminal = stdout().is_terminal();
        let width = terminal::size().filter(|_| on_terminal).map(|(columns, _)| columns);
        Page::new(width, on_terminal && super::super::colours::colours_allowed())
    }

    /// For a terminal of this width; `None` does not wrap.
    pub(super) fn new(width: Option<usize>, is_coloured: bool) -> Page {
        Page { text: String::new(), width, is_coloured }
    }

    /// The finished text.
    pub(super) fn text(self) -> String {
        self.text
    }

    /// Columns of the terminal; `None` for unlimited.
    pub(super) fn width(&self) -> Option<usize> {
        self.width
    }

    /// A heading, with an empty line above it.
    pub(super) fn title(&mut self, words: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.paragraph("", 2, words);
    }

    /// Rows whose names take `name_width` columns; identical advice of consecutive rows is printed
    /// once.
    pub(super) fn rows(&mut self, rows: &[Row], name_width: usize) {
        let mut advised = None;
        for row in rows {
            self.row(row.state, row.name, name_width, &row.finding);
            let advice = row.advice.as_deref();
            if let Some(advice) = advice.filter(|advice| advised != Some(*advice)) {
                if self.is_narrow(name_width) {
                    self.below(advice);
                } else {
                    let indent = MARK_COLUMNS + name_width + 2;
                    self.paragraph(&" ".repeat(indent), indent, advice);
                }
            }
            advised = advice;
        }
    }

    fn is_narrow(&self, name_width: usize) -> bool {
        self.width.is_some_and(|width| width < MARK_COLUMNS + name_width + 2 + LEAST_COLUMNS)
    }

    /// A row: a mark, a name and text.
    pub(super) fn row(&mut self, state: State, name: &str, name_width: usize, words: &str) {
        let mark = self.mark(state);
        if self.is_narrow(name_width) {
            self.paragraph_behind(&mark, MARK_COLUMNS, MARK_COLUMNS, name);
            return self.below(words);
        }
        let indent = MARK_COLUMNS + name_width + 2;
        self.paragraph_behind(&format!("{mark}{name:<name_width$}  "), indent, indent, words);
    }

    /// Text below a name.
    pub(super) fn below(&mut self, words: &str) {
        let is_tiny = self.width.is_some_and(|width| width < 2 * LEAST_COLUMNS);
        let indent = if is_tiny { 4 } else { MARK_COLUMNS + 2 };
        self.paragraph(&" ".repeat(indent), indent, words);
    }

    /// The coloured mark for a state, padded to its columns.
    pub(super) fn mark(&self, state: State) -> String {
        let (word, colour) = match state {
            State::Works => ("ok", 32),
            State::Missing => ("--", 33),
            State::Broken => ("FAIL", 31),
        };
        if self.is_coloured { format!("  \x1b[{colour}m{word:<4}\x1b[0m  ") } else { format!("  {word:<4}  ") }
    }

    /// An unchanged line.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Wraps text after `start`; continuation lines are indented by `indent` spaces.
    pub(super) fn paragraph(&mut self, start: &str, indent: usize, words: &str) {
        // Colour codes take no columns.
        let columns = if start.contains('\x1b') { MARK_COLUMNS } else { start.width() };
        self.paragraph_behind(start, columns, indent, words);
    }

    /// Like `paragraph`, with `start` taking `columns` on the screen.
    fn paragraph_behind(&mut self, start: &str, columns: usize, indent: usize, words: &str) {
        self.text.push_str(start);
        let Some(width) = self.width else {
            let _ = writeln!(self.text, "{words}");
            return;
        };
        // No full indentation if it alone would take most of the line.
        let indent = if indent + LEAST_COLUMNS / 2 > width { 2.min(width / 2) } else { indent };
        let mut column = columns;
        let mut is_first = true;
        for word in words.split(' ').filter(|word| !word.is_empty()) {
            let space = usize::from(!is_first);
            if column + space + word.width() > width && column > indent {
                self.text.truncate(self.text.trim_end_matches(' ').len());
                let _ = write!(self.text, "\n{:indent$}", "");
                column = indent;
            } else if !is_first {
                self.text.push(' ');
                column += 1;
            }
            self.text.push_str(word);
            column += word.width();
            is_first = false;
        }
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::{Page, State};

    fn written(width: Option<usize>) -> String {
        let mut page = Page::new(width, false);
        page.title("probes: each loaded and attached");
        page.row(State::Missing, "fentry", 10, "the kernel refuses programs at entries of functions");
        page.text()
    }

    #[test]
    fn words_are_broken_where_the_terminal_ends() {
        let wide = "probes: each loaded and attached\n  --    fentry      the kernel refuses programs at entries of functions\n";
        assert_eq!(written(None), wide);
        assert_eq!(written(Some(80)), wide);
        let expected = "probes: each loaded and attached\n  --    fentry      the kernel refuses programs at\n                    entries of functions\n";
        assert_eq!(written(Some(50)), expected);
        let expected = "probes: each loaded\n  and attached\n  --    fentry\n    the kernel\n    refuses programs\n    at entries of\n    functions\n";
        assert_eq!(written(Some(20)), expected);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 12..90 {
            let text = written(Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
    }
}
