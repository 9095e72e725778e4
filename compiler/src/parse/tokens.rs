//! Splits a script into tokens before the grammar is applied.
//!
//! In: the text. Out: tokens without blanks and comments, the directive lines, the ranges to hide
//! from the grammar, and lexical errors (unclosed quotes and comments).
//! Guarantee: one linear pass that never fails; tokens are in order, do not overlap and lie on
//! character boundaries.

use super::condition::Names;
use super::directives::{Directives, Line};
use super::errors::{self, PROBLEM_LIMIT};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::words::CATALOGUE;

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A name or keyword.
    Word,
    /// Digits and the letters adjacent to them.
    Number,
    /// A quoted string.
    Str,
    /// `$x`, `$1`, `$#` or a lone `$`.
    Var,
    /// `@x` or `@`.
    Map,
    /// An operator or punctuation.
    Mark,
    /// A part of an attach point.
    Part,
    /// A character with no meaning here.
    Stray,
    /// Zero-width: a probe begins here although the previous block is still open, or an item begins
    /// on a new line.
    Boundary,
}

/// One token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

impl Token {
    /// The token shifted by `offset` bytes.
    pub(super) fn moved(self, offset: u32) -> Token {
        Token { span: Span { start: self.span.start + offset, end: self.span.end + offset }, ..self }
    }
}

/// Result of the lexer.
pub(super) struct Lexed {
    /// The tokens in order.
    pub tokens: Vec<Token>,
    /// Diagnostics for quotes and comments.
    pub problems: Vec<Diagnostic>,
    /// The results of the directive lines.
    pub directives: Directives,
    /// The comments in order, without the line break at the end.
    pub comments: Vec<Span>,
    /// The first character that does not occur in text files.
    pub binary: Option<Span>,
}

/// Operators and punctuation of more than one character, longest first. Some are listed only so
/// that a message can name them.
const MARKS: [&str; 36] = [
    "<<=", ">>=", "===", "!==", "**=", "||=", "&&=", "<=>", "=>", "==", "!=", "<=", ">=", "<<", ">>", "<>", "||", "&&",
    "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "->", "..", "**", ":=", "=~", "!~", "??", "::",
];

/// Splits `text` into tokens.
pub(super) fn lex(text: &str) -> Lexed {
    lex_after(text, Names::new())
}

/// The same after files that have defined these names for `#ifdef`.
pub(super) fn lex_after(text: &str, names: Names) -> Lexed {
    let mut lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        pos: 0,
        braces: 0,
        brackets: 0,
        in_line_item: false,
        in_span: false,
        out: Lexed {
            tokens: Vec::new(),
            problems: Vec::new(),
            directives: Directives::after(names),
            comments: Vec::new(),
            binary: None,
        },
    };
    // Some editors put a byte order mark at the start of a text file.
    if text.starts_with('\u{feff}') {
        lexer.pos = 3;
        lexer.out.directives.blank(0, 3);
    }
    while lexer.pos < text.len() && lexer.out.binary.is_none() {
        lexer.step();
    }
    lexer.out.directives.finish();
    lexer.out
}

/// One past the last character of the attach point's part that begins at `start`; implements the
/// grammar's rule `part`.
fn part_end(bytes: &[u8], start: usize) -> usize {
    let run = |slashes: bool| {
        let mut pos = start;
        while let Some(byte) = bytes.get(pos) {
            match byte {
                b'"' => match string_end(bytes, pos) {
                    Some(end) => pos = end,
                    None => break,
                },
                b'/' if slashes => pos += 1,
                b'_'
                | b'.'
                | b'-'
                | b'+'
                | b'@'
                | b'*'
                | b'['
                | b']'
                | b'!'
                | b'~'
                | b'%'
                | b'#'
                | b'$'
                | b'^'
                | 0x80.. => pos += 1,
                byte if byte.is_ascii_alphanumeric() => pos += 1,
                _ => break,
            }
        }
        pos
    };
    let path = run(true);
    if matches!(bytes.get(start), Some(b'/' | b'.' | b'~')) || (path > start && bytes.get(path) == Some(&b':')) {
        path
    } else {
        run(false)
    }
}

