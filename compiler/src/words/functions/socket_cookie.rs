//! `socket_cookie(socket)`: the kernel's number of a socket, unique as long as the machine runs.

use super::typed_argument;
use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::ir::{Arg, Helper};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `socket_cookie`.
#[derive(Debug)]
pub(super) struct SocketCookie;

/// The types that the helper takes: each begins with a `sock_common`.
const SOCKETS: [&str; 6] = ["sock", "sock_common", "tcp_sock", "udp_sock", "inet_sock", "inet_connection_sock"];

impl Function for SocketCookie {
    word!("socket_cookie", "functions/socket_cookie");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("socket_cookie", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        match typed_argument::check(cx, "socket_cookie", &args[0], &SOCKETS) {
            Some(socket) => typed::Expr::call(self.name(), vec![socket], Vec::new(), Type::U64, span),
            None => typed::Expr::poison(span),
        }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(socket) = call.args.first() else { return Value::None };
        let result = lower::typed_pointers::call_or_zero(cx, socket, |cx, socket| {
            cx.b.call(Helper::GetSocketCookie, &[Arg::Value(socket.into())])
        });
        Value::Scalar(result.into())
    }
}
