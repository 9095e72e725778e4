//! `buf(pointer, size)`: raw bytes behind a pointer.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Buf = &Buf;

/// `buf`.
#[derive(Debug)]
pub struct Buf;

impl Function for Buf {
    fn name(&self) -> &'static str {
        "buf"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "buf(pointer, size)",
            summary: "raw bytes behind a pointer",
            page: include_str!("../../../../spec/words/functions/buf.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("buf", args.len(), 1..=2, span) {
            return check::Body::poison(span);
        }
        let pointer = cx.expr(&args[0]);
        let known = match &pointer.ty {
            Type::Array { len, .. } => Some(i64::from(*len)),
            Type::Str { capacity_bytes } => Some(i64::from(*capacity_bytes)),
            _ => None,
        };
        let size = match args.get(1) {
            Some(size) => cx.int_arg("buf", size),
            None => known.map(|n| typed::Expr { kind: ExprKind::Int(n), ty: Type::I64, span }),
        };
        let Some(size) = size else {
            let message = "`buf` needs a size";
            return cx.fail(Diagnostic::error(Code(338), span, message).help(self.doc().signature));
        };
        let most = match size.kind {
            ExprKind::Int(n) => n,
            _ => i64::from(cx.env.max_strlen),
        };
        if !(1..=MAX_BYTES).contains(&most) {
            let message = format!("`buf` takes a size from 1 to {MAX_BYTES}");
            return cx.fail(Diagnostic::error(Code(338), size.span, message));
        }
        let Some(pointer) = cx.address("buf", pointer) else { return check::Body::poison(span) };
        let ty = Type::Buf { capacity_bytes: most as u32 };
        let size = check::Body::convert(size, &Type::U64);
        cx.call_of(self, vec![pointer, size], Vec::new(), ty, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let ([pointer, size], Type::Buf { capacity_bytes }) = (call.args.as_slice(), ty) else { return Value::None };
        let space = lower::space_of(pointer);
        let from = cx.scalar_reg(pointer);
        let size = cx.scalar_reg(size);
        cx.read_buffer(from, size, *capacity_bytes, space, ty)
    }
}

/// A buffer is assembled in scratch memory; this bounds it.
const MAX_BYTES: i64 = 16 << 10;
