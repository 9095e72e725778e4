//! `nsecs`: time in nanoseconds since boot, including suspend.

use crate::ast;
use crate::catalogue::Builtin;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::Helper;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::units::Unit;

/// `nsecs`.
#[derive(Debug)]
pub(super) struct Nsecs;

impl Builtin for Nsecs {
    word!("nsecs", "builtins/nsecs");

    fn unit(&self) -> Unit {
        Unit::Time
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
        typed::Expr { kind, ty: Type::U64, span }
    }

    fn check_with(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<typed::Expr> {
        let name = match args {
            [ast::Expr { kind: ast::ExprKind::Name(name), .. }] => name.as_str(),
            _ => "",
        };
        let Some(clock) = CLOCKS.iter().position(|(known, _)| *known == name) else {
            let message = "`nsecs` takes the clock it reads: boot, monotonic, tai or sw_tai";
            return Some(cx.fail(Diagnostic::error(Code(381), span, message)));
        };
        if CLOCKS[clock].1 == Helper::KtimeGetTaiNs && cx.env.target.kernel() < TAI_SINCE {
            let message = "probes cannot read the atomic clock (TAI) on this kernel";
            let help = "Linux 6.1 and later do; `nsecs(boot)` and `nsecs(monotonic)` work here";
            return Some(cx.fail(Diagnostic::error(Code(382), span, message).help(help)));
        }
        let kind = ExprKind::Builtin(WordName::new(self.name()), vec![Constant::Int(clock as i64)]);
        Some(typed::Expr { kind, ty: Type::U64, span })
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, constants: &[Constant]) -> Value {
        let clock = match constants {
            [Constant::Int(clock)] => *clock as usize,
            _ => 0,
        };
        let helper = CLOCKS.get(clock).map_or(Helper::KtimeGetBootNs, |(_, helper)| *helper);
        Value::Scalar(cx.b.call(helper, &[]).into())
    }
}

/// The clocks by name. bpftrace emulates `sw_tai`, for kernels without `tai`, with a clock
/// difference that it measures once.
const CLOCKS: [(&str, Helper); 4] = [
    ("boot", Helper::KtimeGetBootNs),
    ("monotonic", Helper::KtimeGetNs),
    ("tai", Helper::KtimeGetTaiNs),
    ("sw_tai", Helper::KtimeGetTaiNs),
];

/// The first kernel whose `tai` clock is available to probes.
const TAI_SINCE: (u32, u32) = (6, 1);
