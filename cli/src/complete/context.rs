//! Determines the syntactic context of a cursor.
//!
//! In: the text before the cursor. Out: whether it is in a probe or in code, and in which block.
//! Guarantee: every text has an answer; strings and comments count as neither.

/// The keyword between a probe and the one that it replaces if that is missing.
pub(super) const UNLESS: &str = "unless";

/// What is being written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Context<'a> {
    /// An attach point: its text so far, and where it starts.
    Probe { written: &'a str, start: usize },
    /// A predicate or a body.
    Code {
        /// The attach points of its block as written, or empty for a macro.
        header: &'a str,
    },
    /// Inside a string or a comment.
    Nowhere,
}

/// A string or a comment.
enum Skipped {
    /// There is none here.
    Nothing,
    /// It ends at this offset.
    Until(usize),
    /// It is not closed.
    ForEver,
}

/// Splits an attach point at its last `unless`: what it attaches to, and the probe after the
/// keyword, if any.
pub(super) fn around_unless(point: &str) -> (&str, Option<&str>) {
    let is_blank = |c: Option<char>| c.is_some_and(char::is_whitespace);
    let mut words = point.match_indices(UNLESS).filter(|(at, word)| {
        is_blank(point[..*at].chars().next_back()) && is_blank(point[at + word.len()..].chars().next())
    });
    let Some((first, _)) = words.next() else { return (point, None) };
    let last = words.last().map_or(first, |(at, _)| at);
    (point[..first].trim_end(), Some(point[last + UNLESS.len()..].trim_start()))
}

/// The word after a complete attach point; `None` inside quotes, because quoted names may contain
/// blanks.
pub(super) fn word_after_point(written: &str) -> Option<&str> {
    let (point, word) = written.rsplit_once(char::is_whitespace)?;
    (point.contains(':') && point.matches('"').count().is_multiple_of(2)).then_some(word)
}

/// State of the scan.
struct Scan<'a> {
    text: &'a str,
    /// Number of open braces, parentheses and brackets.
    depth: u32,
    /// Start of the item with the cursor.
    item: usize,
    /// End of its attach points.
    header_end: Option<usize>,
    /// Start of the attach point with the cursor.
    point: usize,
    in_predicate: bool,
}

/// Finds the context at the end of a text.
pub(super) fn context(text: &str) -> Context<'_> {
    let mut scan = Scan { text, depth: 0, item: 0, header_end: None, point: 0, in_predicate: false };
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        match scan.skipped(at) {
            Skipped::Until(end) => {
                scan.pass_over(at, end);
                at = end;
            }
            // A quoted name is part of its attach point.
            Skipped::ForEver if character == '"' && scan.depth == 0 && scan.header_end.is_none() => break,
            Skipped::ForEver => return Context::Nowhere,
            Skipped::Nothing => {
                scan.take(at, character);
                at += character.len_utf8();
            }
        }
    }
    scan.context()
}

impl<'a> Scan<'a> {
    /// The string or comment that starts here, if any.
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
            // Slashes in a path are not a comment: `uprobe:/bin//sh`.
            [b'/', b'/', ..] if self.depth > 0 || self.is_between(at) => after(2, "\n"),
            [b'/', b'*', ..] if self.depth > 0 || self.is_between(at) => after(2, "*/"),
            [b'#', ..] if self.depth == 0 && self.is_between(at) => after(1, "\n"),
            _ => Skipped::Nothing,
        }
    }

    /// A comment before an attach point is not part of it.
    fn pass_over(&mut self, at: usize, end: usize) {
        for start in [&mut self.item, &mut self.point] {
            if self.header_end.is_none() && self.text[*start..at].trim().is_empty() {
                *start = end;
            }
        }
    }

    /// Whether a character is at the start of the text or after a blank or `}`.
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

    /// Whether the item so far is a declaration without a block, which ends with its line.
    fn is_declaration(&self, at: usize) -> bool {
        let item = self.text[self.item..at].trim_start();
        ["param ", "pub ", "use ", "import ", "let "].iter().any(|word| item.starts_with(word))
    }

    fn context(&self) -> Context<'a> {
        match self.header_end {
            Some(end) => Context::Code { header: self.text[self.item..end].trim() },
            None => {
                let point = self.text[self.point..].trim_start();
                let written = around_unless(point).1.unwrap_or(point);
                Context::Probe { written, start: self.text.len() - written.len() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Context, context};

    fn probe(text: &str) -> &str {
        match context(text) {
            Context::Probe { written, start } => {
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
        assert_eq!(probe("kprobe:a unless fentry:b unless rawtr"), "rawtr");
        assert_eq!(probe("kprobe:a unless fentry:b, kprobe:c unl"), "kprobe:c unl");
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
            assert_eq!(context(text), Context::Code { header: "kprobe:a, kprobe:b" }, "{text}");
        }
        assert_eq!(context("uprobe:/bin/sh:main / "), Context::Code { header: "uprobe:/bin/sh:main" });
    }

    #[test]
    fn strings_and_comments_are_left_alone() {
        for text in ["BEGIN { printf(\"a", "BEGIN { // a", "/* a", "# a", "BEGIN { printf(\"\\\""] {
            assert_eq!(context(text), Context::Nowhere, "{text}");
        }
    }
}
