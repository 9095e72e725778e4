//! Fills views: turns map contents into the rows of a table.
//!
//! In: a [`View`], the contents of its maps as bytes, and a decoder for them. Out: a
//! [`Table`](profiler_model::output::Table).
//! Guarantee: the rows of a table, with the summary row of all others, contain everything that the
//! maps held and `where` accepts. Sums add up, and percentiles of merged keys are those of all
//! their values.

mod fill;
mod formula;
mod functions;
mod trust;

pub use fill::{Names, fill, write_identity};

use profiler_model::object::UserMap;
use profiler_model::results::Vocabulary;
use profiler_model::units::Unit;
use profiler_model::view::{Column, Measure, Source, View};
use profiler_model::{object, types::Type};

use crate::maps::Contents;

/// The maps of a view, each with its contents.
pub type Held<'a> = [(&'a UserMap, &'a Contents)];

/// The default view of a map that no view shows: its key, and the usual measures of its values.
pub fn of_map(place: usize, map: &UserMap, vocabulary: &dyn Vocabulary) -> View {
    let parts = fill::key_parts(map);
    let name = |part: usize| match &map.key {
        Some(Type::Record(fields)) => fields[part].0.clone(),
        _ if parts == 1 => "key".to_owned(),
        _ => format!("key{}", part + 1),
    };
    let keys = (0..parts).map(|part| Column { header: name(part), source: Source::Key(part) });
    let measures = match &map.value {
        object::MapValue::Aggregate { word, .. } => vocabulary.aggregation(word).map_or(Vec::new(), Measure::usual),
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
    View { title: map.name.clone(), maps: vec![place], columns, ..View::default() }
}