/// One past the closing quote of the string that opens at `start`; `None` if it is not closed on
/// its line.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut pos = start + 1;
    while let Some(byte) = bytes.get(pos) {
        match byte {
            b'"' => return Some(pos + 1),
            b'\n' => return None,
            b'\\' if bytes.get(pos + 1) != Some(&b'\n') => pos += 2,
            _ => pos += 1,
        }
    }
    None
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pos: usize,
    braces: u32,
    brackets: u32,
    /// Whether the current item ends at the end of its line: `param`, `use`.
    in_line_item: bool,
    /// Whether the braces of a `span` are still open; its stages have attach points.
    in_span: bool,
    out: Lexed,
}

impl Lexer<'_> {
    fn at(&self, ahead: usize) -> u8 {
        self.bytes.get(self.pos + ahead).copied().unwrap_or(0)
    }

    fn report(&mut self, problem: Diagnostic) {
        if self.out.problems.len() <= PROBLEM_LIMIT {
            self.out.problems.push(problem);
        }
    }

    fn line_end(&self, from: usize) -> usize {
        self.bytes
            .get(from..)
            .and_then(|rest| rest.iter().position(|b| *b == b'\n'))
            .map_or(self.bytes.len(), |found| from + found)
    }

    fn push(&mut self, kind: TokenKind, end: usize) {
        self.out.tokens.push(Token { kind, span: Span::new(self.pos, end) });
        self.pos = end;
    }

    /// Reads one token, comment or run of blanks.
    fn step(&mut self) {
        if self.in_line_item && self.next_item_begins() {
            self.in_line_item = false;
            self.out.tokens.push(Token { kind: TokenKind::Boundary, span: Span::new(self.pos, self.pos) });
        }
        match self.at(0) {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0c => self.pos += 1,
            b'#' if self.begins_line() => self.directive(),
            b'/' if self.at(1) == b'/' => self.line_comment(),
            b'/' if self.at(1) == b'*' => self.block_comment(),
            b'"' => self.string(),
            b'\'' => self.single_quotes(),
            b'$' => self.sigil(TokenKind::Var),
            b'@' => self.sigil(TokenKind::Map),
            byte if byte.is_ascii_digit() => self.push(TokenKind::Number, self.name_end(self.pos)),
            byte if byte.is_ascii_alphabetic() || byte == b'_' => self.word(),
            b'*' if self.at(1) == b':' && self.begins_point() => self.point(self.pos + 1),
            byte if byte.is_ascii_control() => self.binary(1),
            byte if byte.is_ascii() => self.mark(),
            _ => self.stray(),
        }
    }

    fn begins_line(&self) -> bool {
        let before = &self.bytes[..self.pos];
        before.iter().rev().find(|b| !matches!(b, b' ' | b'\t' | b'\r')).is_none_or(|b| *b == b'\n')
    }

    fn binary(&mut self, len: usize) {
        self.out.binary.get_or_insert(Span::new(self.pos, self.pos + len));
        self.pos += len;
    }

    fn name_end(&self, from: usize) -> usize {
        let rest = self.bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count()
    }

    fn directive(&mut self) {
        let mut end = self.line_end(self.pos);
        // A backslash at the end of the line continues it on the next one.
        while end < self.bytes.len() && self.text[..end].trim_end_matches('\r').ends_with('\\') {
            end = self.line_end(end + 1);
        }
        let is_first = self.out.tokens.is_empty() && self.out.directives.blanks.is_empty();
        let line = Line { text: self.text, start: self.pos, end, is_first };
        self.out.directives.take(line);
        self.pos = end;
        if self.out.directives.inactive() {
            self.skip_inactive();
        }
    }

    /// Skips lines up to the next directive, which may end the inactive part.
    fn skip_inactive(&mut self) {
        let start = self.pos;
        while self.pos < self.bytes.len() {
            let end = self.line_end(self.pos);
            if self.text[self.pos..end].trim_start().starts_with('#') {
                break;
            }
            self.pos = (end + 1).min(self.bytes.len());
        }
        self.out.directives.blank(start, self.pos);
        // Blanks before the directive belong to no token.
        while matches!(self.at(0), b' ' | b'\t' | b'\r') {
            self.pos += 1;
        }
    }

    fn line_comment(&mut self) {
        let end = self.line_end(self.pos);
        self.check_text(self.pos, end);
        self.out.comments.push(Span::new(self.pos, end));
        self.pos = end;
    }

    fn block_comment(&mut self) {
        let body = self.pos + 2;
        if let Some(found) = self.text[body..].find("*/") {
            self.check_text(body, body + found);
            self.out.comments.push(Span::new(self.pos, body + found + 2));
            self.pos = body + found + 2;
        } else {
            self.check_text(body, self.bytes.len());
            self.report(errors::unclosed_comment(Span::new(self.pos, body)));
            self.pos = self.bytes.len();
        }
    }

    /// Searches for characters that do not occur in text files.
    fn check_text(&mut self, start: usize, end: usize) {
        let found = self.bytes[start..end]
            .iter()
            .position(|b| b.is_ascii_control() && !matches!(b, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b));
        if let Some(offset) = found {
            self.out.binary.get_or_insert(Span::new(start + offset, start + offset + 1));
        }
    }

    fn string(&mut self) {
        if let Some(end) = string_end(self.bytes, self.pos) {
            self.push(TokenKind::Str, end);
            return;
        }
        let end = self.line_end(self.pos);
        let end = self.pos + self.text[self.pos..end].trim_end().len();
        // This may be the closing quote of a string that began on an earlier line.
        let is_other_end =
            !self.out.problems.is_empty() && self.text[self.pos + 1..end].bytes().all(|b| b" ,;()}".contains(&b));
        if !is_other_end {
            self.report(errors::unclosed_string(Span::new(self.pos, end)));
        }
        self.push(TokenKind::Str, end);
    }

    fn single_quotes(&mut self) {
        let rest = &self.bytes[self.pos + 1..];
        let found = rest.iter().position(|b| matches!(b, b'\'' | b'\n'));
        let close = found.filter(|found| rest[*found] == b'\'').map(|found| self.pos + 2 + found);
        let end = close.unwrap_or(self.pos + 1);
        let inner = if close.is_some() { &self.text[self.pos + 1..end - 1] } else { "" };
        self.report(errors::single_quotes(Span::new(self.pos, end), inner));
        self.push(TokenKind::Str, end);
    }

    fn sigil(&mut self, kind: TokenKind) {
        let end = if kind == TokenKind::Var && self.at(1) == b'#' { self.pos + 2 } else { self.name_end(self.pos + 1) };
        self.push(kind, end);
    }

    fn word(&mut self) {
        let end = self.name_end(self.pos);
        if self.braces > 0 && self.probe_at_margin(end) {
            self.out.tokens.push(Token { kind: TokenKind::Boundary, span: Span::new(self.pos, self.pos) });
            (self.braces, self.brackets, self.in_span) = (0, 0, false);
        }
        let wild = self.bytes.get(end) == Some(&b'*');
        self.in_line_item |= self.begins_point() && self.begins_line_item(end);
        // The events of a module's span have the module's name as a prefix.
        let qualified = self.name_end(end + 1);
        if self.bytes.get(end) == Some(&b'.') && self.bytes.get(qualified) == Some(&b':') && self.begins_point() {
            self.point(qualified);
        } else if self.begins_point() && (self.bytes.get(end) == Some(&b':') || wild) {
            let rest =
                self.bytes[end..].iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'*')).count();
            self.point(end + rest);
        } else {
            self.in_span |= self.braces == 0 && &self.text[self.pos..end] == "span" && self.names_follow(end);
            self.push(TokenKind::Word, end);
        }
    }

    /// Whether the word from here to `end` begins an item that has no closing bracket or semicolon.
    fn begins_line_item(&self, end: usize) -> bool {
        let word = &self.text[self.pos..end];
        let blanks = self.bytes[end..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let next = self.bytes.get(end + blanks).copied().unwrap_or(0);
        let is_name = blanks > 0 && (next.is_ascii_alphabetic() || next == b'_');
        match word {
            "param" | "use" => is_name,
            // Spans and views end with their closing brace.
            "pub" => next == b'@' || is_name && !matches!(self.word_at(end + blanks), "span" | "view"),
            _ => false,
        }
    }

    /// The word that begins at `start`.
    fn word_at(&self, start: usize) -> &str {
        self.text.get(start..self.name_end(start)).unwrap_or_default()
    }

    /// Whether another item begins here, on a new line, with a word other than `in` and `as`.
    fn next_item_begins(&self) -> bool {
        let first = self.at(0);
        if self.braces > 0 || self.brackets > 0 || !(first.is_ascii_alphabetic() || matches!(first, b'_' | b'*' | b'$'))
        {
            return false;
        }
        self.begins_line() && !matches!(&self.text[self.pos..self.name_end(self.pos)], "in" | "as")
    }

    /// Whether blanks and then a name follow `end`.
    fn names_follow(&self, end: usize) -> bool {
        let rest = &self.text[end..];
        let name = rest.trim_start();
        name.len() < rest.len() && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    }

    /// Whether the word that ends at `end` is at the left margin and begins a probe.
    fn probe_at_margin(&self, end: usize) -> bool {
        let at_margin = self.pos == 0 || self.bytes[self.pos - 1] == b'\n';
        if !at_margin || CATALOGUE.probe(&self.text[self.pos..end]).is_none() {
            return false;
        }
        let next = self.bytes.get(end).copied();
        if self.text[self.pos..end].eq_ignore_ascii_case("begin")
            || self.text[self.pos..end].eq_ignore_ascii_case("end")
        {
            return self.text[end..].trim_start().starts_with('{');
        }
        next == Some(b':') && self.bytes.get(end + 1).is_some_and(|b| !b.is_ascii_whitespace())
    }

    /// Whether an attach point may begin here: outside of brackets, at the start or after another
    /// item, a comma, `name =` or `unless`; or in a span's stage.
    fn begins_point(&self) -> bool {
        let after = match self.out.tokens.last() {
            None => true,
            Some(last) if last.kind == TokenKind::Mark => {
                matches!(&self.text[last.span.start as usize..last.span.end as usize], "}" | "," | "=" | ";")
            }
            Some(last) => {
                matches!(last.kind, TokenKind::Boundary | TokenKind::Part)
                    || &self.text[last.span.start as usize..last.span.end as usize] == "unless"
            }
        };
        self.braces == 0 && self.brackets == 0 && after || self.in_stage()
    }

    /// Whether an attach point of a span's stage may begin here: after the stage's keyword, a comma
    /// or `unless`.
    fn in_stage(&self) -> bool {
        let text = |token: &Token| &self.text[token.span.start as usize..token.span.end as usize];
        let is_stage = match self.out.tokens.as_slice() {
            [.., mark, name] if name.kind == TokenKind::Word && text(mark) == "mark" => true,
            [.., last] => matches!(text(last), "start" | "end" | "," | "unless"),
            [] => false,
        };
        self.in_span && self.braces == 1 && self.brackets == 0 && is_stage
    }

    /// Reads `kind:part:part…`, whose kind ends at `kind_end`.
    fn point(&mut self, kind_end: usize) {
        self.push(TokenKind::Word, kind_end);
        while self.at(0) == b':' {
            self.push(TokenKind::Mark, self.pos + 1);
            let end = part_end(self.bytes, self.pos);
            if end > self.pos {
                self.push(TokenKind::Part, end);
            }
        }
    }

    fn mark(&mut self) {
        let rest = &self.bytes[self.pos..];
        if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(mark.as_bytes())) {
            self.push(TokenKind::Mark, self.pos + mark.len());
            return;
        }
        match self.at(0) {
            b'{' => self.braces += 1,
            b'}' => {
                (self.braces, self.brackets) = (self.braces.saturating_sub(1), 0);
                self.in_line_item = false;
                self.in_span &= self.braces > 0;
            }
            b';' => self.in_line_item = false,
            b'(' | b'[' => self.brackets += 1,
            b')' | b']' => self.brackets = self.brackets.saturating_sub(1),
            b'`' | b'\\' | b'#' => return self.push(TokenKind::Stray, self.pos + 1),
            _ => {}
        }
        self.push(TokenKind::Mark, self.pos + 1);
    }

    fn stray(&mut self) {
        let Some(found) = self.text.get(self.pos..).and_then(|rest| rest.chars().next()) else {
            self.pos += 1;
            return;
        };
        if found == char::REPLACEMENT_CHARACTER || found.is_control() {
            self.binary(found.len_utf8());
        } else {
            self.push(TokenKind::Stray, self.pos + found.len_utf8());
        }
    }
}
