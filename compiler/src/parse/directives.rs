//! Preprocessor lines: lines that begin with `#`.
//!
//! In: these lines in source order. Out: the spans of `#define`s and of the headers' names, and the
//! ranges that are hidden from the grammar.
//! Guarantee: `BPFTRACE_HAVE_BTF` counts as defined because types come from BTF, and other names
//! from their `#define` on; ranges begin and end on character boundaries.

use std::path::Path;

use super::condition::{self, Names};
use super::errors::{self, PROBLEM_LIMIT};
use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// The macro that scripts test before they include kernel headers.
const HAVE_BTF: &str = "BPFTRACE_HAVE_BTF";

/// One directive line: `text[start..end]`.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    /// The whole script.
    pub text: &'a str,
    /// Offset of the `#`.
    pub start: usize,
    /// Offset of the end of the line.
    pub end: usize,
    /// Whether only comments come before it.
    pub is_first: bool,
}

/// The spans of the name and the value of a `#define`.
pub(super) struct DefineLine {
    pub name: Span,
    pub value: Span,
}

/// An `#include`.
pub(super) struct IncludeLine {
    /// The header's name, without quotes or brackets.
    pub name: Span,
    /// Whether it is in quotes.
    pub is_quoted: bool,
}

/// An open `#if`, `#ifdef` or `#ifndef`.
struct Conditional {
    /// The directive itself.
    span: Span,
    /// Whether its current branch is active.
    active: bool,
    /// Whether one of its branches was active.
    was_active: bool,
}

/// The state accumulated from the lines seen so far.
#[derive(Default)]
pub(super) struct Directives {
    /// The `#define`s in source order.
    pub defines: Vec<DefineLine>,
    /// The `#include`s in source order.
    pub includes: Vec<IncludeLine>,
    /// The names that are defined.
    pub names: Names,
    /// Ranges to hide from the grammar, in source order.
    pub blanks: Vec<Span>,
    /// Diagnostics for these lines.
    pub problems: Vec<Diagnostic>,
    open: Vec<Conditional>,
    /// Number of open conditionals whose current branch is inactive.
    inactive: usize,
}

impl Directives {
    /// The state at the beginning of a text, with these names defined.
    pub(super) fn after(mut names: Names) -> Directives {
        names.insert(HAVE_BTF.to_owned(), "1".to_owned());
        Directives { names, ..Directives::default() }
    }

    /// Hides `start..end` from the grammar.
    pub(super) fn blank(&mut self, start: usize, end: usize) {
        self.blanks.push(Span::new(start, end));
    }

    /// Whether the text at this position is in an inactive branch.
    pub(super) fn inactive(&self) -> bool {
        self.inactive > 0
    }

    /// Processes one line.
    pub(super) fn take(&mut self, line: Line<'_>) {
        self.blank(line.start, line.end);
        let whole = line.text[line.start..line.end].trim_end();
        let span = Span::new(line.start, line.start + whole.len());
        if line.is_first && whole.starts_with("#!") {
            return;
        }
        let rest = whole[1..].trim_start();
        let word_len = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let (word, rest) = rest.split_at(word_len);
        let argument = rest.trim();
        match word {
            "if" => {
                // What is left out is not evaluated, as in C.
                let active = !self.inactive() && self.value(span, argument);
                self.open(span, active);
            }
            "ifdef" => self.open(span, self.is_defined(argument)),
            "ifndef" => self.open(span, !self.is_defined(argument)),
            "else" => self.next_branch(span, word, None),
            "elif" => self.next_branch(span, word, Some(argument)),
            "endif" => match self.open.pop() {
                Some(open) => self.inactive -= usize::from(!open.active),
                None => self.report(errors::unpaired_directive(span, word)),
            },
            _ if self.inactive() => {}
            "include" => self.include(span, argument),
            "define" => self.define(span, line.start + whole.len() - rest.trim_start().len(), argument),
            "undef" => {
                self.names.remove(first_word(argument));
            }
            // For C compilers.
            "pragma" => {}
            _ => self.report(errors::unknown_directive(span, word)),
        }
    }

    /// Reports conditionals that are still open at the end of the text.
    pub(super) fn finish(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.problems.extend(open.iter().take(PROBLEM_LIMIT).map(|open| errors::unclosed_directive(open.span)));
    }

    fn report(&mut self, problem: Diagnostic) {
        if self.problems.len() <= PROBLEM_LIMIT {
            self.problems.push(problem);
        }
    }

    /// Headers of the kernel have no effect: types come from BTF, and constants are built in.
    fn include(&mut self, span: Span, argument: &str) {
        let quoted = argument.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        let angular = argument.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        let name = match (quoted, angular) {
            (Some((name, _)), _) => name,
            (None, Some((name, _))) if is_header(name) => name,
            _ => return self.report(errors::bad_include(span, argument)),
        };
        let before = span.end as usize - argument.len() + 1;
        let name = Span::new(before, before + name.len());
        self.includes.push(IncludeLine { name, is_quoted: quoted.is_some() });
    }

    fn is_defined(&self, argument: &str) -> bool {
        self.names.contains_key(first_word(argument))
    }

    fn open(&mut self, span: Span, active: bool) {
        self.inactive += usize::from(!active);
        self.open.push(Conditional { span, active, was_active: active });
    }

    /// Begins the next branch of the innermost conditional: an `#elif` with its condition, or an
    /// `#else`.
    fn next_branch(&mut self, span: Span, word: &str, condition: Option<&str>) {
        let Some(mut open) = self.open.pop() else { return self.report(errors::unpaired_directive(span, word)) };
        self.inactive -= usize::from(!open.active);
        // Inside a branch that is left out, all branches are.
        let is_next = !open.was_active && !self.inactive();
        open.active = is_next && condition.is_none_or(|condition| self.value(span, condition));
        open.was_active |= open.active;
        self.inactive += usize::from(!open.active);
        self.open.push(open);
    }

    /// Whether an expression is true; reports one that is malformed.
    fn value(&mut self, span: Span, expression: &str) -> bool {
        let value = condition::value(expression, &self.names);
        value.unwrap_or_else(|words| {
            self.report(errors::bad_condition(span, &words));
            0
        }) != 0
    }

    fn define(&mut self, span: Span, start: usize, argument: &str) {
        let name_len = argument.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let (name, rest) = argument.split_at(name_len);
        let value = rest.trim_start();
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            self.report(errors::define_without_name(span));
        } else if rest.starts_with('(') {
            self.report(errors::define_with_arguments(span, name));
        } else {
            self.names.insert(name.to_owned(), value.to_owned());
            // Without a value, the name can only be tested.
            if value.is_empty() {
                return;
            }
            let value_start = start + argument.len() - value.len();
            self.defines.push(DefineLine {
                name: Span::new(start, start + name_len),
                value: Span::new(value_start, value_start + value.len()),
            });
        }
    }
}

/// The type that a `#define` names, if its value is an integer type of C of several words, or one
/// of the words that only types have.
pub(super) fn integer_type(value: &str) -> Option<String> {
    const WORDS: [&str; 6] = ["unsigned", "signed", "char", "short", "int", "long"];
    let words: Vec<&str> = value.split_whitespace().collect();
    (!words.is_empty() && words.iter().all(|word| WORDS.contains(word))).then(|| words.join(" "))
}

fn first_word(argument: &str) -> &str {
    argument.split_whitespace().next().unwrap_or("")
}

/// Whether a file is a C header by its name.
pub(super) fn is_header(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "h")
}
