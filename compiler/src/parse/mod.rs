//! Parses script text into a syntax tree.
//!
//! In: a [`Source`]. Out: its [`Script`], or all syntax errors in source order.
//! Guarantee: never panics or overflows the stack, for any text; each block with an error gets its
//! own message; every span lies within the source, on character boundaries; the depth of the tree
//! is bounded.

mod condition;
mod directives;
mod errors;
mod expressions;
mod items;
mod literals;
mod modules;
pub(crate) mod pieces;
mod syntax_hints;
mod token_context;
mod tokens;
mod tree;

use crate::ast::{Define, Definition, Ident, Module, Script, Use};
use crate::diagnostic::Diagnostic;
use crate::source::{Source, Span};
use directives::DefineLine;
use errors::PROBLEM_LIMIT;
use items::Item;
use std::borrow::Cow;
use tokens::Token;
use tree::{Known, Parsed};

pub use modules::uses;

/// Maximum size of a script.
const SIZE_LIMIT_BYTES: usize = 4 << 20;

/// How often an item with errors is parsed again.
const RETRY_LIMIT: usize = 5;

/// Parses a script; fails with at least one diagnostic, all of them syntax errors.
pub fn parse(source: &Source) -> Result<Script, Vec<Diagnostic>> {
    let size_bytes = source.text.len();
    if size_bytes > SIZE_LIMIT_BYTES {
        return Err(vec![errors::too_large(Span::new(0, 0), size_bytes, SIZE_LIMIT_BYTES)]);
    }
    let (mut script, mut problems) = (Script::default(), Vec::new());
    // Files are parsed in reverse, so imported definitions precede those of the importing file.
    let files: Vec<_> = source.files().map(|(_, range)| range).zip(source.modules()).collect();
    let (mut modules, mut defined) = (Vec::new(), condition::Names::new());
    for (range, module) in files.iter().rev() {
        let text = alone(&source.text, range);
        let mut lexed = tokens::lex_after(&text, std::mem::take(&mut defined));
        defined = std::mem::take(&mut lexed.directives.names);
        if let Some(span) = lexed.binary {
            return Err(vec![errors::binary(span)]);
        }
        let visible = hide(&text, &lexed.directives.blanks);
        let is_root = range.start == 0;
        let prefixes: Vec<String> = modules::uses_in(source, &visible, &lexed.tokens).iter().map(Use::prefix).collect();
        // Each module gets its own `Script`.
        let outer = module.map(|_| std::mem::take(&mut script));
        let states = state_names(source, &lexed.tokens, &script);
        let mut assembly =
            Assembly { source, visible: &visible, is_root, is_header: false, prefixes, states, script, problems };
        // Headers are also for C compilers: what of their macros has no value here is left out.
        let (name, _) = source.file_at(range.start);
        assembly.is_header = !is_root && directives::is_header(name);
        if !assembly.is_header {
            assembly.problems.extend_from_slice(&lexed.directives.problems);
        }
        for define in &lexed.directives.defines {
            assembly.define(define);
        }
        assembly.items(&lexed.tokens, &lexed.problems);
        (script, problems) = (assembly.script, assembly.problems);
        if let (Some(outer), Some(path)) = (outer, module) {
            modules.push(Module { path: (*path).to_owned(), script: std::mem::replace(&mut script, outer) });
        }
    }
    script.modules = modules;
    finish(script, problems)
}

/// The names of the states that a file declares or imports. They are collected before any item is
/// parsed, so a state may be declared after the probes that use it.
fn state_names(source: &Source, tokens: &[Token], imported: &Script) -> Vec<String> {
    let mut names: Vec<String> = imported.states.iter().map(|state| state.name.text.clone()).collect();
    let mut depth = 0_usize;
    for three in tokens.windows(3) {
        match source.slice(three[0].span) {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "state" if depth == 0 && source.slice(three[2].span) == "by" => {
                names.push(source.slice(three[1].span).to_owned());
            }
            _ => {}
        }
    }
    names
}

/// The imports of a script's text, with the span of each path, found without parsing the script.
pub fn imports(text: &str) -> Vec<(String, Span)> {
    let tokens = tokens::lex(text).tokens;
    let slice = |token: &Token| text.get(token.span.start as usize..token.span.end as usize).unwrap_or("");
    let (mut depth, mut found) = (0_usize, Vec::new());
    for pair in tokens.windows(2) {
        match slice(&pair[0]) {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "import" if depth == 0 && pair[1].kind == tokens::TokenKind::Str => {
                let path = literals::string(slice(&pair[1]), pair[1].span, &mut Vec::new());
                found.push((String::from_utf8_lossy(&path).into_owned(), pair[1].span));
            }
            _ => {}
        }
    }
    found
}

