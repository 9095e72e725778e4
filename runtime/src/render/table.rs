//! Tables as lines of text.
//!
//! In: a [`Table`] and how wide it may be. Out: lines.
//! Guarantee: no line holds a control character of a result; numbers are never cut: columns that do not fit are left out, and counted; without
//! a limit of width, the same table gives the same lines.

mod cells;

use unicode_width::UnicodeWidthStr;

use profiler_compiler::value::Symbols;

use crate::view::Table;

/// Blanks between columns.
const GAP: &str = "  ";
/// What stands for columns that were cut.
const ELLIPSIS: char = '…';
/// No text column is cut to less.
const MIN_TEXT_WIDTH: usize = 8;

/// How a table is laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layout {
    /// Columns of the screen; text is cut to fit, and columns of the table are left out.
    pub width: Option<usize>,
    /// Most lines; rows that do not fit are left out, and counted.
    pub height: Option<usize>,
    /// Whether heads are set off by colour.
    pub colour: bool,
}

/// A line and how many columns it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its text, with codes for colours.
    pub text: String,
    /// Columns on the screen.
    pub width: usize,
}

/// The lines of a table below `title`.
pub fn lines(table: &Table, title: &str, layout: Layout, symbols: &dyn Symbols) -> Vec<Line> {
    let title = cells::cut(&cells::printable(title), layout.width.unwrap_or(usize::MAX));
    let mut lines = vec![styled(&title, "1", layout.colour)];
    if table.rows.is_empty() && table.rest.is_none() {
        lines.push(styled("(no rows)", "2", layout.colour));
        return lines;
    }
    let mut grid = Grid::of(table, symbols);
    // Title, heads, a line for the others, one that says what is left out.
    let room =
        layout.height.map_or(usize::MAX, |height| height.saturating_sub(3 + usize::from(grid.rest.is_some())).max(1));
    let before = grid.rows.len();
    grid.rows.truncate(room);
    grid.fit(layout.width);
    if !grid.left_out.is_empty() {
        // One more line says so.
        grid.rows.truncate(room.saturating_sub(1).max(1));
    }
    let left_out = before - grid.rows.len();
    lines.push(styled(&grid.line(&grid.heads), "4", layout.colour));
    lines.extend(grid.rows.iter().map(|row| plain(grid.line(row))));
    let widest = layout.width.unwrap_or(usize::MAX);
    if left_out > 0 {
        let (count, does) =
            if left_out == 1 { ("1 more row".into(), "does") } else { (format!("{left_out} more rows"), "do") };
        lines.push(styled(
            &longest(&[&format!("{count} {does} not fit on the screen"), &count], widest),
            "2",
            layout.colour,
        ));
    }
    lines.extend(grid.rest.iter().map(|row| styled(&grid.line(row), "2", layout.colour)));
    if !grid.left_out.is_empty() {
        let number = grid.left_out.len();
        let (count, does) =
            if number == 1 { ("1 more column".into(), "does") } else { (format!("{number} more columns"), "do") };
        let names = format!("{count} {does} not fit: {}", grid.left_out.join(", "));
        let texts = [names.as_str(), &format!("{count} {does} not fit on the screen"), &count];
        lines.push(styled(&longest(&texts, widest), "2", layout.colour));
    }
    lines
}

/// What says what is left out: the first text that fits.
fn longest(texts: &[&str], width: usize) -> String {
    let marked = |text: &&str| format!("{ELLIPSIS} {text}");
    let fits = texts.iter().map(marked).find(|text| text.width() <= width);
    fits.unwrap_or_else(|| cells::cut(&texts.last().map(marked).unwrap_or_default(), width))
}

fn plain(text: String) -> Line {
    let width = text.width();
    Line { text, width }
}

fn styled(text: &str, code: &str, colour: bool) -> Line {
    let width = text.width();
    let text = if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() };
    Line { text, width }
}

/// All cells as text.
struct Grid {
    heads: Vec<String>,
    /// Whether a column is aligned to the right.
    numbers: Vec<bool>,
    rows: Vec<Vec<String>>,
    rest: Option<Vec<String>>,
    widths: Vec<usize>,
    /// The heads of columns that do not fit.
    left_out: Vec<String>,
}

