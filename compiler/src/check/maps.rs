//! The maps of a script and their inferred types.
//!
//! In: uses, as bodies are checked. Out: [`typed::Map`]s.
//! Guarantee: a map has one key type and one kind of value; widths only grow.

use std::collections::BTreeMap;

use crate::ast::{ExprKind, STATE_MARK, Script, StatePart, visit};
use crate::check::{Report, declarations};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::typed::{self, MapIndex, MapValue};
use crate::types::Type;
use crate::units::Unit;

/// The properties of a state.
#[derive(Debug, Clone)]
pub struct StateTraits {
    /// Whether the key is the thread; the state is then in task storage.
    pub of_threads: bool,
    /// The parts of its key.
    pub key: Vec<StatePart>,
    /// Pointer fields whose address space was determined by an assignment.
    pub pointers: Vec<String>,
}

/// The inferred properties of a map.
#[derive(Debug)]
pub struct InferredMap {
    /// Its identifier in the syntax tree: the name without sigil, or with the prefix of states.
    pub id: String,
    /// Name with sigil; a state has no sigil.
    pub name: String,
    /// Its first occurrence.
    pub span: Span,
    /// The key type, `Some(None)` without a key; `None` until a use determines it.
    pub key: Option<Option<Type>>,
    /// The first occurrence of the key.
    pub key_span: Span,
    /// The value's type or aggregation; `None` until something is assigned.
    pub value: Option<MapValue>,
    /// Whether an assignment was seen, valid or not.
    pub is_written: bool,
    /// The first assignment.
    pub value_span: Span,
    /// Fields of the record that it holds, each with its first occurrence.
    pub fields: Vec<(String, Span)>,
    /// Units of its fields; see `unit`.
    pub field_units: Vec<(String, Option<Unit>)>,
    /// Its storage, if the script declares it.
    pub declared: Option<typed::Declared>,
    /// Its declaration, if it is a state.
    pub state: Option<StateTraits>,
    /// The unit of its values: none if they differ, `None` while only bare numbers were assigned.
    pub unit: Option<Unit>,
}

/// All maps, sorted by identifier.
#[derive(Debug, Default)]
pub struct Maps {
    pub list: Vec<InferredMap>,
}

impl InferredMap {
    /// Whether it is a state, which declares the types of its fields.
    pub fn is_state(&self) -> bool {
        self.state.is_some()
    }
}

impl Maps {
    /// Collects the maps that a script mentions, with unknown types.
    pub fn collect(script: &Script) -> Maps {
        let mut spans: BTreeMap<String, Span> = BTreeMap::new();
        let mut note = |e: &crate::ast::Expr| {
            if let ExprKind::Map { name, .. } = &e.kind {
                spans.entry(name.clone()).or_insert(e.span);
            }
        };
        for block in &script.blocks {
            block.predicate.iter().for_each(|e| visit::walk_expr(e, &mut note));
            visit::walk_stmts(&block.body, &mut note);
        }
        // An undeclared state is not a map.
        let is_map = |id: &str| {
            id.strip_prefix(STATE_MARK).is_none_or(|name| script.states.iter().any(|state| state.name.text == name))
        };
        let shown = script.views.iter().flat_map(|view| &view.of).filter(|map| is_map(&map.text));
        let shown: Vec<(String, Span)> = shown.map(|map| (map.text.clone(), map.span)).collect();
        for span in &script.spans {
            span.exprs().for_each(|e| visit::walk_expr(e, &mut note));
        }
        // A constant may be the name of a map.
        script.defines.iter().for_each(|define| visit::walk_expr(&define.value, &mut note));
        for (name, span) in shown {
            spans.entry(name).or_insert(span);
        }
        let info = |(name, span): (String, Span)| InferredMap {
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

    /// The map with an identifier. Panics if the map was not collected.
    pub fn index(&self, name: &str) -> MapIndex {
        let found = self.list.binary_search_by(|m| m.id.as_str().cmp(name));
        MapIndex(found.unwrap_or_else(|_| panic!("map @{name} was not collected")))
    }

    /// The properties of a map.
    pub fn get(&self, map: MapIndex) -> &InferredMap {
        &self.list[map.0]
    }

    /// The same, mutable.
    pub fn get_mut(&mut self, map: MapIndex) -> &mut InferredMap {
        &mut self.list[map.0]
    }

    /// Whether any map has assignments but an unknown value type.
    pub fn have_unknown(&self) -> bool {
        self.list.iter().any(|info| matches!(&info.value, Some(MapValue::Plain(ty)) if has_unknown(ty)))
    }

    /// Sets unknown value types to integers; returns whether there were any.
    pub fn assume_integers(&mut self) -> bool {
        let mut unknown = false;
        for info in &mut self.list {
            match &mut info.value {
                Some(MapValue::Plain(ty @ Type::Record(_))) if has_unknown(ty) => {
                    assume_integers(ty);
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

    /// The maps for lowering. A map that is used but never written is an error, unless the block
    /// that writes it may have been left out.
    pub fn finish(&mut self, report: &mut Report) -> Vec<typed::Map> {
        let mut maps = Vec::with_capacity(self.list.len());
        for info in &self.list {
            let known = info.value.clone().filter(|v| !matches!(v, MapValue::Plain(ty) if has_unknown(ty)));
            let Some(value) = known else {
                match info.is_written {
                    false => report.push(never_assigned(info)),
                    // An invalid assignment was reported at its place.
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
            let map = typed::Map {
                name,
                key,
                value,
                span: info.span,
                declared,
                of_threads,
                unit,
                // The views' check fills it in.
                thread: None,
                field_units,
            };
            maps.push(map);
        }
        maps
    }
}

fn never_assigned(info: &InferredMap) -> Diagnostic {
    let message = format!("nothing is ever assigned to `{}`", info.name);
    let help = format!("assign to it in some probe: `{} = count();`", info.name);
    Diagnostic::error(Code(204), info.span, message).label("used here").help(help)
}

fn no_type(info: &InferredMap) -> Diagnostic {
    let message =
        format!("cannot infer the type of `{}`: its values come only from maps without a known type", info.name);
    Diagnostic::error(Code(204), info.span, message).help("assign a value to one of them, or use a cast: `(uint64)`")
}

/// Whether a type or a part of it is unknown.
pub(super) fn has_unknown(ty: &Type) -> bool {
    match ty {
        Type::Unknown => true,
        Type::Record(parts) => parts.iter().any(|(_, ty)| has_unknown(ty)),
        _ => false,
    }
}

/// Sets the unknown parts of a type to integers.
pub(super) fn assume_integers(ty: &mut Type) {
    match ty {
        Type::Unknown => *ty = Type::I64,
        Type::Record(parts) => parts.iter_mut().for_each(|(_, ty)| assume_integers(ty)),
        _ => {}
    }
}
