//! Assignments, and the types that they give to variables and maps.
//!
//! In: a target, an operator, a value. Out: a typed statement.
//! Guarantee: an aggregation is accepted only as the value assigned to a map; a map holds one kind
//! of value.

use crate::ast::{BinaryOp, Expr, ExprKind, Ident, TypeName};
use crate::catalogue::Aggregation;
use crate::check::types::MAX_VALUE_BYTES;
use crate::check::{Body, fields, names, operators, records, spans, states, unify, units};
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, MapIndex, MapValue, StmtKind, VarIndex};
use crate::types::{Int, Type};
use crate::units::Unit;

impl Body<'_, '_> {
    /// Checks an expression whose value is stored; reports one that has no value.
    pub fn value_for(&mut self, e: &Expr) -> typed::Expr {
        let checked = self.expr(e);
        if checked.ty == Type::None {
            return self.fail(Diagnostic::error(Code(318), e.span, "this has no value"));
        }
        keepable(self, checked)
    }

    /// The variable that receives values of a type; declares it if it is new.
    pub fn receive(&mut self, name: &str, ty: &Type, at: Span) -> Option<VarIndex> {
        let Some(var) = self.vars.find(name) else { return Some(self.vars.declare(name, ty.clone())) };
        let old = self.vars.ty(var).clone();
        let Some(both) = unify(&old, ty) else {
            clash(self, &format!("${name}"), (&old, at), (ty, at));
            return None;
        };
        self.vars.set_type(var, both);
        self.vars.reassigned(var);
        Some(var)
    }
}

/// `target = value`, `target op= value`.
pub(super) fn statement(
    cx: &mut Body<'_, '_>,
    target: &Expr,
    op: Option<BinaryOp>,
    value: &Expr,
    span: Span,
) -> Option<StmtKind> {
    match &target.kind {
        ExprKind::Var(name) => variable(cx, name, target.span, op, value),
        ExprKind::Map { name, keys } => map_value(cx, (name, keys), target.span, op, value),
        ExprKind::Field(..) => records::assign(cx, target, op, value),
        ExprKind::Name(name) if name == "_" && op.is_none() => Some(StmtKind::Expr(cx.expr(value))),
        _ => {
            let message = "only a variable `$x` or a map `@x` can be assigned to";
            cx.error(Diagnostic::error(Code(316), target.span, message).related(span, "in this assignment"));
            None
        }
    }
}

/// `let $x : type = value`.
pub(super) fn declaration(
    cx: &mut Body<'_, '_>,
    name: &Ident,
    ty: Option<&TypeName>,
    value: Option<&Expr>,
) -> Option<StmtKind> {
    let declared = match ty {
        Some(ty) => cx.type_named(ty)?,
        None => Type::Unknown,
    };
    let unit = value.map_or(Unit::None, |value| units::of(cx, value));
    let value = value.map(|v| cx.value_for(v));
    if cx.vars.find(&name.text).is_some() {
        let message = format!("`${}` is already declared", name.text);
        cx.error(Diagnostic::error(Code(206), name.span, message).help("use another name, or assign without `let`"));
        return None;
    }
    let is_fixed = declared != Type::Unknown;
    let first = value.as_ref().map_or(Type::Unknown, |v| v.ty.clone());
    let var = cx.vars.declare(&name.text, if is_fixed { declared } else { first });
    if is_fixed {
        cx.vars.fix(var);
    }
    cx.vars.receive(var, unit);
    let Some(value) = value else { return Some(StmtKind::Clear(var)) };
    fits(cx, &name.text, var, name.span, &value)?;
    cx.vars.declared_as(var, &value);
    Some(StmtKind::AssignVar(var, convert_to_var(cx, value, var)))
}

