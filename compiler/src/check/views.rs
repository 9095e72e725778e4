//! Views: which maps, which columns, when.
//!
//! In: the views of the tree, and the maps whose types are known. Out: [`View`]s.
//! Guarantee: every column of a view can be told from its maps, and what one view clears no other view shows.

mod names;

use crate::ast::{self, ExprKind, Ident, Script, ViewName};
use crate::btf::Btf;
use crate::check::Report;
use crate::diagnostic::{Code, Diagnostic};
use crate::similar;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::target::Target;
use crate::typed::{Map, MapValue};
use crate::types::Type;
use crate::view::{Column, Every, Measure, Order, Source, Top, View};
use names::KeyNames;

/// The shortest time between two windows.
const MIN_PERIOD_NS: u64 = 1_000_000;

/// The longest: a day.
const MAX_PERIOD_NS: u64 = 86_400_000_000_000;

/// Most rows of a view.
const MAX_ROWS: u64 = 1_000_000;

/// The views of a script.
pub fn check(script: &Script, maps: &[Map], target: &dyn Target, report: &mut Report) -> Vec<View> {
    let names = KeyNames::of(script);
    let mut views = Vec::new();
    for written in &script.views {
        match (Reader { written, maps, names: &names, btf: target.btf(), shown: Vec::new() }).view() {
            Ok(view) => views.push(view),
            Err(diagnostic) => report.push(diagnostic),
        }
    }
    if views.len() == script.views.len() {
        windows(script, &views, maps, report);
    }
    views
}

/// Whether the windows of all views go together.
fn windows(script: &Script, views: &[View], maps: &[Map], report: &mut Report) {
    let clears = |view: &View| view.every.filter(|every| every.clear).map(|every| every.period_ns);
    let both = || views.iter().zip(&script.views);
    let Some((first, first_written)) = both().find(|(view, _)| clears(view).is_some()) else { return };
    for (view, written) in both() {
        if let (Some(period), Some(length)) = (clears(view), clears(first))
            && period != length
        {
            let span = written.every.as_ref().map_or(written.span, |every| every.period.span);
            let other = first_written.every.as_ref().map_or(written.span, |every| every.period.span);
            report.push(
                Diagnostic::error(Code(234), span, "all windows of a script have the same length")
                    .related(other, "this one is of another length"),
            );
            return;
        }
        let Some((other, clearing)) = both().find(|(other, _)| {
            clears(other).is_some() && clears(view).is_none() && other.maps.iter().any(|map| view.maps.contains(map))
        }) else {
            continue;
        };
        let shared = other.maps.iter().find(|map| view.maps.contains(map)).and_then(|map| maps.get(*map));
        let name = shared.map_or("", |map| map.name.as_str());
        report.push(
            Diagnostic::error(
                Code(233),
                written.title.span,
                format!("this view shows `{name}`, which another view clears"),
            )
            .related(clearing.title.span, "this one")
            .help("let this view be `every … clear` as well, or fill a second map for it"),
        );
    }
}

/// One view being read.
struct Reader<'a> {
    written: &'a ast::View,
    maps: &'a [Map],
    names: &'a KeyNames,
    btf: Option<&'a Btf>,
    /// Its maps, by their place among all.
    shown: Vec<usize>,
}

