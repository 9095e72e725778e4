//! Views that are redrawn in place on a terminal.
//!
//! In: the lines of each view as it changes. Out: escape sequences and text for the terminal.
//! Guarantee: the views fit the terminal if a table of a few rows does. Drawing scrolls the text
//! above the views by at most their own height, even if the terminal has become narrower. After
//! [`Screen::erase`] the cursor is where the views began, on an empty line.

use super::table::{Layout, Line};

/// The fewest lines to which a live view is cut: title, headings, three rows and their rest.
const MIN_LINES: usize = 6;

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
    /// The latest lines of each live view that has a place, by view index.
    views: Vec<(usize, Vec<Line>)>,
    /// What is said below them, if others have none.
    left_out: Option<Line>,
    /// The widths of the lines on the screen now.
    drawn: Vec<usize>,
}

impl Screen {
    /// A screen with nothing drawn.
    pub fn new(terminal: Terminal) -> Screen {
        Screen { terminal, views: Vec::new(), left_out: None, drawn: Vec::new() }
    }

    /// The layout of a table that is not live.
    pub fn layout(&self) -> Layout {
        let width = (self.terminal.size)().map(|(columns, _)| columns);
        Layout { width, height: None, colour: self.terminal.has_colour }
    }

    /// The layouts of all live views, which want this many lines each; `None` for those that have
    /// no place, which is never the first.
    pub fn live_layouts(&self, wanted: &[usize]) -> Vec<Option<Layout>> {
        let layout = self.layout();
        let Some((_, rows)) = (self.terminal.size)() else { return vec![Some(layout); wanted.len()] };
        let with_height = |height: usize| Layout { height: Some(height), ..layout };
        heights(rows.saturating_sub(1), wanted).into_iter().map(|height| height.map(with_height)).collect()
    }

    /// Whether live views are redrawn in place; otherwise each is printed below the last.
    pub fn redraws(&self) -> bool {
        self.terminal.has_codes
    }

    /// Sets the lines of the live views, in their order, and what is said about others.
    pub fn update(&mut self, views: Vec<(usize, Vec<Line>)>, left_out: Option<Line>) {
        self.views = views;
        self.left_out = left_out;
    }

    /// Removes a view that is no longer live.
    pub fn forget(&mut self, view: usize) {
        self.views.retain(|(known, _)| *known != view);
        self.left_out.take_if(|_| self.views.is_empty());
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
        if let Some(line) = &self.left_out {
            out.extend_from_slice(line.text.as_bytes());
            out.push(b'\n');
            self.drawn.push(line.width);
        }
    }
}

/// How many lines each view gets, of those that all have together. An empty line follows each. If
/// not all have a place, one line says so.
fn heights(lines: usize, wanted: &[usize]) -> Vec<Option<usize>> {
    let least = |wanted: &usize| wanted.min(&MIN_LINES) + 1;
    let have_place = wanted.iter().map(least).sum::<usize>() <= lines;
    let mut free = if have_place { lines } else { lines.saturating_sub(1) };
    let mut heights: Vec<Option<usize>> = Vec::new();
    for (at, wanted) in wanted.iter().enumerate() {
        let needs = if at == 0 { least(wanted).min(lines.max(4)) } else { least(wanted) };
        let fits = needs <= free || at == 0;
        free = free.saturating_sub(if fits { needs } else { 0 });
        heights.push(fits.then_some(needs - 1));
    }
    // The first views are the most important ones, so the odd lines are theirs.
    while free > 0 {
        let before = free;
        for (height, wanted) in heights.iter_mut().zip(wanted) {
            if let Some(height) = height.as_mut().filter(|height| **height < *wanted && free > 0) {
                *height += 1;
                free -= 1;
            }
        }
        if free == before {
            break;
        }
    }
    heights
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
