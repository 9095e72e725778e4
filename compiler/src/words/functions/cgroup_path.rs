//! `cgroup_path(id[, hierarchies])`: the path of a cgroup.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::Size;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &CgroupPath = &CgroupPath;

/// `cgroup_path`.
#[derive(Debug)]
pub struct CgroupPath;

impl Function for CgroupPath {
    fn name(&self) -> &'static str {
        "cgroup_path"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "cgroup_path(id[, hierarchies])",
            summary: "the path of a cgroup",
            page: include_str!("../../../../spec/words/functions/cgroup_path.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("cgroup_path", args.len(), 1..=2, span) {
            return check::Body::poison(span);
        }
        let Some(id) = cx.int_arg("cgroup_path", &args[0]) else { return check::Body::poison(span) };
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
        let id = check::Body::convert(id, &Type::U64);
        cx.call_of(self, vec![id], vec![filter], Type::CgroupPath, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let ([id], [Constant::Str(filter)]) = (call.args.as_slice(), call.constants.as_slice()) else {
            return Value::None;
        };
        let id = cx.scalar(id);
        let index = cx.string_index(filter);
        let to = cx.room(ty);
        cx.b.store(to, id, Size::B8);
        cx.b.store(to.plus(8), index as i64, Size::B8);
        Value::Memory(to)
    }
}
