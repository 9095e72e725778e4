//! `sarg0` to `sarg9`: arguments of a function that are passed on the stack.

use crate::catalogue::Builtin;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::{Attach, Constant};
use crate::source::Span;
use crate::target::Arch;
use crate::typed::{self, ContextKind, ExprKind};
use crate::types::Type;

/// `sargN`.
#[derive(Debug)]
pub(super) struct Sarg {
    /// N.
    pub index: u32,
    pub name: &'static str,
}

impl Builtin for Sarg {
    fn name(&self) -> &'static str {
        self.name
    }

    word!(page "builtins/sarg");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let at_entry = !matches!(cx.seed.attach, Attach::Uprobe { at_return: true, .. });
        if cx.seed.context.kind != ContextKind::Registers || !at_entry {
            let probe = cx.seed.names.first().cloned().unwrap_or_default();
            let message = format!("`{probe}` has no `{}`", self.name);
            return cx.fail(Diagnostic::error(Code(332), span, message).help("functions have them at their entry"));
        }
        // On x86 the return address is on the stack, below the arguments; on arm64 it is in a
        // register.
        let (stack_pointer, first_bytes) = match cx.env.target.arch() {
            Arch::X86_64 => (152, 8),
            Arch::Aarch64 => (248, 0),
        };
        let ty = Type::Pointer { to: Box::new(Type::U64), space: cx.seed.pointer_space };
        let stack = typed::Expr { kind: ExprKind::Register(stack_pointer), ty, span };
        let offset_bytes = first_bytes + self.index * 8;
        let kind = ExprKind::Deref { base: Box::new(stack), offset_bytes, bits: None };
        typed::Expr { kind, ty: Type::U64, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