fn variable(cx: &mut Body<'_, '_>, name: &str, at: Span, op: Option<BinaryOp>, value: &Expr) -> Option<StmtKind> {
    if spans::walk::refuse_bare(cx, name, at) {
        return None;
    }
    let known = cx.vars.find(name);
    let unit = units::of(cx, value);
    let value = match (op, known) {
        (Some(op), Some(var)) => {
            let right = cx.expr(value);
            // A variable that was only declared is 0 of the other operand's type.
            let ty = match cx.vars.ty(var) {
                Type::Unknown => right.ty.clone(),
                known => known.clone(),
            };
            let left = typed::Expr { kind: typed::ExprKind::Var(var), ty, span: at };
            cx.binary(op, left, right, at.to(value.span))
        }
        (Some(_), None) => {
            names::unknown_var(cx, name, at);
            return None;
        }
        (None, _) => cx.value_for(value),
    };
    let var = match known {
        None => cx.vars.declare(name, value.ty.clone()),
        Some(var) if cx.vars.is_fixed(var) => {
            fits(cx, name, var, at, &value)?;
            var
        }
        Some(var) => {
            let old = cx.vars.ty(var).clone();
            let Some(both) = unify(&old, &value.ty) else {
                clash(cx, &format!("${name}"), (&old, at), (&value.ty, value.span));
                return None;
            };
            cx.vars.set_type(var, both);
            var
        }
    };
    cx.vars.receive(var, unit);
    match known {
        None => cx.vars.declared_as(var, &value),
        Some(_) => cx.vars.reassigned(var),
    }
    Some(StmtKind::AssignVar(var, convert_to_var(cx, value, var)))
}

/// Checks that a variable of a declared type can take a value, and reports if it cannot.
/// Integers are truncated to its width, as in C, but a constant must fit.
fn fits(cx: &mut Body<'_, '_>, name: &str, var: typed::VarIndex, at: Span, value: &typed::Expr) -> Option<()> {
    let declared = cx.vars.ty(var).clone();
    if let (typed::ExprKind::Int(n), Type::Int(int)) = (&value.kind, &declared)
        && matches!(value.ty, Type::Int(_))
        && int.truncate(*n) != *n
        && int.size_bytes < 8
    {
        let message = format!("{n} does not fit in `${name}`, which is {}", cx.one(&declared));
        cx.error(
            Diagnostic::error(Code(376), value.span, message)
                .related(at, "declared with this type")
                .help(format!("declare it wider, or cut the value with a cast: `({int}){n}`")),
        );
        return None;
    }
    let both = unify(&declared, &value.ty);
    let narrows = declared.as_int().is_some() && both.is_some();
    if narrows || both.as_ref() == Some(&declared) {
        return Some(());
    }
    clash(cx, &format!("${name}"), (&declared, at), (&value.ty, value.span));
    None
}

fn convert_to_var(cx: &Body<'_, '_>, value: typed::Expr, var: typed::VarIndex) -> typed::Expr {
    typed::Expr::convert(value, cx.vars.ty(var))
}

