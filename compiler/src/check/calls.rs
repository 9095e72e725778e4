//! What the words ask for when they check a call.
//!
//! In: arguments as written. Out: typed arguments, constants, map references.

use crate::ast::{Expr, ExprKind};
use crate::check::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::format::{self, Format};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, Call, MapIndex, MapValue};
use crate::types::{Int, Space, StackMode, Type};
use crate::words::{Aggregated, Function};

/// Most frames of a stack: `PERF_MAX_STACK_DEPTH`.
const MAX_FRAMES: i64 = 127;

impl Body<'_, '_> {
    /// A string argument; reports other types.
    pub fn text_arg(&mut self, what: &str, e: &Expr) -> Option<typed::Expr> {
        let value = self.value_for(e);
        if let Type::Unknown | Type::Str { .. } = value.ty {
            return (value.ty != Type::Unknown).then_some(value);
        }
        let message = format!("`{what}` takes a string, this is {}", self.one(&value.ty));
        let help = "a string behind a pointer is read with `str(…)`";
        self.error(Diagnostic::error(Code(385), value.span, message).help(help));
        None
    }

    /// A typed call.
    pub fn call_of(
        &self,
        word: &'static dyn Function,
        args: Vec<typed::Expr>,
        constants: Vec<Constant>,
        ty: Type,
        span: Span,
    ) -> typed::Expr {
        typed::Expr { kind: typed::ExprKind::Call(Call { word, args, constants }), ty, span }
    }

    /// The format and the values of a `printf`-like call, checked against each other.
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
                let help =
                    "conversions: %d %i %u %x %X %o %c %p for numbers, %s for everything, %r %rx %rh for buffers";
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
                let message = format!("`%{}` cannot print {}", conversion.letter, self.one(&value.ty));
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

    /// `@x[key]` of an aggregation: the map and the key.
    pub fn aggregate_entry(&mut self, e: &Expr) -> Option<(MapIndex, typed::Expr)> {
        let ExprKind::Map { name, keys } = &e.kind else { return None };
        let map = self.env.maps.index(name);
        if keys.is_empty() || !matches!(self.env.maps.get(map).value, Some(MapValue::Aggregate { .. })) {
            return None;
        }
        self.map_key(map, keys, e.span).map(|key| (map, key))
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
            (keys, None) => self.map_key(map, keys, args[0].span),
            ([], Some(key)) => match &key.kind {
                ExprKind::Tuple(parts) => self.map_key(map, parts, key.span),
                _ => self.map_key(map, std::slice::from_ref(key), key.span),
            },
            (_, Some(extra)) => {
                let message = "the key is given twice";
                self.error(Diagnostic::error(Code(337), extra.span, message).help(format!("write `{what}(@x, key)`")));
                return None;
            }
        };
        Some((map, key))
    }

    /// The use of an aggregation over one integer.
    pub fn one_integer(&mut self, what: &str, args: &[Expr], span: Span) -> Option<Aggregated> {
        if !self.arity(what, args.len(), 1..=1, span) {
            return None;
        }
        let value = self.int_arg(what, &args[0])?;
        let signed = value.ty.as_int().is_some_and(|int| int.signed);
        let value = Self::convert(value, if signed { &Type::I64 } else { &Type::U64 });
        Some(Aggregated { params: Vec::new(), signed, args: vec![value] })
    }

    /// An address for a word that reads memory: a pointer, a number, or an array in foreign memory.
    pub fn address(&mut self, what: &str, value: typed::Expr) -> Option<typed::Expr> {
        match &value.ty {
            Type::Unknown | Type::Pointer { .. } => Some(value),
            Type::Int(_) => {
                let ty = Type::Pointer { to: Box::new(Type::None), space: self.seed.pointer_space };
                Some(Self::convert(value, &ty))
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

    /// `(mode, limit)` of a stack word, in any order.
    pub fn stack_args(&mut self, args: &[Expr], span: Span) -> Option<(StackMode, u8)> {
        if !self.arity("kstack", args.len(), 0..=2, span) {
            return None;
        }
        let (mut mode, mut limit) = (self.env.stack_mode, MAX_FRAMES);
        for arg in args {
            match &arg.kind {
                ExprKind::Name(name) if name == "bpftrace" => mode = StackMode::Bpftrace,
                ExprKind::Name(name) if name == "perf" => mode = StackMode::Perf,
                ExprKind::Name(name) if name == "raw" => mode = StackMode::Raw,
                ExprKind::Name(name) if !self.env.defines.contains_key(name) => return self.bad_stack(arg.span),
                _ => match self.constant_int(arg) {
                    Some(n @ 1..=MAX_FRAMES) => limit = n,
                    _ => return self.bad_stack(arg.span),
                },
            }
        }
        Some((mode, limit as u8))
    }

    fn bad_stack<T>(&mut self, span: Span) -> Option<T> {
        let message =
            format!("a stack takes a mode (bpftrace, perf or raw) and a constant from 1 to {MAX_FRAMES} frames");
        self.error(Diagnostic::error(Code(349), span, message).help("for example `kstack(perf, 5)`"));
        None
    }
}
