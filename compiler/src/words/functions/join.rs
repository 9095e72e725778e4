//! `join(argv[, separator])`: prints the strings of an argv array, 16 at most, as one line.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Channel, Value};
use crate::object::{Constant, Event};
use crate::results::{Perform, Record, Sink, WordName};
use crate::source::Span;
use crate::typed::{self, Call, ExprKind};
use crate::types::{Int, Type};

/// `join`.
#[derive(Debug)]
pub(super) struct Join;

impl Function for Join {
    word!("join", "functions/join");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("join", args.len(), 1..=2, span) {
            return typed::Expr::poison(span);
        }
        let separator = match args.get(1) {
            None => b" ".to_vec(),
            Some(e) => match cx.constant_str(e) {
                Some(text) => text,
                None => {
                    return cx.fail(Diagnostic::error(Code(339), e.span, "the separator must be a string constant"));
                }
            },
        };
        let pointer = cx.expr(&args[0]);
        let Some(pointer) = cx.address("join", pointer) else { return typed::Expr::poison(span) };
        let separator = String::from_utf8_lossy(&separator).into_owned();
        let word = |index: u32| word_of(&pointer, index, span);
        let words = (0..MAX_WORDS).map(word).collect();
        typed::Expr::call(self.name(), words, vec![Constant::Str(separator)], Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        lower::events::send(cx, Channel::Data, self.name(), &call.constants, &call.args);
        Value::None
    }

    fn in_user_space(&'static self) -> Option<&'static dyn Perform> {
        Some(self)
    }
}

impl Perform for Join {
    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let Some(Constant::Str(separator)) = event.constants.first() else { return };
        let mut line = Vec::new();
        for (index, field) in event.fields.iter().enumerate() {
            let bytes = record.field_bytes(field);
            // A pointer after the end of argv is NULL; reading it yields nothing, not even a NUL.
            if bytes.is_empty() {
                break;
            }
            if index > 0 {
                line.extend_from_slice(separator.as_bytes());
            }
            line.extend(bytes.iter().take_while(|b| **b != 0));
        }
        sink.text("join", &line);
    }
}

/// Maximum number of strings, as in bpftrace.
const MAX_WORDS: u32 = 16;

/// Capacity of one string in bytes.
const WORD_BYTES: u32 = 1024;

/// The string that entry `index` of an array of pointers points to.
fn word_of(argv: &typed::Expr, index: u32, span: Span) -> typed::Expr {
    let space = lower::space_of(argv);
    let chars = Type::Pointer { to: Box::new(Type::Int(Int { size_bytes: 1, signed: true })), space };
    let array = Type::Pointer { to: Box::new(chars.clone()), space };
    let base = typed::Expr { ty: array, ..argv.clone() };
    let kind = ExprKind::Deref { base: Box::new(base), offset_bytes: index * 8, bits: None };
    let pointer = typed::Expr { kind, ty: chars, span };
    let call = Call { word: WordName::new(super::str::Str.name()), args: vec![pointer], constants: Vec::new() };
    typed::Expr { kind: ExprKind::Call(call), ty: Type::Str { capacity_bytes: WORD_BYTES }, span }
}
