//! Units of expressions.
//!
//! In: expressions as written; what words, fields and assignments declare. Out: the unit of each, and a diagnostic where two do not
//! go together.
//! Guarantee: units change no type and no code. What was rescaled by hand has none, so nothing prints with a wrong one.

use crate::ast::{BinaryOp, Expr, ExprKind};
use crate::check::Body;
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::glob;
use crate::source::Span;
use crate::typed::MapIndex;
use crate::units::{Mixed, Unit, combined};
use crate::words::Builtin;

/// Fields whose unit is known: the probe, the field, the unit.
const FIELDS: [(&str, &str, Unit); 23] = [
    ("tracepoint:block:*", "nr_sector", Unit::Sectors),
    ("tracepoint:block:*", "nr_sectors", Unit::Sectors),
    ("tracepoint:block:*", "bytes", Unit::Bytes),
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
];

/// `sendmmsg` and `recvmmsg` return a number of messages.
const NOT_BYTES: &str = "mmsg";

impl Body<'_, '_> {
    /// The unit of an expression.
    pub fn unit_of(&self, e: &Expr) -> Unit {
        match &e.kind {
            ExprKind::Duration(_) => Unit::Duration,
            ExprKind::Name(name) => self.env.catalogue.builtin(name).map_or(Unit::None, Builtin::unit),
            ExprKind::Call { name, .. } => self.env.catalogue.builtin(&name.text).map_or(Unit::None, Builtin::unit),
            ExprKind::Var(name) => self.find_var(name).map_or_else(|| self.param_unit(name), |var| self.var_unit(var)),
            ExprKind::Map { name, .. } => self.env.maps.get(self.env.maps.index(name)).unit.unwrap_or_default(),
            ExprKind::Step { target, .. } | ExprKind::Cast(_, target) | ExprKind::Unary(_, target) => {
                self.unit_of(target)
            }
            ExprKind::Binary(op, a, b) => self.unit_of_binary(*op, a, b).unwrap_or_default(),
            ExprKind::Ternary { cond, then, otherwise } => {
                let then = self.unit_of(then.as_deref().unwrap_or(cond));
                if then == Unit::None { self.unit_of(otherwise) } else { then }
            }
            ExprKind::Field(base, name) if matches!(&base.kind, ExprKind::Name(args) if args == "args") => {
                self.unit_of_field(&name.text)
            }
            ExprKind::Field(base, name) => match &base.kind {
                ExprKind::Map { name: map, .. } => {
                    self.env.maps.get(self.env.maps.index(map)).field_unit(&name.text).unwrap_or_default()
                }
                ExprKind::Name(span) => self.env.spans.unit(span, &name.text),
                _ => Unit::None,
            },
            ExprKind::Block(_, last) => self.unit_of(last),
            _ => Unit::None,
        }
    }

    fn unit_of_binary(&self, op: BinaryOp, a: &Expr, b: &Expr) -> Result<Unit, Mixed> {
        combined(op, (self.unit_of(a), literal(a)), (self.unit_of(b), literal(b)))
    }

    fn unit_of_field(&self, field: &str) -> Unit {
        let unit_at = |probe: &String| {
            let known = FIELDS.iter().find(|(pattern, name, _)| *name == field && glob::matches(pattern, probe));
            known.filter(|_| !probe.ends_with(NOT_BYTES)).map_or(Unit::None, |(_, _, unit)| *unit)
        };
        let mut units = self.seed.names.iter().map(unit_at);
        let first = units.next().unwrap_or_default();
        if units.all(|unit| unit == first) { first } else { Unit::None }
    }

    /// Warns where two units do not go together.
    pub fn units_agree(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) {
        let Err(Mixed(left, right)) = self.unit_of_binary(op, a, b) else { return };
        let message = format!("`{}` mixes {} and {}", op.symbol(), left.noun(), right.noun());
        self.error(
            Diagnostic::warning(Code(910), span, message)
                .related(a.span, left.noun())
                .related(b.span, right.noun())
                .help("convert one of them first; a number without a unit goes with any"),
        );
    }

    /// Notes the unit of a value that a map receives; a map that receives several has none.
    pub fn map_receives(&mut self, map: MapIndex, value: &Expr) {
        let unit = self.unit_of(value);
        let info = self.env.maps.get_mut(map);
        self.env.changed |= received(&mut info.unit, unit);
    }
}

/// Joins a unit with what was known; whether that changed anything. Bare numbers go with any unit.
pub(super) fn received(known: &mut Option<Unit>, unit: Unit) -> bool {
    let joined = match (*known, unit) {
        (known, Unit::None) => known,
        (None, unit) => Some(unit),
        (Some(known), unit) if known == unit => Some(unit),
        _ => Some(Unit::None),
    };
    std::mem::replace(known, joined) != joined
}

/// The value of an integer as written.
fn literal(e: &Expr) -> Option<u64> {
    match e.kind {
        ExprKind::Int(n) => Some(n),
        _ => None,
    }
}

/// In the declarative layer, mixed units are errors.
pub fn strict_units(diagnostics: &mut [Diagnostic]) {
    for diagnostic in diagnostics.iter_mut().filter(|diagnostic| diagnostic.code == Code(910)) {
        (diagnostic.code, diagnostic.severity) = (Code(393), Severity::Error);
    }
}
