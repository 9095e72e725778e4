//! Fields and pointers.
//!
//! In: `e.name`, `e.0`, `*e`, `&e`, `offsetof`. Out: typed expressions over foreign or own memory.
//! Guarantee: a path through structs costs one read, at the sum of the offsets.

use crate::ast::{BinaryOp, Expr, ExprKind, Ident, TypeName};
use crate::btf::{BitUnit, Btf, BtfId, Member};
use crate::check::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::similar;
use crate::source::Span;
use crate::typed;
use crate::types::{Int, Space, Type};

impl Body<'_, '_> {
    /// `base.field` or `base->field`.
    pub fn field(&mut self, base: &Expr, field: &Ident, span: Span) -> typed::Expr {
        if matches!(&base.kind, ExprKind::Name(name) if name == "args") && !self.env.defines.contains_key("args") {
            return self.arg(field, span);
        }
        if let ExprKind::Name(name) = &base.kind
            && let Some(index) = self.env.spans.index(name)
        {
            return self.span_value(index, field, span);
        }
        let whole = Expr { kind: ExprKind::Field(Box::new(base.clone()), field.clone()), span };
        if let Some(refused) = self.statistic_elsewhere(&whole) {
            return refused;
        }
        let base = self.expr(base);
        self.field_of(base, field, span)
    }

    fn field_of(&mut self, base: typed::Expr, field: &Ident, span: Span) -> typed::Expr {
        match base.ty.clone() {
            Type::Unknown => base,
            Type::Pointer { to, space } => match *to {
                Type::Struct { id, .. } => self.member(base, 0, id, space, field, span),
                other => self.no_fields(&Type::Pointer { to: Box::new(other), space }, field, span),
            },
            Type::Struct { id, space } => match Self::place(&base) {
                Some((pointer, offset_bytes, space)) => self.member(pointer, offset_bytes, id, space, field, span),
                None => self.own_member(base, id, space, field, span),
            },
            Type::Record(parts) => self.record_part(base, &parts, field, span),
            other => self.no_fields(&other, field, span),
        }
    }

    /// The pointer and the distance of foreign memory that an expression denotes.
    pub(super) fn place(e: &typed::Expr) -> Option<(typed::Expr, u32, Space)> {
        match &e.kind {
            typed::ExprKind::Deref { base, offset_bytes, bits: None } => {
                let Type::Pointer { space, .. } = base.ty else { return None };
                Some((base.as_ref().clone(), *offset_bytes, space))
            }
            typed::ExprKind::Element { base, .. } => {
                let Type::Pointer { space, .. } = base.ty else { return None };
                let ty = Type::Pointer { to: Box::new(e.ty.clone()), space };
                let address = typed::ExprKind::AddressOf(Box::new(e.clone()));
                Some((typed::Expr { kind: address, ty, span: e.span }, 0, space))
            }
            _ => None,
        }
    }

    fn record_part(&mut self, base: typed::Expr, parts: &[(String, Type)], field: &Ident, span: Span) -> typed::Expr {
        let Some(index) = parts.iter().position(|(name, _)| *name == field.text) else {
            let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
            let message = format!("this record has no part `{}`", field.text);
            let help = format!("it has: {}", names.join(", "));
            return self.fail(Diagnostic::error(Code(322), field.span, message).help(help));
        };
        self.part(base, index, span)
    }

    /// A part of a tuple or record by its number, which it has.
    pub(super) fn part(&mut self, base: typed::Expr, index: usize, span: Span) -> typed::Expr {
        if let typed::ExprKind::Tuple(mut list) = base.kind {
            return list.swap_remove(index);
        }
        let types: Vec<Type> = base.ty.parts().unwrap_or_default().into_iter().cloned().collect();
        let (_, offsets) = layout::tuple(&types, self.env.target.btf_if_needed(&base.ty));
        let kind = typed::ExprKind::Part { base: Box::new(base), offset_bytes: offsets[index] };
        typed::Expr { kind, ty: types[index].clone(), span }
    }

