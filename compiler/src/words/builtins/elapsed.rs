//! `elapsed`: time in nanoseconds since the run started.

use crate::check;
use crate::ir::{Addr, BinOp, Helper, Section, Size, Width};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::units::Unit;
use crate::words::{Builtin, Doc};

/// `elapsed`.
#[derive(Debug)]
pub struct Elapsed;

impl Builtin for Elapsed {
    fn name(&self) -> &'static str {
        "elapsed"
    }

    fn unit(&self) -> Unit {
        Unit::Duration
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "elapsed",
            summary: "nanoseconds since the run started",
            page: include_str!("../../../../spec/words/builtins/elapsed.md"),
        }
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(self, Vec::new());
        typed::Expr { kind, ty: Type::U64, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        let offset = cx.start_time_offset();
        let now = cx.b.call(Helper::KtimeGetBootNs, &[]);
        let base = cx.b.data_addr(Section::Bss, offset);
        let start = cx.b.load(Addr::reg(base, 0), Size::B8);
        Value::Scalar(cx.b.bin(BinOp::Sub, Width::W64, now, start).into())
    }
}
