//! Formats parameters; consecutive ones are aligned in columns.
//!
//! In: the tokens of parameters. Out: one line for each.
//! Guarantee: the form depends only on the tokens and on the blank lines between the parameters.

use super::form::Form;
use super::gaps::Gap;
use super::printer::Printer;
use super::tokens::Tokens;
use std::ops::Range;

/// Column widths of a parameter group: name, type and default.
pub(super) type Columns = [usize; 3];

impl Printer<'_, '_> {
    pub(super) fn param(&mut self, range: &Range<usize>, columns: Columns) {
        let mut missing = 0;
        for (column, cell) in cells(self.tokens, range).into_iter().enumerate() {
            for at in cell.clone() {
                if at == range.start {
                    self.writer.token(at, Gap::Paragraph, 0);
                    continue;
                }
                if at == cell.start {
                    self.writer.pad(missing);
                    missing = 0;
                }
                let gap = cell_gap(self.tokens, at, cell.start);
                self.writer.token(at, gap, 0);
            }
            let width = cell_width(self.tokens, &cell);
            let wanted = columns.get(column).copied().unwrap_or(0);
            // An empty cell has no blank before it; the next cell makes up for it.
            missing += wanted.saturating_sub(width) + usize::from(wanted > 0 && width == 0);
        }
    }
}

/// The column widths of each item's parameter group; zeros for items that are not parameters.
pub(super) fn columns(tokens: Tokens<'_>) -> Vec<Columns> {
    let items = &tokens.pieces.items;
    let mut columns = vec![[0; 3]; items.len()];
    let mut at = 0;
    while at < items.len() {
        let mut end = at + 1;
        if is_param(tokens, &items[at]) {
            while end < items.len() && continues_group(tokens, &items[end - 1], &items[end]) {
                end += 1;
            }
            let widths = |column: usize| {
                let cells = items[at..end].iter().map(|item| cells(tokens, item)[column].clone());
                cells.map(|cell| cell_width(tokens, &cell)).max().unwrap_or(0)
            };
            columns[at..end].fill([widths(0), widths(1), widths(2)]);
        }
        at = end;
    }
    columns
}

fn is_param(tokens: Tokens<'_>, item: &Range<usize>) -> bool {
    matches!(Form::of(tokens, item), Form::Param)
}

/// Whether a parameter follows another one without a blank line, with `pub` before both or
/// neither.
fn continues_group(tokens: Tokens<'_>, above: &Range<usize>, item: &Range<usize>) -> bool {
    let between = &tokens.text[tokens.span(above.end - 1).end as usize..tokens.span(item.start).start as usize];
    is_param(tokens, item)
        && tokens.word(above.start) == tokens.word(item.start)
        && between.matches('\n').count() < 2
        && !between.trim_start().starts_with("/*")
}

/// A parameter's tokens in four cells: up to the colon, the type, the default, and the rest.
pub(super) fn cells(tokens: Tokens<'_>, item: &Range<usize>) -> [Range<usize>; 4] {
    let find = |from: usize, is: &dyn Fn(usize) -> bool| (from..item.end).find(|at| is(*at)).unwrap_or(item.end);
    let ty = find(item.start, &|at| tokens.is_mark(at, ":")) + 1;
    let default = (ty + 1).min(item.end);
    let help = find(default, &|at| tokens.word(at).starts_with('"') && !is_default(tokens, default, at));
    [item.start..ty, ty..default, default..help, help..item.end]
}

/// Whether a string is part of the default: it follows `=` or `,`.
fn is_default(tokens: Tokens<'_>, first: usize, at: usize) -> bool {
    at > first && (tokens.is_mark(at - 1, "=") || tokens.is_mark(at - 1, ","))
}

pub(super) fn cell_gap(tokens: Tokens<'_>, at: usize, start: usize) -> Gap {
    let is_glued = matches!(tokens.word(at), ":" | "," | ";" | "..") || tokens.word(at - 1) == "..";
    let apart = tokens.is_mark(at - 1, "=") || tokens.is_mark(at - 1, ",");
    if at > start && (is_glued || tokens.adjacent(at) && !apart) { Gap::Glue } else { Gap::Space }
}

pub(super) fn cell_width(tokens: Tokens<'_>, cell: &Range<usize>) -> usize {
    let width = |at: usize| {
        let gap = usize::from(at > cell.start && cell_gap(tokens, at, cell.start) == Gap::Space);
        gap + tokens.word(at).chars().count()
    };
    cell.clone().map(width).sum()
}
