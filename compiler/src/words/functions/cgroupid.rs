//! `cgroupid(path)`: the cgroup v2 id of a path.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::target::TargetError;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `cgroupid`.
#[derive(Debug)]
pub(super) struct CgroupId;

impl Function for CgroupId {
    word!("cgroupid", "functions/cgroupid");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("cgroupid", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(path) = cx.constant_str(&args[0]) else {
            return cx.fail(Diagnostic::error(Code(339), args[0].span, "the path must be a string constant"));
        };
        let path = String::from_utf8_lossy(&path).into_owned();
        match cx.env.target.cgroup_id(&path) {
            Ok(id) => typed::Expr { kind: ExprKind::Int(id as i64), ty: Type::U64, span },
            Err(error) => {
                let (message, help) = match error {
                    TargetError::Missing { .. } => {
                        (format!("there is no cgroup `{path}`"), "give its path below /sys/fs/cgroup".to_string())
                    }
                    TargetError::Refused(words) | TargetError::Invalid(words) => {
                        (format!("`{path}` is not a cgroup that can be looked up here"), words)
                    }
                };
                cx.fail(Diagnostic::error(Code(344), args[0].span, message).help(help))
            }
        }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
