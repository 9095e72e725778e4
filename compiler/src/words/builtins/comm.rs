//! `comm`: the name of the current thread, at most 15 characters.

use crate::catalogue::Builtin;
use crate::check;
use crate::ir::{Arg, Helper};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `TASK_COMM_LEN` of the kernel.
pub(crate) const COMM_BYTES: u32 = 16;

/// `comm`.
#[derive(Debug)]
pub(crate) struct Comm;

impl Builtin for Comm {
    word!("comm", "builtins/comm");

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
        typed::Expr { kind, ty: Type::Str { capacity_bytes: COMM_BYTES }, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, ty: &Type, _constants: &[Constant]) -> Value {
        if let Some(visited) = lower::visited::name(cx, ty, COMM_BYTES) {
            return visited;
        }
        // The helper of 6.1 does not clear the bytes after the string's end, but a key must not
        // contain stale bytes. `room` zeroes memory that must be padded.
        let to = cx.allocate(ty);
        let arg = cx.address_arg(to);
        cx.b.call_void(Helper::GetCurrentComm, &[arg, Arg::Value(i64::from(COMM_BYTES).into())]);
        Value::Memory(to)
    }
}
