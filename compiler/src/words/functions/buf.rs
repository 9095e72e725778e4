//! `buf(pointer, size)`: raw bytes at a pointer.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Space, Type};

/// `buf`.
#[derive(Debug)]
pub(super) struct Buf;

impl Function for Buf {
    word!("buf", "functions/buf");

    fn only_reads(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("buf", args.len(), 1..=2, span) {
            return typed::Expr::poison(span);
        }
        let pointer = match &args[0].kind {
            // As a string, a literal ends at a NUL; here it has all its bytes.
            ast::ExprKind::Str(text) => {
                let ty = Type::Str { capacity_bytes: text.len() as u32 + 1 };
                typed::Expr { kind: ExprKind::Str(text.clone()), ty, span: args[0].span }
            }
            _ => cx.expr(&args[0]),
        };
        let known = match &pointer.ty {
            Type::Array { .. } => {
                let btf = cx.env.target.btf_if_needed(&pointer.ty);
                Some(i64::from(layout::of(&pointer.ty, btf).size_bytes))
            }
            Type::Str { capacity_bytes } => Some(i64::from(*capacity_bytes)),
            _ => None,
        };
        let size = match args.get(1) {
            Some(size) => cx.int_arg("buf", size),
            None => known.map(|n| typed::Expr { kind: ExprKind::Int(n), ty: Type::I64, span }),
        };
        let Some(size) = size else {
            let message = "`buf` needs a size";
            return cx.fail(Diagnostic::error(Code(338), span, message).help(self.doc().signature()));
        };
        let most = match size.kind {
            ExprKind::Int(n) => n,
            _ => i64::from(cx.env.max_strlen),
        };
        if !(1..=MAX_BYTES).contains(&most) {
            let message = format!("`buf` takes a size from 1 to {MAX_BYTES}");
            return cx.fail(Diagnostic::error(Code(338), size.span, message));
        }
        // Never read past a value of our own: unrelated memory of ours follows it.
        let is_own = known.is_some() && !matches!(pointer.kind, ExprKind::Deref { .. });
        let most = known.filter(|_| is_own).map_or(most, |known| known.min(most));
        let source = if is_own { Some(pointer) } else { cx.address("buf", pointer) };
        let Some(pointer) = source else { return typed::Expr::poison(span) };
        let ty = Type::Buf { capacity_bytes: most as u32 };
        let size = typed::Expr::convert(size, &Type::U64);
        typed::Expr::call(self.name(), vec![pointer, size], Vec::new(), ty, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let ([pointer, size], Type::Buf { capacity_bytes }) = (call.args.as_slice(), ty) else { return Value::None };
        let (address, space) = if pointer.ty.is_scalar() {
            (cx.scalar_reg(pointer), lower::space_of(pointer))
        } else {
            let value = cx.expr(pointer);
            let at = cx.in_memory(value, &pointer.ty);
            (cx.address(at), Space::Kernel)
        };
        let size = cx.scalar_reg(size);
        let from = lower::memory::Source { address, space };
        lower::builtins::read_buffer(cx, from, size, *capacity_bytes, ty)
    }
}

/// Maximum size.
const MAX_BYTES: i64 = check::MAX_STRING_BYTES as i64;
