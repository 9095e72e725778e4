//! `elapsed`: time in nanoseconds since the run started.

use crate::catalogue::Builtin;
use crate::check;
use crate::ir::{Addr, BinOp, Helper, Section, Size, Width};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::units::Unit;

/// `elapsed`.
#[derive(Debug)]
pub(super) struct Elapsed;

impl Builtin for Elapsed {
    word!("elapsed", "builtins/elapsed");

    fn unit(&self) -> Unit {
        Unit::Duration
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
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
