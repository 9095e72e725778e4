//! The maps of a script and what is known of their types.
//!
//! In: uses, as bodies are checked. Out: [`typed::Map`]s.
//! Guarantee: a map has one key type and one kind of value; widths only grow.

use std::collections::BTreeMap;

use crate::ast::{ExprKind, STATE_MARK, Script};
use crate::check::states::StateInfo;
use crate::check::{Report, declarations, facts, records};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::typed::{self, MapIndex, MapValue};
use crate::types::Type;
use crate::units::Unit;

/// What is known of a map.
#[derive(Debug)]
pub struct MapInfo {
    /// What the tree calls it: the name without sigil, or with that of states.
    pub id: String,
    /// Name with sigil; that of a state has none.
    pub name: String,
    /// Where it was seen first.
    pub span: Span,
    /// Keyed or not, and its key type; `None` until a use tells.
    pub key: Option<Option<Type>>,
    /// Where the key was seen first.
    pub key_span: Span,
    /// What it holds; `None` until something is assigned.
    pub value: Option<MapValue>,
    /// Whether an assignment was seen, right or wrong.
    pub is_written: bool,
    /// Where a value was assigned first.
    pub value_span: Span,
    /// Fields of the record that it holds, where the script names them first.
    pub fields: Vec<(String, Span)>,
    /// What its fields count, as `unit` says of a whole value.
    pub field_units: Vec<(String, Option<Unit>)>,
    /// Its storage, when the script declares it.
    pub declared: Option<typed::Declared>,
    /// What its declaration says, when it holds states.
    pub state: Option<StateInfo>,
    /// What its values count; none when they differ, `None` as long as only bare numbers were assigned.
    pub unit: Option<Unit>,
}

/// All maps, sorted by name.
#[derive(Debug, Default)]
pub struct Maps {
    /// The maps.
    pub list: Vec<MapInfo>,
}

impl MapInfo {
    /// Whether the script declares it with the types of its fields.
    pub fn is_state(&self) -> bool {
        self.state.is_some()
    }
}

impl Maps {
    /// The maps that a script mentions, nothing known of them.
    pub fn collect(script: &Script) -> Maps {
        let mut spans: BTreeMap<String, Span> = BTreeMap::new();
        let mut note = |e: &crate::ast::Expr| {
            if let ExprKind::Map { name, .. } = &e.kind {
                spans.entry(name.clone()).or_insert(e.span);
            }
        };
        for block in &script.blocks {
            block.predicate.iter().for_each(|e| facts::walk_expr(e, &mut note));
            facts::walk_stmts(&block.body, &mut note);
        }
        // A state that is not declared is no map.
        let is_map = |id: &str| {
            id.strip_prefix(STATE_MARK).is_none_or(|name| script.states.iter().any(|state| state.name.text == name))
        };
        let shown = script.views.iter().flat_map(|view| &view.of).filter(|map| is_map(&map.text));
        let shown: Vec<(String, Span)> = shown.map(|map| (map.text.clone(), map.span)).collect();
        for span in &script.spans {
            span.exprs().for_each(|e| facts::walk_expr(e, &mut note));
        }
        // A constant may stand for a map.
        script.defines.iter().for_each(|define| facts::walk_expr(&define.value, &mut note));
        for (name, span) in shown {
            spans.entry(name).or_insert(span);
        }
        let info = |(name, span): (String, Span)| MapInfo {
            name: name.strip_prefix(STATE_MARK).map_or_else(|| format!("@{name}"), str::to_owned),
            id: name,
            span,
            key: None,
            key_span: span,
            value: None,
            is_written: false,
            value_span: span,
            fields: Vec::new(),
            field_units: Vec::new(),
            declared: None,
            state: None,
            unit: None,
        };
        Maps { list: spans.into_iter().map(info).collect() }
    }

    /// The map of a name without sigil.
    pub fn index(&self, name: &str) -> MapIndex {
        let found = self.list.binary_search_by(|m| m.id.as_str().cmp(name));
        MapIndex(found.unwrap_or_else(|_| panic!("map @{name} was not collected")))
    }

    /// What is known of a map.
    pub fn get(&self, map: MapIndex) -> &MapInfo {
        &self.list[map.0]
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, map: MapIndex) -> &mut MapInfo {
        &mut self.list[map.0]
    }

    /// Whether there is a map that is assigned to and of whose values nothing is known.
    pub fn have_unknown(&self) -> bool {
        self.list.iter().any(|info| matches!(&info.value, Some(MapValue::Plain(ty)) if records::has_unknown(ty)))
    }

    /// Gives maps of which nothing is known integers as values; whether there were any.
    pub fn assume_integers(&mut self) -> bool {
        let mut unknown = false;
        for info in &mut self.list {
            match &mut info.value {
                Some(MapValue::Plain(ty @ Type::Record(_))) if records::has_unknown(ty) => {
                    records::assume_integers(ty);
                    unknown = true;
                }
                None | Some(MapValue::Plain(Type::Unknown)) => {
                    info.value = Some(MapValue::Plain(Type::I64));
                    unknown = true;
                }
                Some(_) => {}
            }
        }
        unknown
    }

    /// The maps for lowering; a map that was used and never written is an error, unless the block that writes it may be one that
    /// was left out.
    pub fn finish(&mut self, report: &mut Report) -> Vec<typed::Map> {
        let mut maps = Vec::with_capacity(self.list.len());
        for info in &self.list {
            let known = info.value.clone().filter(|v| !matches!(v, MapValue::Plain(ty) if records::has_unknown(ty)));
            let Some(value) = known else {
                match info.is_written {
                    false => report.push(never_assigned(info)),
                    // A wrong assignment was reported where it stands.
                    true if report.has_errors() => {}
                    true => report.push(no_type(info)),
                }
                continue;
            };
            let key = info.key.clone().unwrap_or(None);
            if let Some(declared) = &info.declared {
                declarations::check(declared, &info.name, key.is_some(), &value, report);
            }
            let declared = info.declared.clone();
            let of_threads = info.state.as_ref().is_some_and(|state| state.of_threads);
            let unit = info.unit.unwrap_or_default();
            let field_units = info.field_units.iter().filter_map(|(field, unit)| Some((field.clone(), (*unit)?)));
            let (name, field_units) = (info.name.clone(), field_units.collect());
            maps.push(typed::Map { name, key, value, span: info.span, declared, unit, field_units, of_threads });
        }
        maps
    }
}

fn never_assigned(info: &MapInfo) -> Diagnostic {
    let message = format!("nothing is ever assigned to `{}`", info.name);
    let help = format!("assign to it in some probe: `{} = count();`", info.name);
    Diagnostic::error(Code(204), info.span, message).label("used here").help(help)
}

fn no_type(info: &MapInfo) -> Diagnostic {
    let message =
        format!("what `{}` holds cannot be told: its values come from maps that hold nothing else", info.name);
    Diagnostic::error(Code(204), info.span, message).help("assign a value to one of them, or use a cast: `(uint64)`")
}
