//! Makes the syntax tree of one item. With its parts for values and definitions, the only file that knows the parser generator.
//!
//! In: an item's text and tokens. Out: its part of the tree, or where the grammar gave up and what it would have taken.
//! Guarantee: no type of the generator leaves these files; every span ends at the end of a token.

mod c_definitions;
mod definitions;
mod modules;
mod spans;
mod states;
mod values;
mod view;

use super::items::CHAIN_LIMIT;
use super::literals;
use super::tokens::Token;
use super::{errors, expressions};
use crate::ast::{
    AttachPoint, ConfigEntry, Definition, Expr, ExprKind, Ident, Import, Macro, MapDeclaration, Param, ProbeBlock,
    Public, SpanDefinition, State, Stmt, StmtKind, Use, View,
};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use pest::Parser as _;
use pest::error::{Error, ErrorVariant, InputLocation};
use pest::iterators::Pair;
use pest_derive::Parser;

/// Steps that one item may take: the grammar needs some hundred a byte, so only a mistake in it could come near.
const STEP_LIMIT: std::num::NonZeroUsize = std::num::NonZeroUsize::new(2_000_000_000).unwrap();

#[derive(Parser)]
#[grammar = "../spec/grammar.pest"]
struct Grammar;

/// What a script is made of.
pub(super) enum Parsed {
    /// The config block.
    Config(Vec<ConfigEntry>),
    /// `import`.
    Import(Import),
    /// `macro`.
    Macro(Macro),
    /// `let @x = …`.
    Map(MapDeclaration),
    /// A C definition.
    Definition(Definition),
    /// `state`.
    State(State),
    /// `span`.
    Span(SpanDefinition),
    /// A probe block.
    Block(ProbeBlock),
    /// `param`.
    Param(Param),
    /// `use`.
    Use(Use),
    /// `pub` before any of the others, or before a map's name alone.
    Public(Public, Option<Box<Parsed>>),
    /// `view "title" { … }`.
    View(Box<View>),
}

/// Names that mean something in the file at hand.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known<'a> {
    /// What stands before the dot in front of a module's names.
    pub prefixes: &'a [String],
    /// Names that mean the records of states.
    pub states: &'a [String],
}

/// Where the grammar gave up.
pub(super) struct Failure {
    /// The offset in the whole script.
    pub offset: usize,
    /// What it would have taken, in words.
    pub expected: Vec<&'static str>,
    /// Whether it gave up for lack of stack or steps, which says nothing about the text.
    pub exhausted: bool,
}

