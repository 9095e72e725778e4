//! `comm`: the name of the current thread, at most 15 characters.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Arg, Helper};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `TASK_COMM_LEN` of the kernel. The helper pads with zeros.
const COMM_BYTES: u32 = 16;

/// `comm`.
#[derive(Debug)]
pub struct Comm;

impl Builtin for Comm {
    fn name(&self) -> &'static str {
        "comm"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "comm",
            summary: "name of the current thread",
            page: include_str!("../../../../spec/words/builtins/comm.md"),
        }
    }

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(self, Vec::new());
        typed::Expr { kind, ty: Type::Str { capacity_bytes: COMM_BYTES }, span }
    }

    fn check_with(&'static self, cx: &mut check::Body<'_, '_>, _args: &[ast::Expr], span: Span) -> Option<typed::Expr> {
        let message = "the name of another process cannot be asked for by its number";
        let help = "keep names where they are at hand: `@name[pid] = comm`";
        Some(cx.fail(Diagnostic::error(Code(380), span, message).help(help)))
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, ty: &Type, _constants: &[Constant]) -> Value {
        // The helper of 6.1 leaves what is behind the string's end as it was, where a key must not have remains of other calls.
        let to = cx.room(ty);
        let arg = cx.address_arg(to);
        cx.b.call_void(Helper::GetCurrentComm, &[arg, Arg::Value(i64::from(COMM_BYTES).into())]);
        Value::Memory(to)
    }
}
