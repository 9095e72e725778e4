//! Units of expressions.
//!
//! In: expressions as written; the units of builtins, fields and assignments. Out: the unit of each
//! expression, and a diagnostic for incompatible units.
//! Guarantee: units affect neither types nor code. A value that the script rescales has no unit, so
//! nothing is printed with a wrong one.

use crate::ast::{BinaryOp, Expr, ExprKind};
use crate::catalogue::{self, Builtin};
use crate::check::variables::received;
use crate::check::{Body, params, spans};
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::glob;
use crate::source::Span;
use crate::typed::MapIndex;
use crate::units::{Mixed, Unit, combined};

/// Tracepoint fields with a known unit: probe pattern, field, unit.
const FIELDS: [(&str, &str, Unit); 25] = [
    ("tracepoint:block:*", "nr_sector", Unit::Sectors),
    ("tracepoint:block:*", "nr_sectors", Unit::Sectors),
    ("tracepoint:block:*", "bytes", Unit::Bytes),
    ("rawtracepoint:block_rq_complete", "nr_bytes", Unit::Bytes),
    ("tracepoint:kmem:*", "bytes_req", Unit::Bytes),
    ("tracepoint:kmem:*", "bytes_alloc", Unit::Bytes),
    ("tracepoint:net:*", "len", Unit::Bytes),
    ("tracepoint:sched:sched_stat_*", "delay", Unit::Duration),
    ("tracepoint:sched:sched_stat_runtime", "runtime", Unit::Duration),
    ("tracepoint:syscalls:sys_exit_*read", "ret", Unit::Bytes),
    ("tracepoint:syscalls:sys_exit_*write", "ret", Unit::Bytes),
    ("tracepoint:syscalls:sys_exit_pread64", "ret", Unit::Bytes),
    ("tracepoint:syscalls:sys_exit_pwrite64", "ret", Unit::Bytes),
    ("tracepoint:syscalls:sys_exit_*readv*", "ret", Unit::Bytes),
    ("tracepoint:syscalls:sys_exit_*writev*", "ret", Unit::Bytes),
    ("tracepoint:syscalls:sys_exit_recv*", "ret", Unit::Bytes),
    ("tracepoint:syscalls:sys_exit_send*", "ret", Unit::Bytes),
    ("tracepoint:syscalls:sys_enter_*read", "count", Unit::Bytes),
    ("tracepoint:syscalls:sys_enter_*write", "count", Unit::Bytes),
    ("tracepoint:syscalls:sys_enter_pread64", "count", Unit::Bytes),
    ("tracepoint:syscalls:sys_enter_pwrite64", "count", Unit::Bytes),
    ("tracepoint:syscalls:sys_enter_recvfrom", "size", Unit::Bytes),
    ("tracepoint:syscalls:sys_enter_sendto", "len", Unit::Bytes),
    ("tracepoint:syscalls:sys_enter_mmap", "len", Unit::Bytes),
    ("tracepoint:syscalls:sys_enter_munmap", "len", Unit::Bytes),
];

/// `sendmmsg` and `recvmmsg` return a number of messages, not bytes.
const NOT_BYTES: &str = "mmsg";

/// The unit of an expression.
pub(super) fn of(cx: &Body<'_, '_>, e: &Expr) -> Unit {
    match &e.kind {
        ExprKind::Duration(_) => Unit::Duration,
        ExprKind::Name(name) => cx.env.catalogue.builtin(name).map_or(Unit::None, Builtin::unit),
        ExprKind::Call { name, args, .. }
            if cx.env.catalogue.function(&name.text).is_some_and(catalogue::Function::keeps_unit) =>
        {
            args.first().map_or(Unit::None, |first| of(cx, first))
        }
        ExprKind::Call { name, .. } => cx.env.catalogue.builtin(&name.text).map_or(Unit::None, Builtin::unit),
        ExprKind::Var(name) => cx.vars.find(name).map_or_else(|| params::unit(cx, name), |var| cx.vars.unit(var)),
        ExprKind::Map { name, .. } => cx.env.maps.get(cx.env.maps.index(name)).unit.unwrap_or_default(),
        ExprKind::Step { target, .. } | ExprKind::Cast(_, target) | ExprKind::Unary(_, target) => of(cx, target),
        ExprKind::Binary(op, a, b) => of_binary(cx, *op, a, b).unwrap_or_default(),
        ExprKind::Ternary { cond, then, otherwise } => {
            let then = of(cx, then.as_deref().unwrap_or(cond));
            if then == Unit::None { of(cx, otherwise) } else { then }
        }
        ExprKind::Field(base, name) if matches!(&base.kind, ExprKind::Name(args) if args == "args") => {
            of_field(cx, &name.text)
        }
        ExprKind::Field(base, name) => match &base.kind {
            ExprKind::Map { name: map, .. } => {
                cx.env.maps.get(cx.env.maps.index(map)).field_unit(&name.text).unwrap_or_default()
            }
            ExprKind::Name(span) => cx.env.spans.unit(span, &name.text),
            ExprKind::Var(var) => {
                spans::walk::span_of(cx, var).map_or(Unit::None, |span| cx.env.spans.unit(span, &name.text))
            }
            _ => Unit::None,
        },
        ExprKind::Block(_, last) => of(cx, last),
        _ => Unit::None,
    }
}

fn of_binary(cx: &Body<'_, '_>, op: BinaryOp, a: &Expr, b: &Expr) -> Result<Unit, Mixed> {
    combined(op, (of(cx, a), literal(a)), (of(cx, b), literal(b)))
}

fn of_field(cx: &Body<'_, '_>, field: &str) -> Unit {
    let unit_at = |probe: &String| {
        let known = FIELDS.iter().find(|(pattern, name, _)| *name == field && glob::matches(pattern, probe));
        known.filter(|_| !probe.ends_with(NOT_BYTES)).map_or(Unit::None, |(_, _, unit)| *unit)
    };
    let mut units = cx.seed.names.iter().map(unit_at);
    let first = units.next().unwrap_or_default();
    if units.all(|unit| unit == first) { first } else { Unit::None }
}

/// Warns about incompatible units.
pub(super) fn agree(cx: &mut Body<'_, '_>, op: BinaryOp, a: &Expr, b: &Expr, span: Span) {
    let Err(Mixed(left, right)) = of_binary(cx, op, a, b) else { return };
    let message = format!("`{}` mixes {} and {}", op.symbol(), left.noun(), right.noun());
    cx.error(
        Diagnostic::warning(Code(910), span, message)
            .related(a.span, left.noun())
            .related(b.span, right.noun())
            .help("convert one of them first; a number without a unit matches any unit"),
    );
}

/// Records the unit of a value that is assigned to a map; a map with several units has none.
pub(super) fn map_receives(cx: &mut Body<'_, '_>, map: MapIndex, value: &Expr) {
    let unit = of(cx, value);
    let info = cx.env.maps.get_mut(map);
    cx.env.changed |= received(&mut info.unit, unit);
}

/// The value of an integer literal.
fn literal(e: &Expr) -> Option<u64> {
    match e.kind {
        ExprKind::Int(n) => Some(n),
        _ => None,
    }
}

/// Turns mixed units into errors, for the declarative layer.
pub fn strict_units(diagnostics: &mut [Diagnostic]) {
    for diagnostic in diagnostics.iter_mut().filter(|diagnostic| diagnostic.code == Code(910)) {
        (diagnostic.code, diagnostic.severity) = (Code(393), Severity::Error);
    }
}
