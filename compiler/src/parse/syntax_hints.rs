//! Turns a parse failure into a specific diagnostic.
//!
//! In: an item's tokens and the offset of the failure. Out: one diagnostic for the most likely
//! mistake.
//! Guarantee: always returns a diagnostic. Brackets are already balanced; only the text between
//! them is examined.

use super::errors;
use super::expressions::is_c_type;
use super::token_context::TokenContext;
use super::tokens::{Token, TokenKind};
use super::tree::Failure;
use crate::diagnostic::Diagnostic;
use crate::keywords::{self, Head, Role};
use crate::source::{Source, Span};
use std::ops::Range;

/// Explains why an item failed to parse. Also returns the tokens to drop before parsing the item
/// again.
pub(super) fn explain(source: &Source, tokens: &[Token], failure: &Failure) -> (Diagnostic, Option<Range<usize>>) {
    if failure.exhausted {
        let at = failure.offset.min(source.text.len());
        return (errors::too_complex(Span::new(at, at)), None);
    }
    let at = tokens.partition_point(|token| (token.span.end as usize) <= failure.offset);
    let scene = TokenContext::new(source, tokens, at, failure);
    let word = usize::from(scene.text(0) == "pub");
    if scene.text(word) == "view" && scene.kind(word + 1) == Some(TokenKind::Str) {
        let found = scene.text(scene.at);
        return (errors::bad_view(scene.span(scene.at), found, &failure.expected), None);
    }
    if matches!(scene.text(0), "struct" | "union" | "enum" | "typedef") {
        return (scene.in_definition(), None);
    }
    if scene.text(word) == "span" && scene.kind(word + 1) == Some(TokenKind::Word) {
        return (scene.in_span_definition(scene.text(word + 1)), None);
    }
    let found = if scene.in_header { scene.header() } else { scene.body() };
    let problem = found.or_else(|| scene.anywhere()).unwrap_or_else(|| scene.unexpected());
    (problem, scene.simple_statement())
}

