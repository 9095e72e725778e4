//! Fields of the records that maps hold: `@x[key].field = value`.
//!
//! In: field assignments of the whole script. Out: the record's type, and typed writes of one
//! field.
//! Guarantee: the fields of a record are in the order in which the script first names them,
//! regardless of the order in which blocks are checked; a field has one type, whose width only
//! grows; a record that is assigned as a whole has the same fields.

use crate::ast::visit::{self, Node};
use crate::ast::{BinaryOp, Expr, ExprKind, Ident, Script, StmtKind as AstStmt};
use crate::check::variables::received;
use crate::check::{Body, InferredMap, Maps, assign, names, operators, unify, units};
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::source::Span;
use crate::typed::{self, Field, MapIndex, MapValue, StmtKind};
use crate::types::{Int, Type};
use crate::units::Unit;

/// Gives each map with field assignments a record value, whose field types are not known yet.
pub(super) fn collect(script: &Script, maps: &mut Maps) {
    let mut named: Vec<(String, String, Span, bool)> = Vec::new();
    let mut field_of = |target: &Expr| {
        if let ExprKind::Field(record, field) = &target.kind
            && let ExprKind::Map { name, .. } = &record.kind
        {
            named.push((name.clone(), field.text.clone(), field.span, true));
        }
    };
    let mut whole = Vec::new();
    for block in &script.blocks {
        visit::walk(&block.body, &mut |node| match node {
            Node::Stmt(stmt) => {
                if let AstStmt::Assign { target, op, value } = &stmt.kind {
                    field_of(target);
                    if let (ExprKind::Map { name, .. }, None, ExprKind::Record(parts)) = (&target.kind, op, &value.kind)
                    {
                        let parts = parts.iter().map(|(part, _)| (name.clone(), part.text.clone(), part.span, false));
                        whole.extend(parts);
                    }
                }
            }
            Node::Expr(e) => {
                if let ExprKind::Step { target, .. } = &e.kind {
                    field_of(target);
                }
            }
        });
    }
    named.extend(whole);
    named.sort_by_key(|(_, _, span, _)| *span);
    for info in maps.list.iter_mut().filter(|info| info.value.is_none()) {
        let own: Vec<_> = named.iter().filter(|(map, ..)| *map == info.id).collect();
        if !own.iter().any(|(.., is_field)| *is_field) {
            continue;
        }
        for (_, field, span, _) in own {
            if info.fields.iter().all(|(known, _)| known != field) {
                info.fields.push((field.clone(), *span));
            }
        }
        let parts = info.fields.iter().map(|(name, _)| (name.clone(), Type::Unknown)).collect();
        info.value = Some(MapValue::Plain(Type::Record(parts)));
        info.value_span = info.fields[0].1;
    }
}

/// `@x[key].field = value` and `@x[key].field op= value`.
pub(super) fn assign(cx: &mut Body<'_, '_>, target: &Expr, op: Option<BinaryOp>, value: &Expr) -> Option<StmtKind> {
    let (record, name) = field_of(target)?;
    let place = record_place(cx, record, name)?;
    if let ExprKind::Call { name: word, .. } = &value.kind
        && let Some(word) = cx.env.catalogue.aggregation(&word.text)
    {
        let message = format!("`{}()` is a map's whole value, so a field cannot hold it", word.name());
        let help = format!("use a map of its own: `{}`; a field can be counted with `+=` and `++`", word.doc().usage());
        cx.error(Diagnostic::error(Code(354), value.span, message).help(help));
        return None;
    }
    if !matches!(op, Some(BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod | BinaryOp::ShiftLeft | BinaryOp::ShiftRight)) {
        let unit = units::of(cx, value);
        cx.env.changed |= cx.env.maps.get_mut(place.map).field_receives(&name.text, unit);
    }
    let value = cx.value_for(value);
    let span = value.span;
    let Some(op) = op else {
        let field = written_field(cx, &place, name, &value.ty, span)?;
        fits_field(cx, name, &field.ty, &value)?;
        let value = typed::Expr::convert(value, &field.ty);
        return Some(StmtKind::AssignField(field, value));
    };
    let known = written_field(cx, &place, name, &Type::Unknown, span)?.ty;
    for (ty, what, at) in [(&known, format!("`{}`", name.text), name.span), (&value.ty, "this".into(), span)] {
        if ty.as_int().is_none() && *ty != Type::Unknown {
            let message = format!("{what} is {}, and this needs a number", cx.one(ty));
            cx.error(Diagnostic::error(Code(303), at, message));
            return None;
        }
    }
    let value = match (&known, op) {
        (Type::Pointer { .. }, BinaryOp::Add | BinaryOp::Sub) => operators::elements_apart(cx, &known, value),
        _ => value,
    };
    // The result of arithmetic is a number, even from a boolean.
    let counted = match (&value.ty, value.ty.as_int()) {
        (Type::Bool | Type::Enum { .. }, Some(int)) => Type::Int(int),
        _ => value.ty.clone(),
    };
    let field = written_field(cx, &place, name, &counted, span)?;
    let value = typed::Expr::convert(value, &field.ty);
    Some(StmtKind::UpdateField(field, op, value))
}

