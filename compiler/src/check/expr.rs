//! Expressions.
//!
//! In: an expression of the tree. Out: a [`typed::Expr`].
//! Guarantee: a part of unknown type was reported already, so nothing is said of it again.

use crate::ast::{Expr, ExprKind, Ident, TypeName, UnaryOp};
use crate::check::{Body, types, unify};
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::similar;
use crate::source::Span;
use crate::typed::{self, MapValue};
use crate::types::{Int, Type};
use crate::words::foreign;

impl Body<'_, '_> {
    /// Checks an expression.
    pub fn expr(&mut self, e: &Expr) -> typed::Expr {
        let span = e.span;
        match &e.kind {
            ExprKind::Int(n) | ExprKind::Duration(n) => Self::int_literal(*n, span),
            ExprKind::Decimal { percent, .. } => self.fail(decimal_elsewhere(*percent, span)),
            ExprKind::Str(text) => Self::str_literal(text, span),
            ExprKind::Bool(b) => typed::Expr { kind: typed::ExprKind::Int(i64::from(*b)), ty: Type::Bool, span },
            ExprKind::Name(name) => self.name(name, span),
            ExprKind::Var(name) => self.variable(name, span),
            ExprKind::Map { name, keys } => self.map_value(name, keys, span),
            ExprKind::Positional(index) => self.positional(*index, span),
            ExprKind::PositionalCount => Self::int_literal(self.env.options.positional.len() as u64, span),
            ExprKind::Unary(op, inner) => self.unary(*op, inner, span),
            ExprKind::Binary(op, a, b) => {
                self.units_agree(*op, a, b, span);
                if let Some(checked) = self.compare_with_param(*op, a, b, span) {
                    return checked;
                }
                let (a, b) = (self.expr(a), self.expr(b));
                self.binary(*op, a, b, span)
            }
            ExprKind::Ternary { cond, then, otherwise } => self.ternary(cond, then.as_deref(), otherwise, span),
            ExprKind::Step { target, increment, prefix } => self.step(target, *increment, *prefix, span),
            ExprKind::Call { name, args } => self.call(name, args, span),
            ExprKind::Field(base, field) => self.field(base, field, span),
            ExprKind::TupleField(base, index) => self.tuple_field(base, *index, span),
            ExprKind::Index(base, index) => self.index(base, index, span),
            ExprKind::Cast(ty, inner) => self.cast(ty, inner, span),
            ExprKind::SizeofType(ty) => self.type_named(ty).map_or(Self::poison(span), |ty| self.sizeof(&ty, span)),
            ExprKind::SizeofExpr(inner) => {
                let ty = match &inner.kind {
                    ExprKind::Type(ty) => self.type_named(ty).unwrap_or(Type::Unknown),
                    ExprKind::Name(_) => self.type_or_value(inner),
                    _ => self.natural_type(inner),
                };
                self.sizeof(&ty, span)
            }
            ExprKind::Offsetof(ty, path) => self.offsetof(ty, path, span),
            ExprKind::Type(_) => self.fail(
                Diagnostic::error(Code(366), span, "this is a type, and a value is needed here")
                    .help("a macro can be given a type; a value gets one with `(type)value`"),
            ),
            ExprKind::Tuple(parts) => {
                let parts = parts.iter().map(|p| self.value_for(p)).collect();
                self.tuple(parts, span)
            }
            ExprKind::Record(parts) => {
                let checked = parts.iter().map(|(_, value)| self.value_for(value)).collect();
                let names = parts.iter().map(|(name, _)| name.text.clone()).collect();
                self.record(names, checked, span)
            }
            ExprKind::Block(body, value) => self.in_scope(body, |cx, body| {
                // A block that ends in a call without a value is one itself; whoever wants a value says so.
                let value = cx.expr(value);
                let value = cx.keepable(value);
                let ty = value.ty.clone();
                typed::Expr { kind: typed::ExprKind::Block(body, Box::new(value)), ty, span }
            }),
        }
    }

