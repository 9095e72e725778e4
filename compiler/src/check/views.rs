//! Checks views: their maps, columns, order, filter and period.
//!
//! In: the views of the tree, and the typed maps. Out: [`View`]s.
//! Guarantee: every column of a view can be computed from its maps; a map that one view clears is
//! shown by no view that does not clear it.

mod columns;
mod feeds;
mod flame;
mod formulas;
mod functions;
mod names;
mod spelling;

use crate::ast::{self, ExprKind, Ident, STATE_MARK, Script};
use crate::btf::Btf;
use crate::catalogue::Catalogue;
use crate::check::{Report, params};
use crate::diagnostic::{Code, Diagnostic};
use crate::params::{Param, Type as ParamType};
use crate::similar;
use crate::target::Target;
use crate::typed::{self, Map, Program};
use crate::types::Type;
use crate::view::{Computed, Every, Order, Source, Top, View};
use names::KeyNames;

/// Minimum period of a view.
const MIN_PERIOD_NS: u64 = 1_000_000;

/// Maximum period of a view: a day.
const MAX_PERIOD_NS: u64 = 86_400_000_000_000;

/// Maximum number of rows of a view.
const MAX_ROWS: u64 = 1_000_000;

/// Checks the views of a script, and notes which keys of maps have threads.
pub(super) fn check(
    script: &Script,
    program: &mut Program,
    (catalogue, target): (&Catalogue, &dyn Target),
    report: &mut Report,
) -> Vec<View> {
    let names = KeyNames::of(script);
    program.maps.iter_mut().for_each(|map| map.thread = names.thread(&id(map)));
    let (maps, spans, params) = (&program.maps, &program.spans, &mut program.params);
    let mut views = Vec::new();
    for written in &script.views {
        let reader = Reader {
            written,
            maps,
            params,
            names: &names,
            btf: target.btf(),
            spans,
            catalogue,
            target,
            shown: Vec::new(),
            computed: Vec::new(),
        };
        match reader.view() {
            Ok(view) => {
                let shown: Vec<String> = view.maps.iter().map(|map| id(&maps[*map])).collect();
                views.push(View { fed: feeds::fed(script, &shown), ..view });
            }
            Err(diagnostic) => report.push(diagnostic),
        }
    }
    if views.len() == script.views.len() {
        windows(script, &views, maps, report);
    }
    views
}

/// Checks that the periods of all views are compatible.
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
                Diagnostic::error(Code(234), span, "all windows of a script must have the same length")
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

/// The state of reading one view.
struct Reader<'a> {
    written: &'a ast::View,
    maps: &'a [Map],
    params: &'a mut [Param],
    names: &'a KeyNames,
    btf: Option<&'a Btf>,
    spans: &'a [typed::TimeSpan],
    catalogue: &'a Catalogue,
    target: &'a dyn Target,
    /// Indices of the view's maps among all maps.
    shown: Vec<usize>,
    /// Computed columns and sort keys.
    computed: Vec<Computed>,
}

impl Reader<'_> {
    fn view(mut self) -> Result<View, Diagnostic> {
        self.find_maps()?;
        if let Some(by) = &self.written.by {
            functions::read(&mut self, by)?;
        }
        let columns = if self.written.show.is_empty() { self.usual_columns() } else { self.columns()? };
        let order = match &self.written.sort {
            None => {
                let mut sources = columns.iter().map(|column| column.source);
                sources.find(Source::is_number).map(|by| Order { by, ascending: false })
            }
            Some(sort) => Some(self.order(sort, &columns)?),
        };
        let (requires, filter) = self.conditions(&columns)?;
        let top = match &self.written.top {
            None => None,
            Some(top) => {
                self.amount(&top.rows, ("top", ParamType::Int), rows)?.map(|rows| Top { rows, rest: top.rest })
            }
        };
        let every = match &self.written.every {
            None => None,
            Some(every) => {
                let is_param = matches!(every.period.kind, ExprKind::Var(_));
                let read = |written: &ast::Expr| match written.kind {
                    ExprKind::Duration(0) if is_param => Ok(0),
                    _ => period(written),
                };
                self.amount(&every.period, ("every", ParamType::Duration), read)?
                    // 0 is never: the view is shown at the end of the run.
                    .filter(|period_ns| *period_ns > 0)
                    .map(|period_ns| Every { period_ns, clear: every.clear })
            }
        };
        let flame = self.written.flame.map(|span| flame::column(&self, &columns, span)).transpose()?;
        Ok(View {
            title: self.written.title.text.clone(),
            by_function: self.written.by.is_some(),
            maps: self.shown,
            columns,
            computed: self.computed,
            filter,
            requires,
            fed: Vec::new(),
            order,
            top,
            every,
            flame,
            empty: self.written.empty.as_ref().map(|empty| empty.text.clone()),
        })
    }

    /// The number in a clause, possibly from a parameter.
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

    /// The diagnostic for a map that is never assigned, or for an undeclared state.
    fn missing(&self, ident: &Ident) -> Diagnostic {
        let Some(name) = ident.text.strip_prefix(STATE_MARK) else {
            let message = format!("nothing is ever assigned to `@{}`", ident.text);
            return Diagnostic::error(Code(204), ident.span, message);
        };
        let error = Diagnostic::error(Code(259), ident.span, format!("there is no state `{name}`"));
        // Names private to a module contain a quote.
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
            // A map that is never assigned was reported already.
            let found = self.maps.iter().position(|map| id(map) == ident.text).ok_or_else(|| self.missing(ident))?;
            if self.shown.contains(&found) {
                let message = format!("`{}` is in this view already", self.maps[found].name);
                return Err(Diagnostic::error(Code(235), ident.span, message));
            }
            if self.written.every.as_ref().is_some_and(|every| every.clear) && ident.text.starts_with(STATE_MARK) {
                let message = "a view of a state shows current values, and has no windows";
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

/// The identifier of a map in the syntax tree.
fn id(map: &Map) -> String {
    map.name.strip_prefix('@').map_or_else(|| format!("{STATE_MARK}{}", map.name), str::to_owned)
}

/// The name of a map as the user writes it. The identifier of a map private to a module begins with
/// the module's name and a quote.
fn spelled(id: &str) -> String {
    let (sigil, name) = id.strip_prefix(STATE_MARK).map_or(("@", id), |name| ("", name));
    format!("{sigil}{}", name.rsplit('\'').next().unwrap_or(name))
}

/// Whether keys of two maps are comparable.
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
