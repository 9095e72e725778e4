//! Fields and pointers.
//!
//! In: `e.name`, `e.0`, `*e`, `&e`, `offsetof`. Out: typed expressions over foreign or own memory.
//! Guarantee: a path through structs costs one read, at the sum of the offsets.

use crate::ast::{BinaryOp, Expr, ExprKind, Ident, TypeName};
use crate::btf::{BitUnit, Btf, BtfId, Member};
use crate::check::{Body, Seed, spans, statistics};
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::object::Attach;
use crate::similar;
use crate::source::Span;
use crate::typed;
use crate::types::{Int, Space, Type};

impl Body<'_, '_> {
    /// Follows `base.a.b` through fields by name.
    pub fn path(&mut self, base: typed::Expr, names: &[&str], span: Span) -> typed::Expr {
        names.iter().fold(base, |base, name| {
            let field = Ident { text: (*name).into(), span };
            field_of(self, base, &field, span)
        })
    }

    /// `offsetof(struct x, a.b)`.
    pub fn offsetof(&mut self, name: &TypeName, path: &[Ident], span: Span) -> typed::Expr {
        offsetof(self, name, path, span)
    }
}

/// `base.field` or `base->field`.
pub(super) fn named(cx: &mut Body<'_, '_>, base: &Expr, field: &Ident, span: Span) -> typed::Expr {
    if matches!(&base.kind, ExprKind::Name(name) if name == "args") && !cx.env.defines.contains_key("args") {
        return arg(cx, field, span);
    }
    if let ExprKind::Name(name) = &base.kind
        && let Some(index) = cx.env.spans.index(name)
    {
        return spans::values::value(cx, index, field, span);
    }
    if let ExprKind::Var(name) = &base.kind
        && let Some(value) = spans::walk::value(cx, name, field, span)
    {
        return value;
    }
    let whole = Expr { kind: ExprKind::Field(Box::new(base.clone()), field.clone()), span };
    if let Some(refused) = statistics::refuse(cx, &whole) {
        return refused;
    }
    let checked = cx.expr(base);
    let base = typed::Expr { span: without_parentheses(base), ..checked };
    field_of(cx, base, field, span)
}

/// The span of a cast without the parentheses around it, in which it must be before a field.
fn without_parentheses(base: &Expr) -> Span {
    match &base.kind {
        ExprKind::Cast(ty, _) if ty.span.start > base.span.start + 1 => {
            Span { start: ty.span.start - 1, end: base.span.end.saturating_sub(1) }
        }
        _ => base.span,
    }
}

fn field_of(cx: &mut Body<'_, '_>, base: typed::Expr, field: &Ident, span: Span) -> typed::Expr {
    match base.ty.clone() {
        Type::Unknown => base,
        Type::Pointer { to, space } => match *to {
            Type::Struct { id, .. } => member(cx, Memory { pointer: base, offset_bytes: 0, space }, id, field, span),
            other => no_fields(cx, &Type::Pointer { to: Box::new(other), space }, field, span),
        },
        Type::Struct { id, space } => match place(&base) {
            Some(memory) => member(cx, memory, id, field, span),
            None => own_member(cx, base, (id, space), field, span),
        },
        Type::Record(parts) => record_part(cx, base, &parts, field, span),
        other => no_fields(cx, &other, field, span),
    }
}

/// Foreign memory: what a base pointer and an offset refer to.
pub(super) struct Memory {
    pub(super) pointer: typed::Expr,
    pub(super) offset_bytes: u32,
    /// The address space of the pointer.
    pub(super) space: Space,
}

/// The foreign memory that an expression denotes.
pub(super) fn place(e: &typed::Expr) -> Option<Memory> {
    match &e.kind {
        typed::ExprKind::Deref { base, offset_bytes, bits: None } => {
            let Type::Pointer { space, .. } = base.ty else { return None };
            Some(Memory { pointer: base.as_ref().clone(), offset_bytes: *offset_bytes, space })
        }
        typed::ExprKind::Element { base, .. } => {
            let Type::Pointer { space, .. } = base.ty else { return None };
            let ty = Type::Pointer { to: Box::new(e.ty.clone()), space };
            let address = typed::ExprKind::AddressOf(Box::new(e.clone()));
            Some(Memory { pointer: typed::Expr { kind: address, ty, span: e.span }, offset_bytes: 0, space })
        }
        _ => None,
    }
}

