//! Helpers that functions, builtins and aggregations use to check their calls.
//!
//! In: arguments as written. Out: typed arguments, constants, map references.

use std::ops::RangeInclusive;

use crate::ast::{Expr, ExprKind};
use crate::catalogue::Aggregated;
use crate::check::{Body, Dialect, names, with_text};
use crate::diagnostic::{Code, Diagnostic};
use crate::format::{self, Format};
use crate::source::Span;
use crate::typed::{self, MapIndex, MapValue};
use crate::types::{Int, Space, Type};

/// The argument of the probe that a variable stands for.
pub(crate) fn argument_of(cx: &Body<'_, '_>, value: &typed::Expr) -> Option<typed::Expr> {
    match value.kind {
        typed::ExprKind::Var(var) => cx.vars.argument(var).cloned(),
        _ => None,
    }
}

impl Body<'_, '_> {
    /// Reports a call with the wrong number of arguments; returns whether the number is right.
    pub fn arity(&mut self, what: &str, given: usize, allowed: RangeInclusive<usize>, span: Span) -> bool {
        if allowed.contains(&given) {
            return true;
        }
        let (low, high) = (*allowed.start(), *allowed.end());
        let wanted = match (low, high) {
            (0, 0) => "no argument".to_string(),
            (1, 1) => "one argument".to_string(),
            (low, high) if low == high => format!("{low} arguments"),
            (low, usize::MAX) => format!("at least {low} argument{}", if low == 1 { "" } else { "s" }),
            (low, high) if low + 1 == high => format!("{low} or {high} arguments"),
            (low, high) => format!("{low} to {high} arguments"),
        };
        let given = match given {
            0 => "none is".to_string(),
            1 => "one is".to_string(),
            n => format!("{n} are"),
        };
        let message = format!("`{what}` takes {wanted}, {given} given");
        let word = self.env.catalogue.function(what).map(crate::catalogue::Function::doc);
        let word = word.or_else(|| self.env.catalogue.aggregation(what).map(crate::catalogue::Aggregation::doc));
        let mut diagnostic = Diagnostic::error(Code(320), span, message);
        if let Some(doc) = word {
            diagnostic = diagnostic.help(format!("{}: {}", doc.signature(), doc.summary()));
        }
        self.error(diagnostic);
        false
    }

    /// An integer argument; reports other types.
    pub fn int_arg(&mut self, what: &str, e: &Expr) -> Option<typed::Expr> {
        let checked = self.expr(e);
        if checked.ty.as_int().is_some() || checked.ty == Type::Unknown {
            return Some(checked);
        }
        let message = format!("`{what}` takes a number, this is {}", self.one(&checked.ty));
        self.error(Diagnostic::error(Code(303), e.span, message));
        None
    }

    /// A string argument; reports other types.
    pub fn text_arg(&mut self, what: &str, e: &Expr) -> Option<typed::Expr> {
        let value = with_text(self.value_for(e));
        if let Type::Unknown | Type::Str { .. } = value.ty {
            return (value.ty != Type::Unknown).then_some(value);
        }
        let message = format!("`{what}` takes a string, this is {}", self.one(&value.ty));
        let help = "a string behind a pointer is read with `str(…)`";
        self.error(Diagnostic::error(Code(385), value.span, message).help(help));
        None
    }

    /// Converts a value to an address for a function that reads memory: a pointer, a number, or an
    /// array in foreign memory.
    pub fn address(&mut self, what: &str, value: typed::Expr) -> Option<typed::Expr> {
        match &value.ty {
            Type::Unknown | Type::Pointer { .. } => Some(value),
            Type::Int(_) => {
                let ty = Type::Pointer { to: Box::new(Type::None), space: self.seed.pointer_space };
                Some(typed::Expr::convert(value, &ty))
            }
            Type::Array { .. } | Type::Str { .. } if matches!(value.kind, typed::ExprKind::Deref { .. }) => {
                let of = match &value.ty {
                    Type::Array { of, .. } => of.clone(),
                    _ => Box::new(Type::Int(Int { size_bytes: 1, signed: true })),
                };
                let space = match &value.kind {
                    typed::ExprKind::Deref { base, .. } => match base.ty {
                        Type::Pointer { space, .. } => space,
                        _ => Space::Kernel,
                    },
                    _ => Space::Kernel,
                };
                let (ty, span) = (Type::Pointer { to: of, space }, value.span);
                Some(typed::Expr { kind: typed::ExprKind::AddressOf(Box::new(value)), ty, span })
            }
            other => {
                let message = format!("`{what}` takes an address, this is {}", self.one(other));
                self.error(Diagnostic::error(Code(348), value.span, message));
                None
            }
        }
    }

