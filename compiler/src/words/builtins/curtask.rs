//! `curtask`: the kernel's `struct task_struct` of the current thread.

use crate::btf::Kind;
use crate::catalogue::Builtin;
use crate::check;
use crate::ir::Helper;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Space, Type};
use crate::words::builtins::ctx::Ctx;

/// `curtask`.
#[derive(Debug)]
pub(super) struct Curtask;

impl Builtin for Curtask {
    word!("curtask", "builtins/curtask");

    fn is_constant(&self) -> bool {
        true
    }

    fn typed_by(&self) -> Option<Helper> {
        // Since 5.11.
        Some(Helper::GetCurrentTaskBtf)
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        if check::visited::is_visit(cx) {
            let context = Ctx.check(cx, span);
            return cx.path(context, &["task"], span);
        }
        let btf = cx.env.target.btf();
        // Without BTF the address is still usable in comparisons and as a key.
        let to = btf
            .and_then(|btf| btf.find(Kind::Struct, "task_struct"))
            .map_or(Type::None, |id| Type::Struct { id, space: Space::Kernel });
        let ty = Type::Pointer { to: Box::new(to), space: Space::Kernel };
        typed::Expr { kind: ExprKind::Builtin(WordName::new(self.name()), Vec::new()), ty, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::Scalar(cx.b.call(Helper::GetCurrentTask, &[]).into())
    }
}