/// The address space of what an expression denotes, if it has an address: foreign memory, a field
/// of a tracepoint's record, a variable.
pub(super) fn space_of_place(e: &typed::Expr) -> Option<Space> {
    match &e.kind {
        typed::ExprKind::ContextField(_) | typed::ExprKind::Var(_) => Some(Space::Kernel),
        _ => place(e).map(|memory| memory.space),
    }
}

fn record_part(
    cx: &mut Body<'_, '_>,
    base: typed::Expr,
    parts: &[(String, Type)],
    field: &Ident,
    span: Span,
) -> typed::Expr {
    let Some(index) = parts.iter().position(|(name, _)| *name == field.text) else {
        let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
        let message = format!("this record has no part `{}`", field.text);
        let help = format!("it has: {}", names.join(", "));
        return cx.fail(Diagnostic::error(Code(322), field.span, message).help(help));
    };
    part(cx, base, index, span)
}

/// A part of a tuple or record by its index, which must be in range.
pub(super) fn part(cx: &mut Body<'_, '_>, base: typed::Expr, index: usize, span: Span) -> typed::Expr {
    if let typed::ExprKind::Tuple(mut list) = base.kind {
        return list.swap_remove(index);
    }
    let types: Vec<Type> = base.ty.parts().unwrap_or_default().into_iter().cloned().collect();
    let (_, offsets) = layout::tuple(&types, cx.env.target.btf_if_needed(&base.ty));
    let kind = typed::ExprKind::Part { base: Box::new(base), offset_bytes: offsets[index] };
    typed::Expr { kind, ty: types[index].clone(), span }
}

fn no_fields(cx: &mut Body<'_, '_>, ty: &Type, field: &Ident, span: Span) -> typed::Expr {
    let message = format!("{} has no field `{}`", cx.one(ty), field.text);
    let mut diagnostic = Diagnostic::error(Code(321), field.span, message);
    if ty.is_scalar() {
        let cast = "cast it to a struct first: `((struct NAME *)…).field`";
        let untyped = cx.seed.undescribed.as_ref().filter(|_| cx.seed.attach.at_return());
        let variables = untyped_variables(cx).map(|why| format!("{cast}; variables have no types: {why}"));
        let of_result = if cx.seed.retval.is_some() { "" } else { "`retval` has no type: " };
        let help = untyped.map(|why| format!("{cast}; {of_result}{why}")).or(variables);
        diagnostic = diagnostic.help(help.unwrap_or_else(|| cast.into()));
    }
    diagnostic.span = field.span.to(Span { start: span.end, end: span.end });
    cx.fail(diagnostic)
}

/// Why variables of the probed program that the script reads have no types.
fn untyped_variables(cx: &Body<'_, '_>) -> Option<String> {
    let Attach::Uprobe { path, .. } = &cx.seed.attach else { return None };
    let answers = cx.env.target.described_program(path)?;
    answers.variables.values().find_map(|answer| answer.as_ref().err()).cloned()
}

fn find_member<'e>(cx: &mut Body<'_, 'e>, id: BtfId, field: &Ident) -> Option<Member<'e>> {
    let btf = cx.env.target.btf()?;
    let found = btf.find_member(id, &field.text);
    if found.is_none() {
        cx.env.report.push(no_member(btf, id, field));
    }
    found
}

fn member(cx: &mut Body<'_, '_>, memory: Memory, id: BtfId, field: &Ident, span: Span) -> typed::Expr {
    let Memory { pointer, offset_bytes, space } = memory;
    let Some((ty, offset, unit)) = member_type(cx, id, space, field) else { return typed::Expr::poison(span) };
    let pointer = Box::new(pointer);
    let Some(unit) = unit else {
        let kind = typed::ExprKind::Deref { base: pointer, offset_bytes: offset_bytes + offset, bits: None };
        return typed::Expr { kind, ty, span };
    };
    let bits = Some((unit.first, unit.width));
    let kind = typed::ExprKind::Deref { base: pointer, offset_bytes: offset_bytes + unit.offset_bytes, bits };
    typed::Expr::convert(typed::Expr { kind, ty: unit_type(unit, &ty), span }, &ty)
}