/// `@x[keys] = value`, `@x[keys] op= value`; `at` is the place of the target.
fn map_value(
    cx: &mut Body<'_, '_>,
    (name, keys): (&str, &[Expr]),
    at: Span,
    op: Option<BinaryOp>,
    value: &Expr,
) -> Option<StmtKind> {
    // The last expression of a block (usually an expanded macro) may be an aggregation too.
    if let ExprKind::Block(body, last) = &value.kind
        && let ExprKind::Call { name: word, .. } = &last.kind
        && cx.env.catalogue.aggregation(&word.text).is_some()
    {
        return cx.in_scope(|cx| {
            let mut body = cx.stmts(body);
            let kind = map_value(cx, (name, keys), at, op, last)?;
            body.push(typed::Stmt { kind, span: last.span });
            Some(StmtKind::Block(body))
        });
    }
    let map = cx.env.maps.index(name);
    cx.env.maps.get_mut(map).is_written = true;
    let key = names::map_key(cx, map, keys, at);
    if let ExprKind::Call { name: word, args } = &value.kind
        && let Some(word) = cx.env.catalogue.aggregation(&word.text)
    {
        if op.is_some() {
            let message = format!("`{}()` must be assigned with `=`", word.name());
            let help = format!("write `{}`; it adds to the existing value", word.doc().usage());
            cx.error(Diagnostic::error(Code(317), at.to(value.span), message).help(help));
            return None;
        }
        if let Some(value) = args.first() {
            units::map_receives(cx, map, value);
        }
        return aggregate(cx, (map, key), word, args, value.span);
    }
    units::map_receives(cx, map, value);
    let value = cx.value_for(value);
    let span = value.span;
    match op {
        None => {
            map_holds(cx, map, &value.ty, span)?;
            let value = typed::Expr::convert(value, &plain_type(cx, map));
            Some(StmtKind::AssignMap(map, key, value))
        }
        Some(op) => {
            if let Some(MapValue::Aggregate { word, .. }) = cx.env.maps.get(map).value.clone() {
                cannot_change(cx, map, &word, at);
                return None;
            }
            // The type is not known yet; this only records that the map is a plain one.
            map_holds(cx, map, &Type::Unknown, span)?;
            let ty = plain_type(cx, map);
            if ty.as_int().is_none() && ty != Type::Unknown {
                not_a_number(cx, &format!("`{}`", cx.env.maps.get(map).name), &ty, at);
                return None;
            }
            if value.ty.as_int().is_none() && value.ty != Type::Unknown {
                not_a_number(cx, "this", &value.ty, span);
                return None;
            }
            let value = match (&ty, op) {
                (Type::Pointer { .. }, BinaryOp::Add | BinaryOp::Sub) => operators::elements_apart(cx, &ty, value),
                _ => value,
            };
            // The result of arithmetic is a number, even from a boolean, and is stored in 8
            // bytes.
            let counted = match (&value.ty, value.ty.as_int()) {
                (Type::Bool | Type::Enum { .. }, Some(int)) => Type::Int(int),
                _ => value.ty.clone(),
            };
            map_holds(cx, map, &counted, span)?;
            let value = typed::Expr::convert(value, &plain_type(cx, map));
            Some(StmtKind::UpdateMap(map, key, op, value))
        }
    }
}

fn aggregate(
    cx: &mut Body<'_, '_>,
    (map, key): (MapIndex, Option<typed::Expr>),
    word: &'static dyn Aggregation,
    args: &[Expr],
    span: Span,
) -> Option<StmtKind> {
    let Some(used) = word.check(cx, args, span) else {
        cx.env.maps.get_mut(map).value.get_or_insert(MapValue::Plain(Type::Unknown));
        return None;
    };
    let info = cx.env.maps.get_mut(map);
    match &mut info.value {
        Some(MapValue::Aggregate { word: known, params, signed, .. })
            if known.as_str() == word.name() && *params == used.params =>
        {
            *signed |= used.signed;
        }
        Some(MapValue::Plain(Type::Unknown)) | None => {
            let pages = word.pages(&used.params);
            let word = WordName::new(word.name());
            info.value = Some(MapValue::Aggregate { word, params: used.params, signed: used.signed, pages });
            info.value_span = span;
            cx.env.changed = true;
        }
        Some(other) => {
            let (other, name, first) = (other.clone(), info.name.clone(), info.value_span);
            let holds = match other {
                MapValue::Plain(ty) => cx.one(&ty),
                MapValue::Aggregate { word: known, .. } if known.as_str() == word.name() => {
                    format!("`{known}()` with other bounds")
                }
                MapValue::Aggregate { word: known, .. } => format!("`{known}()`"),
            };
            let message = format!("`{name}` holds {holds}, so it cannot take `{}()`", word.name());
            cx.error(
                Diagnostic::error(Code(302), span, message)
                    .related(first, "first assigned here")
                    .help("use another map for it"),
            );
            return None;
        }
    }
    Some(StmtKind::Aggregate(map, key, used.args))
}

/// Reports `@x++` and `@x += n` on a map that holds an aggregation.
pub(super) fn cannot_change(cx: &mut Body<'_, '_>, map: MapIndex, word: &WordName, span: Span) {
    let word = cx.env.catalogue.aggregation_of(word);
    let info = cx.env.maps.get(map);
    let message = format!("`{}` holds `{}()`, so it cannot be changed like a number", info.name, word.name());
    let first = info.value_span;
    let help = format!("add to it with `{}`, or use another map", word.doc().usage());
    cx.error(Diagnostic::error(Code(302), span, message).related(first, "first assigned here").help(help));
}

