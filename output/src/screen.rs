//! Views that are redrawn in place on a terminal.
//!
//! In: the lines of each view as it changes. Out: escape sequences and text for the terminal.
//! Guarantee: drawing scrolls the text above the views by at most their own height, even if the
//! terminal has become narrower. After [`Screen::erase`] the cursor is where the views began, on an
//! empty line.

use super::table::{Layout, Line};

/// The capabilities of a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// Whether it supports escape sequences for cursor movement and colour.
    pub has_codes: bool,
    /// Whether colour is wanted.
    pub has_colour: bool,
    /// Returns the current size in columns and lines.
    pub size: fn() -> Option<(usize, usize)>,
}

/// Views on a terminal.
#[derive(Debug)]
pub struct Screen {
    terminal: Terminal,
    /// The latest lines of each live view, by view index.
    views: Vec<(usize, Vec<Line>)>,
    /// The widths of the lines on the screen now.
    drawn: Vec<usize>,
}

impl Screen {
    /// A screen with nothing drawn.
    pub fn new(terminal: Terminal) -> Screen {
        Screen { terminal, views: Vec::new(), drawn: Vec::new() }
    }

    /// The layout of a table now; a live one gets an equal share of the height.
    pub fn layout(&self, is_live: bool) -> Layout {
        let size = (self.terminal.size)();
        let share = |rows: usize| rows.saturating_sub(1) / self.views.len().max(1);
        Layout {
            width: size.map(|(columns, _)| columns),
            height: size.filter(|_| is_live && self.terminal.has_codes).map(|(_, rows)| share(rows).max(4) - 1),
            colour: self.terminal.has_colour,
        }
    }

    /// Whether live views are redrawn in place; otherwise each is printed below the last.
    pub fn redraws(&self) -> bool {
        self.terminal.has_codes
    }

    /// Adds a live view, so that the height is shared with it.
    pub fn expect(&mut self, view: usize) {
        if !self.views.iter().any(|(known, _)| *known == view) {
            self.views.push((view, Vec::new()));
            self.views.sort_by_key(|(view, _)| *view);
        }
    }

    /// Sets the lines of a live view.
    pub fn update(&mut self, view: usize, lines: Vec<Line>) {
        self.expect(view);
        if let Some((_, known)) = self.views.iter_mut().find(|(known, _)| *known == view) {
            *known = lines;
        }
    }

    /// Removes a view that is no longer live.
    pub fn forget(&mut self, view: usize) {
        self.views.retain(|(known, _)| *known != view);
    }

    /// Erases the views from the screen.
    pub fn erase(&mut self, out: &mut Vec<u8>) {
        if self.drawn.is_empty() {
            return;
        }
        let columns = (self.terminal.size)().map_or(usize::MAX, |(columns, _)| columns.max(1));
        // A line wider than the terminal occupies several rows.
        let rows: usize = self.drawn.iter().map(|width| width.div_ceil(columns).max(1)).sum();
        // Erased line by line, because some terminals keep a cleared screen in their scrollback.
        // The current line may contain a `^C`.
        out.extend_from_slice(b"\r\x1b[2K");
        out.extend(b"\x1b[1A\x1b[2K".repeat(rows));
        self.drawn.clear();
    }

    /// Draws all live views, unless they are on the screen.
    pub fn draw(&mut self, out: &mut Vec<u8>) {
        if !self.drawn.is_empty() {
            return;
        }
        for (at, (_, lines)) in self.views.iter().enumerate() {
            // Views without rows may all say the same.
            let is_said = self.views[..at].iter().any(|(_, above)| above == lines);
            if lines.is_empty() || is_said {
                continue;
            }
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
