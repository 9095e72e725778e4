//! Views, filled: what maps hold as the rows of a table.
//!
//! In: a [`View`], what its maps hold as bytes, and how to decode that. Out: a [`Table`].
//! Guarantee: the rows of a table, with the one for all others, are everything that the maps held: sums add up, and percentiles of keys
//! that are put together are those of all their values.

mod fill;
mod table;

pub use fill::fill;
pub use table::{Cell, Header, Quantity, Rest, Table};

use profiler_compiler::object::UserMap;
use profiler_compiler::units::Unit;
use profiler_compiler::view::{Column, Measure, Source, View};
use profiler_compiler::{object, types::Type};

use crate::maps::Contents;

/// What a view needs of its maps: each with what it held.
pub type Held<'a> = [(&'a UserMap, &'a Contents)];

/// A view of one map that nobody wrote one for: its key, and what is usually told of its values.
pub fn of_map(place: usize, map: &UserMap) -> View {
    let parts = fill::key_parts(map);
    let name = |part: usize| match &map.key {
        Some(Type::Record(fields)) => fields[part].0.clone(),
        _ if parts == 1 => "key".to_owned(),
        _ => format!("key{}", part + 1),
    };
    let keys = (0..parts).map(|part| Column { header: name(part), source: Source::Key(part) });
    let measures = match &map.value {
        object::MapValue::Aggregate { word, .. } => Measure::usual(*word),
        object::MapValue::Plain(Type::Record(_)) => Vec::new(),
        object::MapValue::Plain(_) => vec![Measure::Value],
    };
    let measure =
        |measure: Measure| Column { header: measure.to_string(), source: Source::Measure { map: 0, measure } };
    let fields = match &map.value {
        object::MapValue::Plain(Type::Record(fields)) => fields.as_slice(),
        _ => &[],
    };
    let field = |(at, (name, ty)): (usize, &(String, Type))| Column {
        header: name.clone(),
        source: Source::field(0, at, ty, Unit::None),
    };
    let fields = fields.iter().enumerate().map(field);
    let columns = keys.chain(measures.into_iter().map(measure)).chain(fields).collect();
    View { title: map.name.clone(), maps: vec![place], columns, order: None, top: None, every: None }
}