impl Grid {
    fn of(table: &Table, symbols: &dyn Symbols) -> Grid {
        let mut heads: Vec<String> = table.headers.iter().map(|header| cells::printable(&header.name)).collect();
        let mut numbers: Vec<bool> = table.headers.iter().map(crate::view::Header::is_number).collect();
        let text = |row: &Vec<crate::view::Cell>| -> Vec<String> {
            row.iter().zip(&table.headers).map(|(cell, header)| cells::cell_text(cell, header, symbols)).collect()
        };
        let mut rows: Vec<Vec<String>> = table.rows.iter().map(text).collect();
        let mut rest = table.rest.as_ref().map(|rest| text(&rest.cells));
        if let (Some(cells), Some(others)) = (&mut rest, table.rest.as_ref().map(|rest| rest.others)) {
            let label = if others == 1 { format!("{ELLIPSIS} 1 other") } else { format!("{ELLIPSIS} {others} others") };
            let keys = cells.iter_mut().zip(&table.headers).filter(|(_, header)| !header.is_number());
            keys.for_each(|(cell, _)| cell.clear());
            match numbers.iter().position(|is_number| !is_number) {
                Some(at) => cells[at] = label,
                None => {
                    heads.insert(0, String::new());
                    numbers.insert(0, false);
                    for row in &mut rows {
                        row.insert(0, String::new());
                    }
                    cells.insert(0, label);
                }
            }
        }
        let mut grid = Grid { heads, numbers, rows, rest, widths: Vec::new(), left_out: Vec::new() };
        grid.measure();
        grid
    }

    fn measure(&mut self) {
        let all = || std::iter::once(&self.heads).chain(&self.rows).chain(&self.rest);
        let widest = |at: usize| all().filter_map(|row| row.get(at)).map(|cell| cell.width()).max().unwrap_or(0);
        self.widths = (0..self.heads.len()).map(widest).collect();
    }

    /// Leaves columns out until the table can fit, and cuts the widest text columns until it does.
    fn fit(&mut self, width: Option<usize>) {
        // What does not fit on the screen was left out and counts no more.
        self.measure();
        let Some(width) = width else { return };
        while self.least_width() > width {
            let Some(at) = self.expendable() else { break };
            self.leave_out(at);
        }
        let gaps = GAP.len() * self.widths.len().saturating_sub(1);
        while self.widths.iter().sum::<usize>() + gaps > width {
            let texts = (0..self.widths.len()).filter(|at| !self.numbers[*at] && self.widths[*at] > self.least(*at));
            let Some(widest) = texts.max_by_key(|at| self.widths[*at]) else { break };
            self.widths[widest] -= 1;
        }
        if let ([only], [false]) = (self.widths.as_mut_slice(), self.numbers.as_slice()) {
            *only = width.min(*only);
        }
        let (numbers, widths) = (&self.numbers, &self.widths);
        for row in std::iter::once(&mut self.heads).chain(&mut self.rows).chain(&mut self.rest) {
            for (at, cell) in row.iter_mut().enumerate().filter(|(at, _)| !numbers[*at]) {
                *cell = cells::cut(cell, widths[at]);
            }
        }
    }

    /// What the table takes when all text is cut.
    fn least_width(&self) -> usize {
        let least = |at: usize| if self.numbers[at] { self.widths[at] } else { self.widths[at].min(self.least(at)) };
        (0..self.widths.len()).map(least).sum::<usize>() + GAP.len() * self.widths.len().saturating_sub(1)
    }

    /// The column that is left out next: the last one, but the first column and the first number stay as long as others are there.
    fn expendable(&self) -> Option<usize> {
        let first_number = self.numbers.iter().position(|is_number| *is_number);
        let last = (1..self.widths.len()).rev().find(|at| Some(*at) != first_number);
        last.or_else(|| (self.widths.len() > 1).then_some(self.widths.len() - 1))
    }

    fn leave_out(&mut self, at: usize) {
        self.left_out.insert(0, self.heads.remove(at));
        self.numbers.remove(at);
        self.widths.remove(at);
        for row in self.rows.iter_mut().chain(&mut self.rest) {
            row.remove(at);
        }
    }

    /// No text column is cut to less: how many others there are can always be read.
    fn least(&self, at: usize) -> usize {
        let label = self.rest.as_ref().and_then(|cells| cells.get(at)).map_or(0, |cell| cell.width());
        label.max(MIN_TEXT_WIDTH)
    }

    /// The cells of a row side by side, without blanks at the end.
    fn line(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let blanks = " ".repeat(self.widths[at].saturating_sub(cell.width()));
            let gap = if at == 0 { "" } else { GAP };
            let (before, behind) = if self.numbers[at] { (blanks.as_str(), "") } else { ("", blanks.as_str()) };
            line.extend([gap, before, cell, behind]);
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