    /// Values side by side; reports too many.
    pub fn tuple(&mut self, parts: Vec<typed::Expr>, span: Span) -> typed::Expr {
        let ty = Type::Tuple(parts.iter().map(|p| p.ty.clone()).collect());
        self.side_by_side(parts, ty, span)
    }

    /// The same with names.
    pub(super) fn record(&mut self, names: Vec<String>, parts: Vec<typed::Expr>, span: Span) -> typed::Expr {
        let ty = Type::Record(names.into_iter().zip(parts.iter().map(|p| p.ty.clone())).collect());
        self.side_by_side(parts, ty, span)
    }

    fn side_by_side(&mut self, parts: Vec<typed::Expr>, ty: Type, span: Span) -> typed::Expr {
        let count: usize = parts.iter().map(|p| part_count(&p.ty)).sum();
        if count > MAX_PARTS {
            let message =
                format!("this tuple has {count} parts, those of its tuples counted; the limit is {MAX_PARTS}");
            return self
                .fail(Diagnostic::error(Code(319), span, message).help("keep some of them in maps of their own"));
        }
        typed::Expr { kind: typed::ExprKind::Tuple(parts), ty, span }
    }

    fn call(&mut self, name: &Ident, args: &[Expr], span: Span) -> typed::Expr {
        let catalogue = self.env.catalogue;
        if let Some(refused) = self.refuse_of_thread(&name.text, span) {
            return refused;
        }
        if let Some(word) = catalogue.function(&name.text) {
            if word.is_unsafe() && !self.env.options.allow_unsafe {
                let message = format!("`{}` changes the system, so it needs --unsafe", name.text);
                return self.fail(
                    Diagnostic::error(Code(601), span, message)
                        .help("run again with --unsafe if that is what you want"),
                );
            }
            return word.check(self, args, span);
        }
        if let Some(word) = catalogue.builtin(&name.text)
            && let Some(checked) =
                if args.is_empty() { Some(word.check(self, span)) } else { word.check_with(self, args, span) }
        {
            return checked;
        }
        if let Some(word) = catalogue.aggregation(&name.text) {
            let message = format!("`{}()` has no value of its own: it must be assigned to a map", name.text);
            let help = format!("write `{};` as a statement", word.doc().usage());
            return self.fail(Diagnostic::error(Code(203), name.span, message).help(help));
        }
        if catalogue.builtin(&name.text).is_some() {
            let message = format!("`{}` is no function: it takes no argument", name.text);
            return self.fail(Diagnostic::error(Code(203), name.span, message).help(format!("write `{}`", name.text)));
        }
        if let Some((_, instead)) = catalogue.absent_functions.iter().find(|(absent, _)| *absent == name.text) {
            let message = format!("`{}` is not there yet", name.text);
            return self.fail(Diagnostic::error(Code(380), name.span, message).help(*instead));
        }
        if let Some(foreign) = foreign::function(&name.text) {
            let message = format!("`{}` is a function of {}", name.text, foreign.language);
            return self.fail(Diagnostic::error(Code(247), name.span, message).help(foreign.instead));
        }
        let message = format!("there is no function called `{}`", name.text);
        let known = catalogue.functions.iter().map(|w| w.name()).chain(catalogue.aggregations.iter().map(|w| w.name()));
        let near = similar::nearest(&name.text, known, 1);
        let mut diagnostic = Diagnostic::error(Code(203), name.span, message);
        if let Some(near) = near.first() {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        }
        self.fail(diagnostic)
    }