/// `@x[key].field++` and the like.
pub(super) fn step(cx: &mut Body<'_, '_>, target: &Expr, sign: i64, prefix: bool, span: Span) -> typed::Expr {
    let found = field_of(target).and_then(|(record, name)| {
        let place = record_place(cx, record, name)?;
        let field = written_field(cx, &place, name, &Type::I64, span)?;
        Some((field, name.span))
    });
    let Some((field, at)) = found else { return typed::Expr::poison(span) };
    let Some(size) = operators::step_size(cx, &field.ty) else {
        let message = format!("{} cannot be counted up or down", cx.one(&field.ty));
        return cx.fail(Diagnostic::error(Code(303), at, message));
    };
    let ty = field.ty.clone();
    typed::Expr { kind: typed::ExprKind::StepField { field, by: sign * size, prefix }, ty, span }
}

/// `exchange(@x[key].field, value)`. `None` if it was reported, or `target` is not a field.
pub(crate) fn exchange(cx: &mut Body<'_, '_>, target: &Expr, value: &Expr, span: Span) -> Option<typed::Expr> {
    let (record, name) = field_of(target)?;
    let place = record_place(cx, record, name)?;
    let unit = units::of(cx, value);
    cx.env.changed |= cx.env.maps.get_mut(place.map).field_receives(&name.text, unit);
    let value = cx.value_for(value);
    let at = value.span;
    let field = written_field(cx, &place, name, &value.ty, at)?;
    fits_field(cx, name, &field.ty, &value)?;
    let is_word = field.ty == Type::Unknown || field.ty.as_int().is_some_and(|int| int.size_bytes == 8);
    if !is_word {
        let message = format!("`{}` is {}, and only numbers of 64 bits are exchanged", name.text, cx.one(&field.ty));
        cx.error(Diagnostic::error(Code(379), name.span, message));
        return None;
    }
    let (value, ty) = (value.convert(&field.ty), field.ty.clone());
    Some(typed::Expr { kind: typed::ExprKind::Exchange(field, Box::new(value)), ty, span })
}

/// The map and key of a record that is written.
struct RecordPlace {
    map: MapIndex,
    key: Option<typed::Expr>,
}

/// Finds the record that is written.
fn record_place(cx: &mut Body<'_, '_>, record: &Expr, name: &Ident) -> Option<RecordPlace> {
    let ExprKind::Map { name: map, keys } = &record.kind else {
        let message = "only a field of the record itself can be assigned to, not a part of a field";
        let help = "assign the whole field, or give the record one field for each part";
        cx.error(Diagnostic::error(Code(355), record.span.to(name.span), message).help(help));
        return None;
    };
    let map = cx.env.maps.index(map);
    cx.env.maps.get_mut(map).is_written = true;
    let key = names::map_key(cx, map, keys, record.span);
    Some(RecordPlace { map, key })
}

