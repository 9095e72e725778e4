//! `tracepoint:CATEGORY:EVENT`: a place in the kernel that its developers keep stable.
//!
//! A tracepoint whose arguments are not used becomes a raw one, which costs less per event and
//! detaches in microseconds. Those of system calls use two raw tracepoints that distinguish calls
//! by number.

use crate::ast::AttachPoint;
use crate::btf::{Btf, Kind};
use crate::catalogue::{Advice, Listing, Nature, ProbeKind, SelfTest, Trigger};
use crate::check::{ArgField, PidFilter, Points, Seed, named_int};
use crate::glob;
use crate::object::Attach;
use crate::target::{Target, TargetError, TracepointField, TracepointFormat};
use crate::typed::{ContextKind, ExprKind};
use crate::types::{Int, Space, Type};

use super::syscall;

/// `tracepoint`.
#[derive(Debug)]
pub(super) struct Tracepoint;

impl ProbeKind for Tracepoint {
    word!("tracepoint", "probes/tracepoint");

    fn aliases(&self) -> &'static [&'static str] {
        &["t"]
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let Some([category, event]) = cx.parts::<2>(point, "tracepoint:CATEGORY:EVENT") else { return Vec::new() };
        let found = match cx.env.target.tracepoints(&category, &event) {
            Ok(found) => found,
            Err(error) => {
                cx.refused(point.span, &format!("tracepoint `{category}:{event}`"), error);
                return Vec::new();
            }
        };
        let clean_stacks = cx.facts.uses("kstack") && found.len() <= MAX_PERF_POINTS;
        let clean_calls = clean_stacks && cx.env.target.kernel() >= CALL_STACKS_SINCE;
        let (calls, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(c, e)| !clean_calls && syscall::is_one(cx, c, e));
        let mut seeds = syscall::expand(cx, point, &calls);
        for (category, event) in &others {
            let raw = if clean_stacks { None } else { raw(cx, category, event) };
            seeds.extend(raw.or_else(|| perf(cx, point, category, event)));
        }
        seeds
    }

    fn listing(&self) -> Listing {
        Listing::Always(names)
    }

    fn arguments(&self, target: &dyn Target, name: &str) -> Vec<String> {
        let format = name.split_once(':').and_then(|(category, event)| target.tracepoint_format(category, event).ok());
        format.map_or_else(Vec::new, |format| format.fields.iter().map(declaration).collect())
    }

    fn nature(&self, name: &str) -> Nature {
        if name.starts_with("syscalls:") {
            return Nature {
                what: "system call",
                lasts: "stable: programs depend on it",
                way: "about 20 ns before the block; every system call runs a program that filters by number",
            };
        }
        Nature {
            what: "tracepoint: a named instrumentation point in the kernel's source",
            lasts: "name and fields rarely change between kernel versions",
            way: "about 20 ns before the block; with `args`, plus the kernel's trace record",
        }
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![
            SelfTest::needed(
                "system call tracepoint",
                "tracepoint:syscalls:sys_enter_getppid / pid == PID /",
                Trigger::GetParent,
                "mount tracefs: `mount -t tracefs nodev /sys/kernel/tracing`",
            ),
            SelfTest::optional(
                "tracepoint with arguments",
                "tracepoint:sched:sched_switch / pid == PID && args.next_pid >= 0 /",
                Trigger::Sleep,
                Advice::Text("`rawtracepoint:` needs no tracefs and gives the same events"),
            ),
        ]
    }
}

/// A kernel stack taken in a perf tracepoint starts at the event. In a raw tracepoint, BPF frames
/// come first and are unwound too: 2,056 against 1,718 ns per event, measured once on a busy
/// machine. But each perf tracepoint takes 40 to 85 ms to detach.
const MAX_PERF_POINTS: usize = 8;