    fn ternary(&mut self, cond: &Expr, then: Option<&Expr>, otherwise: &Expr, span: Span) -> typed::Expr {
        let checked = self.condition(cond);
        let a = then.map_or_else(|| checked.clone(), |e| self.expr(e));
        let b = self.expr(otherwise);
        if a.ty == Type::None && b.ty == Type::None {
            let kind = typed::ExprKind::Ternary(Box::new(checked), Box::new(a), Box::new(b));
            return typed::Expr { kind, ty: Type::None, span };
        }
        let (a, b) = (self.keepable(a), self.keepable(b));
        let Some(ty) = unify(&a.ty, &b.ty) else {
            let message = format!("the two sides differ: {} and {}", self.one(&a.ty), self.one(&b.ty));
            let (at, other) = (b.span, a.span);
            return self.fail(
                Diagnostic::error(Code(306), at, message)
                    .related(other, "the other side")
                    .help("both sides need one type"),
            );
        };
        let (a, b) = (Self::convert(a, &ty), Self::convert(b, &ty));
        typed::Expr { kind: typed::ExprKind::Ternary(Box::new(checked), Box::new(a), Box::new(b)), ty, span }
    }

    fn step(&mut self, target: &Expr, increment: bool, prefix: bool, span: Span) -> typed::Expr {
        let sign = if increment { 1 } else { -1 };
        match &target.kind {
            ExprKind::Var(name) => {
                if self.is_param(name, target.span) {
                    return Self::poison(span);
                }
                let var = self.variable(name, target.span);
                let typed::ExprKind::Var(index) = var.kind else { return var };
                let Some(size) = self.step_size(&var.ty) else { return self.cannot_step(&var.ty, target.span) };
                let kind = typed::ExprKind::StepVar { var: index, by: sign * size, prefix };
                typed::Expr { kind, ty: var.ty, span }
            }
            ExprKind::Map { name, keys } => {
                let map = self.env.maps.index(name);
                self.env.maps.get_mut(map).is_written = true;
                let key = self.map_key(map, keys, target.span).map(Box::new);
                if let Some(MapValue::Aggregate { word, .. }) = self.env.maps.get(map).value {
                    self.cannot_change(map, word, span);
                    return Self::poison(span);
                }
                if self.map_holds(map, &Type::I64, span).is_none() {
                    return Self::poison(span);
                }
                let ty = self.plain_type(map);
                let Some(size) = self.step_size(&ty) else { return self.cannot_step(&ty, target.span) };
                let kind = typed::ExprKind::StepMap { map, key, by: sign * size, prefix };
                typed::Expr { kind, ty, span }
            }
            ExprKind::Field(..) => self.step_in_record(target, sign, prefix, span),
            _ => self.fail(Diagnostic::error(
                Code(316),
                target.span,
                "only a variable `$x` or a map `@x` can be counted up or down",
            )),
        }
    }

    pub(super) fn step_size(&self, ty: &Type) -> Option<i64> {
        match ty {
            Type::Int(_) | Type::Unknown => Some(1),
            Type::Pointer { to, .. } => Some(i64::from(layout::of(to, self.env.target.btf()).size_bytes.max(1))),
            _ => None,
        }
    }

    fn cannot_step(&mut self, ty: &Type, span: Span) -> typed::Expr {
        let message = format!("{} cannot be counted up or down", self.one(ty));
        self.fail(Diagnostic::error(Code(303), span, message))
    }

    fn cast(&mut self, name: &TypeName, inner: &Expr, span: Span) -> typed::Expr {
        let value = self.expr(inner);
        let Some(ty) = self.type_named(name) else { return Self::poison(span) };
        if matches!(value.ty, Type::Array { .. }) || matches!(ty, Type::Array { .. }) {
            return self.cast_array(value, &ty, span);
        }
        let possible = match (&value.ty, &ty) {
            (Type::Unknown, _) => true,
            (from, to) if from == to => true,
            (from, to) => from.is_scalar() && to.is_scalar(),
        };
        if !possible {
            let message = format!("{} cannot be cast to {}", self.one(&value.ty), self.describe(&ty));
            return self.fail(Diagnostic::error(Code(307), span, message));
        }
        // A cast keeps the address space that the pointer came with.
        let ty = match ty {
            Type::Pointer { to, space } => Type::Pointer { to, space: types::space_of(&value.ty, space) },
            other => other,
        };
        let mut converted = Self::convert(value, &ty);
        converted.span = span;
        converted
    }

