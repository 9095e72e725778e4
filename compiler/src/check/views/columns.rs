//! Resolves the columns of a view by name.
//!
//! In: names, and the view's maps with their types. Out: [`Column`]s.
//! Guarantee: every column can be computed from a row, even if the row combines several keys.

use super::spelling::spell;
use super::{Reader, functions, id, spelled};
use crate::ast::{self, Ident};
use crate::diagnostic::{Code, Diagnostic};
use crate::similar;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::typed::MapValue;
use crate::types::Type;
use crate::units::Unit;
use crate::view::{Column, Measure, Order, Source};

impl Reader<'_> {
    pub(super) fn key_parts(&self) -> usize {
        self.map_parts() + functions::more_parts(self)
    }

    /// How many parts the keys of the maps have.
    pub(super) fn map_parts(&self) -> usize {
        match &self.map(0).key {
            None => 0,
            Some(Type::Tuple(parts)) => parts.len(),
            Some(Type::Record(parts)) => parts.len(),
            Some(_) => 1,
        }
    }

    /// The type of a part of the maps' keys.
    pub(super) fn key_type(&self, part: usize) -> Option<&Type> {
        match self.map(0).key.as_ref()? {
            Type::Tuple(parts) => parts.get(part),
            Type::Record(parts) => parts.get(part).map(|(_, ty)| ty),
            ty => (part == 0).then_some(ty),
        }
    }

    /// The name of a key part: a record's field, the expression written in the script, or its
    /// number.
    fn key_name(&self, part: usize) -> String {
        if let Some(name) = functions::part_name(self, part) {
            return name.to_owned();
        }
        if let Some(Type::Record(parts)) = &self.map(0).key {
            return parts[part].0.clone();
        }
        let written = (0..self.shown.len()).find_map(|map| self.names.first(&id(self.map(map)), part));
        written.unwrap_or_else(|| numbered(part, self.map_parts()))
    }

    pub(super) fn usual_columns(&self) -> Vec<Column> {
        // A view by function has no place for stacks.
        let parts =
            if functions::more_parts(self) > 0 { self.map_parts()..self.key_parts() } else { 0..self.key_parts() };
        let keys = parts.map(|part| Column { header: self.key_name(part), source: Source::Key(part) });
        let measures = (0..self.shown.len())
            .flat_map(|map| self.usual_of(map))
            .map(|(map, name, source)| Column { header: format!("{}{name}", functions::prefix(self, map)), source });
        keys.chain(measures).collect()
    }

    /// The default columns of a map.
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
            MapValue::Aggregate { word, .. } => Measure::usual(self.catalogue.aggregation_of(word)),
            MapValue::Plain(_) => vec![Measure::Value],
        };
        measures.into_iter().map(|measure| (map, measure.to_string(), Source::Measure { map, measure })).collect()
    }

    /// The fields of a map's records.
    pub(super) fn fields(&self, place: usize) -> &[(String, Type)] {
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

    pub(super) fn columns(&mut self) -> Result<Vec<Column>, Diagnostic> {
        let mut columns = Vec::new();
        for written in &self.written.show {
            let source = self.value(&written.value)?;
            let header = written.header.as_ref().map_or_else(|| spell(&written.value), |header| header.text.clone());
            columns.push(Column { header, source });
        }
        for (column, written) in columns.iter().zip(&self.written.show) {
            for source in self.sources_of(column.source) {
                self.can_be_put_together(source, &columns, written.value.span)?;
                functions::shows_no_stack(self, source, written.value.span)?;
            }
        }
        Ok(columns)
    }

    /// The sources that a column is computed from, or itself.
    fn sources_of(&self, source: Source) -> Vec<Source> {
        match source {
            Source::Computed { place, .. } => self.computed[place].formula.sources(),
            plain => vec![plain],
        }
    }

    /// The key parts that are not shown.
    fn hidden(&self, columns: &[Column]) -> Vec<usize> {
        (0..self.key_parts()).filter(|part| !self.is_shown(*part, columns)).collect()
    }

    fn is_shown(&self, part: usize, columns: &[Column]) -> bool {
        columns.iter().any(|column| self.sources_of(column.source).contains(&Source::Key(part)))
    }

    /// Describes how a view with these columns groups keys.
    fn puts_together(&self, columns: &[Column]) -> String {
        let shown = |part: &usize| self.is_shown(*part, columns);
        let alike: Vec<String> =
            (0..self.key_parts()).filter(shown).map(|part| format!("`{}`", self.key_name(part))).collect();
        match alike.as_slice() {
            [] => "this view combines all keys".to_owned(),
            alike => format!("this view combines all keys with the same {}", alike.join(" and ")),
        }
    }

    /// Reports a value that belongs to one key in a row that combines several.
    fn can_be_put_together(&self, source: Source, columns: &[Column], span: Span) -> Result<(), Diagnostic> {
        let (map, name, adds_up) = match source {
            Source::Measure { map, measure: Measure::Value } => {
                (map, "value", self.provides(map, Measure::Statistic(Statistic::Sum)))
            }
            Source::Field { map, field, .. } => (map, self.fields(map)[field].0.as_str(), false),
            _ => return Ok(()),
        };
        let hidden = self.hidden(columns);
        let Some(first) = hidden.first() else { return Ok(()) };
        let message = format!(
            "{}, but `{name}` of `{}` belongs to a single key",
            self.puts_together(columns),
            self.map(map).name
        );
        let all: Vec<String> = hidden.iter().map(|part| format!("`{}`", self.key_name(*part))).collect();
        let one = if hidden.len() == 1 { format!("`{}`", self.key_name(*first)) } else { all.join(" and ") };
        let or = if adds_up { "; or `sum`, which adds the values up" } else { "" };
        Err(Diagnostic::error(Code(257), span, message)
            .help(format!("show {one} as well, so that each key has its row{or}")))
    }

    /// Sorting and filtering use values of a row: a key part that is shown, or a number over all
    /// keys of the row.
    pub(super) fn is_of_row(
        &self,
        sources: &[Source],
        columns: &[Column],
        span: Span,
        purpose: &str,
    ) -> Result<(), Diagnostic> {
        for source in sources {
            let Source::Key(part) = source else {
                self.can_be_put_together(*source, columns, span)?;
                continue;
            };
            if !self.is_shown(*part, columns) {
                let name = self.key_name(*part);
                let message = format!("{}, so a row has no `{name}` to {purpose} by", self.puts_together(columns));
                return Err(Diagnostic::error(Code(258), span, message)
                    .help(format!("show `{name}` as well, or name a column that is shown")));
            }
        }
        Ok(())
    }

    /// The sort order of the rows.
    pub(super) fn order(&mut self, sort: &ast::Sort, columns: &[Column]) -> Result<Order, Diagnostic> {
        let by = self.value(&sort.by)?;
        self.is_of_row(&self.sources_of(by), columns, sort.by.span, "sort")?;
        Ok(Order { by, ascending: sort.ascending.unwrap_or(!by.is_number()) })
    }

    /// Resolves a column by name, optionally qualified by a map.
    pub(super) fn source(&self, map: Option<(&str, Span)>, name: &Ident, span: Span) -> Result<Source, Diagnostic> {
        let (written, name) = (name.span, name.text.as_str());
        let Some((map, map_span)) = map else { return self.bare(name, span) };
        let of_map = || (0..self.shown.len()).find(|place| id(self.map(*place)) == map);
        let place = functions::innermost(self, map).or_else(of_map).ok_or_else(|| {
            let (first, other) = (spelled(&self.written.of[0].text), spelled(map));
            Diagnostic::error(Code(235), map_span, format!("`{other}` is not among the maps of this view"))
                .help(format!("add it: `of {first}, {other}`"))
        })?;
        if let Some(field) = self.field(place, name) {
            return Ok(field);
        }
        let measure = Measure::named(name).ok_or_else(|| self.unknown(name, written))?;
        if self.provides(place, measure) {
            return Ok(Source::Measure { map: place, measure });
        }
        Err(self.not_kept(place, measure, span))
    }

    /// Resolves a column without a map: a measure, a key part, or a field.
    fn bare(&self, name: &str, span: Span) -> Result<Source, Diagnostic> {
        let measure = Measure::named(name);
        let is_told =
            |measure: Measure| (0..functions::different_maps(self)).any(|place| self.provides(place, measure));
        if let Some(measure) = measure.filter(|measure| is_told(*measure)) {
            return self.measure_of_any(measure, span);
        }
        if let Some(part) = self.key_part(name) {
            return Ok(Source::Key(part));
        }
        let fields: Vec<(usize, Source)> =
            (0..functions::different_maps(self)).filter_map(|place| Some((place, self.field(place, name)?))).collect();
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
            .help(format!("qualify it: `{first}.{name}` or `{second}.{name}`"))
    }

    fn measure_of_any(&self, measure: Measure, span: Span) -> Result<Source, Diagnostic> {
        let telling: Vec<usize> =
            (0..functions::different_maps(self)).filter(|place| self.provides(*place, measure)).collect();
        match telling.as_slice() {
            [map] => Ok(Source::Measure { map: *map, measure }),
            [] => Err(self.not_kept(0, measure, span)),
            [first, second, ..] => Err(self.several(&measure.to_string(), *first, *second, span)),
        }
    }

    fn provides(&self, place: usize, measure: Measure) -> bool {
        match &self.map(place).value {
            MapValue::Aggregate { word, .. } => measure.is_provided_by(self.catalogue.aggregation_of(word)),
            MapValue::Plain(ty) => match measure {
                // A field of this name takes precedence.
                Measure::Value => self.field(place, "value").is_none(),
                Measure::Statistic(Statistic::Sum) | Measure::Rate | Measure::Share => {
                    matches!(ty, Type::Int(_)) && adds_up(self.map(place).unit)
                }
                Measure::Statistic(_) | Measure::ShareError => false,
            },
        }
    }

    fn tells_percentiles(&self, place: usize) -> bool {
        Statistic::named("p50").is_some_and(|median| self.provides(place, Measure::Statistic(median)))
    }

    fn key_part(&self, name: &str) -> Option<usize> {
        if let Some(part) = functions::part(self, name) {
            return Some(part);
        }
        let parts = self.map_parts();
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
            (0..self.shown.len()).any(|place| self.provides(place, measure)).then(|| (*name).to_owned())
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
            MapValue::Aggregate { word, .. } => format!("`{word}()`"),
            MapValue::Plain(Type::Record(_)) => "records".to_owned(),
            MapValue::Plain(Type::Int(_)) if !adds_up(map.unit) => {
                format!("{}s", map.unit.noun().trim_start_matches("a "))
            }
            MapValue::Plain(ty) => format!("values of type {}", ty.describe(self.btf)),
        };
        let does = if holds.starts_with('`') { "does" } else { "do" };
        let message = format!("`{}` holds {holds}, which {does} not provide `{measure}`", map.name);
        let shown = Measure::NAMES
            .into_iter()
            .filter(|name| Measure::named(name).is_some_and(|measure| self.provides(place, measure)));
        let fields = self.fields(place).iter().map(|(field, _)| field.as_str());
        let shown: Vec<&str> = shown.chain(self.tells_percentiles(place).then_some("p99")).chain(fields).collect();
        Diagnostic::error(Code(231), span, message).help(format!("it provides {}", shown.join(", ")))
    }
}

fn numbered(part: usize, parts: usize) -> String {
    if parts == 1 { "key".into() } else { format!("key{}", part + 1) }
}

/// Whether values with this unit can be summed: points in time and percentages cannot.
fn adds_up(unit: Unit) -> bool {
    !matches!(unit, Unit::Time | Unit::Percent)
}
