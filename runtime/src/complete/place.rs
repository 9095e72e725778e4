//! Where in a script a cursor stands.
//!
//! In: the text before the cursor. Out: whether a probe or code is being written there, and of which block.
//! Guarantee: any text has an answer; what is in strings and comments counts as neither.

/// What is being written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// An attach point: what there is of it, and where it begins.
    Probe { written: &'a str, start: usize },
    /// A predicate or a body.
    Code {
        /// The attach points of its block, as written, or nothing for a macro.
        header: &'a str,
    },
    /// The inside of a string or a comment.
    Nowhere,
}

/// A string or a comment.
enum Skipped {
    /// None is here.
    Nothing,
    /// It ends there.
    Until(usize),
    /// It does not end.
    ForEver,
}

/// How far the scan has come.
struct Scan<'a> {
    text: &'a str,
    /// Braces, parentheses and brackets that are open.
    depth: u32,
    /// Where the item began that the cursor is in.
    item: usize,
    /// Where its attach points end.
    header_end: Option<usize>,
    /// Where the attach point began that the cursor is in.
    point: usize,
    in_predicate: bool,
}

/// Finds the place of a text's end.
pub(super) fn place(text: &str) -> Place<'_> {
    let mut scan = Scan { text, depth: 0, item: 0, header_end: None, point: 0, in_predicate: false };
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        match scan.skipped(at) {
            Skipped::Until(end) => {
                scan.pass_over(at, end);
                at = end;
            }
            // A name in quotes is a part of its attach point.
            Skipped::ForEver if character == '"' && scan.depth == 0 && scan.header_end.is_none() => break,
            Skipped::ForEver => return Place::Nowhere,
            Skipped::Nothing => {
                scan.take(at, character);
                at += character.len_utf8();
            }
        }
    }
    scan.place()
}

impl<'a> Scan<'a> {
    /// What begins here that is no code.
    fn skipped(&self, at: usize) -> Skipped {
        let rest = &self.text[at..];
        let until = |end: Option<usize>| end.map_or(Skipped::ForEver, |end| Skipped::Until(at + end));
        let after = |opening: usize, closing: &str| {
            until(rest[opening..].find(closing).map(|end| opening + end + closing.len()))
        };
        match rest.as_bytes() {
            [b'"', ..] => {
                let mut escaped = false;
                let end = rest[1..].find(|character| {
                    let ends = character == '"' && !escaped;
                    escaped = character == '\\' && !escaped;
                    ends
                });
                until(end.map(|end| end + 2))
            }
            // A path's slashes are no comment: `uprobe:/bin//sh`.
            [b'/', b'/', ..] if self.depth > 0 || self.is_between(at) => after(2, "\n"),
            [b'/', b'*', ..] if self.depth > 0 || self.is_between(at) => after(2, "*/"),
            [b'#', ..] if self.depth == 0 && self.is_between(at) => after(1, "\n"),
            _ => Skipped::Nothing,
        }
    }

    /// A comment before an attach point is no part of it.
    fn pass_over(&mut self, at: usize, end: usize) {
        for start in [&mut self.item, &mut self.point] {
            if self.header_end.is_none() && self.text[*start..at].trim().is_empty() {
                *start = end;
            }
        }
    }

    /// Whether a character stands behind a blank or at the beginning.
    fn is_between(&self, at: usize) -> bool {
        self.text[..at].chars().next_back().is_none_or(|before| before.is_whitespace() || before == '}')
    }

    fn take(&mut self, at: usize, character: char) {
        let next = at + character.len_utf8();
        match character {
            '{' | '(' | '[' => {
                if self.depth == 0 && !self.in_predicate && character == '{' {
                    self.header_end.get_or_insert(at);
                }
                self.depth += 1;
            }
            '}' | ')' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 && character == '}' {
                    (self.item, self.point, self.header_end, self.in_predicate) = (next, next, None, false);
                }
            }
            '/' if self.depth == 0 && (self.in_predicate || self.is_between(at)) => {
                self.header_end.get_or_insert(at);
                self.in_predicate = !self.in_predicate;
            }
            ',' if self.depth == 0 && self.header_end.is_none() => self.point = next,
            '\n' | ';' if self.depth == 0 && self.header_end.is_none() && self.is_declaration(at) => {
                (self.item, self.point) = (next, next);
            }
            _ => {}
        }
    }

    /// Whether the item up to here is one without a block, which its line ends.
    fn is_declaration(&self, at: usize) -> bool {
        let item = self.text[self.item..at].trim_start();
        ["param ", "pub ", "use ", "import ", "let "].iter().any(|word| item.starts_with(word))
    }

    fn place(&self) -> Place<'a> {
        match self.header_end {
            Some(end) => Place::Code { header: self.text[self.item..end].trim() },
            None => {
                let written = self.text[self.point..].trim_start();
                Place::Probe { written, start: self.text.len() - written.len() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, place};

    fn probe(text: &str) -> &str {
        match place(text) {
            Place::Probe { written, start } => {
                assert_eq!(&text[start..], written);
                written
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn attach_points_are_told_from_code() {
        assert_eq!(probe(""), "");
        assert_eq!(probe("  tracepo"), "tracepo");
        assert_eq!(probe("BEGIN { } kprobe:vf"), "kprobe:vf");
        assert_eq!(probe("kprobe:a, kprobe:b"), "kprobe:b");
        assert_eq!(probe("uprobe:/bin//ba"), "uprobe:/bin//ba");
        assert_eq!(probe("uprobe:/bin/x:\"a::b"), "uprobe:/bin/x:\"a::b");
        assert_eq!(probe("uprobe:/bin/x:\"a::b\", uprobe:y"), "uprobe:y");
        assert_eq!(probe("use a/b\nparam x: int = 1 \"y\"; kprobe:a,\nkprobe:b"), "kprobe:b");
        assert_eq!(probe("// one\nk"), "k");
        assert_eq!(probe("BEGIN { @ = \"}\"; } /* x */ e"), "e");
    }

    #[test]
    fn code_knows_its_attach_points() {
        for text in [
            "kprobe:a, kprobe:b { ",
            "use a/b\nkprobe:a, kprobe:b { ",
            "BEGIN {} kprobe:a, kprobe:b / pi",
            "kprobe:a, kprobe:b /pid == 1/ { if (1) { @x",
        ] {
            assert_eq!(place(text), Place::Code { header: "kprobe:a, kprobe:b" }, "{text}");
        }
        assert_eq!(place("uprobe:/bin/sh:main / "), Place::Code { header: "uprobe:/bin/sh:main" });
    }

    #[test]
    fn strings_and_comments_are_left_alone() {
        for text in ["BEGIN { printf(\"a", "BEGIN { // a", "/* a", "# a", "BEGIN { printf(\"\\\""] {
            assert_eq!(place(text), Place::Nowhere, "{text}");
        }
    }
}