/// The first kernel where perf tracepoints of system calls are known to have a kernel stack:
/// checked on 6.12. On 6.1 they have the user-mode registers only, and the stack is empty.
const CALL_STACKS_SINCE: (u32, u32) = (6, 12);

/// Record fields that equal an argument of the raw tracepoint: category, event, field, argument,
/// type.
const RAW_FIELDS: [(&str, &str, &str, u32, Type); 2] =
    [("raw_syscalls", "sys_enter", "id", 1, Type::I64), ("raw_syscalls", "sys_exit", "ret", 1, Type::I64)];

/// The tracepoint as a raw one, if it provides all fields that the body uses.
fn raw(cx: &Points<'_, '_>, category: &str, event: &str) -> Option<Seed> {
    let args: Vec<ArgField> = RAW_FIELDS
        .iter()
        .filter(|(c, e, ..)| *c == category && *e == event)
        .map(|(_, _, name, n, ty)| ArgField { name: (*name).into(), kind: ExprKind::ContextArg(*n), ty: ty.clone() })
        .collect();
    let has = |field: &String| args.iter().any(|a| a.name == *field);
    if cx.facts.uses("args")
        && (cx.facts.takes_all_args() || cx.facts.arg_fields.is_empty() || !cx.facts.arg_fields.iter().all(has))
    {
        return None;
    }
    cx.env.target.btf().filter(|btf| btf.raw_tracepoints().contains(event))?;
    let attach = Attach::RawTracepoint { names: vec![event.to_string()] };
    let name = format!("tracepoint:{category}:{event}");
    let mut seed = Seed::new(name, format!("raw_tp/{event}"), ContextKind::RawTracepoint, attach);
    seed.pid_filter = PidFilter::Option;
    seed.args = args;
    Some(seed)
}

/// The tracepoint as a perf event, which provides the whole record.
fn perf(cx: &mut Points<'_, '_>, point: &AttachPoint, category: &str, event: &str) -> Option<Seed> {
    let name = format!("tracepoint:{category}:{event}");
    let space = if category == "syscalls" { Space::User } else { Space::Kernel };
    let attach = Attach::Tracepoint { category: category.to_string(), event: event.to_string() };
    let mut seed = Seed::new(name.clone(), format!("tp/{category}/{event}"), ContextKind::Tracepoint, attach);
    seed.pid_filter = PidFilter::Option;
    seed.pointer_space = space;
    match cx.env.target.tracepoint_format(category, event) {
        Ok(format) => seed.args = args(cx, &format, space),
        Err(error) if cx.facts.uses("args") => {
            cx.refused(point.span, &format!("the format of `{name}`"), error);
            return None;
        }
        Err(_) => {}
    }
    Some(seed)
}

/// The fields of a record as `args`.
fn args(cx: &Points<'_, '_>, format: &TracepointFormat, space: Space) -> Vec<ArgField> {
    format.fields.iter().map(|field| arg(cx, field, space)).collect()
}

fn arg(cx: &Points<'_, '_>, field: &TracepointField, space: Space) -> ArgField {
    let kind = if field.data_loc {
        ExprKind::ContextData(field.offset_bytes)
    } else {
        ExprKind::ContextField(field.offset_bytes)
    };
    ArgField { name: field.name.clone(), kind, ty: field_type(field, space, types_for(cx, field)) }
}

/// The kernel's types, if the body uses this field and its type names a struct, union or enum:
/// looking up types costs start-up time.
pub(super) fn types_for<'a>(cx: &Points<'a, '_>, field: &TracepointField) -> Option<&'a Btf> {
    let names_type = ["struct ", "union ", "enum "].iter().any(|tag| field.c_type.contains(tag));
    if names_type && cx.facts.takes_arg(&field.name) { cx.env.target.btf() } else { None }
}

