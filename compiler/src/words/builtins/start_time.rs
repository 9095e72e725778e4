//! Start time of the current process or thread: a builtin that scripts cannot name.
//!
//! In: the kernel's types. Out: a number that a later process with the same id does not have.
//! Guarantee: the value is constant during the life of a process.

use crate::btf::Kind;
use crate::catalogue::{Builtin, Doc, Identity};
use crate::check;
use crate::ir::{Addr, Size};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// The time since boot at which the current thread, or the first thread of its process, started.
#[derive(Debug)]
pub(super) struct StartTime;

/// Distinguishes the current process or thread from later ones; `None` if the kernel's types are
/// not available.
pub(super) fn identity(cx: &mut check::Body<'_, '_>, of_thread: bool, span: Span) -> Option<Identity> {
    let btf = cx.env.target.btf()?;
    let task = btf.find(Kind::Struct, "task_struct")?;
    let offset = |field: &str| btf.find_member(task, field).map(|member| Constant::Int(member.byte_offset().into()));
    let mut constants = vec![offset("start_boottime").or_else(|| offset("real_start_time"))?];
    if !of_thread {
        constants.push(offset("group_leader")?);
    }
    let kind = ExprKind::Builtin(WordName::new(StartTime.name()), constants);
    Some(Identity { value: typed::Expr { kind, ty: Type::U64, span }, of_thread })
}

impl Builtin for StartTime {
    fn name(&self) -> &'static str {
        "start time"
    }

    fn doc(&self) -> Doc {
        Doc { page: "# \n\nWhen the current process or thread started.\n" }
    }

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        typed::Expr::poison(span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, constants: &[Constant]) -> Value {
        let [Constant::Int(start), leader @ ..] = constants else { return Value::None };
        let mut task = lower::ids::task(cx);
        if let [Constant::Int(leader)] = leader {
            task = cx.b.load(Addr::reg(task, *leader as i32), Size::B8);
        }
        Value::Scalar(cx.b.load(Addr::reg(task, *start as i32), Size::B8).into())
    }
}
