//! Columns of a view, by the names that people write.
//!
//! In: names, and the maps of the view with their types. Out: [`Column`]s.
//! Guarantee: every column can be told from what a row has, also where a row is several keys.

use super::{Reader, id, spelled};
use crate::ast::{self, ViewName};
use crate::diagnostic::{Code, Diagnostic};
use crate::similar;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::typed::MapValue;
use crate::types::Type;
use crate::units::Unit;
use crate::view::{Column, Measure, Source};

impl Reader<'_> {
    fn key_parts(&self) -> usize {
        match &self.map(0).key {
            None => 0,
            Some(Type::Tuple(parts)) => parts.len(),
            Some(Type::Record(parts)) => parts.len(),
            Some(_) => 1,
        }
    }

    /// What a part of the key is called: by a record's field, by what was written, or by its number.
    fn key_name(&self, part: usize) -> String {
        if let Some(Type::Record(parts)) = &self.map(0).key {
            return parts[part].0.clone();
        }
        let written = (0..self.shown.len()).find_map(|map| self.names.first(&id(self.map(map)), part));
        written.unwrap_or_else(|| numbered(part, self.key_parts()))
    }

    pub(super) fn usual_columns(&self) -> Vec<Column> {
        let keys = (0..self.key_parts()).map(|part| Column { header: self.key_name(part), source: Source::Key(part) });
        let several = self.shown.len() > 1;
        let measures = (0..self.shown.len()).flat_map(|map| self.usual_of(map)).map(|(map, name, source)| {
            let header = if several { format!("{}.{name}", spelled(&id(self.map(map)))) } else { name };
            Column { header, source }
        });
        keys.chain(measures).collect()
    }

    /// What is shown of a map when the view does not say.
    fn usual_of(&self, map: usize) -> Vec<(usize, String, Source)> {
        let fields = self.fields(map);
        if !fields.is_empty() {
            return fields
                .iter()
                .map(|(name, _)| name)
                .filter_map(|name| Some((map, name.clone(), self.field(map, name)?)))
                .collect();
        }
        let measures = match &self.map(map).value {
            MapValue::Aggregate { word, .. } => Measure::usual(*word),
            MapValue::Plain(_) => vec![Measure::Value],
        };
        measures.into_iter().map(|measure| (map, measure.to_string(), Source::Measure { map, measure })).collect()
    }

    /// The fields of a map's records.
    fn fields(&self, place: usize) -> &[(String, Type)] {
        match &self.map(place).value {
            MapValue::Plain(Type::Record(fields)) => fields,
            _ => &[],
        }
    }

    fn field(&self, place: usize, name: &str) -> Option<Source> {
        let at = self.fields(place).iter().position(|(field, _)| field == name)?;
        let known = self.map(place).field_units.iter().find(|(field, _)| field == name);
        Some(Source::field(place, at, &self.fields(place)[at].1, known.map_or(Unit::None, |(_, unit)| *unit)))
    }

    pub(super) fn columns(&self) -> Result<Vec<Column>, Diagnostic> {
        let mut columns = Vec::new();
        for written in &self.written.show {
            let source = self.source(&written.name)?;
            let as_written = || {
                let map = written.name.map.as_ref().map_or(String::new(), |map| format!("{}.", spelled(&map.text)));
                format!("{map}{}", written.name.name.text)
            };
            let header = written.header.as_ref().map_or_else(as_written, |header| header.text.clone());
            columns.push(Column { header, source });
        }
        for (column, written) in columns.iter().zip(&self.written.show) {
            self.can_be_put_together(column.source, &columns, &written.name)?;
        }
        Ok(columns)
    }

    /// The parts of the key that are not shown.
    fn hidden(&self, columns: &[Column]) -> Vec<usize> {
        let is_shown = |part: &usize| columns.iter().any(|column| column.source == Source::Key(*part));
        (0..self.key_parts()).filter(|part| !is_shown(part)).collect()
    }

    /// What a view with these columns does to keys.
    fn puts_together(&self, columns: &[Column]) -> String {
        let shown = |part: &usize| columns.iter().any(|column| column.source == Source::Key(*part));
        let alike: Vec<String> =
            (0..self.key_parts()).filter(shown).map(|part| format!("`{}`", self.key_name(part))).collect();
        match alike.as_slice() {
            [] => "this view puts all keys together".to_owned(),
            alike => format!("this view puts all keys with the same {} together", alike.join(" and ")),
        }
    }

    /// A value that was assigned to one key is no value of several.
    fn can_be_put_together(&self, source: Source, columns: &[Column], written: &ViewName) -> Result<(), Diagnostic> {
        let (map, adds_up) = match source {
            Source::Measure { map, measure: Measure::Value } => {
                (map, self.tells(map, Measure::Statistic(Statistic::Sum)))
            }
            Source::Field { map, .. } => (map, false),
            _ => return Ok(()),
        };
        let hidden = self.hidden(columns);
        let Some(first) = hidden.first() else { return Ok(()) };
        let message = format!(
            "{}, and `{}` of `{}` is one key's",
            self.puts_together(columns),
            written.name.text,
            self.map(map).name
        );
        let all: Vec<String> = hidden.iter().map(|part| format!("`{}`", self.key_name(*part))).collect();
        let one = if hidden.len() == 1 { format!("`{}`", self.key_name(*first)) } else { all.join(" and ") };
        let or = if adds_up { "; or `sum`, which adds the values up" } else { "" };
        Err(Diagnostic::error(Code(257), written.span, message)
            .help(format!("show {one} as well, so that each key has its row{or}")))
    }

    /// Rows are ordered by what they have: a part of the key that is shown, or a number of all keys of the row together.
    pub(super) fn can_sort(&self, by: Source, columns: &[Column], sort: &ast::Sort) -> Result<(), Diagnostic> {
        match by {
            Source::Key(part) if self.hidden(columns).contains(&part) => {
                let name = self.key_name(part);
                let message = format!(
                    "{}, so a row has no `{}` to be sorted by",
                    self.puts_together(columns),
                    sort.name.name.text
                );
                Err(Diagnostic::error(Code(258), sort.name.span, message)
                    .help(format!("show `{name}` as well, or sort by a column")))
            }
            Source::Key(_) => Ok(()),
            source => self.can_be_put_together(source, columns, &sort.name),
        }
    }

    pub(super) fn source(&self, written: &ViewName) -> Result<Source, Diagnostic> {
        let name = written.name.text.as_str();
        let Some(map) = &written.map else { return self.bare(name, written.span) };
        let place = (0..self.shown.len()).find(|place| id(self.map(*place)) == map.text).ok_or_else(|| {
            let (first, other) = (spelled(&self.written.of[0].text), spelled(&map.text));
            Diagnostic::error(Code(235), map.span, format!("`{other}` is not among the maps of this view"))
                .help(format!("add it: `of {first}, {other}`"))
        })?;
        if let Some(field) = self.field(place, name) {
            return Ok(field);
        }
        let measure = Measure::named(name).ok_or_else(|| self.unknown(name, written.name.span))?;
        if self.tells(place, measure) {
            return Ok(Source::Measure { map: place, measure });
        }
        Err(self.not_kept(place, measure, written.span))
    }

    /// A column without a map's name: a number, a part of the key, or a field.
    fn bare(&self, name: &str, span: Span) -> Result<Source, Diagnostic> {
        let measure = Measure::named(name);
        let is_told = |measure: Measure| (0..self.shown.len()).any(|place| self.tells(place, measure));
        if let Some(measure) = measure.filter(|measure| is_told(*measure)) {
            return self.measure_of_any(measure, span);
        }
        if let Some(part) = self.key_part(name) {
            return Ok(Source::Key(part));
        }
        let fields: Vec<(usize, Source)> =
            (0..self.shown.len()).filter_map(|place| Some((place, self.field(place, name)?))).collect();
        match (fields.as_slice(), measure) {
            ([(_, field)], _) => Ok(*field),
            ([(first, _), (second, _), ..], _) => Err(self.several(name, *first, *second, span)),
            ([], Some(measure)) => self.measure_of_any(measure, span),
            ([], None) => Err(self.unknown(name, span)),
        }
    }

    fn several(&self, name: &str, first: usize, second: usize, span: Span) -> Diagnostic {
        let (first, second) = (&self.map(first).name, &self.map(second).name);
        Diagnostic::error(Code(230), span, format!("several maps of this view have a `{name}`"))
            .help(format!("say whose: `{first}.{name}` or `{second}.{name}`"))
    }

    fn measure_of_any(&self, measure: Measure, span: Span) -> Result<Source, Diagnostic> {
        let telling: Vec<usize> = (0..self.shown.len()).filter(|place| self.tells(*place, measure)).collect();
        match telling.as_slice() {
            [map] => Ok(Source::Measure { map: *map, measure }),
            [] => Err(self.not_kept(0, measure, span)),
            [first, second, ..] => Err(self.several(&measure.to_string(), *first, *second, span)),
        }
    }

    fn tells(&self, place: usize, measure: Measure) -> bool {
        match &self.map(place).value {
            MapValue::Aggregate { word, .. } => measure.is_told_by(*word),
            MapValue::Plain(ty) => match measure {
                // A field of this name hides it.
                Measure::Value => self.field(place, "value").is_none(),
                Measure::Statistic(Statistic::Sum) | Measure::Rate | Measure::Share => {
                    matches!(ty, Type::Int(_)) && adds_up(self.map(place).unit)
                }
                Measure::Statistic(_) => false,
            },
        }
    }

    fn tells_percentiles(&self, place: usize) -> bool {
        Statistic::named("p50").is_some_and(|median| self.tells(place, Measure::Statistic(median)))
    }

    fn key_part(&self, name: &str) -> Option<usize> {
        let parts = self.key_parts();
        if let Some(Type::Record(fields)) = &self.map(0).key {
            return fields.iter().position(|(field, _)| field == name);
        }
        (0..parts).find(|part| numbered(*part, parts) == name || (parts == 1 && name == "key1")).or_else(|| {
            let maps = || (0..self.shown.len()).map(|map| id(self.map(map)));
            (0..parts).find(|part| maps().any(|map| self.names.has(&map, *part, name)))
        })
    }

    fn unknown(&self, name: &str, span: Span) -> Diagnostic {
        let keys: Vec<String> = (0..self.key_parts()).map(|part| self.key_name(part)).collect();
        let measures = Measure::NAMES.iter().filter_map(|name| {
            let measure = Measure::named(name)?;
            (0..self.shown.len()).any(|place| self.tells(place, measure)).then(|| (*name).to_owned())
        });
        let percentiles = (0..self.shown.len()).any(|place| self.tells_percentiles(place)).then(|| "p99".to_owned());
        let fields = (0..self.shown.len()).flat_map(|place| self.fields(place)).map(|(field, _)| field.clone());
        let known: Vec<String> = keys.into_iter().chain(measures).chain(percentiles).chain(fields).collect();
        let help = match similar::nearest(name, known.iter().map(String::as_str), 1).first() {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("this view can show {}", known.join(", ")),
        };
        Diagnostic::error(Code(230), span, format!("this view has no column `{name}`")).help(help)
    }

    fn not_kept(&self, place: usize, measure: Measure, span: Span) -> Diagnostic {
        let map = self.map(place);
        let holds = match &map.value {
            MapValue::Aggregate { word, .. } => format!("`{}()`", word.name()),
            MapValue::Plain(Type::Record(_)) => "records".to_owned(),
            MapValue::Plain(Type::Int(_)) if !adds_up(map.unit) => {
                format!("{}s", map.unit.noun().trim_start_matches("a "))
            }
            MapValue::Plain(ty) => format!("values of type {}", ty.describe(self.btf)),
        };
        let does = if holds.starts_with('`') { "does" } else { "do" };
        let message = format!("`{}` holds {holds}, which {does} not tell `{measure}`", map.name);
        let shown = Measure::NAMES
            .into_iter()
            .filter(|name| Measure::named(name).is_some_and(|measure| self.tells(place, measure)));
        let fields = self.fields(place).iter().map(|(field, _)| field.as_str());
        let shown: Vec<&str> = shown.chain(self.tells_percentiles(place).then_some("p99")).chain(fields).collect();
        Diagnostic::error(Code(231), span, message).help(format!("it tells {}", shown.join(", ")))
    }
}

fn numbered(part: usize, parts: usize) -> String {
    if parts == 1 { "key".into() } else { format!("key{}", part + 1) }
}

/// Whether the sum of some quantities is one: moments and percentages are not added up.
fn adds_up(unit: Unit) -> bool {
    !matches!(unit, Unit::Time | Unit::Percent)
}
