//! Type-checks expressions.
//!
//! In: an expression of the tree. Out: a [`typed::Expr`].
//! Guarantee: an operand of unknown type was reported already, so it causes no further diagnostic.

use crate::ast::{BinaryOp, Expr, ExprKind, Ident, TypeName, TypeSuffix, TypeTag, UnaryOp};
use crate::check::program_types;
use crate::check::{
    Body, Dialect, assign, elements, fields, literals, names, operators, params, pinned, records, spans, tuples, types,
    unify, units,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::foreign;
use crate::layout;
use crate::similar;
use crate::source::Span;
use crate::typed::{self, MapValue};
use crate::types::{Int, Type};

impl Body<'_, '_> {
    /// Checks an expression.
    pub fn expr(&mut self, e: &Expr) -> typed::Expr {
        check(self, e)
    }
}

/// Checks an expression.
pub(super) fn check(cx: &mut Body<'_, '_>, e: &Expr) -> typed::Expr {
    let span = e.span;
    match &e.kind {
        ExprKind::Int(n) | ExprKind::Duration(n) => typed::Expr::int(*n, span),
        ExprKind::Decimal { percent, .. } => cx.fail(decimal_elsewhere(*percent, span)),
        ExprKind::Str(text) => typed::Expr::string(text, span),
        ExprKind::Bool(b) => typed::Expr { kind: typed::ExprKind::Int(i64::from(*b)), ty: Type::Bool, span },
        ExprKind::Name(name) => names::bare(cx, name, span),
        ExprKind::Var(name) => names::variable(cx, name, span),
        ExprKind::Map { name, keys } => names::map_value(cx, name, keys, span),
        ExprKind::Positional(index) => literals::positional(cx, *index, span),
        ExprKind::PositionalCount => typed::Expr::int(cx.env.options.positional.len() as u64, span),
        ExprKind::Unary(op, inner) => operators::unary(cx, *op, inner, span),
        ExprKind::Binary(op, a, b) => {
            units::agree(cx, *op, a, b, span);
            if let Some(checked) = params::compare(cx, *op, a, b, span) {
                return checked;
            }
            let (left, right) = (cx.expr(a), cx.expr(b));
            let (left, right) = operators::signed_by_cast(*op, (a, left), (b, right));
            cx.binary(*op, left, right, span)
        }
        ExprKind::Ternary { cond, then, otherwise } => ternary(cx, cond, then.as_deref(), otherwise, span),
        ExprKind::Step { target, increment, prefix } => step(cx, target, *increment, *prefix, span),
        ExprKind::Call { name, args } => call(cx, name, args, span),
        ExprKind::Field(base, field) => fields::named(cx, base, field, span),
        ExprKind::TupleField(base, index) => fields::tuple_field(cx, base, *index, span),
        ExprKind::Index(base, index) => elements::at(cx, base, index, span),
        ExprKind::Cast(ty, inner) => cast(cx, ty, inner, span),
        ExprKind::SizeofType(ty) => cx.type_named(ty).map_or(typed::Expr::poison(span), |ty| sizeof(cx, &ty, span)),
        ExprKind::SizeofExpr(inner) => {
            let ty = match &inner.kind {
                ExprKind::Type(ty) => cx.type_named(ty).unwrap_or(Type::Unknown),
                ExprKind::Name(_) => type_or_value(cx, inner),
                _ => natural_type(cx, inner),
            };
            sizeof(cx, &ty, span)
        }
        ExprKind::Offsetof(ty, path) => cx.offsetof(ty, path, span),
        ExprKind::Type(_) => cx.fail(
            Diagnostic::error(Code(366), span, "this is a type, and a value is needed here")
                .help("a macro can be given a type; a value gets one with `(type)value`"),
        ),
        ExprKind::Tuple(parts) => {
            let parts = parts.iter().map(|p| cx.value_for(p)).collect();
            tuples::tuple(cx, parts, span)
        }
        ExprKind::Record(parts) => {
            let checked = parts.iter().map(|(_, value)| cx.value_for(value)).collect();
            let names = parts.iter().map(|(name, _)| name.text.clone()).collect();
            tuples::record(cx, names, checked, span)
        }
        ExprKind::Block(body, value) => cx.in_scope(|cx| {
            let body = cx.stmts(body);
            // A block that ends in a call without a value has no value either; whoever needs
            // one reports that.
            let value = cx.expr(value);
            let value = assign::keepable(cx, value);
            let ty = value.ty.clone();
            typed::Expr { kind: typed::ExprKind::Block(body, Box::new(value)), ty, span }
        }),
    }
}

fn call(cx: &mut Body<'_, '_>, name: &Ident, args: &[Expr], span: Span) -> typed::Expr {
    let catalogue = cx.env.catalogue;
    if let Some(refused) = spans::values::refuse_of_thread(cx, &name.text, span) {
        return refused;
    }
    if let Some(word) = catalogue.function(&name.text) {
        if word.is_unsafe() && !cx.env.options.allow_unsafe {
            let message = format!("`{}` changes the system, so it needs --unsafe", name.text);
            return cx.fail(
                Diagnostic::error(Code(601), span, message).help("run again with --unsafe if that is what you want"),
            );
        }
        return pinned::refuse(cx, word, span).unwrap_or_else(|| word.check(cx, args, span));
    }
    if let Some(word) = catalogue.builtin(&name.text)
        && let Some(checked) =
            if args.is_empty() { Some(word.check(cx, span)) } else { word.check_with(cx, args, span) }
    {
        return checked;
    }
    if let Some(word) = catalogue.aggregation(&name.text) {
        let message = format!("`{}()` has no value of its own: it must be assigned to a map", name.text);
        let help = format!("write `{};` as a statement", word.doc().usage());
        return cx.fail(Diagnostic::error(Code(203), name.span, message).help(help));
    }
    if catalogue.builtin(&name.text).is_some() {
        let message = format!("`{}` is not a function: it takes no arguments", name.text);
        return cx.fail(Diagnostic::error(Code(203), name.span, message).help(format!("write `{}`", name.text)));
    }
    if let Some((_, instead)) = catalogue.absent_functions.iter().find(|(absent, _)| *absent == name.text) {
        let message = format!("`{}` is not supported", name.text);
        return cx.fail(Diagnostic::error(Code(380), name.span, message).help(*instead));
    }
    if let Some(foreign) = foreign::function(&name.text) {
        let message = format!("`{}` is a function of {}", name.text, foreign.language);
        return cx.fail(Diagnostic::error(Code(247), name.span, message).help(foreign.instead));
    }
    let message = format!("there is no function called `{}`", name.text);
    let known = catalogue.functions.iter().map(|w| w.name()).chain(catalogue.aggregations.iter().map(|w| w.name()));
    let near = similar::nearest(&name.text, known, 1);
    let mut diagnostic = Diagnostic::error(Code(203), name.span, message);
    if let Some(near) = near.first() {
        diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
    }
    cx.fail(diagnostic)
}

fn ternary(cx: &mut Body<'_, '_>, cond: &Expr, then: Option<&Expr>, otherwise: &Expr, span: Span) -> typed::Expr {
    let checked = cx.condition(cond);
    let a = then.map_or_else(|| checked.clone(), |e| cx.expr(e));
    let b = cx.expr(otherwise);
    if a.ty == Type::None && b.ty == Type::None {
        let kind = typed::ExprKind::Ternary(Box::new(checked), Box::new(a), Box::new(b));
        return typed::Expr { kind, ty: Type::None, span };
    }
    let (a, b) = (assign::keepable(cx, a), assign::keepable(cx, b));
    let Some(ty) = unify(&a.ty, &b.ty) else {
        let message = format!("the two sides differ: {} and {}", cx.one(&a.ty), cx.one(&b.ty));
        let (at, other) = (b.span, a.span);
        return cx.fail(
            Diagnostic::error(Code(306), at, message).related(other, "the other side").help("both sides need one type"),
        );
    };
    let (a, b) = (typed::Expr::convert(a, &ty), typed::Expr::convert(b, &ty));
    typed::Expr { kind: typed::ExprKind::Ternary(Box::new(checked), Box::new(a), Box::new(b)), ty, span }
}

fn step(cx: &mut Body<'_, '_>, target: &Expr, increment: bool, prefix: bool, span: Span) -> typed::Expr {
    let sign = if increment { 1 } else { -1 };
    match &target.kind {
        ExprKind::Var(name) => {
            if params::refuse_assignment(cx, name, target.span) {
                return typed::Expr::poison(span);
            }
            let var = names::variable(cx, name, target.span);
            let typed::ExprKind::Var(index) = var.kind else { return var };
            let Some(size) = operators::step_size(cx, &var.ty) else { return cannot_step(cx, &var.ty, target.span) };
            cx.vars.reassigned(index);
            let ty = match var.ty {
                // As with `$x += 1` and in bpftrace, a variable without a declared type takes
                // the type of the result.
                Type::Int(int) if !cx.vars.is_fixed(index) => {
                    let counted = if int.signed || !increment { Type::I64 } else { Type::U64 };
                    let both = unify(&var.ty, &counted).unwrap_or(counted);
                    cx.vars.set_type(index, both.clone());
                    both
                }
                other => other,
            };
            let kind = typed::ExprKind::StepVar { var: index, by: sign * size, prefix };
            typed::Expr { kind, ty, span }
        }
        ExprKind::Map { name, keys } => {
            let map = cx.env.maps.index(name);
            cx.env.maps.get_mut(map).is_written = true;
            let key = names::map_key(cx, map, keys, target.span).map(Box::new);
            if let Some(MapValue::Aggregate { word, .. }) = cx.env.maps.get(map).value.clone() {
                assign::cannot_change(cx, map, &word, span);
                return typed::Expr::poison(span);
            }
            if assign::map_holds(cx, map, &Type::I64, span).is_none() {
                return typed::Expr::poison(span);
            }
            let ty = assign::plain_type(cx, map);
            let Some(size) = operators::step_size(cx, &ty) else { return cannot_step(cx, &ty, target.span) };
            let kind = typed::ExprKind::StepMap { map, key, by: sign * size, prefix };
            typed::Expr { kind, ty, span }
        }
        ExprKind::Field(..) => records::step(cx, target, sign, prefix, span),
        _ => cx.fail(Diagnostic::error(
            Code(316),
            target.span,
            "only a variable `$x` or a map `@x` can be counted up or down",
        )),
    }
}

fn cannot_step(cx: &mut Body<'_, '_>, ty: &Type, span: Span) -> typed::Expr {
    let message = format!("{} cannot be counted up or down", cx.one(ty));
    cx.fail(Diagnostic::error(Code(303), span, message))
}

fn cast(cx: &mut Body<'_, '_>, name: &TypeName, inner: &Expr, span: Span) -> typed::Expr {
    let value = cx.expr(inner);
    let Some(ty) = cx.type_named(name) else { return typed::Expr::poison(span) };
    if let Some(address) = address_of_array(&value, &ty) {
        return typed::Expr { span, ..address };
    }
    if matches!(value.ty, Type::Array { .. }) || matches!(ty, Type::Array { .. }) {
        return cast_array(cx, value, &ty, span);
    }
    if matches!((&value.ty, &ty), (Type::Str { .. }, Type::Bool)) {
        return is_not_empty(cx, value, span);
    }
    let possible = match (&value.ty, &ty) {
        (Type::Unknown, _) => true,
        (from, to) if from == to => true,
        (Type::Str { capacity_bytes: from }, Type::Str { capacity_bytes: to }) => from <= to,
        (from, to) => from.is_scalar() && to.is_scalar(),
    };
    if !possible {
        return cx.fail(impossible_cast(cx, &value.ty, &ty, span));
    }
    // A cast keeps the address space of the pointer.
    let ty = match ty {
        Type::Pointer { to, space } => Type::Pointer { to, space: types::space_of(&value.ty, space) },
        other => other,
    };
    let mut converted = typed::Expr::convert(value, &ty);
    converted.span = span;
    converted
}

/// A string as a boolean: whether it has characters.
fn is_not_empty(cx: &mut Body<'_, '_>, text: typed::Expr, span: Span) -> typed::Expr {
    let empty = typed::Expr::string(b"", text.span);
    cx.binary(BinaryOp::NotEqual, text, empty, span)
}

/// The diagnostic for a cast between values that are not numbers. A string is never truncated by a
/// cast, and never read by one.
fn impossible_cast(cx: &Body<'_, '_>, from: &Type, to: &Type, span: Span) -> Diagnostic {
    let message = format!("{} cannot be cast to {}", cx.one(from), cx.describe(to));
    let diagnostic = Diagnostic::error(Code(307), span, message);
    match (from, to) {
        (Type::Str { .. }, Type::Str { capacity_bytes }) => {
            diagnostic.help(format!("`str(TEXT, {capacity_bytes})` truncates a string"))
        }
        (from, Type::Str { capacity_bytes }) if from.is_scalar() => {
            diagnostic.help(format!("`str(POINTER, {capacity_bytes})` reads the string at an address"))
        }
        _ => diagnostic,
    }
}

/// The address of an array in memory, in a tracepoint's record or in a variable, if it is cast to
/// a pointer, as in C.
fn address_of_array(value: &typed::Expr, ty: &Type) -> Option<typed::Expr> {
    let (Type::Array { .. } | Type::Str { .. }, Type::Pointer { to, .. }) = (&value.ty, ty) else { return None };
    let space = fields::space_of_place(value)?;
    let mut to = to.clone();
    fields::retarget(&mut to, space);
    let kind = typed::ExprKind::AddressOf(Box::new(value.clone()));
    Some(typed::Expr { kind, ty: Type::Pointer { to, space }, span: value.span })
}

/// The type that a bare name denotes, else the type of its value.
pub(super) fn type_or_value(cx: &mut Body<'_, '_>, e: &Expr) -> Type {
    if let ExprKind::Name(name) = &e.kind
        && !cx.env.defines.contains_key(name)
        && cx.env.catalogue.builtin(name).is_none()
    {
        // A macro argument may be a type such as `uint8`, which is parsed as a name.
        if let Some(int) = types::named_int(name) {
            return Type::Int(int);
        }
        let ty = TypeName { name: name.clone(), ..TypeName::unnamed(e.span) };
        match program_types::find(cx, &ty) {
            program_types::Named::Found(ty) => return ty,
            program_types::Named::Asked => return Type::Unknown,
            program_types::Named::Missing(_) => {}
        }
    }
    cx.expr(e).ty
}

/// The type that `sizeof` of a value uses. As in bpftrace, a literal has the smallest type that
/// holds it, alone and within a tuple.
fn natural_type(cx: &mut Body<'_, '_>, e: &Expr) -> Type {
    if let Some(member) = through_pointer(e) {
        return cx.expr(&member).ty;
    }
    match &e.kind {
        ExprKind::Int(n) => types::smallest_int(*n),
        ExprKind::Unary(UnaryOp::Neg, inner) => match inner.kind {
            ExprKind::Int(n @ 1..=0x8000_0000) => types::smallest_int(n - 1),
            _ => cx.expr(e).ty,
        },
        ExprKind::Tuple(parts) => Type::Tuple(parts.iter().map(|part| natural_type(cx, part)).collect()),
        _ => cx.expr(e).ty,
    }
}

/// A member of a number that is cast to a record, `((struct S)0).m`, which is not evaluated: as one
/// of a record at that address.
fn through_pointer(e: &Expr) -> Option<Expr> {
    fn base(e: &Expr) -> Option<Expr> {
        let ExprKind::Cast(ty, inner) = &e.kind else { return through_pointer(e) };
        if !ty.suffixes.is_empty() || !matches!(ty.tag, TypeTag::Struct | TypeTag::Union) {
            return None;
        }
        let ty = TypeName { suffixes: vec![TypeSuffix::Pointer], ..ty.clone() };
        Some(Expr { kind: ExprKind::Cast(ty, inner.clone()), span: e.span })
    }
    let kind = match &e.kind {
        ExprKind::Field(of, name) => ExprKind::Field(Box::new(base(of)?), name.clone()),
        ExprKind::Index(of, index) => ExprKind::Index(Box::new(base(of)?), index.clone()),
        _ => return None,
    };
    Some(Expr { kind, span: e.span })
}

fn sizeof(cx: &mut Body<'_, '_>, ty: &Type, span: Span) -> typed::Expr {
    let size = match ty {
        // bpftrace keeps values of enumerations in 64 bits.
        Type::Enum { .. } if cx.env.options.dialect == Dialect::Bpftrace => 8,
        _ => layout::of(ty, cx.env.target.btf_if_needed(ty)).size_bytes,
    };
    typed::Expr { kind: typed::ExprKind::Int(i64::from(size)), ty: Type::U64, span }
}

/// Casts between arrays of integers and integers of the same size; the bytes are unchanged.
fn cast_array(cx: &mut Body<'_, '_>, value: typed::Expr, ty: &Type, span: Span) -> typed::Expr {
    if value.ty == Type::Unknown {
        return value;
    }
    let size = |ty: &Type| layout::of(ty, cx.env.target.btf_if_needed(ty)).size_bytes;
    let of_ints = |ty: &Type| matches!(ty, Type::Array { of, .. } if matches!(**of, Type::Int(_) | Type::Bool));
    let of_bytes = |ty: &Type| of_ints(ty) && matches!(ty, Type::Array { of, .. } if size(of) == 1);
    let as_int = |size_bytes: u32| {
        let fits = matches!(size_bytes, 1 | 2 | 4 | 8);
        fits.then_some(Type::Int(Int { size_bytes: size_bytes as u8, signed: false }))
    };
    // `(int8[])x` has as many elements as `x` has bytes.
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
        let number = typed::Expr::convert(value, &int);
        return typed::Expr { kind: typed::ExprKind::Convert(Box::new(number)), ty, span };
    }
    if of_ints(&value.ty)
        && matches!(ty, Type::Int(_))
        && let Some(int) = as_int(size(&value.ty))
    {
        let kind = match fields::place(&value) {
            Some(fields::Memory { pointer, offset_bytes, .. }) => {
                typed::ExprKind::Deref { base: Box::new(pointer), offset_bytes, bits: None }
            }
            None => typed::ExprKind::Part { base: Box::new(value), offset_bytes: 0 },
        };
        return typed::Expr::convert(typed::Expr { kind, ty: int, span }, &ty);
    }
    if value.ty == ty {
        return typed::Expr { span, ..value };
    }
    // A string cast to an array of bytes yields its whole buffer: the characters and what
    // follows them.
    if matches!(value.ty, Type::Str { .. }) && of_bytes(&ty) && size(&ty) >= size(&value.ty) {
        return typed::Expr { kind: typed::ExprKind::Convert(Box::new(value)), ty, span };
    }
    // The same bytes, as elements of another size.
    if of_ints(&value.ty) && of_ints(&ty) && size(&value.ty) == size(&ty) {
        return typed::Expr { kind: typed::ExprKind::Convert(Box::new(value)), ty, span };
    }
    let message = format!("{} cannot be cast to {}", cx.one(&value.ty), cx.describe(&ty));
    let help = "arrays of integers of the same size can be cast to each other, and to and from an integer of 1, 2, 4 or 8 \
                bytes";
    cx.fail(Diagnostic::error(Code(307), span, message).help(help))
}

/// The diagnostic for a decimal or a percentage where no function reads one: all other numbers are
/// integers.
fn decimal_elsewhere(percent: bool, span: Span) -> Diagnostic {
    if !percent {
        return Diagnostic::error(Code(123), span, "floating-point numbers are not supported")
            .help("use a smaller unit or scale the value, such as 1500 for 1.5 thousand");
    }
    Diagnostic::error(Code(394), span, "a percentage is not allowed here")
        .help("for example `dist(v, 2%)`; `%` between two numbers is the remainder")
}
