//! The events of a span that handlers can name.
//!
//! In: a name. Out: an [`Event`].
//! Guarantee: what is not a special event is a stage.

/// An event of a span, by the name that handlers use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::check) enum Event {
    /// `start`, `end`, or the name of a mark.
    Stage(String),
    /// `replace`.
    Replace,
    /// `expire`.
    Expire,
    /// `evict`.
    Evict,
    /// No event: the current open start of a loop.
    Open,
}

impl Event {
    pub(super) fn named(name: &str) -> Event {
        match name {
            "replace" => Event::Replace,
            "expire" => Event::Expire,
            "evict" => Event::Evict,
            stage => Event::Stage(stage.to_owned()),
        }
    }
}
