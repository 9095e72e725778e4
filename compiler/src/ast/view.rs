//! `view "title" { … }`: how maps are displayed.
//!
//! In: made by `parse`. Out: read by `check` and the printer.
//! Guarantee: as for the parent.

use super::{Expr, Ident};
use crate::source::Span;

/// A view.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The title; its span includes the quotes.
    pub title: Ident,
    /// The maps, without sigil; names of states begin with [`super::STATE_MARK`].
    pub of: Vec<Ident>,
    /// What the rows are instead of keys: the word after `by`.
    pub by: Option<Ident>,
    /// The columns; empty for the default columns of the maps.
    pub show: Vec<ViewColumn>,
    /// The condition for rows to be shown.
    pub filter: Option<Expr>,
    /// The sort order.
    pub sort: Option<Sort>,
    /// The maximum number of rows.
    pub top: Option<Top>,
    /// The interval at which it is shown, in addition to the end of the run.
    pub every: Option<Every>,
    /// The word that asks for a picture of the stacks.
    pub flame: Option<Span>,
    /// What is said instead of a table without rows.
    pub empty: Option<Ident>,
    /// All of it.
    pub span: Span,
}

/// `sum / count as "header"`.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewColumn {
    /// The value shown: a name, or a field of a map; `p99.9` is a name.
    pub value: Expr,
    /// Its header, if given; the span includes the quotes.
    pub header: Option<Ident>,
}

/// `sort column asc`.
#[derive(Debug, Clone, PartialEq)]
pub struct Sort {
    /// The column to sort by.
    pub by: Expr,
    /// Whether to sort in ascending order, if given.
    pub ascending: Option<bool>,
}

/// `top n rest`.
#[derive(Debug, Clone, PartialEq)]
pub struct Top {
    /// Maximum number of rows.
    pub rows: Expr,
    /// Whether the remaining rows are summed up in one more row.
    pub rest: bool,
}

/// `every duration clear`.
#[derive(Debug, Clone, PartialEq)]
pub struct Every {
    /// The interval.
    pub period: Expr,
    /// Whether the maps are cleared each time.
    pub clear: bool,
}
