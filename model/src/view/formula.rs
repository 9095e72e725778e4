//! Computed columns and conditions of a view.
//!
//! In: made by `check`. Out: evaluated by the runtime, once per row.
//! Guarantee: plain data; operands have the types that their operators accept, and compatible
//! units.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::operator::BinaryOp;
use crate::units::Unit;
use crate::view::Source;

/// An expression over the columns of a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Formula {
    /// A part of the key, a measure or a field; never [`Source::Computed`].
    Source(Source),
    /// A literal or the value of a parameter, in thousandths.
    Number { thousandths: i128 },
    /// A string literal.
    Text(Vec<u8>),
    /// A counter of a span's ledger since the start of the run.
    Ledger {
        /// The index of the span in the object.
        span: usize,
        /// Which counter.
        count: LedgerCount,
    },
    /// A part of the key if all keys of the row agree in it, otherwise how many values it has.
    OneOrCount(usize),
    /// A function of one number.
    Named(Naming, Box<Formula>),
    /// `-x`.
    Negate(Box<Formula>),
    /// `!x`.
    Not(Box<Formula>),
    /// `a op b`. Division yields fractions.
    Binary(BinaryOp, Box<Formula>, Box<Formula>),
    /// `amount / duration`: an amount per second.
    PerSecond(Box<Formula>, Box<Formula>),
}

/// The name of the function that is [`Formula::OneOrCount`].
pub const OR_COUNT: &str = "or_count";

/// What the numbers of a column represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Quantity {
    /// A value, or a number in the unit of the values.
    Of(Unit),
    /// An amount per second.
    PerSecond(Unit),
    /// A percentage.
    Share,
}

/// A computed column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Computed {
    /// The expression.
    pub formula: Formula,
    /// What its numbers represent; `None` for text.
    pub quantity: Option<Quantity>,
}

/// A condition of `where` that applies to the whole view because it names no column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// The condition.
    pub formula: Formula,
    /// The condition as written.
    pub text: String,
}

/// A map of a view that is filled from the completed pairs of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fed {
    /// The map, as an index into [`super::View::maps`].
    pub map: usize,
    /// The index of the span in the object.
    pub span: usize,
    /// Whether a replaced start counts as a broken pair; false if the script says
    /// `restart replace`.
    pub replaced_is_broken: bool,
}

/// A function from numbers to texts, evaluated without running a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Naming {
    /// A lookup table.
    Texts {
        /// Texts by number; an empty text is unknown.
        texts: Vec<Cow<'static, str>>,
        /// The text for unknown numbers.
        unknown: Cow<'static, str>,
        /// Whether negative numbers use the text of their absolute value.
        ignores_sign: bool,
    },
    /// The symbol at a kernel address.
    KernelSymbol,
}

impl Naming {
    /// A lookup table of these texts.
    pub fn of(texts: &[&'static str], unknown: &'static str, ignores_sign: bool) -> Naming {
        let texts = texts.iter().map(|text| Cow::Borrowed(*text)).collect();
        Naming::Texts { texts, unknown: Cow::Borrowed(unknown), ignores_sign }
    }

    /// The text of a number; `None` if it needs symbols.
    pub fn text(&self, number: i128) -> Option<&str> {
        let Naming::Texts { texts, unknown, ignores_sign } = self else { return None };
        let number = if *ignores_sign { number.saturating_abs() } else { number };
        let text = usize::try_from(number).ok().and_then(|number| texts.get(number)).filter(|text| !text.is_empty());
        Some(text.map_or(unknown, |text| text))
    }
}

/// A counter of a span's ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LedgerCount {
    /// Starts that opened an entry.
    Started,
    /// Starts closed by an end.
    Matched,
    /// Starts closed by a second start.
    Replaced,
    /// Starts that expired.
    Expired,
    /// Starts evicted to make space for others.
    Evicted,
    /// Starts whose thread or process has ended.
    Ended,
    /// Starts that are open.
    Open,
    /// Starts dropped because the map was full or the key was busy.
    Dropped,
    /// Ends without an open start.
    Unmatched,
}

impl LedgerCount {
    /// All counters, with their names.
    pub const ALL: [(&'static str, LedgerCount); 9] = [
        ("started", LedgerCount::Started),
        ("matched", LedgerCount::Matched),
        ("replaced", LedgerCount::Replaced),
        ("expired", LedgerCount::Expired),
        ("evicted", LedgerCount::Evicted),
        ("ended", LedgerCount::Ended),
        ("open", LedgerCount::Open),
        ("dropped", LedgerCount::Dropped),
        ("unmatched", LedgerCount::Unmatched),
    ];

    /// The counter with this name.
    pub fn named(name: &str) -> Option<LedgerCount> {
        LedgerCount::ALL.iter().find(|(known, _)| *known == name).map(|(_, count)| *count)
    }
}

impl Formula {
    /// Calls `visit` for every column that it refers to.
    pub fn each_source(&self, visit: &mut dyn FnMut(Source)) {
        match self {
            Formula::Source(source) => visit(*source),
            // A part of which the values are counted does not tell rows apart.
            Formula::Number { .. } | Formula::Text(_) | Formula::Ledger { .. } | Formula::OneOrCount(_) => {}
            Formula::Named(_, of) | Formula::Negate(of) | Formula::Not(of) => of.each_source(visit),
            Formula::Binary(_, left, right) | Formula::PerSecond(left, right) => {
                left.each_source(visit);
                right.each_source(visit);
            }
        }
    }

    /// The columns that it refers to.
    pub fn sources(&self) -> Vec<Source> {
        let mut sources = Vec::new();
        self.each_source(&mut |source| sources.push(source));
        sources
    }
}