/// An `#include` of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Include {
    /// The header's name.
    pub name: String,
    /// Its place.
    pub span: Span,
    /// Whether it is in quotes: a file of the script's author.
    pub is_quoted: bool,
}

/// The `#include`s of a text, found without parsing it.
pub fn includes(text: &str) -> Vec<Include> {
    let lines = tokens::lex(text).directives.includes;
    let name = |span: Span| text.get(span.start as usize..span.end as usize).unwrap_or("").to_owned();
    lines.iter().map(|it| Include { name: name(it.name), span: it.name, is_quoted: it.is_quoted }).collect()
}

/// The text with everything outside of `range` replaced by spaces.
fn alone<'a>(text: &'a str, range: &std::ops::Range<u32>) -> Cow<'a, str> {
    if range.start == 0 && range.end as usize == text.len() {
        return Cow::Borrowed(text);
    }
    let (start, end) = (range.start as usize, range.end as usize);
    let mut shown = " ".repeat(start);
    shown.push_str(text.get(start..end).unwrap_or(""));
    shown.extend(std::iter::repeat_n(' ', text.len().saturating_sub(shown.len())));
    Cow::Owned(shown)
}

/// The text with `ranges` replaced by spaces, so that offsets do not change.
fn hide<'a>(text: &'a str, ranges: &[Span]) -> Cow<'a, str> {
    if ranges.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for range in ranges {
        let (start, end) = (range.start as usize, range.end as usize);
        shown.push_str(text.get(shown.len()..start).unwrap_or(""));
        shown.extend(std::iter::repeat_n(' ', end.saturating_sub(shown.len())));
    }
    shown.push_str(text.get(shown.len()..).unwrap_or(""));
    Cow::Owned(shown)
}

/// State while a script is being assembled.
struct Assembly<'a> {
    source: &'a Source,
    /// The text as the grammar sees it.
    visible: &'a str,
    /// Whether this file is the script itself, not an imported file.
    is_root: bool,
    /// Whether it is a C header.
    is_header: bool,
    /// The prefixes (before the dot) of names from its modules.
    prefixes: Vec<String>,
    /// Names of the states that this file declares or imports.
    states: Vec<String>,
    script: Script,
    problems: Vec<Diagnostic>,
}

