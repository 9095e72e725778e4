//! Views, filled: what maps hold as the rows of a table.
//!
//! In: a [`View`], what its maps hold as bytes, and how to decode that. Out: a [`Table`].
//! Guarantee: the rows of a table, with the one for all others, are everything that the maps held: sums add up, and percentiles of the
//! others are those of all their values together.

mod fill;
mod table;

pub use fill::fill;
pub use table::{Cell, Header, Quantity, Rest, Table};

use profiler_compiler::object::UserMap;
use profiler_compiler::view::{Column, Measure, Source, View};
use profiler_compiler::{object, types::Type};

use crate::maps::Contents;

/// What a view needs of its maps: each with what it held.
pub type Held<'a> = [(&'a UserMap, &'a Contents)];

/// A view of one map that nobody wrote one for: its key, and what is usually told of its values.
pub fn of_map(place: usize, map: &UserMap) -> View {
    let parts = match &map.key {
        None => 0,
        Some(Type::Tuple(parts)) => parts.len(),
        Some(Type::Record(parts)) => parts.len(),
        Some(_) => 1,
    };
    let name = |part: usize| match &map.key {
        Some(Type::Record(fields)) => fields[part].0.clone(),
        _ if parts == 1 => "key".to_owned(),
        _ => format!("key{}", part + 1),
    };
    let keys = (0..parts).map(|part| Column { header: name(part), source: Source::Key(part) });
    let measures = match &map.value {
        object::MapValue::Aggregate { word, .. } => Measure::usual(*word),
        object::MapValue::Plain(_) => vec![Measure::Value],
    };
    let measure =
        |measure: Measure| Column { header: measure.to_string(), source: Source::Measure { map: 0, measure } };
    let columns = keys.chain(measures.into_iter().map(measure)).collect();
    View { title: map.name.clone(), maps: vec![place], columns, order: None, top: None, every: None }
}