/// Parses the item at `span` of `text`; what is wrong with well-formed parts goes to `problems`.
pub(super) fn item(
    text: &str,
    span: Span,
    tokens: &[Token],
    known: Known<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Result<Option<Parsed>, Failure> {
    let pairs = parse(Rule::item, text.get(span.start as usize..span.end as usize).unwrap_or(""), span)?;
    let mut builder = Builder { base: span.start as usize, tokens, known, problems };
    for pair in pairs {
        match pair.as_rule() {
            Rule::state_def => return Ok(Some(Parsed::State(builder.state(pair)))),
            Rule::config => return Ok(Some(Parsed::Config(builder.config(pair)))),
            Rule::import => return Ok(Some(Parsed::Import(builder.import(pair)))),
            Rule::macro_def => return Ok(Some(Parsed::Macro(builder.macro_def(pair)))),
            Rule::map_decl => return Ok(Some(Parsed::Map(builder.map_declaration(pair)))),
            Rule::definition => return Ok(Some(Parsed::Definition(builder.definition(pair)))),
            Rule::span => return Ok(Some(Parsed::Span(builder.span_definition(pair)))),
            Rule::probe_block => return Ok(Some(Parsed::Block(builder.probe_block(pair)))),
            Rule::param_decl => return Ok(Some(Parsed::Param(builder.param(pair)))),
            Rule::use_decl => return Ok(Some(Parsed::Use(builder.use_of(pair)))),
            Rule::public => return Ok(builder.public(pair)),
            Rule::view_def => return Ok(Some(Parsed::View(Box::new(builder.view(pair))))),
            _ => {}
        }
    }
    Ok(None)
}

/// Parses the value of a `#define`: `text`, which stands at `span`.
pub(super) fn define_value(
    text: &str,
    span: Span,
    tokens: &[Token],
    known: Known<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Result<Option<Expr>, Failure> {
    let mut pairs = parse(Rule::define_value, text, span)?;
    let mut builder = Builder { base: span.start as usize, tokens, known, problems };
    Ok(pairs.find(|pair| pair.as_rule() == Rule::expr).map(|pair| builder.expr(pair)))
}

fn parse(rule: Rule, text: &str, span: Span) -> Result<pest::iterators::Pairs<'_, Rule>, Failure> {
    pest::set_call_limit(Some(STEP_LIMIT));
    Grammar::parse(rule, text).map_err(|error| failure(&error, span.start as usize))
}

fn failure(error: &Error<Rule>, base: usize) -> Failure {
    let (InputLocation::Pos(at) | InputLocation::Span((at, _))) = error.location;
    let mut expected = Vec::new();
    if let ErrorVariant::ParsingError { positives, .. } = &error.variant {
        for rule in positives {
            let words = in_words(*rule);
            if !words.is_empty() && !expected.contains(&words) {
                expected.push(words);
            }
        }
    }
    let exhausted = matches!(error.variant, ErrorVariant::CustomError { .. });
    Failure { offset: base + at, expected, exhausted }
}

/// What a user calls the start of this rule; empty when a more general word is expected at the same place.
fn in_words(rule: Rule) -> &'static str {
    match rule {
        Rule::item | Rule::probe_block | Rule::point | Rule::kind => "a probe",
        Rule::predicate => "a predicate between slashes",
        Rule::body | Rule::block | Rule::lbrace => "`{`",
        Rule::part => "the rest of the probe",
        Rule::config_entry => "a setting",
        Rule::assign_stmt | Rule::if_stmt | Rule::let_stmt => "a statement",
        Rule::stage | Rule::kw_start | Rule::kw_mark | Rule::kw_end => "`start`, `mark NAME` or `end`",
        Rule::kw_by => "`by`",
        Rule::stage_filter => "a predicate between slashes",
        Rule::keep => "a field to keep",
        Rule::kw_restart => "`restart`",
        Rule::kw_expire => "`expire`",
        Rule::kw_limit => "`limit`",
        Rule::expr
        | Rule::number
        | Rule::string
        | Rule::name
        | Rule::ident
        | Rule::call
        | Rule::paren
        | Rule::prefix_op
        | Rule::cast => "a value",
        Rule::infix_op | Rule::divide_op | Rule::stage_divide | Rule::question | Rule::assign_op | Rule::step_op => {
            "an operator"
        }
        Rule::type_name | Rule::known_type | Rule::known_name | Rule::c_type => "a type",
        Rule::declarator | Rule::enumerator => "a name",
        Rule::kw_of | Rule::kw_show | Rule::kw_sort | Rule::kw_top | Rule::kw_every => {
            "`of`, `show`, `sort`, `top` or `every`"
        }
        Rule::column | Rule::view_column | Rule::column_name => "a column",
        Rule::map => "a map",
        Rule::state_name => "a state",
        Rule::kw_rest => "`rest`",
        Rule::kw_clear => "`clear`",
        Rule::kw_as => "`as`",
        Rule::ascending | Rule::descending => "`asc` or `desc`",
        Rule::field_name | Rule::state_field => "a field's name",
        Rule::var => "a variable",
        Rule::semi => "`;`",
        Rule::comma => "`,`",
        Rule::colon => "`:`",
        Rule::equals => "`=`",
        Rule::slash => "`/`",
        Rule::range => "`..`",
        Rule::lparen => "`(`",
        Rule::rparen => "`)`",
        Rule::rbrace => "`}`",
        Rule::rbracket => "`]`",
        _ => "",
    }
}

/// Turns pairs into nodes.
struct Builder<'a> {
    base: usize,
    tokens: &'a [Token],
    /// What the file calls its modules and states.
    known: Known<'a>,
    problems: &'a mut Vec<Diagnostic>,
}

