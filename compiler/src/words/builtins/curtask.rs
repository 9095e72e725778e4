//! `curtask`: the kernel's `struct task_struct` of the current thread.

use crate::btf::Kind;
use crate::check;
use crate::ir::Helper;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Space, Type};
use crate::words::{Builtin, Doc};

/// `curtask`.
#[derive(Debug)]
pub struct Curtask;

impl Builtin for Curtask {
    fn name(&self) -> &'static str {
        "curtask"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "curtask",
            summary: "struct task_struct of the current thread",
            page: include_str!("../../../../spec/words/builtins/curtask.md"),
        }
    }

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let btf = cx.env.target.btf();
        // Without BTF the address is still good for comparison and as a key.
        let to = btf
            .and_then(|btf| btf.find(Kind::Struct, "task_struct"))
            .map_or(Type::None, |id| Type::Struct { id, space: Space::Kernel });
        let ty = Type::Pointer { to: Box::new(to), space: Space::Kernel };
        typed::Expr { kind: ExprKind::Builtin(self, Vec::new()), ty, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::Scalar(cx.b.call(Helper::GetCurrentTask, &[]).into())
    }
}