impl TokenContext<'_> {
    /// The tokens of the current statement; `None` if it contains a block, whose statements would
    /// be lost.
    fn simple_statement(&self) -> Option<Range<usize>> {
        let start = self.statement;
        if self.in_header || matches!(keywords::role(self.word(start)), Some(Role::Compound(_) | Role::Else)) {
            return None;
        }
        let mut depth = 0_usize;
        for at in start..self.tokens.len() {
            match self.mark(at) {
                "(" | "[" => depth += 1,
                ")" | "]" => depth = depth.saturating_sub(1),
                "{" => return None,
                ";" | "}" if depth == 0 && at >= self.at => return Some(start..at),
                _ if at == self.at && depth == 0 && at > start && !self.same_line(at - 1, at) => {
                    return Some(start..at);
                }
                _ => {}
            }
        }
        None
    }

    // ── Before the block ─────────────────────────────────────────────────────────────────────────

    /// Explains a failure in a C definition.
    fn in_definition(&self) -> Diagnostic {
        let expected = &self.failure.expected;
        match self.before() {
            Some(before) if expected.contains(&"`;`") && matches!(self.mark(self.at), "" | "}") => {
                errors::unended_member(self.span(before), self.text(before) == "}")
            }
            _ => self.unexpected(),
        }
    }

    /// Explains a failure in a span: before its braces, among its stages, or in a stage's `keep`.
    fn in_span_definition(&self, name: &str) -> Diagnostic {
        let at = self.span(self.at);
        let depth = (0..self.at.min(self.tokens.len())).fold(0_usize, |depth, here| match self.mark(here) {
            "{" => depth + 1,
            "}" => depth.saturating_sub(1),
            _ => depth,
        });
        let before = |back: usize| self.at.checked_sub(back).map_or("", |at| self.word(at));
        match depth {
            0 if !self.failure.expected.contains(&"a value") => errors::bad_span(at, self.text(self.at)),
            1 if before(1) == "mark" || before(2) == "mark" && self.mark(self.at) == ":" => errors::nameless_mark(at),
            1 if self.kind(self.at) == Some(TokenKind::Word) => errors::unknown_stage(at, self.text(self.at)),
            2.. if self.failure.expected.contains(&"`=`") || self.failure.expected.contains(&"a field to keep") => {
                errors::bad_keep(at, name)
            }
            _ => self.anywhere().unwrap_or_else(|| self.unexpected()),
        }
    }

    fn header(&self) -> Option<Diagnostic> {
        let first = self.text(0);
        match first {
            "{" | "/" => return Some(errors::missing_probe(self.span(0))),
            "macro" if self.kind(1) == Some(TokenKind::Word) => return Some(errors::bad_macro(self.span(self.at))),
            "import" if self.mark(1).is_empty() => return Some(errors::bad_import(self.span(self.at))),
            "let" if self.kind(1) == Some(TokenKind::Map) => {
                return Some(errors::bad_map_declaration(self.span(self.at)));
            }
            "param" if self.kind(1) == Some(TokenKind::Word) => return Some(errors::bad_param(self.span(self.at))),
            "use" if self.kind(1) == Some(TokenKind::Word) => return Some(errors::bad_use(self.span(self.at))),
            "pub" if self.at <= 2 && self.kind(1) == Some(TokenKind::Word) && self.text(1) != "param" => {
                return Some(errors::bad_pub(self.span(1)));
            }
            "pub" if self.text(1) == "param" => return Some(errors::bad_param(self.span(self.at))),
            "fn" if self.kind(1).is_some_and(|kind| kind != TokenKind::Mark) => {
                return Some(errors::unsupported_function(self.span(0)));
            }
            _ => {}
        }
        if let Some(foreign) = self.foreign_header() {
            return Some(foreign);
        }
        let called = self.kind(0) == Some(TokenKind::Word) && self.mark(1) == "(";
        let stepped = matches!(first, "++" | "--");
        if called
            || stepped
            || matches!(self.kind(0), Some(TokenKind::Var | TokenKind::Map | TokenKind::Str | TokenKind::Number))
            || keywords::role(first).is_some()
        {
            return Some(errors::statement_outside(self.whole_statement()));
        }
        if self.mark(self.at) == ";" {
            return Some(self.after_probe());
        }
        self.in_predicate().or_else(|| self.between_probes())
    }

    /// SQL keywords, and `DTrace`'s clocks.
    fn foreign_header(&self) -> Option<Diagnostic> {
        let is_clock = matches!(self.text(0), "tick" | "profile") && self.mark(1) == "-";
        if is_clock && matches!(self.kind(2), Some(TokenKind::Number | TokenKind::Word)) {
            return Some(errors::clock_of_dtrace(self.span(0).to(self.span(2)), self.text(0), self.text(2)));
        }
        let near = [self.before(), Some(self.at), Some(0)];
        near.into_iter().flatten().find_map(|at| {
            let word = self.word(at).to_ascii_lowercase();
            let is_sql = matches!(word.as_str(), "select" | "where" | "order" | "limit")
                || (word == "group" && self.word(at + 1).eq_ignore_ascii_case("by"));
            is_sql.then(|| errors::sql(self.span(at), &word))
        })
    }

    /// The span from the item's start to its first `;` or `{`, or to its end.
    fn whole_statement(&self) -> Span {
        let end = (0..self.tokens.len()).find(|at| matches!(self.mark(*at), ";" | "{")).unwrap_or(self.tokens.len());
        let last = end.saturating_sub(1);
        self.span(0).to(self.span(last))
    }

    fn after_probe(&self) -> Diagnostic {
        if matches!(self.text(self.at + 1), "{" | "/") {
            return errors::semicolon_after_probe(self.span(self.at));
        }
        if self.kind(self.at - usize::from(self.at > 0)) == Some(TokenKind::Part) || self.at == 1 {
            return errors::probe_without_block(self.span(0).to(self.span(self.at.saturating_sub(1))));
        }
        errors::statement_outside(self.whole_statement())
    }

    /// The slash that opens the predicate, if there is one before the failure.
    fn predicate(&self) -> Option<usize> {
        (0..self.at.min(self.tokens.len())).find(|at| self.mark(*at) == "/")
    }

    fn in_predicate(&self) -> Option<Diagnostic> {
        let slash = self.predicate()?;
        let before = self.before()?;
        if self.mark(self.at) == "=" {
            return Some(errors::assignment_as_value(self.span(self.at)));
        }
        if self.mark(before) == "/" && before > slash && self.token(self.at).is_some() {
            let second = if self.mark(self.at) == "/" { self.at } else { before };
            return Some(errors::second_predicate(self.span(second)));
        }
        if self.mark(self.at) == "{" && self.ends_value(before) {
            return Some(errors::unclosed_predicate(self.span(slash).to(self.span(before)), self.span(self.at)));
        }
        if self.token(self.at).is_none() {
            return Some(errors::probe_without_block(self.span(0).to(self.span(before))));
        }
        self.in_value().or_else(|| self.foreign_operator(self.at))
    }

    fn between_probes(&self) -> Option<Diagnostic> {
        let before = self.before()?;
        if self.token(self.at).is_none() {
            return Some(errors::probe_without_block(self.span(0).to(self.span(before))));
        }
        if self.kind(self.at) == Some(TokenKind::Stray) {
            return None;
        }
        if self.text(before) == "unless" {
            return Some(errors::missing_probe_beside(self.span(before)));
        }
        let next_is_probe = self.mark(self.at + 1) == ":"
            || (self.kind(self.at) == Some(TokenKind::Word) && matches!(self.text(self.at + 1), "," | "{"));
        if self.begins_value(self.at)
            && next_is_probe
            && matches!(self.kind(before), Some(TokenKind::Part | TokenKind::Word))
        {
            let first = (0..=before).rev().take_while(|at| self.mark(*at) != ",").last().unwrap_or(before);
            return Some(errors::missing_comma(self.span(first).to(self.span(before)), self.span(self.at), "probe"));
        }
        // `probe pid == 1/ {`: the predicate has its closing slash, but no opening one.
        let brace = (self.at..self.tokens.len()).find(|at| self.mark(*at) == "{")?;
        if self.mark(brace.checked_sub(1)?) == "/" && brace - 1 > self.at {
            return Some(errors::unopened_predicate(self.span(self.at).to(self.span(brace - 1))));
        }
        let compares = (self.at..brace).any(|at| matches!(self.mark(at), "==" | "!=" | "<" | ">" | "&&" | "||"));
        compares.then(|| errors::unopened_predicate(self.span(self.at).to(self.span(brace - 1))))
    }

    // ── In the block ─────────────────────────────────────────────────────────────────────────────

    fn body(&self) -> Option<Diagnostic> {
        if self.kind(self.at) == Some(TokenKind::Stray) {
            return None;
        }
        self.in_conditional()
            .or_else(|| self.in_declaration())
            .or_else(|| self.in_value())
            .or_else(|| self.between_values())
    }

    fn in_conditional(&self) -> Option<Diagnostic> {
        let before = self.before()?;
        let (start, word) = (self.statement, self.word(self.statement));
        if let Some(found) = (start..=self.at).find(|at| matches!(self.word(*at), "elif" | "elsif" | "elseif")) {
            return Some(errors::else_if_spelling(self.span(found), self.text(found)));
        }
        if self.word(self.at) == "else" {
            return Some(errors::else_without_if(self.span(self.at)));
        }
        let is_for = word == "for" || (start < self.at && self.word(before) == "for");
        if is_for && self.mark(self.at) != "{" && self.for_head_is_foreign(start) {
            let head = self.span(start).to(self.span(self.at.min(self.tokens.len().saturating_sub(1))));
            return Some(errors::c_for_loop(head));
        }
        if self.mark(before) == "}"
            && let Some(found) = self.block_start(before).checked_sub(1)
            && let Some(head @ (Head::Condition | Head::Count)) = keywords::head(self.word(found))
            && self.failure.expected.contains(&"`{`")
        {
            return Some(errors::missing_head(self.span(found), self.word(found), head));
        }
        let follows = self.begins_value(self.at) || self.mark(self.at) == ";";
        if keywords::is_compound(word) && self.mark(before) == ")" && follows {
            return Some(errors::missing_braces(self.span(self.at), word));
        }
        (self.word(before) == "else" && self.mark(self.at) != "{")
            .then(|| errors::missing_braces(self.span(self.at), "else"))
    }

    /// The `{` that the `}` at `close` closes.
    fn block_start(&self, close: usize) -> usize {
        let mut depth = 0_usize;
        for at in (0..=close).rev() {
            match self.mark(at) {
                "}" => depth += 1,
                "{" if depth == 1 => return at,
                "{" => depth -= 1,
                _ => {}
            }
        }
        0
    }

    /// Whether the head of a `for` is something other than `for $name :`.
    fn for_head_is_foreign(&self, start: usize) -> bool {
        let name = if self.mark(start + 1) == "(" { start + 2 } else { start + 1 };
        self.kind(name) != Some(TokenKind::Var) || self.mark(name + 1) != ":"
    }

    fn in_declaration(&self) -> Option<Diagnostic> {
        let start = self.statement;
        if start > self.at || !is_c_type(self.word(start)) || self.open.is_some_and(|open| self.mark(open) != "{") {
            return None;
        }
        let name = (start + 1..self.tokens.len())
            .take_while(|at| self.kind(*at) == Some(TokenKind::Word) || matches!(self.mark(*at), "*"))
            .filter(|at| self.kind(*at) == Some(TokenKind::Word))
            .last();
        let name = name.filter(|_| self.at <= start + 3 || self.mark(self.at) == "=");
        name.map(|name| errors::c_declaration(self.span(start).to(self.span(name)), Some(self.text(name))))
    }

    /// Mistakes within an expression, in a predicate or a block.
    fn in_value(&self) -> Option<Diagnostic> {
        let before = self.before()?;
        let here = self.span(self.at);
        if self.word(before) == "let" && self.kind(self.at) == Some(TokenKind::Word) {
            return Some(errors::variable_without_sigil(here, self.text(self.at)));
        }
        if self.mark(before) == "[" && self.mark(self.at) == "]" {
            return Some(errors::missing_key(self.span(before).to(here)));
        }
        match self.word(self.at) {
            "and" => return Some(errors::word_operator(here, "and", "&&")),
            "or" => return Some(errors::word_operator(here, "or", "||")),
            _ => {}
        }
        if self.word(before) == "not" && self.begins_value(self.at) {
            return Some(errors::word_operator(self.span(before), "not", "!"));
        }
        if self.mark(self.at) == "=" {
            return Some(errors::assignment_as_value(here));
        }
        if self.is_infix(before) && !self.begins_value(self.at) && self.foreign_operator(self.at).is_none() {
            return Some(errors::missing_operand(self.span(before), self.text(before)));
        }
        None
    }

    /// Diagnostic if this token is an operator of another language.
    fn foreign_operator(&self, at: usize) -> Option<Diagnostic> {
        let mark = self.mark(at);
        let foreign = matches!(
            mark,
            "===" | "!==" | "=>" | "<>" | ":=" | "**" | "**=" | "||=" | "&&=" | "=~" | "!~" | "??" | "<=>"
        );
        foreign.then(|| errors::unknown_operator(self.span(at), mark))
    }

    fn between_values(&self) -> Option<Diagnostic> {
        let before = self.before()?;
        if !self.begins_value(self.at) || self.nameless(self.at) {
            return None;
        }
        let (gap, next) = (self.span(before), self.span(self.at));
        let inside = self.open.map_or("", |open| self.mark(open));
        let ends = self.ends_value(before) || (self.mark(before) == "}" && inside != "{");
        if !ends {
            return None;
        }
        if let Some(question) = self.open_question() {
            return Some(errors::half_ternary(self.span(question)));
        }
        if inside == "(" || inside == "[" {
            return Some(errors::missing_comma(gap, next, if inside == "(" { "value" } else { "key" }));
        }
        let called = self.word(before);
        if before == self.statement && !called.is_empty() && self.same_line(before, self.at) {
            return Some(errors::call_without_parentheses(gap, called, &self.argument()));
        }
        Some(errors::missing_semicolon(gap, next))
    }

    /// A `?` in the current statement that has no `:`.
    fn open_question(&self) -> Option<usize> {
        let mut open = Vec::new();
        for at in self.statement..self.at.min(self.tokens.len()) {
            match self.mark(at) {
                "?" => open.push(at),
                ":" => drop(open.pop()),
                _ => {}
            }
        }
        open.pop().filter(|_| self.failure.expected.contains(&"`:`"))
    }

    fn same_line(&self, one: usize, other: usize) -> bool {
        let between = Span { start: self.span(one).end, end: self.span(other).start };
        !self.source.slice(between).contains('\n')
    }

    /// The text up to the end of the statement or line, to be shown in parentheses.
    fn argument(&self) -> String {
        let from = self.span(self.at).start as usize;
        let rest = self.source.text.get(from..).unwrap_or("");
        let last = (self.at..self.tokens.len())
            .take_while(|at| !matches!(self.mark(*at), ";" | "}" | "{"))
            .last()
            .unwrap_or(self.at);
        let len = self.span(last).end as usize - from;
        let text = rest.get(..len).unwrap_or("").lines().next().unwrap_or("");
        if text.chars().count() > 60 { "…".to_owned() } else { text.to_owned() }
    }

    // ── Either ───────────────────────────────────────────────────────────────────────────────────

    fn nameless(&self, at: usize) -> bool {
        self.kind(at) == Some(TokenKind::Var) && self.text(at) == "$"
    }

    fn anywhere(&self) -> Option<Diagnostic> {
        let (here, text) = (self.span(self.at), self.text(self.at));
        if self.nameless(self.at) {
            return Some(errors::nameless_variable(here));
        }
        let digit_name = |sigils: &[char]| {
            text.strip_prefix(sigils).is_some_and(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        };
        match self.kind(self.at) {
            Some(TokenKind::Var | TokenKind::Map) if digit_name(&['$', '@']) => {
                return Some(errors::badly_named_variable(here));
            }
            Some(TokenKind::Stray) => return Some(errors::stray_character(here, text)),
            Some(TokenKind::Word) if keywords::role(text).is_some() => {
                return Some(errors::reserved_word(here, text));
            }
            _ => {}
        }
        // The grammar stops at the first character of a foreign operator, or after the part that it
        // knows.
        let foreign =
            self.foreign_operator(self.at).or_else(|| self.before().and_then(|before| self.foreign_operator(before)));
        if foreign.is_some() {
            return foreign;
        }
        if let Some(question) = self.open_question() {
            return Some(errors::half_ternary(self.span(question)));
        }
        let before = self.before()?;
        let wants_value = self.failure.expected.contains(&"a value");
        if wants_value && self.is_infix(before) {
            return Some(errors::missing_operand(self.span(before), self.text(before)));
        }
        let only_value = wants_value && !self.failure.expected.contains(&"an operator");
        (only_value && (self.is_infix(self.at) || text == ",")).then(|| errors::missing_value(here, text))
    }

    fn unexpected(&self) -> Diagnostic {
        let found = match self.kind(self.at) {
            None => "end of the script".to_owned(),
            Some(TokenKind::Str) => "string".to_owned(),
            Some(_) => format!("`{}`", self.text(self.at).chars().take(40).collect::<String>()),
        };
        errors::unexpected(self.span(self.at), &found, &self.failure.expected)
    }
}