    /// Checks the format of a `printf`-like call against its values; returns both.
    pub fn format_call(&mut self, what: &str, args: &[Expr], span: Span) -> Option<(Format, Vec<typed::Expr>)> {
        if !self.arity(what, args.len(), 1..=usize::MAX, span) {
            return None;
        }
        let Some(text) = self.constant_str(&args[0]) else {
            self.error(
                Diagnostic::error(Code(339), args[0].span, "the format must be a string constant")
                    .help(format!("write `{what}(\"%s\\n\", …)`")),
            );
            return None;
        };
        let parsed = match format::parse(&text) {
            Ok(parsed) => parsed,
            Err(error) => {
                let help = "conversions: %d %i %u %x %X %o %c %p for numbers, %s for everything, %f for float and double, %r %rx %rh for buffers, %gr for \
                     flags of an allocation";
                self.error(Diagnostic::error(Code(345), args[0].span, error.message).help(help));
                return None;
            }
        };
        let values: Vec<typed::Expr> = args[1..].iter().map(|a| self.printed(a)).collect();
        let wanted = parsed.conversions().count();
        if wanted != values.len() {
            let message = format!(
                "the format has {wanted} conversion{}, {} value{} given",
                if wanted == 1 { "" } else { "s" },
                values.len(),
                if values.len() == 1 { " is" } else { "s are" },
            );
            self.error(Diagnostic::error(Code(346), span, message));
            return None;
        }
        for (conversion, value) in parsed.conversions().zip(&values) {
            if value.ty != Type::Unknown && !format::accepts(conversion, &value.ty) {
                let message = format!("`%{}` cannot print {}", conversion.written(), self.one(&value.ty));
                let mut diagnostic = Diagnostic::error(Code(347), value.span, message);
                if conversion.letter == 's' && value.ty.is_scalar() {
                    diagnostic =
                        diagnostic.help("print it with `%d` or `%x`; a string behind a pointer is read with `str(…)`");
                } else if !value.ty.is_scalar() {
                    diagnostic = diagnostic.help("print it with `%s`");
                }
                self.error(diagnostic);
            }
        }
        Some((parsed, values))
    }

    /// Checks an aggregation over one integer.
    pub fn one_integer(&mut self, what: &str, args: &[Expr], span: Span) -> Option<Aggregated> {
        if !self.arity(what, args.len(), 1..=1, span) {
            return None;
        }
        let value = self.int_arg(what, &args[0])?;
        let signed = value.ty.as_int().is_some_and(|int| int.signed);
        let value = typed::Expr::convert(value, if signed { &Type::I64 } else { &Type::U64 });
        Some(Aggregated { params: Vec::new(), signed, args: vec![value] })
    }

    /// The map and key of `f(@x, key)`, `f(@x[key])` and, for scalars, `f(@x)`.
    pub fn map_and_key(&mut self, what: &str, args: &[Expr]) -> Option<(MapIndex, Option<typed::Expr>)> {
        let ExprKind::Map { name, keys } = &args[0].kind else {
            let message = format!("`{what}` takes a map and a key");
            self.error(Diagnostic::error(Code(337), args[0].span, message).help(format!("write `{what}(@x, key)`")));
            return None;
        };
        let map = self.env.maps.index(name);
        let key = match (keys.as_slice(), args.get(1)) {
            (keys, None) => names::map_key(self, map, keys, args[0].span),
            ([], Some(key)) => match &key.kind {
                ExprKind::Tuple(parts) => names::map_key(self, map, parts, key.span),
                _ => names::map_key(self, map, std::slice::from_ref(key), key.span),
            },
            (_, Some(extra)) => {
                let message = "the key is given twice";
                self.error(Diagnostic::error(Code(337), extra.span, message).help(format!("write `{what}(@x, key)`")));
                return None;
            }
        };
        Some((map, key))
    }

    /// `@x[key]` of an aggregation that is printed from user space: the map and the key. In scripts
    /// for bpftrace, which prints values without their keys, programs read those that they can.
    pub fn aggregate_entry(&mut self, e: &Expr) -> Option<(MapIndex, typed::Expr)> {
        let ExprKind::Map { name, keys } = &e.kind else { return None };
        let map = self.env.maps.index(name);
        let Some(MapValue::Aggregate { word, .. }) = &self.env.maps.get(map).value else { return None };
        let is_readable = || self.env.catalogue.aggregation_of(word).reading().is_some();
        if keys.is_empty() || (self.env.options.dialect == Dialect::Bpftrace && is_readable()) {
            return None;
        }
        names::map_key(self, map, keys, e.span).map(|key| (map, key))
    }
}
