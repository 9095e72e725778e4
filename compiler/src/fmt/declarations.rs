//! Parameters, modules, states and views.
//!
//! In: ranges of an item's tokens. Out: lines; parameters that follow one another stand in columns.
//! Guarantee: the form depends on the tokens, and on whether braces were on one line; what has comments where no line ends is left as
//! it stands.

use super::header::Form;
use super::printer::{Gap, Printer};
use crate::parse::pieces::Class;
use std::ops::Range;

/// Widths of a parameter's name, type and default, in the group that it stands in.
pub(super) type Columns = [usize; 3];

/// Words that begin a clause of a view.
const CLAUSES: [&str; 5] = ["of", "show", "sort", "top", "every"];

impl Printer<'_> {
    /// The form of an item that begins with a word of the declarative layer, `pub` before it or not.
    pub(super) fn declaration(&self, range: &Range<usize>) -> Option<Form> {
        let is_public = self.word(range.start) == "pub";
        let at = range.start + usize::from(is_public);
        let (word, next) = (self.word(at), self.class(at + 1));
        let is_named = next == Some(Class::Word);
        let form = match word {
            "macro" if is_public && is_named => return Some(Form::Code),
            "let" if is_public => return Some(Form::Code),
            "param" if is_named => Form::Param,
            "use" if is_named => Form::Words,
            "state" if is_named => Form::State { body: self.brace(range)? },
            "view" if self.word(at + 1).starts_with('"') => Form::View { body: self.brace(range)? },
            "span" if is_named => Form::Span(self.stages(range, self.brace(range)?)?),
            _ if is_public && word.starts_with('@') => Form::Words,
            _ => return None,
        };
        let is_line = matches!(form, Form::Param | Form::Words);
        let is_plain = !is_line || !(range.start + 1..range.end).any(|at| self.commented(at - 1, at));
        is_plain.then_some(form)
    }

    /// The brace that begins the item's block.
    fn brace(&self, range: &Range<usize>) -> Option<usize> {
        range.clone().find(|at| self.is_mark(*at, "{"))
    }

    pub(super) fn is_mark(&self, at: usize, mark: &str) -> bool {
        self.class(at) == Some(Class::Mark) && self.word(at) == mark
    }

    // ── Lines ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Words with a blank between them where they did not touch.
    pub(super) fn words(&mut self, range: &Range<usize>) {
        for at in range.clone() {
            let gap = match () {
                () if at == range.start => Gap::Paragraph,
                () if self.adjacent(at) || self.is_mark(at, ";") => Gap::Glue,
                () => Gap::Space,
            };
            self.token(at, gap, 0);
        }
    }

    /// For each item the columns of the group that it is in, when it is a parameter.
    pub(super) fn columns(&self) -> Vec<Columns> {
        let items = &self.pieces.items;
        let mut columns = vec![[0; 3]; items.len()];
        let mut at = 0;
        while at < items.len() {
            let mut end = at + 1;
            if self.is_param(&items[at]) {
                while end < items.len() && self.goes_on(&items[end - 1], &items[end]) {
                    end += 1;
                }
                let widths = |column: usize| {
                    let cells = items[at..end].iter().map(|item| self.cells(item)[column].clone());
                    cells.map(|cell| self.cell_width(&cell)).max().unwrap_or(0)
                };
                columns[at..end].fill([widths(0), widths(1), widths(2)]);
            }
            at = end;
        }
        columns
    }

    fn is_param(&self, item: &Range<usize>) -> bool {
        matches!(self.declaration(item), Some(Form::Param))
    }

    /// Whether a parameter stands on the line of another one or below it, with `pub` before both or none.
    fn goes_on(&self, above: &Range<usize>, item: &Range<usize>) -> bool {
        let between = &self.text[self.span(above.end - 1).end as usize..self.span(item.start).start as usize];
        self.is_param(item)
            && self.word(above.start) == self.word(item.start)
            && between.matches('\n').count() < 2
            && !between.trim_start().starts_with("/*")
    }

    /// A parameter's tokens: to the colon, its type, its default, and the rest.
    fn cells(&self, item: &Range<usize>) -> [Range<usize>; 4] {
        let find = |from: usize, is: &dyn Fn(usize) -> bool| (from..item.end).find(|at| is(*at)).unwrap_or(item.end);
        let ty = find(item.start, &|at| self.is_mark(at, ":")) + 1;
        let default = (ty + 1).min(item.end);
        let help = find(default, &|at| self.word(at).starts_with('"') && !self.is_default(default, at));
        [item.start..ty, ty..default, default..help, help..item.end]
    }

    /// Whether a text is a value: it follows the sign or a comma of a default.
    fn is_default(&self, first: usize, at: usize) -> bool {
        at > first && (self.is_mark(at - 1, "=") || self.is_mark(at - 1, ","))
    }

    fn cell_gap(&self, at: usize, start: usize) -> Gap {
        let is_glued = matches!(self.word(at), ":" | "," | ";" | "..") || self.word(at - 1) == "..";
        let apart = self.is_mark(at - 1, "=") || self.is_mark(at - 1, ",");
        if at > start && (is_glued || self.adjacent(at) && !apart) { Gap::Glue } else { Gap::Space }
    }

    fn cell_width(&self, cell: &Range<usize>) -> usize {
        let width = |at: usize| {
            let gap = usize::from(at > cell.start && self.cell_gap(at, cell.start) == Gap::Space);
            gap + self.word(at).chars().count()
        };
        cell.clone().map(width).sum()
    }

    pub(super) fn param(&mut self, range: &Range<usize>, columns: Columns) {
        let mut missing = 0;
        for (column, cell) in self.cells(range).into_iter().enumerate() {
            for at in cell.clone() {
                if at == range.start {
                    self.token(at, Gap::Paragraph, 0);
                    continue;
                }
                if at == cell.start {
                    self.out.extend(std::iter::repeat_n(' ', missing));
                    missing = 0;
                }
                let gap = self.cell_gap(at, cell.start);
                self.token(at, gap, 0);
            }
            let width = self.cell_width(&cell);
            let wanted = columns.get(column).copied().unwrap_or(0);
            // A column that is empty here has no blank in front of it.
            missing += wanted.saturating_sub(width) + usize::from(wanted > 0 && width == 0);
        }
    }

    // ── Braces ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether all of an item's braces is on one line, which has no comment.
    pub(super) fn is_on_one_line(&self, range: &Range<usize>) -> bool {
        !self.broken(range.start, range.end - 1) && !(range.start + 1..range.end).any(|at| self.commented(at - 1, at))
    }

    /// What stands in front of the braces of a declaration. `by` is a word, and no function.
    pub(super) fn head(&mut self, range: Range<usize>) {
        self.inline = true;
        match range.clone().find(|at| self.word(*at) == "by") {
            Some(by) if by + 1 < range.end => {
                self.run(range.start..by + 1, Gap::Paragraph, 0, false);
                self.run(by + 1..range.end, Gap::Space, 0, false);
            }
            _ => self.run(range, Gap::Paragraph, 0, false),
        }
        self.inline = false;
    }

    /// A state: an entry a line, unless all of it was on one and fits.
    pub(super) fn state(&mut self, range: &Range<usize>, body: usize) {
        let close = self.partner(body);
        let mut entries = Vec::new();
        let mut start = body + 1;
        for at in body + 1..close {
            if self.is_mark(at, ",") || self.is_mark(at, ";") {
                entries.push(start..at + 1);
                start = at + 1;
            }
        }
        entries.push(start..close);
        self.braces(range, body, &entries, " ");
    }

    /// A view: a clause a line, unless all of it was on one and fits.
    pub(super) fn view(&mut self, range: &Range<usize>, body: usize) {
        let close = self.partner(body);
        let begins = |at: &usize| {
            let before = self.word(at - 1);
            CLAUSES.contains(&self.word(*at))
                && self.class(*at) == Some(Class::Word)
                && !matches!(before, "," | "." | "of" | "show" | "sort" | "as")
        };
        let starts: Vec<usize> = (body + 1..close).filter(begins).collect();
        let ends = starts.iter().skip(1).copied().chain([close]);
        let clauses: Vec<Range<usize>> = starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect();
        self.braces(range, body, &clauses, "  ");
    }

    /// A head, and parts in braces, with `apart` between them where they share a line.
    fn braces(&mut self, range: &Range<usize>, body: usize, parts: &[Range<usize>], apart: &str) {
        let close = self.partner(body);
        self.head(range.start..body);
        let start = self.checkpoint();
        if self.is_on_one_line(range) {
            self.token(body, Gap::Space, 0);
            for (number, part) in parts.iter().filter(|part| !part.is_empty()).enumerate() {
                self.out.push_str(if number == 0 { "" } else { &apart[1..] });
                self.part(part, Gap::Space, true);
            }
            self.token(close, Gap::Space, 0);
            if self.fits(&start) {
                return self.words_behind(close + 1..range.end);
            }
            self.go_back(&start);
        }
        self.token(body, Gap::Space, 0);
        for part in parts.iter().filter(|part| !part.is_empty()) {
            self.part(part, Gap::Paragraph, false);
        }
        self.token(close, Gap::Break, 0);
        self.words_behind(close + 1..range.end);
    }

    pub(super) fn words_behind(&mut self, range: Range<usize>) {
        for at in range {
            self.token(at, Gap::Glue, 0);
        }
    }

    /// A clause or an entry; a line that gets too long goes on below, behind a comma.
    fn part(&mut self, part: &Range<usize>, first: Gap, on_one_line: bool) {
        self.inline = true;
        for at in part.clone() {
            let gap = match () {
                () if at == part.start => first,
                () if self.is_mark(at, ",") || self.is_mark(at, ";") || self.is_mark(at, ":") => Gap::Glue,
                () if self.adjacent(at) && !self.stands_apart(at) => Gap::Glue,
                () => Gap::Space,
            };
            let before = self.checkpoint();
            self.token(at, gap, 1);
            // A column ends in front of the next comma.
            let is_column = self.is_mark(at - 1, ",") && at > part.start;
            if is_column && !on_one_line && self.is_wide_until(at, part.end) {
                self.go_back(&before);
                self.token(at, Gap::Break, 2);
            }
        }
        self.inline = false;
    }

    /// Whether a blank stands in front of this token, which touches the one before.
    fn stands_apart(&self, at: usize) -> bool {
        let is_text = |at: usize| self.word(at).starts_with('"');
        is_text(at) || is_text(at - 1) || self.is_mark(at - 1, ",") || self.is_mark(at - 1, ":")
    }

    /// Whether the line is too long once it has the tokens from the one just written to the next comma.
    fn is_wide_until(&self, at: usize, end: usize) -> bool {
        let stop = (at + 1..end).find(|next| self.is_mark(*next, ",")).map_or(end, |comma| comma + 1);
        let rest = self.span(stop - 1).end - self.span(at).end;
        self.is_wider_by(rest as usize)
    }
}