/// Records that values of a type are assigned to a map; reports a clash.
pub(super) fn map_holds(cx: &mut Body<'_, '_>, map: MapIndex, ty: &Type, span: Span) -> Option<()> {
    if cx.env.maps.get(map).is_state() {
        return states::holds(cx, map, ty, span);
    }
    let stored = match ty {
        // Integers are stored in 8 bytes, so that one atomic operation handles all of them.
        Type::Int(int) => Type::Int(Int { size_bytes: 8, signed: int.signed }),
        other => other.clone(),
    };
    if stored == Type::None {
        let message = "this has no value that a map could keep";
        cx.error(Diagnostic::error(Code(318), span, message));
        return None;
    }
    let info = cx.env.maps.get(map);
    let unified = match &info.value {
        None => Some(stored.clone()),
        Some(MapValue::Plain(known)) => unify(known, &stored),
        Some(MapValue::Aggregate { .. }) => None,
    };
    let Some(unified) = unified else {
        if let Some(MapValue::Plain(known)) = &info.value
            && let Some(diagnostic) = records::other_fields(cx, map, known, ty, span)
        {
            cx.error(diagnostic);
            return None;
        }
        let (name, first) = (info.name.clone(), info.value_span);
        let holds = match &info.value {
            Some(MapValue::Aggregate { word, .. }) => format!("`{word}()`"),
            Some(MapValue::Plain(known)) => cx.one(known),
            None => String::new(),
        };
        let message = format!("`{name}` holds {holds}, so it cannot take {}", cx.one(ty));
        cx.error(
            Diagnostic::error(Code(302), span, message)
                .related(first, "first assigned here")
                .help("use another map for it"),
        );
        return None;
    };
    let info = cx.env.maps.get_mut(map);
    if info.value.is_none() {
        info.value_span = span;
    }
    if !matches!(&info.value, Some(MapValue::Plain(known)) if *known == unified) {
        info.value = Some(MapValue::Plain(unified));
        cx.env.changed = true;
    }
    Some(())
}

/// The type of a plain map's values; unknown for aggregations and unassigned maps.
pub(super) fn plain_type(cx: &Body<'_, '_>, map: MapIndex) -> Type {
    match &cx.env.maps.get(map).value {
        Some(MapValue::Plain(ty)) => ty.clone(),
        _ => Type::Unknown,
    }
}

/// Checks that a value can be stored; reports one that is too large or has no size.
pub(super) fn keepable(cx: &mut Body<'_, '_>, mut value: typed::Expr) -> typed::Expr {
    if !matches!(value.ty, Type::Struct { .. } | Type::Array { .. } | Type::Tuple(_) | Type::Record(_)) {
        return value;
    }
    if let Some(fields::Memory { space, .. }) = fields::place(&value) {
        super::fields::retarget(&mut value.ty, space);
    }
    let size_bytes = layout::of(&value.ty, cx.env.target.btf_if_needed(&value.ty)).size_bytes;
    let message = match (size_bytes, &value.ty) {
        (0, Type::Struct { .. }) => format!("the contents of {} are not known", cx.one(&value.ty)),
        (0..=MAX_VALUE_BYTES, _) => return value,
        _ => format!("{} takes {size_bytes} bytes, and a value has {MAX_VALUE_BYTES} at most", cx.one(&value.ty)),
    };
    let help = "take a part of it, or its address with `&`";
    cx.fail(Diagnostic::error(Code(375), value.span, message).help(help))
}

/// Reports a value of another type than a variable has; both come with their places.
fn clash(cx: &mut Body<'_, '_>, what: &str, (old, old_span): (&Type, Span), (new, new_span): (&Type, Span)) {
    let message = format!("`{what}` is {}, this is {}", cx.one(old), cx.one(new));
    cx.error(
        Diagnostic::error(Code(301), new_span, message)
            .label(cx.one(new))
            .related(old_span, cx.one(old))
            .help("use another variable for it"),
    );
}

fn not_a_number(cx: &mut Body<'_, '_>, what: &str, ty: &Type, span: Span) {
    let message = format!("{what} is {}, and this needs a number", cx.one(ty));
    cx.error(Diagnostic::error(Code(303), span, message));
}