/// A member of a struct in our own memory, not behind a pointer.
fn own_member(
    cx: &mut Body<'_, '_>,
    base: typed::Expr,
    (id, space): (BtfId, Space),
    field: &Ident,
    span: Span,
) -> typed::Expr {
    let Some((ty, offset_bytes, unit)) = member_type(cx, id, space, field) else { return typed::Expr::poison(span) };
    let base = Box::new(base);
    let Some(unit) = unit else {
        return typed::Expr { kind: typed::ExprKind::Part { base, offset_bytes }, ty, span };
    };
    let kind = typed::ExprKind::Part { base, offset_bytes: unit.offset_bytes };
    let word = typed::Expr { kind, ty: unit_type(unit, &ty), span };
    let wide = if ty.as_int().is_some_and(|int| int.signed) { Type::I64 } else { Type::U64 };
    let shift = |op, value: typed::Expr, by: u8| {
        let by = typed::Expr { kind: typed::ExprKind::Int(by.into()), ty: wide.clone(), span };
        let kind = typed::ExprKind::Binary(op, Box::new(value), Box::new(by));
        typed::Expr { kind, ty: wide.clone(), span }
    };
    let up = shift(BinaryOp::ShiftLeft, typed::Expr::convert(word, &wide), 64 - unit.first - unit.width);
    typed::Expr::convert(shift(BinaryOp::ShiftRight, up, 64 - unit.width), &ty)
}

/// Type and offset of a member, and the integer unit that contains it if it is a bit-field.
fn member_type(cx: &mut Body<'_, '_>, id: BtfId, space: Space, field: &Ident) -> Option<(Type, u32, Option<BitUnit>)> {
    let btf = cx.env.target.btf()?;
    let member = find_member(cx, id, field)?;
    let (offset, unit_of) = (member.byte_offset(), member);
    let mut ty = btf.to_type(unit_of.ty);
    if !has_value(&ty) {
        let message =
            format!("`{}` cannot be read: `{}` has no value in scripts", field.text, btf.describe(unit_of.ty));
        let help = "of the floating-point types, only members that are `float` or `double` can be read";
        cx.fail(Diagnostic::error(Code(378), field.span, message).help(help));
        return None;
    }
    retarget(&mut ty, space);
    let size_bytes = layout::of(&ty, Some(btf)).size_bytes;
    let unit = unit_of.bit_unit(size_bytes).filter(|unit| unit.first + unit.width <= 64 && unit.width > 0);
    Some((ty, offset, unit))
}

/// Whether a member of this type can be read.
fn has_value(ty: &Type) -> bool {
    match ty {
        Type::Array { of, .. } => has_value(of),
        ty => *ty != Type::Unknown,
    }
}

/// `args.field`.
pub(super) fn arg(cx: &mut Body<'_, '_>, field: &Ident, span: Span) -> typed::Expr {
    let seed = cx.seed;
    if let Some(arg) = seed.args.iter().find(|a| a.name == field.text) {
        return typed::Expr { kind: arg.kind.clone(), ty: arg.ty.clone(), span };
    }
    let probe = seed.names.first().map_or("", String::as_str);
    if let Some((name, why)) = seed.unreadable.iter().find(|(name, _)| *name == field.text) {
        let message = format!("`args.{name}` cannot be read: it {why}");
        let help = "`profiler list -v PROBE` shows the parameters that can be read";
        return cx.fail(Diagnostic::error(Code(378), field.span, message).help(help));
    }
    if seed.args.is_empty() && seed.unreadable.is_empty() {
        let message = format!("`{probe}` has no `args`");
        return cx.fail(Diagnostic::error(Code(323), span, message).help(why_no_args(seed)));
    }
    let message = format!("`{probe}` has no argument `{}`", field.text);
    let names =
        || seed.args.iter().map(|a| a.name.as_str()).chain(seed.unreadable.iter().map(|(name, _)| name.as_str()));
    let near = similar::nearest(&field.text, names(), 1);
    let all = names().collect::<Vec<_>>().join(", ");
    let help = match near.first() {
        Some(near) => format!("did you mean `{near}`? It has: {all}"),
        None => format!("it has: {all}"),
    };
    cx.fail(Diagnostic::error(Code(324), field.span, message).help(help))
}

/// Why a probe has no `args`, as help.
pub(super) fn why_no_args(seed: &Seed) -> String {
    seed.undescribed.clone().unwrap_or_else(|| seed.no_args.to_string())
}

/// `base.0`.
pub(super) fn tuple_field(cx: &mut Body<'_, '_>, base: &Expr, index: u32, span: Span) -> typed::Expr {
    let base = cx.expr(base);
    let Type::Tuple(parts) = base.ty.clone() else {
        if base.ty == Type::Unknown {
            return base;
        }
        let message = format!("only a tuple has numbered parts, this is {}", cx.one(&base.ty));
        return cx.fail(Diagnostic::error(Code(325), span, message));
    };
    if parts.get(index as usize).is_none() {
        let message = format!("this tuple has {} parts, there is no part {index}", parts.len());
        return cx.fail(Diagnostic::error(Code(325), span, message).help("the first part is `.0`"));
    }
    part(cx, base, index as usize, span)
}

