//! Views: which maps, which columns, when.
//!
//! In: the views of the tree, and the maps whose types are known. Out: [`View`]s.
//! Guarantee: every column of a view can be told from its maps, and what one view clears no other view shows.

mod columns;
mod names;

use crate::ast::{self, ExprKind, Ident, STATE_MARK, Script};
use crate::btf::Btf;
use crate::check::{Report, params};
use crate::diagnostic::{Code, Diagnostic};
use crate::params::{Param, Type as ParamType};
use crate::similar;
use crate::target::Target;
use crate::typed::Map;
use crate::types::Type;
use crate::view::{Every, Order, Source, Top, View};
use names::KeyNames;

/// The shortest time between two windows.
const MIN_PERIOD_NS: u64 = 1_000_000;

/// The longest: a day.
const MAX_PERIOD_NS: u64 = 86_400_000_000_000;

/// Most rows of a view.
const MAX_ROWS: u64 = 1_000_000;

/// The views of a script.
pub fn check(
    script: &Script,
    maps: &[Map],
    params: &mut [Param],
    target: &dyn Target,
    report: &mut Report,
) -> Vec<View> {
    let names = KeyNames::of(script);
    let mut views = Vec::new();
    for written in &script.views {
        match (Reader { written, maps, params, names: &names, btf: target.btf(), shown: Vec::new() }).view() {
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
    params: &'a mut [Param],
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
                let mut sources = columns.iter().map(|column| column.source);
                sources.find(Source::is_number).map(|by| Order { by, ascending: false })
            }
            Some(sort) => {
                let by = self.source(&sort.name)?;
                self.can_sort(by, &columns, sort)?;
                Some(Order { by, ascending: sort.ascending.unwrap_or(!by.is_number()) })
            }
        };
        let top = match &self.written.top {
            None => None,
            Some(top) => {
                self.amount(&top.rows, ("top", ParamType::Int), rows)?.map(|rows| Top { rows, rest: top.rest })
            }
        };
        let every = match &self.written.every {
            None => None,
            Some(every) => self
                .amount(&every.period, ("every", ParamType::Duration), period)?
                .map(|period_ns| Every { period_ns, clear: every.clear }),
        };
        Ok(View { title: self.written.title.text.clone(), maps: self.shown, columns, order, top, every })
    }

    /// The number of a clause, which a parameter may give.
    fn amount<T>(
        &mut self,
        written: &ast::Expr,
        clause: (&str, ParamType),
        read: impl Fn(&ast::Expr) -> Result<T, Diagnostic>,
    ) -> Result<Option<T>, Diagnostic> {
        let Some((number, param)) = params::in_clause(written, clause, self.params)? else { return Ok(None) };
        let param = param.map(|index| &self.params[index]);
        read(&number).map(Some).map_err(|problem| params::blame(problem, param))
    }

    fn map(&self, place: usize) -> &Map {
        &self.maps[self.shown[place]]
    }

    /// A map that nothing is assigned to, or a state that is not declared.
    fn missing(&self, ident: &Ident) -> Diagnostic {
        let Some(name) = ident.text.strip_prefix(STATE_MARK) else {
            let message = format!("nothing is ever assigned to `@{}`", ident.text);
            return Diagnostic::error(Code(204), ident.span, message);
        };
        let error = Diagnostic::error(Code(259), ident.span, format!("there is no state `{name}`"));
        // What modules keep to themselves has a quote in its name.
        let own = self.maps.iter().map(|map| map.name.as_str()).filter(|name| !name.contains('\''));
        let known: Vec<&str> = own.collect();
        match similar::nearest(name, known.iter().map(|name| name.trim_start_matches('@')), 1).first() {
            Some(near) => {
                let of_map = known.iter().any(|name| name.strip_prefix('@') == Some(near));
                error.help(format!("did you mean `{}{near}`?", if of_map { "@" } else { "" }))
            }
            None => error.help("a view is of maps, as in `of @map`, or of states, as in `of thread`"),
        }
    }

    fn find_maps(&mut self) -> Result<(), Diagnostic> {
        for ident in &self.written.of {
            // What nothing is assigned to was reported as such.
            let found = self.maps.iter().position(|map| id(map) == ident.text).ok_or_else(|| self.missing(ident))?;
            if self.shown.contains(&found) {
                let message = format!("`{}` is in this view already", self.maps[found].name);
                return Err(Diagnostic::error(Code(235), ident.span, message));
            }
            if self.written.every.as_ref().is_some_and(|every| every.clear) && ident.text.starts_with(STATE_MARK) {
                let message = "a view of a state shows how things are, and has no windows";
                return Err(Diagnostic::error(Code(260), ident.span, message)
                    .help("leave `clear` out; what happens in a window is counted in a map"));
            }
            self.shown.push(found);
        }
        let Some((first, rest)) = self.shown.split_first() else { return Err(self.missing(&self.written.title)) };
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
}

/// What a map is called in the tree.
fn id(map: &Map) -> String {
    map.name.strip_prefix('@').map_or_else(|| format!("{STATE_MARK}{}", map.name), str::to_owned)
}

/// What a map of the tree is called by its user. What a module keeps to itself has the module's name and a quote in front.
fn spelled(id: &str) -> String {
    let (sigil, name) = id.strip_prefix(STATE_MARK).map_or(("@", id), |name| ("", name));
    format!("{sigil}{}", name.rsplit('\'').next().unwrap_or(name))
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
