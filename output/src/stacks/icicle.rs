//! Draws stacks as an icicle graph of text: the outermost functions above, what they call below.
//!
//! In: folded stacks, a number of columns. Out: lines.
//! Guarantee: the same stacks give the same lines, none wider than the columns if there are at
//! least 20. A function lies below its caller, at most as wide; those that are too narrow for a
//! name are one cell together.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use profiler_model::text::controls::escaped;

use super::fold::{INLINED, JIT, KERNEL};
use super::states::Zone;
use super::{Folded, pools};

/// Width of the narrowest cell with a name, with its border.
const MIN_COLUMNS: usize = 5;
/// Width of the narrowest cell that says how many functions it stands for.
const MIN_OTHERS_COLUMNS: usize = 14;
/// Columns of the narrowest picture.
const MIN_PICTURE_COLUMNS: usize = 20;
/// Lines of a picture: deeper frames are cut.
const MAX_LINES: usize = 60;

/// How to draw for a terminal or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub columns: usize,
    /// Whether the kind of code has a colour.
    pub has_colour: bool,
}

/// A frame with all that it calls.
#[derive(Default)]
struct Node<'a> {
    number: u128,
    zone: Zone,
    calls: BTreeMap<&'a str, Node<'a>>,
}

impl<'a> Node<'a> {
    fn of(folded: &'a Folded) -> Node<'a> {
        let mut root = Node::default();
        for (stack, number) in &folded.rows {
            let mut node = &mut root;
            node.number += u128::from(*number);
            for (frame, zone) in folded.frames(stack) {
                node = node.calls.entry(frame).or_default();
                node.number += u128::from(*number);
                node.zone = zone;
            }
        }
        root
    }

    /// The calls, the largest first, in the order of their names if they are equal.
    fn sorted(&self) -> Vec<(&'a str, &Node<'a>)> {
        let mut calls: Vec<_> = self.calls.iter().map(|(name, node)| (*name, node)).collect();
        calls.sort_by_key(|(_, node)| std::cmp::Reverse(node.number));
        calls
    }
}

/// A part of a line.
struct Cell<'a, 'n> {
    start: usize,
    end: usize,
    content: Content<'a, 'n>,
}

enum Content<'a, 'n> {
    Frame(&'a str, &'n Node<'a>),
    /// This many functions that are too narrow to be drawn alone.
    Others(usize),
}

impl Cell<'_, '_> {
    fn columns(&self) -> usize {
        self.end - self.start
    }
}

pub(super) fn write(folded: &Folded, title: &str, look: Look, out: &mut dyn Write) -> io::Result<()> {
    lines(folded, title, look, MAX_LINES).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// The title, at most this many lines of the picture, and what is missing from it.
pub(super) fn lines(folded: &Folded, title: &str, look: Look, most: usize) -> Vec<String> {
    let [folded] = &pools::merged([folded]);
    let root = Node::of(folded);
    let look = Look { columns: look.columns.max(MIN_PICTURE_COLUMNS), ..look };
    let mut lines = vec![cut(&format!("{title}: {}", folded.total_text()), look.columns)];
    let mut line = vec![Cell { start: 0, end: look.columns, content: Content::Frame("all", &root) }];
    for _ in 0..most.min(MAX_LINES) {
        lines.push(line_of(&line, root.number, look).trim_end().to_owned());
        line = line.iter().flat_map(below).collect();
        let is_told =
            |cell: &Cell<'_, '_>| matches!(cell.content, Content::Frame(..)) || cell.columns() >= MIN_OTHERS_COLUMNS;
        if !line.iter().any(is_told) {
            break;
        }
    }
    lines.extend(folded.notes.iter().map(|note| note.trim_end().to_owned()));
    lines
}

/// The cells below a cell: what it calls.
fn below<'a, 'n>(above: &Cell<'a, 'n>) -> Vec<Cell<'a, 'n>> {
    let Content::Frame(_, node) = above.content else { return Vec::new() };
    let columns = above.columns() as u128;
    // Less than the columns of the cell above.
    let place = |number: u128| above.start + (number * columns / node.number.max(1)) as usize;
    let (mut cells, mut sum) = (Vec::new(), 0);
    let all = node.calls.values().map(|call| call.number).sum();
    for (index, (name, call)) in node.sorted().into_iter().enumerate() {
        let (start, end) = (place(sum), place(sum + call.number));
        sum += call.number;
        if end - start < MIN_COLUMNS {
            let rest = Cell { start, end: place(all), content: Content::Others(node.calls.len() - index) };
            cells.extend((rest.end > rest.start).then_some(rest));
            break;
        }
        cells.push(Cell { start, end, content: Content::Frame(name, call) });
    }
    cells
}

fn line_of(cells: &[Cell<'_, '_>], all: u128, look: Look) -> String {
    let (mut line, mut at) = (String::new(), 0);
    for cell in cells {
        line.extend(std::iter::repeat_n(' ', cell.start - at));
        at = cell.end;
        let columns = cell.columns() - 1;
        let (frame, node) = match cell.content {
            Content::Frame(frame, node) => (frame, node),
            Content::Others(number) => {
                let text = if columns < MIN_OTHERS_COLUMNS { "…".into() } else { format!("… {number} others") };
                line += &padded(&if columns > 0 { format!("|{text}") } else { String::new() }, columns + 1);
                continue;
            }
        };
        let name = [KERNEL, JIT, INLINED].into_iter().find_map(|suffix| frame.strip_suffix(suffix)).unwrap_or(frame);
        let name = &escaped(name);
        let share = share(node.number, all);
        let fits = name.width() + 1 + share.width() <= columns;
        let text = padded(&if fits { format!("{name} {share}") } else { cut(name, columns) }, columns);
        // With colours, the border has the colour of the terminal.
        let _ = if look.has_colour {
            write!(line, " \x1b[30;48;5;{}m{text}\x1b[0m", colour(frame, node.zone))
        } else {
            write!(line, "|{text}")
        };
    }
    line
}

/// The background, as in the pictures: of code by its kind, of a thread off the CPU by its state.
fn colour(frame: &str, zone: Zone) -> u8 {
    match (zone, frame) {
        (Zone::Waiting(state), _) => state.terminal_colour(),
        (Zone::Thread, _) => 250,
        (Zone::OnCpu, frame) if frame.ends_with(KERNEL) => 214,
        (Zone::OnCpu, frame) if frame.ends_with(JIT) => 114,
        (Zone::OnCpu, frame) if frame.ends_with(INLINED) => 80,
        (Zone::OnCpu, frame) if frame.starts_with('[') => 250,
        (Zone::OnCpu, _) => 209,
    }
}

#[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
fn share(number: u128, all: u128) -> String {
    format!("{:.1} %", number as f64 * 100.0 / all.max(1) as f64)
}

/// The text in at most this many columns; `…` stands for what is cut.
fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut width = 1;
    let fits = |c: &char| {
        width += c.width().unwrap_or(0);
        width <= columns
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

fn padded(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let blanks = columns.saturating_sub(text.width());
    text + &" ".repeat(blanks)
}