impl Builder<'_> {
    /// The characters of `pair`, without the blanks and comments that the grammar read at its end.
    fn span(&self, pair: &Pair<'_, Rule>) -> Span {
        let raw = pair.as_span();
        let span = Span::new(self.base + raw.start(), self.base + raw.end());
        let after = self.tokens.partition_point(|token| token.span.end <= span.end);
        let end = after.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(span.end, |token| token.span.end);
        Span { start: span.start, end: if end > span.start { end } else { span.end } }
    }

    fn ident(&self, pair: &Pair<'_, Rule>) -> Ident {
        Ident { text: pair.as_str().trim_start_matches(['$', '@']).to_owned(), span: self.span(pair) }
    }

    /// Stands for a part that the grammar guarantees and that was not found.
    fn hole(&mut self, span: Span) -> Expr {
        self.problems.push(errors::unexpected(span, "this", &[]));
        Expr { kind: ExprKind::Int(0), span }
    }

    fn config(&mut self, pair: Pair<'_, Rule>) -> Vec<ConfigEntry> {
        let entries = pair.into_inner().filter(|pair| pair.as_rule() == Rule::config_entry);
        entries.map(|entry| self.config_entry(entry)).collect()
    }

    fn config_entry(&mut self, entry: Pair<'_, Rule>) -> ConfigEntry {
        let span = self.span(&entry);
        let mut key = Ident { text: String::new(), span };
        let mut value = None;
        for pair in entry.into_inner() {
            match pair.as_rule() {
                Rule::ident => key = self.ident(&pair),
                Rule::expr => value = Some(self.expr(pair)),
                _ => {}
            }
        }
        ConfigEntry { key, value: value.unwrap_or_else(|| self.hole(span)) }
    }

    fn probe_block(&mut self, pair: Pair<'_, Rule>) -> ProbeBlock {
        let whole = self.span(&pair);
        let mut block = ProbeBlock { name: None, points: Vec::new(), predicate: None, body: Vec::new(), span: whole };
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::block_name => block.name = Some(self.ident(&pair)),
                Rule::point => block.points.push(self.point(pair)),
                Rule::predicate => block.predicate = self.first_expr(pair),
                Rule::body => block.body = self.body(pair),
                _ => {}
            }
        }
        if let Some(first) = block.points.first() {
            block.span.start = first.span.start;
        }
        block
    }

    fn first_expr(&mut self, pair: Pair<'_, Rule>) -> Option<Expr> {
        pair.into_inner().find(|pair| pair.as_rule() == Rule::expr).map(|pair| self.expr(pair))
    }

    fn point(&mut self, pair: Pair<'_, Rule>) -> AttachPoint {
        let span = self.raw_span(&pair);
        let mut point = AttachPoint { kind: Ident { text: String::new(), span }, parts: Vec::new(), span };
        for pair in pair.into_inner() {
            let span = self.raw_span(&pair);
            match pair.as_rule() {
                Rule::kind => point.kind = Ident { text: pair.as_str().to_owned(), span },
                Rule::part => {
                    let text = self.part(pair);
                    point.parts.push(Ident { text, span });
                }
                _ => {}
            }
        }
        point
    }

    /// The span of a rule that holds no blanks.
    fn raw_span(&self, pair: &Pair<'_, Rule>) -> Span {
        Span::new(self.base + pair.as_span().start(), self.base + pair.as_span().end())
    }

    fn part(&mut self, pair: Pair<'_, Rule>) -> String {
        let mut text = String::new();
        for piece in pair.into_inner() {
            if piece.as_rule() == Rule::string {
                let bytes = literals::string(piece.as_str(), self.raw_span(&piece), self.problems);
                text.push_str(&String::from_utf8_lossy(&bytes));
            } else {
                text.push_str(piece.as_str());
            }
        }
        text
    }

    fn body(&mut self, pair: Pair<'_, Rule>) -> Vec<Stmt> {
        let mut statements = Vec::new();
        for pair in pair.into_inner() {
            statements.extend(self.statement(pair));
        }
        statements
    }

    /// The statement of `pair`; none for braces and semicolons.
    fn statement(&mut self, pair: Pair<'_, Rule>) -> Option<Stmt> {
        let span = self.span(&pair);
        let kind = match pair.as_rule() {
            Rule::if_stmt => return self.if_stmt(pair),
            Rule::for_stmt => self.for_stmt(pair),
            Rule::while_stmt => {
                let (cond, body) = self.head_and_body(pair);
                StmtKind::While { cond, body }
            }
            Rule::unroll_stmt => {
                let (count, body) = self.head_and_body(pair);
                StmtKind::Unroll { count, body }
            }
            Rule::block => {
                let inner = pair.into_inner().next();
                StmtKind::Block(inner.map(|body| self.body(body)).unwrap_or_default())
            }
            Rule::let_stmt => self.let_stmt(pair),
            Rule::return_stmt => StmtKind::Return(self.first_expr(pair)),
            Rule::break_stmt => StmtKind::Break,
            Rule::continue_stmt => StmtKind::Continue,
            Rule::assign_stmt => self.assign_stmt(pair),
            _ => return None,
        };
        Some(Stmt { kind, span })
    }

    fn head_and_body(&mut self, pair: Pair<'_, Rule>) -> (Expr, Vec<Stmt>) {
        let span = self.span(&pair);
        let mut head = None;
        let mut body = Vec::new();
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::expr => head = Some(self.expr(pair)),
                Rule::body => body = self.body(pair),
                _ => {}
            }
        }
        (head.unwrap_or_else(|| self.hole(span)), body)
    }

    pub(super) fn if_stmt(&mut self, pair: Pair<'_, Rule>) -> Option<Stmt> {
        let whole = self.span(&pair);
        let mut arms: Vec<(Expr, Vec<Stmt>, Span)> = Vec::new();
        let mut otherwise = Vec::new();
        let mut cond = None;
        let mut start = whole;
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::kw_if => start = self.span(&pair),
                Rule::expr => cond = Some(self.expr(pair)),
                Rule::body => {
                    let body = self.body(pair);
                    match cond.take() {
                        Some(cond) => arms.push((cond, body, start.to(Span { start: whole.end, end: whole.end }))),
                        None => otherwise = body,
                    }
                }
                _ => {}
            }
        }
        if let Some((_, _, span)) = arms.get(CHAIN_LIMIT) {
            self.problems.push(errors::too_long(Span { start: span.start, end: span.start + 2 }, CHAIN_LIMIT));
            arms.truncate(CHAIN_LIMIT);
        }
        let mut made = None;
        for (cond, then, span) in arms.into_iter().rev() {
            otherwise = made.take().map_or(otherwise, |inner| vec![inner]);
            made = Some(Stmt { kind: StmtKind::If { cond, then, otherwise: std::mem::take(&mut otherwise) }, span });
        }
        made
    }

    fn for_stmt(&mut self, pair: Pair<'_, Rule>) -> StmtKind {
        let span = self.span(&pair);
        let mut name = Ident { text: String::new(), span };
        let (mut exprs, mut body, mut is_range) = (Vec::new(), Vec::new(), false);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::var => name = self.ident(&pair),
                Rule::expr => exprs.push(self.expr(pair)),
                Rule::range => is_range = true,
                Rule::body => body = self.body(pair),
                _ => {}
            }
        }
        let mut exprs = exprs.into_iter();
        let first = exprs.next().unwrap_or_else(|| self.hole(span));
        if is_range {
            let end = exprs.next().unwrap_or_else(|| self.hole(span));
            return StmtKind::ForRange { name, start: first, end, body };
        }
        if !matches!(&first.kind, ExprKind::Map { keys, .. } if keys.is_empty()) {
            self.problems.push(errors::c_for_loop(first.span));
        }
        StmtKind::ForMap { name, map: first, body }
    }

    fn let_stmt(&mut self, pair: Pair<'_, Rule>) -> StmtKind {
        let mut name = Ident { text: String::new(), span: self.span(&pair) };
        let (mut ty, mut value) = (None, None);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::var => name = self.ident(&pair),
                Rule::type_name => ty = Some(self.type_name(pair)),
                Rule::expr => value = Some(self.expr(pair)),
                _ => {}
            }
        }
        StmtKind::Let { name, ty, value }
    }

    fn assign_stmt(&mut self, pair: Pair<'_, Rule>) -> StmtKind {
        let span = self.span(&pair);
        let (mut exprs, mut op) = (Vec::new(), None);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::expr => exprs.push(self.expr(pair)),
                Rule::assign_op => op = Some(pair.as_str()),
                _ => {}
            }
        }
        let mut exprs = exprs.into_iter();
        let target = exprs.next().unwrap_or_else(|| self.hole(span));
        let (Some(op), Some(value)) = (op, exprs.next()) else {
            return StmtKind::Expr(target);
        };
        match expressions::check_target(&target, op) {
            Ok(true) => StmtKind::Expr(value),
            Ok(false) => StmtKind::Assign { target, op: expressions::binary_op(op.trim_end_matches('=')), value },
            Err(problem) => {
                self.problems.push(problem);
                StmtKind::Assign { target, op: None, value }
            }
        }
    }
}