impl Reader<'_> {
    fn view(mut self) -> Result<View, Diagnostic> {
        self.find_maps()?;
        let columns = if self.written.show.is_empty() { self.usual_columns() } else { self.columns()? };
        let order = match &self.written.sort {
            None => {
                columns.iter().map(|column| column.source).find(is_measure).map(|by| Order { by, ascending: false })
            }
            Some(sort) => {
                let by = self.source(&sort.name)?;
                Some(Order { by, ascending: sort.ascending.unwrap_or(!is_measure(&by)) })
            }
        };
        let top = match &self.written.top {
            None => None,
            Some(top) => Some(Top { rows: rows(&top.rows)?, rest: top.rest }),
        };
        let every = match &self.written.every {
            None => None,
            Some(every) => Some(Every { period_ns: period(&every.period)?, clear: every.clear }),
        };
        Ok(View { title: self.written.title.text.clone(), maps: self.shown, columns, order, top, every })
    }

    fn map(&self, place: usize) -> &Map {
        &self.maps[self.shown[place]]
    }

    fn find_maps(&mut self) -> Result<(), Diagnostic> {
        for ident in &self.written.of {
            // What nothing is assigned to was reported as such.
            let found = self.maps.iter().position(|map| map.name[1..] == ident.text).ok_or_else(|| never(ident))?;
            if self.shown.contains(&found) {
                let message = format!("`@{}` is in this view already", ident.text);
                return Err(Diagnostic::error(Code(235), ident.span, message));
            }
            self.shown.push(found);
        }
        let Some((first, rest)) = self.shown.split_first() else { return Err(never(&self.written.title)) };
        for (map, ident) in rest.iter().zip(&self.written.of[1..]) {
            let (one, other) = (&self.maps[*first], &self.maps[*map]);
            if !same_key(one.key.as_ref(), other.key.as_ref()) {
                let words = |key: &Type| {
                    let words = key.describe(self.btf);
                    format!("the key [{}]", words.strip_prefix('(').and_then(|w| w.strip_suffix(')')).unwrap_or(&words))
                };
                let key = |map: &Map| map.key.as_ref().map_or("no key".to_owned(), words);
                let message = format!("`{}` has {}, `{}` has {}", one.name, key(one), other.name, key(other));
                return Err(Diagnostic::error(Code(232), ident.span, message)
                    .help("the rows of a view are keys: all of its maps must have the same"));
            }
        }
        Ok(())
    }

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
        let written = (0..self.shown.len()).find_map(|map| self.names.first(&self.map(map).name[1..], part));
        written.unwrap_or_else(|| numbered(part, self.key_parts()))
    }

    fn usual_columns(&self) -> Vec<Column> {
        let keys = (0..self.key_parts()).map(|part| Column { header: self.key_name(part), source: Source::Key(part) });
        let several = self.shown.len() > 1;
        let measures = (0..self.shown.len()).flat_map(|map| {
            let measures = match &self.map(map).value {
                MapValue::Aggregate { word, .. } => Measure::usual(*word),
                MapValue::Plain(_) => vec![Measure::Value],
            };
            measures.into_iter().map(move |measure| (map, measure))
        });
        let column = |(map, measure): (usize, Measure)| {
            let header = if several { format!("{}.{measure}", self.map(map).name) } else { measure.to_string() };
            Column { header, source: Source::Measure { map, measure } }
        };
        keys.chain(measures.map(column)).collect()
    }

    fn columns(&self) -> Result<Vec<Column>, Diagnostic> {
        let mut columns = Vec::new();
        for written in &self.written.show {
            let source = self.source(&written.name)?;
            let as_written = || {
                let map = written.name.map.as_ref().map_or(String::new(), |map| format!("@{}.", map.text));
                format!("{map}{}", written.name.name.text)
            };
            let header = written.header.as_ref().map_or_else(as_written, |header| header.text.clone());
            columns.push(Column { header, source });
        }
        Ok(columns)
    }

    fn source(&self, written: &ViewName) -> Result<Source, Diagnostic> {
        let name = written.name.text.as_str();
        let Some(map) = &written.map else {
            return match Measure::named(name) {
                Some(measure) => self.measure_of_any(measure, written.span),
                None => self.key_part(name).map(Source::Key).ok_or_else(|| self.unknown(name, written.span)),
            };
        };
        let place = (0..self.shown.len()).find(|place| self.map(*place).name[1..] == map.text).ok_or_else(|| {
            Diagnostic::error(Code(235), map.span, format!("`@{}` is not among the maps of this view", map.text))
                .help(format!("add it: `of @{}, @{}`", self.written.of[0].text, map.text))
        })?;
        let measure = Measure::named(name).ok_or_else(|| self.unknown(name, written.name.span))?;
        if self.tells(place, measure) {
            return Ok(Source::Measure { map: place, measure });
        }
        Err(self.not_kept(place, measure, written.span))
    }

    fn measure_of_any(&self, measure: Measure, span: Span) -> Result<Source, Diagnostic> {
        let telling: Vec<usize> = (0..self.shown.len()).filter(|place| self.tells(*place, measure)).collect();
        match telling.as_slice() {
            [map] => Ok(Source::Measure { map: *map, measure }),
            [] => Err(self.not_kept(0, measure, span)),
            [first, second, ..] => {
                let (first, second) = (&self.map(*first).name, &self.map(*second).name);
                Err(Diagnostic::error(Code(230), span, format!("several maps of this view have a `{measure}`"))
                    .help(format!("say whose: `{first}.{measure}` or `{second}.{measure}`")))
            }
        }
    }

    fn tells(&self, place: usize, measure: Measure) -> bool {
        match &self.map(place).value {
            MapValue::Aggregate { word, .. } => measure.is_told_by(*word),
            MapValue::Plain(ty) => match measure {
                Measure::Value => true,
                Measure::Statistic(Statistic::Sum) | Measure::Rate | Measure::Share => ty.as_int().is_some(),
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
            let maps = || (0..self.shown.len()).map(|map| &self.map(map).name[1..]);
            (0..parts).find(|part| maps().any(|map| self.names.has(map, *part, name)))
        })
    }

    fn unknown(&self, name: &str, span: Span) -> Diagnostic {
        let keys: Vec<String> = (0..self.key_parts()).map(|part| self.key_name(part)).collect();
        let measures = Measure::NAMES.iter().filter_map(|name| {
            let measure = Measure::named(name)?;
            (0..self.shown.len()).any(|place| self.tells(place, measure)).then(|| (*name).to_owned())
        });
        let percentiles = (0..self.shown.len()).any(|place| self.tells_percentiles(place)).then(|| "p99".to_owned());
        let known: Vec<String> = keys.into_iter().chain(measures).chain(percentiles).collect();
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
            MapValue::Plain(ty) => format!("values of type {}", ty.describe(self.btf)),
        };
        let message = format!("`{}` holds {holds}, which does not tell `{measure}`", map.name);
        let shown = Measure::NAMES
            .into_iter()
            .filter(|name| Measure::named(name).is_some_and(|measure| self.tells(place, measure)));
        let shown: Vec<&str> = shown.chain(self.tells_percentiles(place).then_some("p99")).collect();
        Diagnostic::error(Code(231), span, message).help(format!("it tells {}", shown.join(", ")))
    }
}

