//! `view "title" { … }`: how maps are shown.
//!
//! In: made by `parse`. Out: read by `check` and the printer.
//! Guarantee: as for the parent.

use super::{Expr, Ident};
use crate::source::Span;

/// A view.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The title; its span has the quotes.
    pub title: Ident,
    /// The maps, without sigil; states begin with [`super::STATE_MARK`].
    pub of: Vec<Ident>,
    /// The columns; empty when the view leaves them to the maps.
    pub show: Vec<ViewColumn>,
    /// What orders the rows.
    pub sort: Option<Sort>,
    /// How many rows.
    pub top: Option<Top>,
    /// When it is shown, besides at the end.
    pub every: Option<Every>,
    /// All of it.
    pub span: Span,
}

/// `name as "header"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewColumn {
    /// What it shows.
    pub name: ViewName,
    /// Its header, when given; the span has the quotes.
    pub header: Option<Ident>,
}

/// `name`, `@map.name` or `state.name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewName {
    /// The map or state, when one is named.
    pub map: Option<Ident>,
    /// A part of the key, or a statistic.
    pub name: Ident,
    /// All of it.
    pub span: Span,
}

/// `sort column asc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sort {
    /// By what.
    pub name: ViewName,
    /// Smallest first, when the script says.
    pub ascending: Option<bool>,
}

/// `top n rest`.
#[derive(Debug, Clone, PartialEq)]
pub struct Top {
    /// Most rows.
    pub rows: Expr,
    /// Whether the others are summed up in one more.
    pub rest: bool,
}

/// `every duration clear`.
#[derive(Debug, Clone, PartialEq)]
pub struct Every {
    /// The time between two.
    pub period: Expr,
    /// Whether the maps begin anew each time.
    pub clear: bool,
}