/// The field of a map's record, which must accept a value of this type.
fn written_field(cx: &mut Body<'_, '_>, place: &RecordPlace, name: &Ident, ty: &Type, span: Span) -> Option<Field> {
    let map = place.map;
    let parts = parts_of(cx, map, name)?;
    let at = part_number(cx, map, &parts, name)?;
    if *ty == Type::None {
        cx.error(Diagnostic::error(Code(318), span, "this has no value that a field could keep"));
        return None;
    }
    let mut parts = parts;
    let info = cx.env.maps.get_mut(map);
    let same_memory = info.points_into(&name.text, &mut parts[at].1, ty);
    let known = &parts[at].1;
    let both = if info.is_state() { takes(known, ty) } else { unify(known, &stored(ty)) };
    let both = both.filter(|_| same_memory);
    let info = cx.env.maps.get(map);
    let Some(both) = both else {
        let first = info.fields.iter().find(|(field, _)| *field == name.text).map_or(info.span, |(_, span)| *span);
        let (holds, message_of) = (cx.one(known), cx.one(ty));
        let message =
            format!("the field `{}` of `{}` is {holds}, so it cannot take {message_of}", name.text, info.name);
        let label = if info.is_state() { "declared here" } else { "first assigned here" };
        let help = match (known, ty) {
            (Type::Str { .. }, Type::Str { capacity_bytes }) => {
                format!("declare it larger: `{}: string[{capacity_bytes}]`", name.text)
            }
            (Type::Stack(held), Type::Stack(_)) => format!("take as many frames as it holds: `{held}`"),
            _ => "use another field for it".to_owned(),
        };
        cx.error(Diagnostic::error(Code(352), span, message).related(first, label).help(help));
        return None;
    };
    parts[at].1 = both;
    let record = MapValue::Plain(Type::Record(parts.clone()));
    if assign::plain_type(cx, map) != Type::Record(parts.clone()) {
        cx.env.maps.get_mut(map).value = Some(record);
        cx.env.changed = true;
    }
    if let Some((part, ty)) =
        parts.iter().find(|(_, ty)| matches!(ty, Type::ProbeName | Type::Timestamp | Type::CgroupPath))
    {
        let message =
            format!("`{part}` would hold {}, and an unset field of this type looks like a set one", cx.one(ty));
        let help = "store what it is computed from: a number, a string, a time in nanoseconds";
        cx.error(Diagnostic::error(Code(356), span, message).help(help));
        return None;
    }
    let whole = Type::Record(parts.clone());
    let types = parts.iter().map(|(_, ty)| ty);
    let (_, offsets) = layout::tuple(types, cx.env.target.btf_if_needed(&whole));
    let key = place.key.clone().map(Box::new);
    Some(Field { map, key, offset_bytes: offsets[at], ty: parts[at].1.clone() })
}

/// The fields of the record that a map holds.
fn parts_of(cx: &mut Body<'_, '_>, map: MapIndex, name: &Ident) -> Option<Vec<(String, Type)>> {
    let info = cx.env.maps.get_mut(map);
    let message = match &info.value {
        Some(MapValue::Plain(Type::Record(parts))) => return Some(parts.clone()),
        // Assignments in a `#define` are not collected beforehand.
        None | Some(MapValue::Plain(Type::Unknown)) => {
            let parts = vec![(name.text.clone(), Type::Unknown)];
            info.value = Some(MapValue::Plain(Type::Record(parts.clone())));
            info.value_span = name.span;
            return Some(parts);
        }
        Some(MapValue::Plain(ty)) => {
            let (ty, name) = (ty.clone(), info.name.clone());
            format!("`{name}` holds {}, which has no fields to assign to", cx.one(&ty))
        }
        Some(MapValue::Aggregate { word, .. }) => {
            format!("`{}` holds `{word}()`, which has no fields to assign to", info.name)
        }
    };
    let first = cx.env.maps.get(map).value_span;
    let help = "use another map for the record";
    cx.error(Diagnostic::error(Code(352), name.span, message).related(first, "first assigned here").help(help));
    None
}

