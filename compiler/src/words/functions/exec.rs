//! `exec(program, arguments...)`: runs a program without a shell; needs --unsafe.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::format::{self, Format, Piece};
use crate::lower::{self, Channel, Value};
use crate::object::{Constant, Event};
use crate::results::{Perform, Record, Sink};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::functions::formatted;

/// `exec`.
#[derive(Debug)]
pub(super) struct Exec;

/// Separates the words in the text of a record; no word contains it.
const END_OF_WORD: u8 = 0;

impl Function for Exec {
    word!("exec", "functions/exec");

    fn is_unsafe(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("exec", args.len(), 1..=usize::MAX, span) {
            return typed::Expr::poison(span);
        }
        let words: Vec<typed::Expr> = args.iter().map(|arg| cx.printed(arg)).collect();
        // Each word is printed as by `%s`.
        let mut whole = Format::default();
        for _ in &words {
            if !whole.pieces.is_empty() {
                whole.pieces.push(Piece::Text(vec![END_OF_WORD]));
            }
            whole.pieces.extend(format::parse(b"%s").map(|word| word.pieces).unwrap_or_default());
        }
        typed::Expr::call(self.name(), words, vec![Constant::Format(whole)], Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        lower::events::send(cx, Channel::Control, self.name(), &call.constants, &call.args);
        Value::None
    }

    fn in_user_space(&'static self) -> Option<&'static dyn Perform> {
        Some(self)
    }
}

impl Perform for Exec {
    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let Some(text) = formatted::text(event, record, sink) else { return };
        let words: Vec<&[u8]> = text.split(|byte| *byte == END_OF_WORD).collect();
        sink.exec(&words);
    }
}