impl Assembly<'_> {
    fn define(&mut self, line: &DefineLine) {
        let name = Ident { text: self.source.slice(line.name).to_owned(), span: line.name };
        if let Some(ty) = directives::integer_type(self.source.slice(line.value)) {
            self.script.definitions.push(Definition::alias(name, ty, line.value));
            return;
        }
        // A backslash at the end of a line is not part of the value.
        let text = self.source.slice(line.value).replace("\\\n", " \n").replace("\\\r\n", " \r\n");
        let lexed = tokens::lex(&text);
        let base = line.value.start;
        let tokens: Vec<Token> = lexed.tokens.iter().map(|token| token.moved(base)).collect();
        // The splitter bounds the nesting of the value like that of a block.
        let broken = !lexed.problems.is_empty()
            || items::split(self.source, &tokens).iter().any(|item| !item.problems.is_empty());
        let parsed = if broken {
            Ok(None)
        } else {
            let known = Known { prefixes: &self.prefixes, states: &self.states };
            tree::define_value(&text, line.value, &tokens, known, &mut self.problems)
        };
        match parsed {
            Ok(Some(value)) => self.script.defines.push(Define { name, value }),
            _ if self.is_header => {}
            _ => self.problems.push(errors::define_with_bad_value(line.value)),
        }
    }

    fn items(&mut self, tokens: &[Token], quoting: &[Diagnostic]) {
        self.problems.extend_from_slice(quoting);
        let items = items::split(self.source, tokens);
        let mut config = None;
        for (at, item) in items.iter().enumerate() {
            if self.problems.len() > PROBLEM_LIMIT {
                break;
            }
            let end = items.get(at + 1).map_or(u32::MAX, |next| next.span.start);
            // An unclosed quote makes the rest of its block look wrong.
            if quoting.iter().any(|problem| (item.span.start..end).contains(&problem.span.start)) {
                continue;
            }
            if item.problems.is_empty() {
                self.item(item, &tokens[item.tokens.clone()], &mut config);
            } else {
                self.problems.extend_from_slice(&item.problems);
            }
        }
    }

    fn item(&mut self, item: &Item, tokens: &[Token], config: &mut Option<Span>) {
        let known = Known { prefixes: &self.prefixes, states: &self.states };
        match tree::item(self.visible, item.span, tokens, known, &mut self.problems) {
            Ok(Some(parsed)) => self.take(item, parsed, config),
            Ok(None) | Err(_) if self.is_header && !self.begins_type(tokens) => {}
            Ok(None) => self.problems.push(errors::unexpected(item.span, "this", &[])),
            Err(failure) => self.explain(item, tokens, &failure),
        }
    }

    /// Whether an item of a header is more than the declaration of a function or of a variable.
    fn begins_type(&self, tokens: &[Token]) -> bool {
        let first = tokens.first().map_or("", |token| self.source.slice(token.span));
        matches!(first, "struct" | "union" | "enum" | "typedef")
    }

    fn take(&mut self, item: &Item, parsed: Parsed, config: &mut Option<Span>) {
        match parsed {
            Parsed::Block(block) => self.script.blocks.push(block),
            Parsed::Span(made) => self.script.spans.push(made),
            Parsed::Import(import) => self.script.imports.push(import),
            Parsed::Macro(made) => self.script.macros.push(made),
            Parsed::Map(declaration) => self.script.maps.push(declaration),
            Parsed::State(state) => self.script.states.push(state),
            Parsed::View(view) => self.script.views.push(*view),
            Parsed::Param(param) => self.script.params.push(param),
            Parsed::Use(of) => self.script.uses.push(of),
            Parsed::Public(public, of) => {
                self.script.public.push(public);
                if let Some(of) = of {
                    self.take(item, *of, config);
                }
            }
            Parsed::Definition(definition) => {
                // Imported files come after this one in the source, so their blocks have larger
                // spans.
                if let Some(block) = self.script.blocks.iter().find(|block| block.span < item.span) {
                    self.problems.push(errors::late_definition(definition.span, block.span));
                }
                self.script.definitions.push(definition);
            }
            Parsed::Config(entries) => {
                let keyword = Span { start: item.span.start, end: item.span.start + 6 };
                if !self.is_root {
                    self.problems.push(errors::imported_config(keyword));
                } else if config.is_some() || self.script.blocks.iter().any(|block| block.span < item.span) {
                    self.problems.push(errors::misplaced_config(keyword, *config));
                }
                *config = Some(keyword);
                self.script.config.extend(entries);
            }
        }
    }

    /// Reports the error of an item, then parses the item again without the faulty statement to
    /// find more errors.
    fn explain(&mut self, item: &Item, tokens: &[Token], failure: &tree::Failure) {
        let (problem, mut at_fault) = syntax_hints::explain(self.source, tokens, failure);
        self.problems.push(problem);
        let mut tokens = tokens.to_vec();
        let mut text = self.visible.to_owned();
        for _ in 0..RETRY_LIMIT {
            let Some(range) = at_fault.take().filter(|range| !range.is_empty()) else {
                return;
            };
            let Some(span) = tokens.get(range.clone()).and_then(|lost| Some(lost.first()?.span.to(lost.last()?.span)))
            else {
                return;
            };
            text = hide(&text, &[span]).into_owned();
            tokens.drain(range);
            let mut more = Vec::new();
            let known = Known { prefixes: &self.prefixes, states: &self.states };
            match tree::item(&text, item.span, &tokens, known, &mut more) {
                Ok(_) => self.problems.append(&mut more),
                Err(failure) => {
                    let (problem, next) = syntax_hints::explain(self.source, &tokens, &failure);
                    self.problems.push(problem);
                    at_fault = next;
                }
            }
        }
    }
}

fn finish(script: Script, mut problems: Vec<Diagnostic>) -> Result<Script, Vec<Diagnostic>> {
    let has_blocks = |script: &Script| !script.blocks.is_empty() || !script.spans.is_empty();
    if problems.is_empty() && !has_blocks(&script) && !script.modules.iter().any(|module| has_blocks(&module.script)) {
        problems.push(errors::empty_script(Span::new(0, 0)));
    }
    if problems.is_empty() {
        return Ok(script);
    }
    problems.sort_by_key(|problem| problem.span);
    problems.dedup();
    problems.truncate(PROBLEM_LIMIT);
    Err(problems)
}