fn part_number(cx: &mut Body<'_, '_>, map: MapIndex, parts: &[(String, Type)], name: &Ident) -> Option<usize> {
    let found = parts.iter().position(|(part, _)| *part == name.text);
    if found.is_none() {
        let info = cx.env.maps.get(map);
        let has: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
        let message = format!("the record of `{}` has no field `{}`", info.name, name.text);
        let near = crate::similar::nearest(&name.text, has.iter().copied(), 1);
        let help = match near.first() {
            Some(near) => format!("did you mean `{near}`? It has: {}", has.join(", ")),
            None => format!("it has: {}", has.join(", ")),
        };
        cx.error(Diagnostic::error(Code(353), name.span, message).help(help));
    }
    found
}

/// Reports a constant that a declared field cannot hold; other numbers are truncated to its
/// width, as in C.
fn fits_field(cx: &mut Body<'_, '_>, name: &Ident, ty: &Type, value: &typed::Expr) -> Option<()> {
    if let (typed::ExprKind::Int(n), Type::Int(int)) = (&value.kind, ty)
        && matches!(value.ty, Type::Int(_))
        && int.size_bytes < 8
        && int.truncate(*n) != *n
    {
        let message = format!("{n} does not fit in `{}`, which is {}", name.text, cx.one(ty));
        let help = format!("declare it wider, or cut the value with a cast: `({int}){n}`");
        cx.error(Diagnostic::error(Code(376), value.span, message).help(help));
        return None;
    }
    Some(())
}

/// The diagnostic for a record whose fields differ from those of the map that it is assigned
/// to. `None` if only types differ.
pub(super) fn other_fields(
    cx: &Body<'_, '_>,
    map: MapIndex,
    known: &Type,
    new: &Type,
    span: Span,
) -> Option<Diagnostic> {
    let (Type::Record(known), Type::Record(new)) = (known, new) else { return None };
    let info = cx.env.maps.get(map);
    let has = |parts: &[(String, Type)], name: &str| parts.iter().any(|(part, _)| part == name);
    let error = |message: String| Diagnostic::error(Code(353), span, message);
    if let Some((lacks, _)) = known.iter().find(|(name, _)| !has(new, name)) {
        let first = info.fields.iter().find(|(field, _)| field == lacks).map_or(info.value_span, |(_, span)| *span);
        let message = format!("this record has no `{lacks}`, which the records of `{}` have", info.name);
        return Some(
            error(message).related(first, "named here").help("a whole record is assigned with all its fields"),
        );
    }
    let (extra, _) = new.iter().find(|(name, _)| !has(known, name))?;
    let message = format!("this record has `{extra}`, which the records of `{}` do not have", info.name);
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    Some(
        error(message).related(info.value_span, "first assigned here").help(format!("they have: {}", names.join(", "))),
    )
}

impl InferredMap {
    /// The unit of a field of its records.
    pub(super) fn field_unit(&self, field: &str) -> Option<Unit> {
        self.field_units.iter().find(|(known, _)| known == field).and_then(|(_, unit)| *unit)
    }

    /// Merges the unit of a value into the unit of a field; a state's units come from its
    /// declaration. Returns whether anything changed.
    fn field_receives(&mut self, field: &str, unit: Unit) -> bool {
        if self.is_state() {
            return false;
        }
        if self.field_units.iter().all(|(known, _)| known != field) {
            self.field_units.push((field.to_string(), None));
        }
        let known = self.field_units.iter_mut().find(|(known, _)| known == field);
        known.is_some_and(|(_, known)| received(known, unit))
    }
}

/// Splits a written field into the record and the field's name.
fn field_of(target: &Expr) -> Option<(&Expr, &Ident)> {
    match &target.kind {
        ExprKind::Field(record, name) => Some((record, name)),
        _ => None,
    }
}

/// Integers are stored in 8 bytes, so that one atomic operation handles all of them.
fn stored(ty: &Type) -> Type {
    match ty {
        Type::Int(int) => Type::Int(Int { size_bytes: 8, signed: int.signed }),
        other => other.clone(),
    }
}

/// The type of a declared field that is assigned a value of another type; `None` if it cannot
/// accept it.
pub(super) fn takes(declared: &Type, ty: &Type) -> Option<Type> {
    let both = unify(declared, ty)?;
    let narrows = declared.as_int().is_some();
    (narrows || both == *declared).then(|| declared.clone())
}
