//! `assert(condition, message)`: ends the run with an error if a condition does not hold.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind, Stmt, StmtKind};
use crate::types::Type;

/// `assert`.
#[derive(Debug)]
pub(super) struct Assert;

impl Function for Assert {
    word!("assert", "functions/assert");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("assert", args.len(), 2..=2, span) {
            return typed::Expr::poison(span);
        }
        let condition = cx.condition(&args[0]);
        let call = |name: &str, args: Vec<ast::Expr>| {
            let name = ast::Ident { text: name.into(), span };
            ast::Expr { kind: ast::ExprKind::Call { name, args }, span }
        };
        let text = ast::Expr { kind: ast::ExprKind::Str(b"assert failed: %s".to_vec()), span };
        let one = ast::Expr { kind: ast::ExprKind::Int(1), span };
        let told = [call("errorf", vec![text, args[1].clone()]), call("exit", vec![one])];
        let told = told.iter().map(|e| Stmt { kind: StmtKind::Expr(cx.expr(e)), span }).collect();
        let checked = Stmt { kind: StmtKind::If(condition, Vec::new(), told), span };
        let nothing = typed::Expr { kind: ExprKind::Int(0), ty: Type::None, span };
        let kind = ExprKind::Block(vec![checked], Box::new(nothing));
        typed::Expr { kind, ty: Type::None, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
