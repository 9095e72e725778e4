//! The building blocks of random scripts: types, maps, probes, constants.
//!
//! In: nothing. Out: tables, and the choice of types. Guarantee: what a fixed script uses from here
//! is the same in every run.

use profiler_compiler::ast::{BinaryOp, Expr};

use super::Generator;
use crate::tree;

/// The types that the generator distinguishes.
#[derive(Debug, Clone, PartialEq)]
pub enum Ty {
    Int,
    Str,
    Tuple(Vec<Ty>),
    /// `kstack`, `ustack`, `ksym(…)`, …: a value that only one builtin or function produces.
    Word(&'static str),
}

/// What a map holds.
#[derive(Debug, Clone)]
pub enum Held {
    Plain(Ty),
    /// Named fields, each stored separately.
    Record(Vec<FieldShape>),
    /// An aggregation, and its arguments after the value.
    Aggregate(&'static str, Vec<u64>),
}

/// A field of a record.
#[derive(Debug, Clone)]
pub struct FieldShape {
    pub name: String,
    pub ty: Ty,
    /// The declared type of a number, in a state.
    pub width: Option<&'static str>,
}

#[derive(Debug, Clone)]
pub struct MapShape {
    pub name: String,
    pub key: Option<Vec<Ty>>,
    pub held: Held,
}

/// A probe and what its context offers.
#[derive(Debug, Clone)]
pub struct ProbeShape {
    pub point: &'static str,
    pub ints: &'static [&'static str],
    pub strings: &'static [&'static str],
    pub stacks: bool,
}

/// Attach points with the integers and strings that they offer, and whether they have stacks.
pub type ProbeEntry = (&'static [&'static str], &'static [&'static str], &'static [&'static str], bool);

pub const OPERATORS: &[BinaryOp] = &[
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Mod,
    BinaryOp::BitAnd,
    BinaryOp::BitOr,
    BinaryOp::BitXor,
    BinaryOp::ShiftLeft,
    BinaryOp::ShiftRight,
];

/// Probes that a test run can execute; the test supplies the raw tracepoints' arguments.
pub const FIXED_POINTS: &[ProbeEntry] = &[
    (&["BEGIN", "END", "interval:s:1"], &[], &[], false),
    (
        &["rawtracepoint:sys_enter", "rawtracepoint:sched_switch"],
        &["arg0", "arg1", "arg2", "arg3", "(int32)arg0", "(uint16)arg1", "(int8)arg2", "(uint32)arg3"],
        &[],
        false,
    ),
];

pub const POINTS: &[ProbeEntry] = &[
    (&["BEGIN", "END", "interval:s:1", "interval:ms:100"], &[], &[], false),
    (
        &["tracepoint:sched:sched_switch"],
        &["args.prev_pid", "args.next_pid", "args.prev_state", "args.next_prio"],
        &["args.prev_comm", "args.next_comm"],
        true,
    ),
    (
        &["tracepoint:sched:sched_process_exec"],
        &["args.pid", "args.old_pid"],
        &["str(args.filename)", "str(args.filename, 30)"],
        true,
    ),
    (
        &["tracepoint:syscalls:sys_enter_openat"],
        &["args.dfd", "args.flags", "args.mode", "args.filename"],
        &["str(args.filename)", "str(args.filename, 17)", "str(args.filename, 200)"],
        true,
    ),
    (
        &["tracepoint:syscalls:sys_enter_write", "tracepoint:syscalls:sys_enter_read"],
        &["args.fd", "args.count", "args.buf"],
        &["str(args.buf)", "str(args.buf, 8)"],
        true,
    ),
    (
        &["tracepoint:syscalls:sys_exit_read", "tracepoint:syscalls:sys_exit_openat", "tracepoint:syscalls:sys_exit_*"],
        &["args.ret"],
        &[],
        true,
    ),
    (&["tracepoint:raw_syscalls:sys_enter"], &["args.id", "args.args[0]", "args.args[5]"], &[], true),
    (&["rawtracepoint:sched_switch", "rawtracepoint:sys_enter"], &["arg0", "arg1", "arg2"], &["str(arg1)"], true),
    (
        &["uprobe:libc:malloc", "uprobe:libc:read", "uprobe:libc:open*"],
        &["arg0", "arg1", "arg2", "reg(\"ip\")", "*(uint32 *)arg1", "*(int8 *)(arg0 + 3)"],
        &["str(arg1)", "str(arg0, 100)"],
        true,
    ),
    (&["uretprobe:libc:malloc", "uretprobe:libc:read"], &["retval", "*(uint16 *)retval"], &["str(retval, 32)"], true),
    (&["profile:hz:99", "software:page-faults:10", "software:cpu-clock:1000000"], &[], &[], true),
];

const KEY_WORDS: &[&str] = &["kstack", "ustack", "kstack(perf, 5)", "ustack(3)", "probe", "username"];
const FIXED_KEY_WORDS: &[&str] = &["probe", "username", "ntop(uid)", "ksym(uid)"];
const WORDS: &[&str] = &["ksym(curtask)", "usym(pid)", "ntop(pid)", "strftime(\"%H\", nsecs)", "probe", "true"];
const FIXED_WORDS: &[&str] = &["ksym(uid)", "usym(pid)", "ntop(pid)", "strftime(\"%H\", uid)", "probe", "true"];

impl Generator {
    pub(super) fn key_ty(&mut self) -> Ty {
        match self.dice.below(10) {
            0 => Ty::Word(self.dice.pick(if self.fixed { FIXED_KEY_WORDS } else { KEY_WORDS })),
            _ => self.ty(2),
        }
    }

    pub(super) fn ty(&mut self, depth: u32) -> Ty {
        match self.dice.below(12) {
            0..=5 => Ty::Int,
            6..=8 => Ty::Str,
            9 => Ty::Word(self.dice.pick(if self.fixed { FIXED_WORDS } else { WORDS })),
            _ if depth > 0 => Ty::Tuple((0..2 + self.dice.below(3)).map(|_| self.ty(depth - 1)).collect()),
            _ => Ty::Int,
        }
    }

    pub(super) fn aggregation(&mut self) -> Held {
        let (word, rest) = match self.dice.below(15) {
            0 | 1 => ("count", vec![]),
            2 => ("sum", vec![]),
            3 => ("min", vec![]),
            4 => ("max", vec![]),
            5 => ("avg", vec![]),
            6 => ("stats", vec![]),
            7 | 8 => ("hist", vec![]),
            9 => ("hist", vec![self.dice.below(6)]),
            10 => ("lhist", vec![0, 1000, 1]),
            11 => ("lhist", vec![5, 17, 4]),
            12 => ("lhist", vec![0, 100_000, 1000]),
            13 => ("dist", vec![]),
            _ => ("sum", vec![]),
        };
        Held::Aggregate(word, rest)
    }

    /// One of the expressions that are given as text.
    pub(super) fn snippet(&mut self, from: &[&'static str]) -> Expr {
        tree::parsed(self.dice.pick(from))
    }
}
