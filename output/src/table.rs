//! Tables as lines of text.
//!
//! In: a [`Table`], and its maximum size. Out: lines.
//! Guarantee: no line contains a control character of a result. Numbers are never truncated:
//! columns that do not fit are omitted and counted. Without a width limit, the same table gives the
//! same lines.

mod bars;
mod cells;

use unicode_width::UnicodeWidthStr;

use profiler_model::output::{Cell, Header, Table};
use profiler_model::value::Symbols;

/// Spaces between columns.
const GAP: &str = "  ";
/// Replaces text that was cut.
const ELLIPSIS: char = '…';
/// The smallest width to which a text column is cut.
const MIN_TEXT_WIDTH: usize = 8;

/// The fewest lines to which a stack is cut: one frame, and the number of others.
const MIN_STACK_LINES: usize = 2;

/// How a table is laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layout {
    /// Width in columns. Text is cut to fit, and columns of the table are omitted; where there is
    /// room, shares have bars.
    pub width: Option<usize>,
    /// The maximum number of lines. Rows that do not fit are omitted and counted.
    pub height: Option<usize>,
    /// Whether headings are coloured.
    pub colour: bool,
}

/// A line and its width on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its text, with escape sequences for colours.
    pub text: String,
    /// Its width in columns.
    pub width: usize,
}

/// The lines of a table with this title.
pub fn lines(table: &Table, title: &str, layout: Layout, symbols: &dyn Symbols) -> Vec<Line> {
    let title = cells::cut(&cells::printable(title), layout.width.unwrap_or(usize::MAX));
    let mut lines = vec![styled(&title, "1", layout.colour)];
    let dim = |text: &str| styled(text, "2", layout.colour);
    let said = |text: &String| wrapped(&cells::printable(text), layout.width.unwrap_or(usize::MAX));
    let notes: Vec<Line> = table.notes.iter().flat_map(said).map(|text| dim(&text)).collect();
    if let Some(why) = &table.withheld {
        lines.extend(said(&format!("({why})")).iter().map(|text| dim(text)));
        return lines;
    }
    if table.rows.is_empty() && table.rest.is_none() {
        let empty = table.empty.as_ref().map_or_else(|| vec!["(no rows)".to_owned()], said);
        lines.extend(empty.iter().map(|text| dim(text)));
        lines.extend(notes);
        return lines;
    }
    // Reserves lines for the title, the headings, the other rows, and the notice about omitted
    // rows.
    let room = layout
        .height
        .map_or(usize::MAX, |height| height.saturating_sub(3 + usize::from(table.rest.is_some()) + notes.len()).max(1));
    let mut grid = Grid::of(table, room, symbols);
    grid.truncate(room);
    grid.fit(layout.width);
    if !grid.left_out.is_empty() {
        // The notice about omitted columns takes one more line.
        grid.truncate(room.saturating_sub(1).max(1));
    }
    if let Some(width) = layout.width {
        bars::add(&mut grid, table, width);
    }
    let left_out = table.rows.len() - grid.shown();
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
    lines.extend(notes);
    lines
}

/// The lines of a sentence that replaces a table.
pub fn sentence(text: &str, layout: Layout) -> Vec<Line> {
    let lines = wrapped(&cells::printable(text), layout.width.unwrap_or(usize::MAX));
    lines.into_iter().map(plain).collect()
}

/// A remark on one line, cut to fit.
pub fn notice(text: &str, layout: Layout) -> Line {
    styled(&cells::cut(&cells::printable(text), layout.width.unwrap_or(usize::MAX)), "2", layout.colour)
}

/// Wraps a sentence at this width.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(cells::cut(word, width)),
        }
    }
    lines
}

/// The first of the notices that fits.
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
    /// Whether each column is aligned to the right.
    numbers: Vec<bool>,
    /// The lines of the rows; a row with several lines has them in sequence.
    rows: Vec<Vec<String>>,
    /// Whether each line is the first one of a row.
    begins: Vec<bool>,
    rest: Option<Vec<String>>,
    widths: Vec<usize>,
    /// The headings of omitted columns.
    left_out: Vec<String>,
}

impl Grid {
    /// A table for this many lines, as far as stacks can be cut.
    fn of(table: &Table, room: usize, symbols: &dyn Symbols) -> Grid {
        let mut heads: Vec<String> = table.headers.iter().map(|header| cells::printable(&header.name)).collect();
        let mut numbers: Vec<bool> = table.headers.iter().map(Header::is_number).collect();
        let text = |row: &Vec<Cell>| -> Vec<Vec<String>> {
            row.iter().zip(&table.headers).map(|(cell, header)| cells::cell_lines(cell, header, symbols)).collect()
        };
        let most = (room / table.rows.len().max(1)).max(MIN_STACK_LINES);
        let (mut rows, mut begins) = (Vec::new(), Vec::new());
        for row in &table.rows {
            let lines = side_by_side(text(row), most);
            begins.extend((0..lines.len()).map(|at| at == 0));
            rows.extend(lines);
        }
        let mut rest = table.rest.as_ref().and_then(|rest| side_by_side(text(&rest.cells), most).into_iter().next());
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
        let mut grid = Grid { heads, numbers, rows, begins, rest, widths: Vec::new(), left_out: Vec::new() };
        grid.measure();
        grid
    }

    /// How many rows are left, including those cut short.
    fn shown(&self) -> usize {
        self.begins.iter().filter(|begins| **begins).count()
    }

    fn truncate(&mut self, lines: usize) {
        self.rows.truncate(lines);
        self.begins.truncate(lines);
    }

    fn measure(&mut self) {
        let all = || std::iter::once(&self.heads).chain(&self.rows).chain(&self.rest);
        let widest = |at: usize| all().filter_map(|row| row.get(at)).map(|cell| cell.width()).max().unwrap_or(0);
        self.widths = (0..self.heads.len()).map(widest).collect();
    }

    /// Omits columns until the table can fit, then cuts the widest text columns until it does.
    fn fit(&mut self, width: Option<usize>) {
        // Rows omitted for lack of height no longer count for the widths.
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

    /// The width of the table with all text cut as far as possible.
    fn least_width(&self) -> usize {
        let least = |at: usize| if self.numbers[at] { self.widths[at] } else { self.widths[at].min(self.least(at)) };
        (0..self.widths.len()).map(least).sum::<usize>() + GAP.len() * self.widths.len().saturating_sub(1)
    }

    /// The column to omit next: the last one. The first column and the first number are kept as
    /// long as there are others.
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

    /// The smallest width of a text column; the number of other rows always stays readable.
    fn least(&self, at: usize) -> usize {
        let label = self.rest.as_ref().and_then(|cells| cells.get(at)).map_or(0, |cell| cell.width());
        label.max(MIN_TEXT_WIDTH)
    }

    /// Joins the cells of a row, without trailing spaces.
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

/// The cells of a row as at most `most` lines. The outer frames of a longer stack are omitted and
/// counted.
fn side_by_side(mut cells: Vec<Vec<String>>, most: usize) -> Vec<Vec<String>> {
    for cell in &mut cells {
        if cell.len() > most {
            let left_out = cell.len() - (most - 1);
            cell.truncate(most - 1);
            cell.push(format!("{ELLIPSIS} {left_out} more frames"));
        }
    }
    let height = cells.iter().map(Vec::len).max().unwrap_or(1);
    (0..height).map(|at| cells.iter().map(|cell| cell.get(at).cloned().unwrap_or_default()).collect()).collect()
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
