//! `str(pointer[, size])`: the string at a pointer, at most `size` bytes including NUL.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Space, Type};

/// `str`.
#[derive(Debug)]
pub(super) struct Str;

impl Function for Str {
    word!("str", "functions/str");

    fn only_reads(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("str", args.len(), 1..=2, span) {
            return typed::Expr::poison(span);
        }
        let text = match positional(cx, &args[0]) {
            Some(text) => typed::Expr::string(&text, span),
            None => cx.expr(&args[0]),
        };
        let own = match text.ty {
            Type::Str { capacity_bytes } => Some(i64::from(capacity_bytes)),
            _ => None,
        };
        let Some(size) = args.get(1) else {
            if own.is_some() {
                return text;
            }
            let ty = Type::Str { capacity_bytes: cx.env.max_strlen };
            let Some(pointer) = cx.address("str", text) else { return typed::Expr::poison(span) };
            return typed::Expr::call(self.name(), vec![pointer], Vec::new(), ty, span);
        };
        let Some(size) = cx.int_arg("str", size) else { return typed::Expr::poison(span) };
        let room = match size.kind {
            ExprKind::Int(n @ 1..=MAX_BYTES) => n,
            ExprKind::Int(_) if size.ty != Type::Unknown => {
                let message = format!("`str` takes a size from 1 to {MAX_BYTES}");
                return cx.fail(Diagnostic::error(Code(338), size.span, message));
            }
            _ => i64::from(cx.env.max_strlen),
        };
        // As in bpftrace, where a NUL counts only for what is read from memory.
        if let (true, ExprKind::Str(text), ExprKind::Int(n)) = (is_literal(&args[0]), &text.kind, &size.kind) {
            let length = text.len().min(usize::try_from(*n).unwrap_or(0));
            return typed::Expr::string(&text[..length], span);
        }
        let ty = Type::Str { capacity_bytes: own.map_or(room, |own| own.min(room)) as u32 };
        let source = if own.is_some() { Some(text) } else { cx.address("str", text) };
        let Some(source) = source else { return typed::Expr::poison(span) };
        let size = typed::Expr::convert(size, &Type::U64);
        typed::Expr::call(self.name(), vec![source, size], Vec::new(), ty, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let (Some(source), Type::Str { capacity_bytes }) = (call.args.first(), ty) else { return Value::None };
        let (address, space) = if source.ty.is_scalar() {
            (cx.scalar_reg(source), lower::space_of(source))
        } else {
            let value = cx.expr(source);
            let at = cx.in_memory(value, &source.ty);
            (cx.address(at), Space::Kernel)
        };
        let from = lower::memory::Source { address, space };
        match call.args.get(1) {
            None => lower::memory::read_string(cx, from, *capacity_bytes),
            Some(size) => {
                let size = cx.scalar(size);
                lower::memory::read_string_of(cx, from, size, *capacity_bytes)
            }
        }
    }
}

/// Maximum size.
const MAX_BYTES: i64 = check::MAX_STRING_BYTES as i64;

/// Whether a text is a literal, or made of literals.
fn is_literal(e: &ast::Expr) -> bool {
    match &e.kind {
        ast::ExprKind::Str(_) | ast::ExprKind::Int(_) | ast::ExprKind::Positional(_) => true,
        ast::ExprKind::Unary(_, of) | ast::ExprKind::TupleField(of, _) => is_literal(of),
        ast::ExprKind::Binary(_, a, b) => is_literal(a) && is_literal(b),
        ast::ExprKind::Tuple(parts) => parts.iter().all(is_literal),
        ast::ExprKind::Call { name, args } => name.text == "str" && args.iter().all(is_literal),
        _ => false,
    }
}

/// The text of `$1`, or its rest after skipped characters: `$1 + 2`.
fn positional(cx: &mut check::Body<'_, '_>, e: &ast::Expr) -> Option<Vec<u8>> {
    let ast::ExprKind::Binary(ast::BinaryOp::Add, text, skipped) = &e.kind else {
        return cx.positional_text(e).map(String::into_bytes);
    };
    let text = cx.positional_text(text)?;
    let skipped = usize::try_from(cx.constant_int(skipped)?).ok()?;
    Some(text.as_bytes().get(skipped..).unwrap_or_default().to_vec())
}
