//! The patterns of parameters of type `regex` and `glob`.
//!
//! In: a pattern as written. Out: its syntax tree, and from that the [`Table`] that programs match
//! with, or the glob that selects probes.
//! Guarantee: patterns match bytes, and only ASCII letters have two cases.

use std::convert::Infallible;
use std::fmt::Write as _;

use regex_syntax::hir::{Dot, Hir, HirKind, Look, Repetition};
use regex_syntax::{ParserBuilder, ast};

use super::automaton::{Table, TooLarge};

/// Maximum capacity of a text that can be compared with a pattern, because the verifier follows
/// each iteration of the loop.
pub const MOST_TEXT_BYTES: u32 = 4096;

/// A pattern that was parsed.
#[derive(Debug)]
pub struct Pattern(Hir);

impl Pattern {
    /// Parses a regular expression, which may match anywhere in a text. An error says what is
    /// wrong.
    pub fn regex(text: &str) -> Result<Pattern, String> {
        let bytes = with_bytes(text)?;
        let tree = ParserBuilder::new().utf8(false).unicode(false).build().parse(&bytes);
        let tree = tree.map_err(|_| NOT_UNICODE)?;
        if tree.properties().look_set().contains_word_unicode() {
            return Err(NOT_UNICODE.into());
        }
        Ok(Pattern(tree))
    }

    /// Parses a pattern with `*`, which must match a whole text.
    pub fn glob(text: &str) -> Pattern {
        let any = || {
            let sub = Box::new(Hir::dot(Dot::AnyByte));
            Hir::repetition(Repetition { min: 0, max: None, greedy: true, sub })
        };
        let mut parts = vec![Hir::look(Look::Start)];
        for (index, literal) in text.split('*').enumerate() {
            parts.extend((index > 0).then(any));
            parts.push(Hir::literal(literal.as_bytes()));
        }
        parts.push(Hir::look(Look::End));
        Pattern(Hir::concat(parts))
    }

    /// The table that programs match with.
    pub fn table(&self) -> Result<Table, TooLarge> {
        Table::new(&self.0)
    }

    /// The glob that matches the same names; `None` if there is none.
    pub fn as_glob(&self) -> Option<String> {
        let parts = match self.0.kind() {
            HirKind::Concat(parts) => parts.as_slice(),
            HirKind::Empty => &[],
            _ => std::slice::from_ref(&self.0),
        };
        let is_look = |part: &Hir, look: Look| matches!(part.kind(), HirKind::Look(found) if *found == look);
        let (mut glob, parts) = match parts {
            [first, rest @ ..] if is_look(first, Look::Start) => (String::new(), rest),
            _ => ("*".into(), parts),
        };
        let (end, middle) = match parts {
            [rest @ .., last] if is_look(last, Look::End) => ("", rest),
            _ => ("*", parts),
        };
        for part in middle {
            match part.kind() {
                HirKind::Literal(literal) => {
                    glob.push_str(std::str::from_utf8(&literal.0).ok().filter(|text| !text.contains(['*', '\0']))?);
                }
                HirKind::Repetition(Repetition { min: 0, max: None, sub, .. })
                    if [Dot::AnyByte, Dot::AnyByteExceptLF].iter().any(|dot| **sub == Hir::dot(*dot)) =>
                {
                    glob.push('*');
                }
                _ => return None,
            }
        }
        glob.push_str(end);
        while glob.contains("**") {
            glob = glob.replace("**", "*");
        }
        Some(glob)
    }
}

/// What patterns cannot express.
const NOT_UNICODE: &str = "it matches bytes, without the classes, ranges and letter cases of Unicode";

/// The same regular expression with the bytes of characters that are not ASCII. In a class they
/// stay, and the next step refuses them: a class stands for one byte.
fn with_bytes(text: &str) -> Result<String, String> {
    let tree = ast::parse::Parser::new()
        .parse(text)
        .map_err(|error| format!("{} (at character {})", error.kind(), error.span().start.column))?;
    let Ok(literals) = ast::visit(&tree, Literals::default());
    let (mut out, mut end) = (String::new(), 0);
    for span in literals {
        out.push_str(&text[end..span.start.offset]);
        out.push_str("(?:");
        for byte in text[span.start.offset..span.end.offset].bytes() {
            let _ = write!(out, "\\x{byte:02X}");
        }
        out.push(')');
        end = span.end.offset;
    }
    out.push_str(&text[end..]);
    Ok(out)
}

/// Finds literal characters that are not ASCII, outside of classes.
#[derive(Default)]
struct Literals(Vec<ast::Span>);

impl ast::Visitor for Literals {
    type Output = Vec<ast::Span>;
    type Err = Infallible;

    fn finish(self) -> Result<Vec<ast::Span>, Infallible> {
        Ok(self.0)
    }

    fn visit_pre(&mut self, ast: &ast::Ast) -> Result<(), Infallible> {
        match ast {
            ast::Ast::Literal(literal) if literal.kind == ast::LiteralKind::Verbatim && !literal.c.is_ascii() => {
                self.0.push(literal.span);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
