//! The grammar: matches a text, and says what was expected where it does not match.
//!
//! In: a text and a rule. Out: pairs of the parser generator, or where and why the grammar stopped.
//! Guarantee: there is enough stack left to build the tree from the pairs.

use crate::parse::items::NESTING_LIMIT;
use crate::source::Span;
use pest::Parser as _;
use pest::error::{Error, ErrorVariant, InputLocation};
use pest_derive::Parser;

/// Stack space for one level of nesting while the tree is built. A level needs 3.2 KB in an
/// optimised build, and at most twice that in an unoptimised one.
const LEVEL_BYTES: usize = 8 << 10;

/// Maximum number of grammar steps for one item. The grammar needs some hundred steps per byte, so
/// only a bug in the grammar could reach the limit.
const STEP_LIMIT: std::num::NonZeroUsize = std::num::NonZeroUsize::new(2_000_000_000).unwrap();

#[derive(Parser)]
#[grammar = "../spec/grammar.pest"]
struct Grammar;

/// Where and why the grammar stopped.
pub(in crate::parse) struct Failure {
    /// The offset in the whole script.
    pub offset: usize,
    /// What it expected, in the user's terms.
    pub expected: Vec<&'static str>,
    /// Whether it ran out of stack or steps, which says nothing about the text.
    pub exhausted: bool,
}

/// Matches a rule with a text that is at `span` of the script.
pub(super) fn parse(rule: Rule, text: &str, span: Span) -> Result<pest::iterators::Pairs<'_, Rule>, Failure> {
    pest::set_call_limit(Some(STEP_LIMIT));
    let pairs = Grammar::parse(rule, text).map_err(|error| failure(&error, span.start as usize))?;
    // pest checks the stack for itself; building the tree from the pairs may need more.
    if pest_stack_guard::remaining_stack().is_some_and(|bytes| bytes < levels(text) * LEVEL_BYTES) {
        return Err(Failure { offset: span.start as usize, expected: Vec::new(), exhausted: true });
    }
    Ok(pairs)
}

/// Estimates the nesting depth from the brackets and `?` in the text; at most `NESTING_LIMIT + 1`.
fn levels(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' | b'?' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open.min(NESTING_LIMIT));
    }
    most + 1
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

/// The user-facing name for the start of this rule; empty if a more general one is expected at the
/// same place.
fn in_words(rule: Rule) -> &'static str {
    match rule {
        Rule::item | Rule::probe_block | Rule::attach | Rule::point | Rule::kind => "a probe",
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
        Rule::view_op
        | Rule::infix_op
        | Rule::divide_op
        | Rule::stage_divide
        | Rule::question
        | Rule::assign_op
        | Rule::step_op => "an operator",
        Rule::type_name | Rule::known_type | Rule::known_name | Rule::c_type => "a type",
        Rule::declarator | Rule::enumerator => "a name",
        Rule::kw_of
        | Rule::kw_show
        | Rule::kw_where
        | Rule::kw_sort
        | Rule::kw_top
        | Rule::kw_every
        | Rule::kw_flame
        | Rule::kw_empty => "`of`, `show`, `where`, `sort`, `top`, `every`, `flame` or `empty`",
        Rule::column
        | Rule::view_column
        | Rule::column_name
        | Rule::view_call
        | Rule::view_paren
        | Rule::view_prefix
        | Rule::view_decimal => "a column",
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
