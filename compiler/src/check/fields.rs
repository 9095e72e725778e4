//! Fields, elements and pointers.
//!
//! In: `e.name`, `e.0`, `e[i]`, `*e`, `&e`, `offsetof`. Out: typed expressions over foreign or own memory.
//! Guarantee: a path through structs costs one read, at the sum of the offsets.

use crate::ast::{Expr, ExprKind, Ident, TypeName};
use crate::btf::{Btf, BtfId};
use crate::check::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::similar;
use crate::source::Span;
use crate::typed;
use crate::types::{Space, Type};

impl Body<'_, '_> {
    /// `base.field` or `base->field`.
    pub fn field(&mut self, base: &Expr, field: &Ident, span: Span) -> typed::Expr {
        if matches!(&base.kind, ExprKind::Name(name) if name == "args") && !self.env.defines.contains_key("args") {
            return self.arg(field, span);
        }
        let base = self.expr(base);
        self.field_of(base, field, span)
    }

    fn field_of(&mut self, base: typed::Expr, field: &Ident, span: Span) -> typed::Expr {
        match base.ty.clone() {
            Type::Unknown => base,
            Type::Pointer { to, space } => match *to {
                Type::Struct(id) => self.member(base, 0, id, space, field, span),
                other => self.no_fields(&Type::Pointer { to: Box::new(other), space }, field, span),
            },
            Type::Struct(id) => match base.kind {
                typed::ExprKind::Deref { base: pointer, offset_bytes, .. } => {
                    let Type::Pointer { space, .. } = pointer.ty else { return Self::poison(span) };
                    self.member(*pointer, offset_bytes, id, space, field, span)
                }
                _ => self.no_fields(&Type::Struct(id), field, span),
            },
            other => self.no_fields(&other, field, span),
        }
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

    fn member(
        &mut self,
        pointer: typed::Expr,
        offset_bytes: u32,
        id: BtfId,
        space: Space,
        field: &Ident,
        span: Span,
    ) -> typed::Expr {
        let Some(btf) = self.env.target.btf() else { return Self::poison(span) };
        let Some(member) = btf.find_member(id, &field.text) else {
            return self.fail(no_member(btf, id, field));
        };
        let mut ty = btf.to_type(member.ty);
        retarget(&mut ty, space);
        let size_bits = layout::of(&ty, Some(btf)).size_bytes * 8;
        let (at_bits, bits) = match member.bitfield_width {
            None => (member.bit_offset, None),
            Some(width) => {
                let unit = size_bits.max(8);
                let start = member.bit_offset / unit * unit;
                (start, Some(((member.bit_offset - start) as u8, width)))
            }
        };
        let kind = typed::ExprKind::Deref { base: Box::new(pointer), offset_bytes: offset_bytes + at_bits / 8, bits };
        typed::Expr { kind, ty, span }
    }

    /// `args.field`.
    fn arg(&mut self, field: &Ident, span: Span) -> typed::Expr {
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
        let Some(ty) = parts.get(index as usize) else {
            let message = format!("this tuple has {} parts, there is no part {index}", parts.len());
            return self.fail(Diagnostic::error(Code(325), span, message).help("the first part is `.0`"));
        };
        if let typed::ExprKind::Tuple(mut list) = base.kind {
            return list.swap_remove(index as usize);
        }
        let (_, offsets) = layout::tuple(&parts, self.env.target.btf());
        let kind = typed::ExprKind::Part { base: Box::new(base), offset_bytes: offsets[index as usize] };
        typed::Expr { kind, ty: ty.clone(), span }
    }

    /// `base[index]` of an array or a pointer.
    pub fn index(&mut self, base: &Expr, index: &Expr, span: Span) -> typed::Expr {
        let base = self.expr(base);
        let Some(index) = self.int_arg("[ ]", index) else { return Self::poison(span) };
        let (element, len) = match base.ty.clone() {
            Type::Unknown => return base,
            Type::Array { of, len } => (*of, Some(len)),
            Type::Pointer { to, .. } => (*to, None),
            Type::Str { capacity_bytes } => {
                (Type::Int(crate::types::Int { size_bytes: 1, signed: true }), Some(capacity_bytes))
            }
            other => {
                let message = format!("{} has no elements", self.one(&other));
                return self.fail(Diagnostic::error(Code(326), span, message));
            }
        };
        let constant = match index.kind {
            typed::ExprKind::Int(n) => Some(n),
            _ => None,
        };
        if let (Some(n), Some(len)) = (constant, len)
            && !(0..i64::from(len)).contains(&n)
        {
            let message = format!("this array has {len} elements, there is no element {n}");
            return self.fail(Diagnostic::error(Code(327), index.span, message));
        }
        let stride_bytes = layout::of(&element, self.env.target.btf()).size_bytes;
        self.element(base, element, index, constant, stride_bytes, span)
    }

    fn element(
        &mut self,
        base: typed::Expr,
        element: Type,
        index: typed::Expr,
        constant: Option<i64>,
        stride_bytes: u32,
        span: Span,
    ) -> typed::Expr {
        let offset = constant.and_then(|n| u32::try_from(n).ok()).and_then(|n| n.checked_mul(stride_bytes));
        let kind = match (base.kind.clone(), offset) {
            // An array inside foreign memory: the element is at a fixed distance from the same pointer.
            (typed::ExprKind::Deref { base: pointer, offset_bytes, bits: None }, Some(offset))
                if !matches!(base.ty, Type::Pointer { .. }) =>
            {
                typed::ExprKind::Deref { base: pointer, offset_bytes: offset_bytes + offset, bits: None }
            }
            (typed::ExprKind::ContextField(at), Some(offset)) if !matches!(base.ty, Type::Pointer { .. }) => {
                typed::ExprKind::ContextField(at + offset)
            }
            (_, Some(offset)) if matches!(base.ty, Type::Pointer { .. }) => {
                typed::ExprKind::Deref { base: Box::new(base), offset_bytes: offset, bits: None }
            }
            (typed::ExprKind::Deref { base: pointer, .. }, None) if !matches!(base.ty, Type::Pointer { .. }) => {
                let Type::Pointer { space, .. } = pointer.ty else { return Self::poison(span) };
                let ty = Type::Pointer { to: Box::new(element.clone()), space };
                let address = typed::Expr { kind: typed::ExprKind::AddressOf(Box::new(base)), ty, span };
                typed::ExprKind::Element { base: Box::new(address), index: Box::new(index), stride_bytes }
            }
            (_, None) if matches!(base.ty, Type::Pointer { .. }) => {
                typed::ExprKind::Element { base: Box::new(base), index: Box::new(index), stride_bytes }
            }
            (_, Some(offset)) => typed::ExprKind::Part { base: Box::new(base), offset_bytes: offset },
            (_, None) => {
                let message = "this index must be a constant";
                return self.fail(
                    Diagnostic::error(Code(328), index.span, message).help("arrays behind a pointer take any index"),
                );
            }
        };
        typed::Expr { kind, ty: element, span }
    }

    /// `*e`.
    pub fn deref(&mut self, inner: &Expr, span: Span) -> typed::Expr {
        let base = self.expr(inner);
        match base.ty.clone() {
            Type::Unknown => base,
            Type::Pointer { to, .. } if *to != Type::None => {
                let kind = typed::ExprKind::Deref { base: Box::new(base), offset_bytes: 0, bits: None };
                typed::Expr { kind, ty: *to, span }
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
        if let typed::ExprKind::Deref { base, bits: None, .. } = &value.kind
            && let Type::Pointer { space, .. } = base.ty
        {
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
            let (Type::Struct(id), Some(btf)) = (&ty, self.env.target.btf()) else {
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
    let names: Vec<&str> = btf.members(id).map(|m| m.name).filter(|name| !name.is_empty()).collect();
    let near = similar::nearest(&field.text, names.iter().copied(), 3);
    let help = match (near.as_slice(), names.get(..MOST_NAMES)) {
        ([], None) => format!("its fields: {}", names.join(", ")),
        ([], Some(first)) => format!("its fields: {}, …", first.join(", ")),
        (near, _) => format!("near names: {}", near.join(", ")),
    };
    let message = format!("{} has no field `{}` on this kernel", btf.describe(id), field.text);
    Diagnostic::error(Code(322), field.span, message).help(help)
}

/// Most fields of a struct that a message names.
const MOST_NAMES: usize = 12;

/// Pointers found behind a user-space pointer point to user space too.
fn retarget(ty: &mut Type, to_space: Space) {
    if let Type::Pointer { space, .. } = ty {
        *space = to_space;
    }
}
