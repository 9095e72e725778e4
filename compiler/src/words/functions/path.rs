//! `path(path[, size])`: the whole path of a `struct path`.

use super::typed_argument;
use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::Attach;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `path`.
#[derive(Debug)]
pub(super) struct Path;

/// The functions in which the kernel allows it: its `btf_allowlist_d_path`.
const FUNCTIONS: [&str; 9] = [
    "security_file_permission",
    "security_inode_getattr",
    "security_file_open",
    "security_path_truncate",
    "vfs_truncate",
    "vfs_fallocate",
    "dentry_open",
    "vfs_getattr",
    "filp_close",
];

impl Function for Path {
    word!("path", "functions/path");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("path", args.len(), 1..=2, span) {
            return typed::Expr::poison(span);
        }
        if let Attach::Trampoline { function, .. } = &cx.seed.attach
            && !FUNCTIONS.contains(&function.as_str())
        {
            let message = format!("the kernel does not allow `path` in a probe of `{function}`");
            let help = format!("it allows it in iterators and in probes of {}", FUNCTIONS.join(", "));
            return cx.fail(Diagnostic::error(Code(391), span, message).help(help));
        }
        let capacity_bytes = match args.get(1).map(|size| (size, cx.constant_int(size))) {
            None => cx.env.max_strlen,
            Some((_, Some(bytes @ 1..=MAX_BYTES))) => bytes as u32,
            Some((size, _)) => {
                let message = format!("`path` takes a constant size from 1 to {MAX_BYTES}");
                return cx.fail(Diagnostic::error(Code(338), size.span, message));
            }
        };
        let Some(path) = typed_argument::check(cx, "path", &args[0], &["path"]) else {
            return typed::Expr::poison(span);
        };
        typed::Expr::call(self.name(), vec![path], Vec::new(), Type::Str { capacity_bytes }, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let (Some(path), Type::Str { capacity_bytes }) = (call.args.first(), ty) else { return Value::None };
        lower::typed_pointers::whole_path(cx, path, *capacity_bytes)
    }
}

/// Maximum size.
const MAX_BYTES: i64 = check::MAX_STRING_BYTES as i64;
