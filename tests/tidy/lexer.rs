//! Splits Rust source into code, comments and string literals.
//!
//! In: the text of a file. Out: its pieces in order, each with its first line.
//! Guarantee: code contains neither comments nor the contents of strings, and has the line breaks
//! of both.

/// What a piece of source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A comment with its slashes.
    Comment,
    /// The contents of a string literal, with its escapes.
    Text,
}

/// A comment or a string literal.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// What it is.
    pub kind: Kind,
    /// The number of its first line, from 1.
    pub line: usize,
    pub text: String,
}

/// A file in pieces.
#[derive(Debug, Default)]
pub struct Source {
    /// The code, with strings emptied and comments removed.
    pub code: String,
    /// Comments and strings.
    pub pieces: Vec<Piece>,
}

/// Splits a file.
pub fn split(text: &str) -> Source {
    let mut source = Source::default();
    let mut rest = text;
    let mut line = 1;
    while let Some(next) = rest.chars().next() {
        let previous_is_name = source.code.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let (length, piece) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), Some((Kind::Comment, 0, 0)))
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |at| at + 2), Some((Kind::Comment, 0, 0)))
        } else if let Some((length, marks)) = raw_string(rest).filter(|_| !previous_is_name) {
            (length, Some((Kind::Text, marks + 2, marks + 1)))
        } else if next == '"' {
            (string(rest), Some((Kind::Text, 1, 1)))
        } else if next == '\'' {
            (character(rest), None)
        } else {
            (next.len_utf8(), None)
        };
        let (taken, after) = rest.split_at(length);
        match piece {
            Some((kind, open, close)) => {
                let inner = taken.get(open..taken.len() - close).unwrap_or_default();
                source.pieces.push(Piece { kind, line, text: inner.to_owned() });
                if kind == Kind::Text {
                    source.code.push_str("\"\"");
                }
                source.code.extend(taken.chars().filter(|c| *c == '\n'));
            }
            None => source.code.push_str(taken),
        }
        line += taken.matches('\n').count();
        rest = after;
    }
    source
}

/// The length of a raw string, and the number of its `#`.
fn raw_string(text: &str) -> Option<(usize, usize)> {
    let marks = text.strip_prefix('r')?;
    let count = marks.len() - marks.trim_start_matches('#').len();
    marks[count..].starts_with('"').then_some(())?;
    let end = format!("\"{}", "#".repeat(count));
    let body = 2 + count;
    let length = text[body..].find(&end).map_or(text.len(), |at| body + at + end.len());
    Some((length, count))
}

/// The length of a string literal.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal; 1 for the quote of a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => text[3..].find('\'').map_or(1, |at| at + 4),
        Some((at, c)) if text[at + c.len_utf8()..].starts_with('\'') => at + c.len_utf8() + 1,
        _ => 1,
    }
}

#[test]
fn a_file_is_split_into_code_comments_and_strings() {
    let text = "/// A \"doc\".\nfn f<'a>() { g('\"', '\\'', \"a // b\\\" \", r#\"raw \"x\"\"#); } // end\nlet x = 1;\n";
    let source = split(text);
    assert_eq!(source.code, "\nfn f<'a>() { g('\"', '\\'', \"\", \"\"); } \nlet x = 1;\n");
    let pieces: Vec<_> = source.pieces.iter().map(|piece| (piece.kind, piece.line, piece.text.as_str())).collect();
    let expected = [
        (Kind::Comment, 1, "/// A \"doc\"."),
        (Kind::Text, 2, "a // b\\\" "),
        (Kind::Text, 2, "raw \"x\""),
        (Kind::Comment, 2, "// end"),
    ];
    assert_eq!(pieces, expected);
}