    /// The type that a bare name is, else that of its value.
    pub(super) fn type_or_value(&mut self, e: &Expr) -> Type {
        if let ExprKind::Name(name) = &e.kind
            && !self.env.defines.contains_key(name)
            && self.env.catalogue.builtin(name).is_none()
        {
            // A macro may have been given `uint8`, which is a name as an argument.
            if let Some(int) = types::named_int(name) {
                return Type::Int(int);
            }
            let ty = TypeName { name: name.clone(), ..TypeName::unnamed(e.span) };
            if let Some(ty) = self.env.target.btf().and_then(|btf| types::find_type(btf, &ty)) {
                return ty;
            }
        }
        self.expr(e).ty
    }

    /// The type whose size `sizeof` of a value is. As in bpftrace, a literal has the smallest type that holds it, alone and in a
    /// tuple.
    fn natural_type(&mut self, e: &Expr) -> Type {
        match &e.kind {
            ExprKind::Int(n) => types::smallest_int(*n),
            ExprKind::Unary(UnaryOp::Neg, inner) => match inner.kind {
                ExprKind::Int(n @ 1..=0x8000_0000) => types::smallest_int(n - 1),
                _ => self.expr(e).ty,
            },
            ExprKind::Tuple(parts) => Type::Tuple(parts.iter().map(|part| self.natural_type(part)).collect()),
            _ => self.expr(e).ty,
        }
    }

    fn sizeof(&mut self, ty: &Type, span: Span) -> typed::Expr {
        let size = layout::of(ty, self.env.target.btf_if_needed(ty)).size_bytes;
        typed::Expr { kind: typed::ExprKind::Int(i64::from(size)), ty: Type::U64, span }
    }

    /// Arrays of integers are cast to an integer of the same size and back: the bytes stay what they are.
    fn cast_array(&mut self, value: typed::Expr, ty: &Type, span: Span) -> typed::Expr {
        if value.ty == Type::Unknown {
            return value;
        }
        let size = |ty: &Type| layout::of(ty, self.env.target.btf_if_needed(ty)).size_bytes;
        let of_ints = |ty: &Type| matches!(ty, Type::Array { of, .. } if matches!(**of, Type::Int(_) | Type::Bool));
        let of_bytes = |ty: &Type| of_ints(ty) && matches!(ty, Type::Array { of, .. } if size(of) == 1);
        let as_int = |size_bytes: u32| {
            let fits = matches!(size_bytes, 1 | 2 | 4 | 8);
            fits.then_some(Type::Int(Int { size_bytes: size_bytes as u8, signed: false }))
        };
        // `(int8[])x` has as many elements as x has bytes.
        let ty = match ty {
            Type::Array { of, len: 0 } if of_ints(ty) => {
                Type::Array { of: of.clone(), len: size(&value.ty) / size(of).max(1) }
            }
            other => other.clone(),
        };
        if of_ints(&ty)
            && value.ty.is_scalar()
            && let Some(int) = as_int(size(&ty))
        {
            let number = Self::convert(value, &int);
            return typed::Expr { kind: typed::ExprKind::Convert(Box::new(number)), ty, span };
        }
        if of_ints(&value.ty)
            && matches!(ty, Type::Int(_))
            && let Some(int) = as_int(size(&value.ty))
        {
            let kind = match Self::place(&value) {
                Some((pointer, offset_bytes, _)) => {
                    typed::ExprKind::Deref { base: Box::new(pointer), offset_bytes, bits: None }
                }
                None => typed::ExprKind::Part { base: Box::new(value), offset_bytes: 0 },
            };
            return Self::convert(typed::Expr { kind, ty: int, span }, &ty);
        }
        if value.ty == ty {
            return typed::Expr { span, ..value };
        }
        // A string in an array of bytes is its characters and what is behind them in its room.
        if matches!(value.ty, Type::Str { .. }) && of_bytes(&ty) && size(&ty) >= size(&value.ty) {
            return typed::Expr { kind: typed::ExprKind::Convert(Box::new(value)), ty, span };
        }
        let message = format!("{} cannot be cast to {}", self.one(&value.ty), self.describe(&ty));
        let help =
            "an integer of 1, 2, 4 or 8 bytes and an array of integers of the same size can be cast to each other";
        self.fail(Diagnostic::error(Code(307), span, message).help(help))
    }

