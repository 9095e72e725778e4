//! When the current process or thread started: a builtin that no script can name.
//!
//! In: the kernel's types. Out: a number that a later process of the same number does not have.
//! Guarantee: one value during the life of a process.

use crate::btf::Kind;
use crate::check;
use crate::ir::{Addr, Helper, Size};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc, Identity};

/// The time since boot at which the current thread, or the first one of its process, started.
#[derive(Debug)]
struct StartTime;

/// What tells the current process or thread from later ones; nothing where the kernel does not describe its types.
pub(super) fn identity(cx: &mut check::Body<'_, '_>, of_thread: bool, span: Span) -> Option<Identity> {
    let btf = cx.env.target.btf()?;
    let task = btf.find(Kind::Struct, "task_struct")?;
    let offset = |field: &str| btf.find_member(task, field).map(|member| Constant::Int(member.byte_offset().into()));
    let mut constants = vec![offset("start_boottime").or_else(|| offset("real_start_time"))?];
    if !of_thread {
        constants.push(offset("group_leader")?);
    }
    let kind = ExprKind::Builtin(&StartTime, constants);
    Some(Identity { value: typed::Expr { kind, ty: Type::U64, span }, of_thread })
}

impl Builtin for StartTime {
    fn name(&self) -> &'static str {
        "start time"
    }

    fn doc(&self) -> Doc {
        Doc { signature: "", summary: "when the current process or thread started", page: "" }
    }

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        check::Body::poison(span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, constants: &[Constant]) -> Value {
        let [Constant::Int(start), leader @ ..] = constants else { return Value::None };
        // Since 5.11: a task pointer with its type, whose fields need no checked read.
        let mut task = cx.b.call(Helper::GetCurrentTaskBtf, &[]);
        if let [Constant::Int(leader)] = leader {
            task = cx.b.load(Addr::reg(task, *leader as i32), Size::B8);
        }
        Value::Scalar(cx.b.load(Addr::reg(task, *start as i32), Size::B8).into())
    }
}
