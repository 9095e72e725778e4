//! `cgroup_path(id[, hierarchies])`: the path of a cgroup.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::Size;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `cgroup_path`.
#[derive(Debug)]
pub(super) struct CgroupPath;

impl Function for CgroupPath {
    word!("cgroup_path", "functions/cgroup_path");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("cgroup_path", args.len(), 1..=2, span) {
            return typed::Expr::poison(span);
        }
        let Some(id) = cx.int_arg("cgroup_path", &args[0]) else { return typed::Expr::poison(span) };
        let filter = match args.get(1) {
            None => b"*".to_vec(),
            Some(e) => match cx.constant_str(e) {
                Some(text) => text,
                None => {
                    return cx.fail(Diagnostic::error(Code(339), e.span, "the hierarchies must be a string constant"));
                }
            },
        };
        let filter = Constant::Str(String::from_utf8_lossy(&filter).into_owned());
        let id = typed::Expr::convert(id, &Type::U64);
        typed::Expr::call(self.name(), vec![id], vec![filter], Type::CgroupPath, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let ([id], [Constant::Str(filter)]) = (call.args.as_slice(), call.constants.as_slice()) else {
            return Value::None;
        };
        let id = cx.scalar(id);
        let index = cx.string_index(filter);
        let to = cx.allocate(ty);
        cx.b.store(to, id, Size::B8);
        cx.b.store(to.plus(8), index as i64, Size::B8);
        Value::Memory(to)
    }
}
