//! `len(@x)`: the number of entries of a map.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Len = &Len;

/// `len`.
#[derive(Debug)]
pub struct Len;

impl Function for Len {
    fn name(&self) -> &'static str {
        "len"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "len(@x)",
            summary: "the number of entries of a map",
            page: include_str!("../../../../spec/words/functions/len.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("len", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let Some(map) = cx.whole_map(&args[0]) else {
            let message = "`len` takes a whole map";
            return cx.fail(Diagnostic::error(Code(337), args[0].span, message).help("write `len(@x)`"));
        };
        let info = cx.env.maps.get(map);
        if info.declared.as_ref().is_some_and(|declared| declared.kind.evicts) {
            let diagnostic = check::no_length(&info.name, args[0].span);
            return cx.fail(diagnostic);
        }
        cx.call_of(self, Vec::new(), vec![Constant::Map(map.0)], Type::I64, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(Constant::Map(map)) = call.constants.first() else { return Value::None };
        cx.map_length(typed::MapIndex(*map))
    }
}