fn numbered(part: usize, parts: usize) -> String {
    if parts == 1 { "key".into() } else { format!("key{}", part + 1) }
}

fn is_measure(source: &Source) -> bool {
    matches!(source, Source::Measure { .. })
}

fn never(ident: &Ident) -> Diagnostic {
    Diagnostic::error(Code(204), ident.span, format!("nothing is ever assigned to `@{}`", ident.text))
}

/// Whether keys of two maps can be the same.
fn same_key(one: Option<&Type>, other: Option<&Type>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(Type::Tuple(one)), Some(Type::Tuple(other))) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same_key(Some(a), Some(b)))
        }
        (Some(Type::Str { .. }), Some(Type::Str { .. })) | (Some(Type::Int(_)), Some(Type::Int(_))) => true,
        (one, other) => one == other,
    }
}

fn rows(written: &ast::Expr) -> Result<u32, Diagnostic> {
    match written.kind {
        ExprKind::Int(rows) if (1..=MAX_ROWS).contains(&rows) => Ok(rows as u32),
        _ => Err(Diagnostic::error(Code(520), written.span, format!("a view has 1 to {MAX_ROWS} rows"))
            .help("leave `top` out to show all")),
    }
}

fn period(written: &ast::Expr) -> Result<u64, Diagnostic> {
    match written.kind {
        ExprKind::Duration(period) if (MIN_PERIOD_NS..=MAX_PERIOD_NS).contains(&period) => Ok(period),
        ExprKind::Int(number) => Err(Diagnostic::error(Code(520), written.span, "this time has no unit")
            .help(format!("write `every {number}s` for seconds, `every {number}ms` for milliseconds"))),
        _ => Err(Diagnostic::error(
            Code(520),
            written.span,
            "a view is shown every 1ms at most, and at least once a day",
        )),
    }
}
