//! `skboutput(path, skb, length, offset)`: appends a packet to a pcap file.

use super::typed_argument;
use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::packets::{HEAD_BYTES, MAX_PACKET_BYTES, Outgoing};
use crate::lower::{self, Value};
use crate::object::{Constant, Event};
use crate::results::{Packet, Perform, Record, Sink};
use crate::source::Span;
use crate::typed;
use crate::types::{Int, Type};

/// `skboutput`.
#[derive(Debug)]
pub(super) struct Skboutput;

impl Function for Skboutput {
    word!("skboutput", "functions/skboutput");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("skboutput", args.len(), 4..=4, span) {
            return typed::Expr::poison(span);
        }
        let path = cx.constant_str(&args[0]).filter(|path| !path.is_empty());
        let Some(path) = path.and_then(|path| String::from_utf8(path).ok()) else {
            let message = "the path must be a string constant that is not empty";
            return cx.fail(Diagnostic::error(Code(339), args[0].span, message));
        };
        let Some(length) = cx.int_arg("skboutput", &args[2]) else { return typed::Expr::poison(span) };
        let offset = cx.constant_int(&args[3]).filter(|offset| (0..i64::from(MAX_PACKET_BYTES)).contains(offset));
        let Some(offset) = offset else {
            let message = format!("the offset must be a constant from 0 to {}", MAX_PACKET_BYTES - 1);
            return cx.fail(Diagnostic::error(Code(338), args[3].span, message));
        };
        let Some(skb) = typed_argument::check(cx, "skboutput", &args[1], &["sk_buff"]) else {
            return typed::Expr::poison(span);
        };
        let size = cx.path(skb.clone(), &["len"], span);
        let constants = vec![Constant::Str(path), Constant::Int(offset)];
        typed::Expr::call(self.name(), vec![skb, size, length], constants, Type::Int(RESULT), span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let ([skb, size, length], [Constant::Str(path), Constant::Int(offset)]) =
            (call.args.as_slice(), call.constants.as_slice())
        else {
            return Value::None;
        };
        let packet = Outgoing { path, skb, size, length, offset_bytes: *offset as u32 };
        lower::packets::send(cx, self.name(), &call.constants, &packet)
    }

    fn in_user_space(&'static self) -> Option<&'static dyn Perform> {
        Some(self)
    }
}

/// 0, or a negative error number.
const RESULT: Int = Int { size_bytes: 4, signed: true };

impl Perform for Skboutput {
    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let [Constant::Str(path), Constant::Int(offset)] = event.constants.as_slice() else { return };
        let word = |at: usize| Some(u64::from_ne_bytes(*record.bytes.get(at..)?.first_chunk()?));
        let (Some(at_ns), Some(size)) = (word(8), word(16)) else { return };
        let from = HEAD_BYTES as usize + *offset as usize;
        // A packet that ends before the offset has nothing to show.
        let Some(bytes) = record.bytes.get(from..).filter(|bytes| !bytes.is_empty()) else { return };
        let size_bytes = (size as u32).saturating_sub(*offset as u32);
        sink.packet(path, &Packet { at_ns, bytes, size_bytes });
    }
}
