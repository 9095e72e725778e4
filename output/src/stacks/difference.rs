//! Folded lines as stacks again, and two of them as lines of their difference.
//!
//! In: files of folded lines. Out: [`Folded`] stacks, or lines with two numbers, and what a picture
//! of them says about itself.
//! Guarantee: a line that is no stack with a number is an error with its line number, so that
//! nothing is left out silently. Stacks have states if all of them have. Numbers of one file are
//! scaled to the total of the other.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _, Write};

use super::samples::is_number;
use super::states::{self, Placed};
use super::{Folded, flame, pools};

/// Why a file is not read.
#[derive(Debug)]
pub enum Unreadable {
    /// This line, counted from 1, is not `FRAME;FRAME NUMBER`.
    Line(usize),
    /// The kernel refuses.
    File(io::Error),
}

/// The longest line. A file without any, such as a device, must not fill the memory.
const LONGEST_LINE_BYTES: u64 = 1 << 20;

pub(super) fn read(file: &mut dyn BufRead) -> Result<Folded, Unreadable> {
    let mut folded = Folded::default();
    let mut total: i64 = 0;
    let mut content = Vec::new();
    for line in 1.. {
        content.clear();
        let mut rest = (&mut *file).take(LONGEST_LINE_BYTES);
        let size_bytes = rest.read_until(b'\n', &mut content).map_err(Unreadable::File)?;
        if size_bytes == 0 {
            break;
        }
        if size_bytes as u64 == LONGEST_LINE_BYTES {
            return Err(Unreadable::Line(line));
        }
        let content = String::from_utf8_lossy(&content);
        if content.trim().is_empty() {
            continue;
        }
        let parts = content.trim_end().rsplit_once(' ').map(|(stack, number)| (stack.trim(), number.parse()));
        let (stack, number) = match parts {
            Some((stack, Ok(number))) if !stack.is_empty() => (stack, number),
            _ => return Err(Unreadable::Line(line)),
        };
        // inferno adds signed numbers.
        let sum = i64::try_from(number).ok().and_then(|number| total.checked_add(number));
        total = sum.ok_or(Unreadable::Line(line))?;
        folded.add(stack.to_owned(), number);
    }
    if let Some(depth) = states::position_in_file(folded.rows.keys()) {
        let state = |stack: &String| states::named(stack.split(';').nth(depth)?);
        let placed = |stack: &String| Some((stack.clone(), Placed { state: state(stack)?, depth }));
        folded.states = folded.rows.keys().filter_map(placed).collect();
        // A number keeps the threads of a name apart: beside the name, or after the state.
        let is_apart = |stack: &String| stack.split(';').take(depth + 2).any(is_number);
        let named = folded.rows.keys().filter(|stack| !is_apart(stack));
        folded.names = named.map(|stack| (stack.clone(), depth - 1)).collect();
    }
    Ok(folded)
}

/// The stacks of two files, each with its name.
#[derive(Debug)]
pub struct Difference<'a> {
    pub before: (&'a str, &'a Folded),
    pub after: (&'a str, &'a Folded),
    /// Whether the stacks of `before` are drawn.
    pub is_reversed: bool,
}

impl Difference<'_> {
    /// Writes a flame graph of one file whose colours are the change of each function's own share:
    /// red if it is larger in `after`, blue if it is smaller.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        flame::write_difference(self, out)
    }

    pub(super) fn title(&self) -> String {
        let (from, to) = (self.before.0, self.after.0);
        if self.is_reversed {
            format!("{from}, coloured by what {to} changes")
        } else {
            format!("{to}, coloured by the change since {from}")
        }
    }

    /// What the legend means by its names.
    pub(super) fn remarks(&self) -> Vec<String> {
        let of = |(name, stacks): (&str, &Folded)| format!("{name}, {}", stacks.total_text());
        let (before, after) = (of(self.before), of(self.after));
        vec![format!("BEFORE: {before}"), format!("AFTER: {after}")]
    }

    /// Lines `STACK FIRST SECOND`, the second of which is drawn; the first is scaled so that both
    /// have the same total.
    pub(super) fn lines(&self) -> Vec<String> {
        let (first, second) =
            if self.is_reversed { (self.after.1, self.before.1) } else { (self.before.1, self.after.1) };
        let [first, second] = pools::merged([first, second]);
        let (from, to) = (first.total(), second.total());
        // Half of the divisor rounds to the nearest number. Totals of files fit in 63 bits, so
        // nothing overflows.
        let scaled = |number: u64| u128::from(number).saturating_mul(to).saturating_add(from / 2) / from.max(1);
        let mut rows: BTreeMap<&str, (u128, u64)> = BTreeMap::new();
        for (stack, number) in &first.rows {
            rows.entry(stack).or_default().0 = scaled(*number);
        }
        for (stack, number) in &second.rows {
            rows.entry(stack).or_default().1 = *number;
        }
        rows.into_iter().map(|(stack, (first, second))| format!("{stack} {first} {second}")).collect()
    }
}