/// `*e`.
pub(super) fn deref(cx: &mut Body<'_, '_>, inner: &Expr, span: Span) -> typed::Expr {
    let base = cx.expr(inner);
    match base.ty.clone() {
        Type::Unknown => base,
        Type::Pointer { mut to, space } if *to != Type::None => {
            retarget(&mut to, space);
            let kind = typed::ExprKind::Deref { base: Box::new(base), offset_bytes: 0, bits: None };
            typed::Expr { kind, ty: *to, span }
        }
        // As in bpftrace: reads the 8 bytes at an address, such as one returned by `kaddr`.
        Type::Int(Int { size_bytes: 8, .. }) => {
            let ty = Type::Pointer { to: Box::new(Type::U64), space: cx.seed.pointer_space };
            let base = Box::new(typed::Expr { ty, ..base });
            typed::Expr { kind: typed::ExprKind::Deref { base, offset_bytes: 0, bits: None }, ty: Type::U64, span }
        }
        other => {
            let message = format!("`*` takes a typed pointer, this is {}", cx.one(&other));
            cx.fail(Diagnostic::error(Code(329), span, message).help("cast it first: `*(uint64 *)…`"))
        }
    }
}

/// `&e`.
pub(super) fn address_of(cx: &mut Body<'_, '_>, inner: &Expr, span: Span) -> typed::Expr {
    let value = cx.expr(inner);
    if value.ty == Type::Unknown {
        return value;
    }
    if let Some(space) = space_of_place(&value) {
        let ty = Type::Pointer { to: Box::new(value.ty.clone()), space };
        return typed::Expr { kind: typed::ExprKind::AddressOf(Box::new(value)), ty, span };
    }
    cx.fail(
        Diagnostic::error(Code(330), span, "only variables and memory that a pointer refers to have an address")
            .help("copy the value to a variable first: `$x = …; &$x`"),
    )
}

/// `offsetof(struct x, a.b)`.
pub(super) fn offsetof(cx: &mut Body<'_, '_>, name: &TypeName, path: &[Ident], span: Span) -> typed::Expr {
    let Some(mut ty) = cx.type_named(name) else { return typed::Expr::poison(span) };
    let mut bits = 0;
    for field in path {
        let (Type::Struct { id, .. }, Some(btf)) = (&ty, cx.env.target.btf()) else {
            return no_fields(cx, &ty.clone(), field, span);
        };
        let Some(member) = btf.find_member(*id, &field.text) else {
            return cx.fail(no_member(btf, *id, field));
        };
        bits += member.bit_offset;
        ty = btf.to_type(member.ty);
    }
    typed::Expr { kind: typed::ExprKind::Int(i64::from(bits / 8)), ty: Type::U64, span }
}

/// The diagnostic for a field that a struct does not have; it lists near or known names.
fn no_member(btf: &Btf, id: BtfId, field: &Ident) -> Diagnostic {
    let names = btf.member_names(id);
    let near = similar::nearest(&field.text, names.iter().copied(), 3);
    let help = match (near.as_slice(), names.get(..MOST_NAMES)) {
        ([], None) => format!("its fields: {}", names.join(", ")),
        ([], Some(first)) => format!("its fields: {}, …", first.join(", ")),
        (near, _) => format!("near names: {}", near.join(", ")),
    };
    let place = if btf.is_added(id) { "" } else { " on this kernel" };
    let message = format!("{} has no field `{}`{place}", btf.describe(id), field.text);
    Diagnostic::error(Code(322), field.span, message).help(help)
}

/// Maximum number of fields that a message lists.
const MOST_NAMES: usize = 12;

/// The type of the integer unit that contains a bit-field, with the field's signedness.
fn unit_type(unit: BitUnit, field: &Type) -> Type {
    let signed = field.as_int().is_some_and(|int| int.signed);
    if field.as_int().is_some_and(|int| int.size_bytes == unit.size_bytes) {
        return field.clone();
    }
    Type::Int(Int { size_bytes: unit.size_bytes, signed })
}

/// Sets the address space of a type: pointers read through a user-space pointer point to user space
/// too.
pub fn retarget(ty: &mut Type, to_space: Space) {
    match ty {
        Type::Pointer { to, space } => {
            *space = to_space;
            retarget(to, to_space);
        }
        Type::Struct { space, .. } => *space = to_space,
        Type::Array { of, .. } => retarget(of, to_space),
        _ => {}
    }
}