    /// The same value as another type: integers change width and sign, the rest must agree but for room.
    pub fn convert(value: typed::Expr, ty: &Type) -> typed::Expr {
        if value.ty == *ty || value.ty == Type::Unknown || *ty == Type::Unknown {
            return value;
        }
        let span = value.span;
        match (value.kind, &value.ty, ty) {
            (typed::ExprKind::Int(n), _, to) if to.as_int().is_some() => {
                let n =
                    if *to == Type::Bool { i64::from(n != 0) } else { to.as_int().map_or(n, |int| truncate(n, int)) };
                typed::Expr { kind: typed::ExprKind::Int(n), ty: ty.clone(), span }
            }
            (kind @ typed::ExprKind::Str(_), _, Type::Str { .. }) => typed::Expr { kind, ty: ty.clone(), span },
            // In another order, the parts are evaluated as they are written and then put where they belong.
            (typed::ExprKind::Tuple(parts), Type::Record(have), Type::Record(want))
                if have.iter().zip(want).all(|((have, _), (want, _))| have == want) =>
            {
                let parts = parts.into_iter().zip(want).map(|(part, (_, ty))| Self::convert(part, ty)).collect();
                typed::Expr { kind: typed::ExprKind::Tuple(parts), ty: ty.clone(), span }
            }
            (typed::ExprKind::Tuple(parts), _, Type::Tuple(types)) => {
                let parts = parts.into_iter().zip(types).map(|(p, t)| Self::convert(p, t)).collect();
                typed::Expr { kind: typed::ExprKind::Tuple(parts), ty: ty.clone(), span }
            }
            (kind, from, to) if from.is_scalar() && to.is_scalar() => {
                let inner = typed::Expr { kind, ty: from.clone(), span };
                typed::Expr { kind: typed::ExprKind::Convert(Box::new(inner)), ty: ty.clone(), span }
            }
            (kind, from, _) => {
                let inner = typed::Expr { kind, ty: from.clone(), span };
                typed::Expr { kind: typed::ExprKind::Convert(Box::new(inner)), ty: ty.clone(), span }
            }
        }
    }
}

/// Numbers are whole; the words that take a share read it themselves.
fn decimal_elsewhere(percent: bool, span: Span) -> Diagnostic {
    if !percent {
        return Diagnostic::error(Code(123), span, "there are no floating point numbers")
            .help("use a smaller unit or scale the value, such as 1500 for 1.5 thousand");
    }
    Diagnostic::error(Code(394), span, "a percentage stands only where a word asks for one")
        .help("for example `dist(v, 2%)`; `%` between two numbers is the remainder")
}

/// Most parts of a tuple, those of the tuples in it counted; without a limit, `@x = (@x, @x)` would grow for ever.
const MAX_PARTS: usize = 64;

fn part_count(ty: &Type) -> usize {
    match ty {
        Type::Tuple(_) | Type::Record(_) => {
            ty.parts().unwrap_or_default().into_iter().map(part_count).sum::<usize>().max(1)
        }
        _ => 1,
    }
}

/// The low bytes of a constant, extended by its sign.
pub fn truncate(n: i64, int: Int) -> i64 {
    match (int.size_bytes, int.signed) {
        (1, true) => i64::from(n as i8),
        (1, false) => i64::from(n as u8),
        (2, true) => i64::from(n as i16),
        (2, false) => i64::from(n as u16),
        (4, true) => i64::from(n as i32),
        (4, false) => i64::from(n as u32),
        _ => n,
    }
}