    fn no_fields(&mut self, ty: &Type, field: &Ident, span: Span) -> typed::Expr {
        let message = format!("{} has no field `{}`", self.one(ty), field.text);
        let mut diagnostic = Diagnostic::error(Code(321), field.span, message);
        if ty.is_scalar() {
            diagnostic = diagnostic.help("cast it to a struct first: `((struct NAME *)…).field`");
        }
        diagnostic.span = field.span.to(Span { start: span.end, end: span.end });
        self.fail(diagnostic)
    }

    /// `base.a.b`: fields by their names.
    pub fn path(&mut self, base: typed::Expr, names: &[&str], span: Span) -> typed::Expr {
        names.iter().fold(base, |base, name| {
            let field = Ident { text: (*name).into(), span };
            self.field_of(base, &field, span)
        })
    }

    fn find_member(&mut self, id: BtfId, field: &Ident) -> Option<Member<'_>> {
        let btf = self.env.target.btf()?;
        let found = btf.find_member(id, &field.text);
        if found.is_none() {
            self.env.report.push(no_member(btf, id, field));
        }
        found
    }

    fn member(
        &mut self,
        pointer: typed::Expr,
        offset_bytes: u32,
        id: BtfId,
        space: Space,
        field: &Ident,
        span: Span,
    ) -> typed::Expr {
        let Some((ty, offset, unit)) = self.member_type(id, space, field) else { return Self::poison(span) };
        let pointer = Box::new(pointer);
        let Some(unit) = unit else {
            let kind = typed::ExprKind::Deref { base: pointer, offset_bytes: offset_bytes + offset, bits: None };
            return typed::Expr { kind, ty, span };
        };
        let bits = Some((unit.first, unit.width));
        let kind = typed::ExprKind::Deref { base: pointer, offset_bytes: offset_bytes + unit.offset_bytes, bits };
        Self::convert(typed::Expr { kind, ty: unit_type(unit, &ty), span }, &ty)
    }

    /// A member of a struct in our own memory.
    fn own_member(&mut self, base: typed::Expr, id: BtfId, space: Space, field: &Ident, span: Span) -> typed::Expr {
        let Some((ty, offset_bytes, unit)) = self.member_type(id, space, field) else { return Self::poison(span) };
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
        let up = shift(BinaryOp::ShiftLeft, Self::convert(word, &wide), 64 - unit.first - unit.width);
        Self::convert(shift(BinaryOp::ShiftRight, up, 64 - unit.width), &ty)
    }

    /// Type and offset of a member, and the integer that holds it when it is a bit-field.
    fn member_type(&mut self, id: BtfId, space: Space, field: &Ident) -> Option<(Type, u32, Option<BitUnit>)> {
        let btf = self.env.target.btf()?;
        let member = self.find_member(id, field)?;
        let (offset, unit_of) = (member.byte_offset(), member);
        let mut ty = btf.to_type(unit_of.ty);
        retarget(&mut ty, space);
        let size_bytes = layout::of(&ty, Some(btf)).size_bytes;
        let unit = unit_of.bit_unit(size_bytes).filter(|unit| unit.first + unit.width <= 64 && unit.width > 0);
        Some((ty, offset, unit))
    }

    /// `args.field`.
    pub(super) fn arg(&mut self, field: &Ident, span: Span) -> typed::Expr {
        let seed = self.seed;
        if let Some(arg) = seed.args.iter().find(|a| a.name == field.text) {
            return typed::Expr { kind: arg.kind.clone(), ty: arg.ty.clone(), span };
        }
        let probe = seed.names.first().map_or("", String::as_str);
        if seed.args.is_empty() {
            let message = format!("`{probe}` has no `args`");
            return self.fail(Diagnostic::error(Code(323), span, message).help(seed.no_args));
        }
        let message = format!("`{probe}` has no argument `{}`", field.text);
        let near = similar::nearest(&field.text, seed.args.iter().map(|a| a.name.as_str()), 1);
        let all = seed.args.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", ");
        let help = match near.first() {
            Some(near) => format!("did you mean `{near}`? It has: {all}"),
            None => format!("it has: {all}"),
        };
        self.fail(Diagnostic::error(Code(324), field.span, message).help(help))
    }

    /// `base.0`.
    pub fn tuple_field(&mut self, base: &Expr, index: u32, span: Span) -> typed::Expr {
        let base = self.expr(base);
        let Type::Tuple(parts) = base.ty.clone() else {
            if base.ty == Type::Unknown {
                return base;
            }
            let message = format!("only a tuple has numbered parts, this is {}", self.one(&base.ty));
            return self.fail(Diagnostic::error(Code(325), span, message));
        };
        if parts.get(index as usize).is_none() {
            let message = format!("this tuple has {} parts, there is no part {index}", parts.len());
            return self.fail(Diagnostic::error(Code(325), span, message).help("the first part is `.0`"));
        }
        self.part(base, index as usize, span)
    }

    /// `*e`.
    pub fn deref(&mut self, inner: &Expr, span: Span) -> typed::Expr {
        let base = self.expr(inner);
        match base.ty.clone() {
            Type::Unknown => base,
            Type::Pointer { mut to, space } if *to != Type::None => {
                retarget(&mut to, space);
                let kind = typed::ExprKind::Deref { base: Box::new(base), offset_bytes: 0, bits: None };
                typed::Expr { kind, ty: *to, span }
            }
            // As in bpftrace: the 8 bytes at an address, such as one that `kaddr` found.
            Type::Int(Int { size_bytes: 8, .. }) => {
                let ty = Type::Pointer { to: Box::new(Type::U64), space: self.seed.pointer_space };
                let base = Box::new(typed::Expr { ty, ..base });
                typed::Expr { kind: typed::ExprKind::Deref { base, offset_bytes: 0, bits: None }, ty: Type::U64, span }
            }
            other => {
                let message = format!("`*` takes a typed pointer, this is {}", self.one(&other));
                self.fail(Diagnostic::error(Code(329), span, message).help("cast it first: `*(uint64 *)…`"))
            }
        }
    }

    /// `&e`.
    pub fn address_of(&mut self, inner: &Expr, span: Span) -> typed::Expr {
        let value = self.expr(inner);
        if let Some((_, _, space)) = Self::place(&value) {
            let ty = Type::Pointer { to: Box::new(value.ty.clone()), space };
            return typed::Expr { kind: typed::ExprKind::AddressOf(Box::new(value)), ty, span };
        }
        if value.ty == Type::Unknown {
            return value;
        }
        self.fail(
            Diagnostic::error(Code(330), span, "only memory behind a pointer has an address here")
                .help("`&` of variables and maps is not compiled yet"),
        )
    }

    /// `offsetof(struct x, a.b)`.
    pub fn offsetof(&mut self, name: &TypeName, path: &[Ident], span: Span) -> typed::Expr {
        let Some(mut ty) = self.type_named(name) else { return Self::poison(span) };
        let mut bits = 0;
        for field in path {
            let (Type::Struct { id, .. }, Some(btf)) = (&ty, self.env.target.btf()) else {
                return self.no_fields(&ty.clone(), field, span);
            };
            let Some(member) = btf.find_member(*id, &field.text) else {
                return self.fail(no_member(btf, *id, field));
            };
            bits += member.bit_offset;
            ty = btf.to_type(member.ty);
        }
        typed::Expr { kind: typed::ExprKind::Int(i64::from(bits / 8)), ty: Type::U64, span }
    }
}

/// A field that a struct does not have, with those that it has.
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

/// Most fields of a struct that a message names.
const MOST_NAMES: usize = 12;

/// The integer that holds a bit-field, with the field's sign.
fn unit_type(unit: BitUnit, field: &Type) -> Type {
    let signed = field.as_int().is_some_and(|int| int.signed);
    if field.as_int().is_some_and(|int| int.size_bytes == unit.size_bytes) {
        return field.clone();
    }
    Type::Int(Int { size_bytes: unit.size_bytes, signed })
}

/// Pointers found behind a user-space pointer point to user space too.
pub(super) fn retarget(ty: &mut Type, to_space: Space) {
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