/// The pointed-to type, from the C type before the star: an integer, another pointer, a struct or
/// union, or a type without a value.
fn pointed(c_type: &str, space: Space, btf: Option<&Btf>) -> Type {
    let c_type = c_type.trim();
    let c_type = c_type.strip_suffix("const").filter(|rest| rest.ends_with([' ', '*'])).unwrap_or(c_type).trim_end();
    match c_type.strip_suffix('*') {
        Some(pointee) => Type::Pointer { to: Box::new(pointed(pointee, space, btf)), space },
        None => {
            let name = c_type.trim_start_matches("const ");
            let is_record = name.starts_with("struct ") || name.starts_with("union ");
            let of_kernel = || Some(Type::Struct { id: btf.filter(|_| is_record)?.find_named(name)?, space });
            named_int(name).map(Type::Int).or_else(of_kernel).unwrap_or(Type::None)
        }
    }
}

/// The type of a field, from its size: a C name can mean different sizes on different
/// architectures.
pub(super) fn field_type(field: &TracepointField, space: Space, btf: Option<&Btf>) -> Type {
    let character = Type::Int(Int { size_bytes: 1, signed: true });
    if field.data_loc {
        return Type::Pointer { to: Box::new(character), space: Space::Kernel };
    }
    if let Some(len) = field.array_len.filter(|len| *len > 0) {
        if field.c_type.trim_start_matches("const ") == "char" {
            return Type::Str { capacity_bytes: len };
        }
        let size_bytes = (field.size_bytes / len).clamp(1, 8) as u8;
        return Type::Array { of: Box::new(Type::Int(Int { size_bytes, signed: field.signed })), len };
    }
    if let Some(pointee) = field.c_type.strip_suffix('*') {
        return Type::Pointer { to: Box::new(pointed(pointee, space, btf)), space };
    }
    if let Some(known) = enumeration(field, btf) {
        return known;
    }
    let size_bytes = match field.size_bytes {
        size @ (1 | 2 | 4) => size as u8,
        _ => 8,
    };
    Type::Int(Int { size_bytes, signed: field.signed })
}

/// The enum of a field, if the kernel's types have it with the size that the record has.
fn enumeration(field: &TracepointField, btf: Option<&Btf>) -> Option<Type> {
    let (btf, name) = (btf?, field.c_type.trim_start_matches("const ").strip_prefix("enum ")?);
    let id = btf.find(Kind::Enum, name.trim())?;
    match btf.to_type(id) {
        ty @ Type::Enum { int, .. } if u32::from(int.size_bytes) == field.size_bytes => Some(ty),
        _ => None,
    }
}

/// `CATEGORY:EVENT`, both with optional wildcards.
fn names(target: &dyn Target, rest: &str) -> Result<Vec<String>, TargetError> {
    let join = |(category, event)| format!("{category}:{event}");
    match rest.split_once(':') {
        Some((category, event)) => Ok(target.tracepoints(category, event)?.into_iter().map(join).collect()),
        None if glob::is_pattern(rest) => {
            let all = target.tracepoints("*", "*")?.into_iter().map(join);
            Ok(all.filter(|name| glob::matches(rest, name)).collect())
        }
        None => Ok(target.tracepoints(rest, "*")?.into_iter().map(join).collect()),
    }
}

/// `char prev_comm[16]`
fn declaration(field: &TracepointField) -> String {
    let array = field.array_len.map_or(String::new(), |len| format!("[{len}]"));
    format!("{} {}{array}", field.c_type, field.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_know_what_is_behind_them() {
        let user = |to| Type::Pointer { to: Box::new(to), space: Space::User };
        let character = Type::Int(Int { size_bytes: 1, signed: true });
        assert_eq!(pointed("const char ", Space::User, None), character);
        for argv in ["const char *const ", "char *", "const char * const "] {
            assert_eq!(pointed(argv, Space::User, None), user(character.clone()), "{argv}");
        }
        assert_eq!(pointed("struct file ", Space::User, None), Type::None);
        assert_eq!(pointed("void *", Space::User, None), user(Type::None));
    }
}
