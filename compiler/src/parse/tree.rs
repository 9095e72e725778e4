//! Builds the syntax tree of one item; only this file and its submodules use pest.
//!
//! In: an item's text and tokens. Out: its part of the tree, or where the grammar stopped and what
//! it expected there.
//! Guarantee: no pest type leaves these files; every span ends at the end of a token.

mod blocks;
mod c_definitions;
mod definitions;
mod grammar;
mod modules;
mod parsed;
mod reader;
mod spans;
mod statements;
mod states;
mod values;
mod view;

use super::tokens::Token;
use crate::ast::Expr;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use blocks::Items;
use c_definitions::CDefinitions;
use grammar::{Rule, parse};
use reader::Reader;
use spans::Spans;
use statements::Code;
use view::Views;

pub(super) use grammar::Failure;
pub(super) use parsed::Parsed;
pub(super) use reader::Known;

/// Parses the item at `span` of `text`; adds diagnostics for well-formed but invalid parts to
/// `problems`.
pub(super) fn item(
    text: &str,
    span: Span,
    tokens: &[Token],
    known: Known<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Result<Option<Parsed>, Failure> {
    let pairs = parse(Rule::item, text.get(span.start as usize..span.end as usize).unwrap_or(""), span)?;
    let mut code = Code { reader: Reader { base: span.start as usize, tokens, known, problems } };
    for pair in pairs {
        match pair.as_rule() {
            Rule::state_def => return Ok(Some(Parsed::State(Items { code: &mut code }.state(pair)))),
            Rule::config => return Ok(Some(Parsed::Config(Items { code: &mut code }.config(pair)))),
            Rule::import => return Ok(Some(Parsed::Import(Items { code: &mut code }.import(pair)))),
            Rule::macro_def => return Ok(Some(Parsed::Macro(Items { code: &mut code }.macro_def(pair)))),
            Rule::map_decl => return Ok(Some(Parsed::Map(Items { code: &mut code }.map_declaration(pair)))),
            Rule::definition => return Ok(Some(Parsed::Definition(CDefinitions { code: &mut code }.definition(pair)))),
            Rule::span => return Ok(Some(Parsed::Span(Spans { code: &mut code }.span_definition(pair)))),
            Rule::probe_block => return Ok(Some(Parsed::Block(Items { code: &mut code }.probe_block(pair)))),
            Rule::param_decl => return Ok(Some(Parsed::Param(Items { code: &mut code }.param(pair)))),
            Rule::use_decl => return Ok(Some(Parsed::Use(Items { code: &mut code }.use_of(pair)))),
            Rule::public => return Ok(Items { code: &mut code }.public(pair)),
            Rule::view_def => return Ok(Some(Parsed::View(Box::new(Views { code: &mut code }.view(pair))))),
            _ => {}
        }
    }
    Ok(None)
}

/// Parses the value of a `#define`: `text`, located at `span`.
pub(super) fn define_value(
    text: &str,
    span: Span,
    tokens: &[Token],
    known: Known<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Result<Option<Expr>, Failure> {
    let mut pairs = parse(Rule::define_value, text, span)?;
    let mut code = Code { reader: Reader { base: span.start as usize, tokens, known, problems } };
    Ok(pairs.find(|pair| pair.as_rule() == Rule::expr).map(|pair| code.expr(pair)))
}
