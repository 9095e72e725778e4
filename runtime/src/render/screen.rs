//! Views that are drawn over themselves on a terminal.
//!
//! In: the lines of each view as it changes. Out: codes and text for the terminal.
//! Guarantee: what is drawn never scrolls what stands above it away by more than its own height, also when the terminal was made narrower
//! meanwhile; after [`Screen::erase`] the cursor stands where the views began, in an empty line.

use std::io::IsTerminal;

use super::table::{Layout, Line};
use crate::sys::terminal;

/// How a terminal is used.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// Whether it knows codes for movement and colour.
    pub has_codes: bool,
    /// Whether colour is wanted.
    pub has_colour: bool,
    /// Its size in columns and lines, asked for each time.
    pub size: fn() -> Option<(usize, usize)>,
}

/// Views on a terminal.
#[derive(Debug)]
pub struct Screen {
    terminal: Terminal,
    /// The latest lines of each view that is live, by its number.
    views: Vec<(usize, Vec<Line>)>,
    /// The widths of the lines that are drawn now.
    drawn: Vec<usize>,
}

impl Terminal {
    /// The terminal that standard output is; `None` when it is something else.
    pub fn of_standard_output() -> Option<Terminal> {
        if !std::io::stdout().is_terminal() {
            return None;
        }
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|value| value == "dumb" || value.is_empty());
        Some(Terminal { has_codes: !is_dumb, has_colour: !is_dumb && !is_set("NO_COLOR"), size: terminal::size })
    }
}

impl Screen {
    /// Nothing is drawn yet.
    pub fn new(terminal: Terminal) -> Screen {
        Screen { terminal, views: Vec::new(), drawn: Vec::new() }
    }

    /// How a table is laid out now; a live one with `others` more beside it has its share of the height.
    pub fn layout(&self, is_live: bool) -> Layout {
        let size = (self.terminal.size)();
        let share = |rows: usize| rows.saturating_sub(1) / self.views.len().max(1);
        Layout {
            width: size.map(|(columns, _)| columns),
            height: size.filter(|_| is_live && self.terminal.has_codes).map(|(_, rows)| share(rows).max(4) - 1),
            colour: self.terminal.has_colour,
        }
    }

    /// Whether live views are drawn over themselves; else each is printed below the last.
    pub fn redraws(&self) -> bool {
        self.terminal.has_codes
    }

    /// Makes room for a view among those that are live, so that each knows its share of the height.
    pub fn expect(&mut self, view: usize) {
        if !self.views.iter().any(|(known, _)| *known == view) {
            self.views.push((view, Vec::new()));
            self.views.sort_by_key(|(view, _)| *view);
        }
    }

    /// The lines of a live view from now on.
    pub fn update(&mut self, view: usize, lines: Vec<Line>) {
        self.expect(view);
        if let Some((_, known)) = self.views.iter_mut().find(|(known, _)| *known == view) {
            *known = lines;
        }
    }

    /// A view that is not live any more.
    pub fn forget(&mut self, view: usize) {
        self.views.retain(|(known, _)| *known != view);
    }

    /// Takes what is drawn off the screen.
    pub fn erase(&mut self, out: &mut Vec<u8>) {
        if self.drawn.is_empty() {
            return;
        }
        let columns = (self.terminal.size)().map_or(usize::MAX, |(columns, _)| columns.max(1));
        // A line that is wider than the terminal has become takes several lines of it.
        let rows: usize = self.drawn.iter().map(|width| width.div_ceil(columns).max(1)).sum();
        // Line by line: what is cleared as a whole screen, some terminals keep above it. The present line may have a `^C`.
        out.extend_from_slice(b"\r\x1b[2K");
        out.extend(b"\x1b[1A\x1b[2K".repeat(rows));
        self.drawn.clear();
    }

    /// Draws all live views, unless they are drawn.
    pub fn draw(&mut self, out: &mut Vec<u8>) {
        if !self.drawn.is_empty() {
            return;
        }
        for (_, lines) in self.views.iter().filter(|(_, lines)| !lines.is_empty()) {
            for line in lines {
                out.extend_from_slice(line.text.as_bytes());
                out.push(b'\n');
                self.drawn.push(line.width);
            }
            out.push(b'\n');
            self.drawn.push(0);
        }
    }
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
