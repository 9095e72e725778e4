//! `kprobe:FUNCTION`: the entry of a kernel function, or an offset in it.
//!
//! A single function uses a perf event, which provides all registers; a pattern uses one multi
//! link, whatever it matches.

use std::collections::HashSet;

use super::instead::{self, Mechanism};
use super::{modules, uprobe};
use crate::ast::{AttachPoint, Ident};
use crate::btf::{Btf, FunctionProto};
use crate::catalogue::{Advice, Listing, Nature, ProbeKind, SelfTest, Trigger};
use crate::check::{ArgField, PidFilter, Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::glob;
use crate::object::{Attach, FoundBy, FunctionSite};
use crate::target::{KernelFunction, Target, TargetError};
use crate::typed::{ContextKind, ExprKind};
use crate::types::Type;
use crate::words::builtins::arg::argument_register;
use crate::words::probes::listing;

/// `kprobe`.
#[derive(Debug)]
pub(super) struct Kprobe;

/// Since 6.2: multi links resolve functions of modules by name.
const MULTI_MODULES_SINCE: (u32, u32) = (6, 2);

/// Help text for scripts that use `args`.
const NO_ARGS: &str = "arg0, arg1, … are the arguments as numbers; `fentry:FUNCTION` and `fn:FUNCTION` have `args`";

impl ProbeKind for Kprobe {
    word!("kprobe", "probes/kprobe");

    fn aliases(&self) -> &'static [&'static str] {
        &["k"]
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        expand(cx, point, self.name(), false)
    }

    fn stand_in(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Option<Seed> {
        stand_in(cx, point, self.name(), false)
    }

    fn kernel_modules(&self, _target: &dyn Target, point: &AttachPoint) -> Vec<String> {
        modules::named(point)
    }

    fn listing(&self) -> Listing {
        Listing::ByName(names)
    }

    fn arguments(&self, target: &dyn Target, name: &str) -> Vec<String> {
        listing::function_arguments(target, name, false)
    }

    fn all_arguments(&self, target: &dyn Target, names: &[&str]) -> Vec<Vec<String>> {
        listing::all_function_arguments(target, names, false)
    }

    fn nature(&self, _name: &str) -> Nature {
        super::nature::kernel_function("a call patched into the function, or a breakpoint where that is not possible")
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![
            SelfTest::optional("kprobe", "kprobe:vfs_read / pid == PID /", Trigger::Read, Advice::OtherFunctionProbes),
            SelfTest::optional(
                "kprobe with a wildcard",
                "kprobe:vfs_rea* / pid == PID /",
                Trigger::Read,
                Advice::Text("name the functions one by one, or use a tracepoint"),
            ),
        ]
    }
}

/// A kernel function as an attach point names it.
#[derive(Debug)]
pub(super) struct FunctionPattern<'a> {
    /// The module, or a pattern for it.
    pub module: Option<&'a str>,
    /// The part that names the function.
    pub part: &'a Ident,
    /// The function, or a pattern for it.
    pub function: &'a str,
    /// Offset from its entry, in bytes.
    pub offset_bytes: u64,
}

impl<'a> FunctionPattern<'a> {
    /// The place that an attach point names; reports a malformed one.
    pub(super) fn of(cx: &mut Points<'_, '_>, point: &'a AttachPoint, form: &str) -> Option<FunctionPattern<'a>> {
        let (module, part) = match point.parts.as_slice() {
            [function] => (None, function),
            [module, function] => (Some(module.text.as_str()), function),
            _ => {
                cx.wrong_form(point, form);
                return None;
            }
        };
        let (function, distance) = match part.text.split_once('+') {
            Some((function, distance)) => (function, uprobe::number(distance)),
            None => (part.text.as_str(), Some(0)),
        };
        let is_exact = part.text == function || !(glob::is_pattern(function) || module.is_some_and(glob::is_pattern));
        match distance.filter(|_| is_exact && !function.is_empty()) {
            Some(offset_bytes) => Some(FunctionPattern { module, part, function, offset_bytes }),
            None => {
                cx.wrong_form(point, form);
                None
            }
        }
    }

    /// Whether it may match several functions.
    pub(super) fn is_pattern(&self) -> bool {
        glob::is_pattern(self.function) || self.module.is_some_and(glob::is_pattern)
    }

    /// The functions that it matches, sorted; several may have the same name. Reports a name that
    /// does not exist.
    pub(super) fn find(&self, cx: &mut Points<'_, '_>) -> Option<Vec<KernelFunction>> {
        match cx.env.target.kernel_functions(self.module, self.function) {
            Ok(found) => Some(found),
            Err(error) => {
                let error = if cx.only_asks { error } else { self.explained(cx, error) };
                let what = format!("kernel function `{}`", self.function);
                let instead = instead::help(cx, self, false, None);
                cx.refused_in_kernel(self.part.span, &what, error, instead);
                None
            }
        }
    }

    /// The same error, with names that may be meant if there is no such function.
    fn explained(&self, cx: &Points<'_, '_>, error: TargetError) -> TargetError {
        match listing::explained(cx.env.target, self.module, self.function, error) {
            TargetError::Missing { near } => {
                let calls = instead::system_call(cx, self.function);
                TargetError::Missing { near: if calls.is_empty() { near } else { calls } }
            }
            other => other,
        }
    }

    /// The address that is written instead of a name.
    fn address(&self) -> Option<u64> {
        let starts_with_digit = self.function.starts_with(|c: char| c.is_ascii_digit());
        uprobe::number(self.function).filter(|_| starts_with_digit && self.module.is_none() && self.offset_bytes == 0)
    }
}

/// The programs of a kprobe or kretprobe.
pub(super) fn expand(cx: &mut Points<'_, '_>, point: &AttachPoint, kind: &str, at_return: bool) -> Vec<Seed> {
    let form = if at_return { format!("{kind}:FUNCTION") } else { format!("{kind}:FUNCTION[+OFFSET]") };
    let Some(place) = FunctionPattern::of(cx, point, &form) else { return Vec::new() };
    if at_return && place.part.text != place.function {
        let help = format!("write `{}` alone", place.function);
        cx.error(Diagnostic::error(Code(407), place.part.span, "a return has no offset").help(help));
        return Vec::new();
    }
    let probing = cx.env.target.function_probing();
    if let Err(reason) = probing.kprobe {
        let message = format!("`{kind}` probes do not work on this kernel: {reason}");
        let help = instead::help(cx, &place, at_return, probing.fentry.is_ok().then_some(Mechanism::Fentry));
        cx.unsupported(point, Diagnostic::error(Code(410), point.span, message).help(help));
        return Vec::new();
    }
    if let Some(address) = place.address() {
        return at_address(cx, (kind, at_return), &place, address);
    }
    let Some(found) = place.find(cx) else { return Vec::new() };
    seeds(cx, kind, &place, &found, at_return)
}

/// The program for an address. Nothing checks that an instruction starts there, except the kernel.
fn at_address(cx: &mut Points<'_, '_>, way: (&str, bool), place: &FunctionPattern<'_>, address: u64) -> Vec<Seed> {
    if !cx.env.options.allow_unsafe {
        let message = "an address may be anything in the kernel, so it needs --unsafe";
        let help = "write the function's name, or run again with --unsafe if that is what you want";
        cx.error(Diagnostic::error(Code(601), place.part.span, message).help(help));
        return Vec::new();
    }
    let function = KernelFunction { name: place.function.to_owned(), module: None };
    vec![seed(cx, way, place, &[(&function, FoundBy::Address(address))], false)]
}

/// A program for the function that an attach point names, whether it exists or not.
pub(super) fn stand_in(cx: &mut Points<'_, '_>, point: &AttachPoint, kind: &str, at_return: bool) -> Option<Seed> {
    let mark = cx.env.report.mark();
    let place = FunctionPattern::of(cx, point, kind);
    // A malformed attach point has been reported.
    cx.env.report.rewind(mark);
    let place = place?;
    let function = KernelFunction { name: place.function.to_owned(), module: None };
    Some(seed(cx, (kind, at_return), &place, &[(&function, FoundBy::Name)], false))
}

/// The programs for these functions. A multi link takes only names that one function has.
pub(super) fn seeds(
    cx: &Points<'_, '_>,
    kind: &str,
    place: &FunctionPattern<'_>,
    found: &[KernelFunction],
    at_return: bool,
) -> Vec<Seed> {
    let multi = place.is_pattern() && cx.env.target.function_probing().kprobe_multi;
    let modules_too = cx.env.target.kernel() >= MULTI_MODULES_SINCE;
    // A multi link takes no modules, so functions outside of the pattern's modules count too.
    let everywhere =
        place.module.filter(|_| multi).and_then(|_| cx.env.target.kernel_functions(None, place.function).ok());
    let shared = shared_names(everywhere.as_deref().unwrap_or(found));
    let (mut many, mut single) = (Vec::new(), Vec::new());
    for named in found.chunk_by(|a, b| a.name == b.name) {
        for copies in named.chunk_by(|a, b| place.module.is_none() || a.module == b.module) {
            let function = &copies[0];
            let is_alone = !shared.contains(function.name.as_str());
            if multi && is_alone && (modules_too || function.module.is_none()) {
                many.push((function, FoundBy::Name));
            } else {
                single.push((function, if copies.len() == 1 { FoundBy::Name } else { FoundBy::EachOfName }));
            }
        }
    }
    let groups = [(many, true), (single, false)];
    groups
        .into_iter()
        .filter(|(functions, _)| !functions.is_empty())
        .map(|(functions, multi)| seed(cx, (kind, at_return), place, &functions, multi))
        .collect()
}

/// The names that several of these functions have, which are sorted.
fn shared_names(functions: &[KernelFunction]) -> HashSet<&str> {
    let named = functions.chunk_by(|a, b| a.name == b.name).filter(|named| named.len() > 1);
    named.map(|named| named[0].name.as_str()).collect()
}

fn seed(
    cx: &Points<'_, '_>,
    (kind, at_return): (&str, bool),
    place: &FunctionPattern<'_>,
    functions: &[(&KernelFunction, FoundBy)],
    multi: bool,
) -> Seed {
    let word = if at_return { "kretprobe" } else { "kprobe" };
    let section = if multi { format!("{word}.multi") } else { word.to_string() };
    let sites = (0..).zip(functions).map(|(cookie, (function, found_by))| FunctionSite {
        function: function.name.clone(),
        module: place.module.map(|_| function.module.clone().unwrap_or_else(|| "vmlinux".to_owned())),
        found_by: *found_by,
        offset_bytes: place.offset_bytes,
        cookie,
    });
    let attach = Attach::Kprobe { at_return, sites: sites.collect(), multi };
    let mut seed = Seed::new(String::new(), section, ContextKind::Registers, attach);
    seed.names = functions.iter().map(|(function, _)| name(kind, place, function)).collect();
    seed.functions = functions.iter().map(|(function, _)| function.name.clone()).collect();
    seed.points = functions.len() as u32;
    seed.pid_filter = PidFilter::Option;
    seed.no_args = NO_ARGS;
    if !at_return && !place.is_pattern() && place.offset_bytes == 0 && cx.facts.uses("args") {
        seed.args = register_args(cx, functions[0].0);
    }
    seed
}

/// A probe's name, with the module if the script names one.
fn name(kind: &str, place: &FunctionPattern<'_>, function: &KernelFunction) -> String {
    let offset = if place.offset_bytes == 0 { String::new() } else { format!("+{}", place.offset_bytes) };
    match place.module {
        Some(_) => format!("{kind}:{}:{}{offset}", function.module.as_deref().unwrap_or("vmlinux"), function.name),
        None => format!("{kind}:{}{offset}", function.name),
    }
}

/// The arguments of a function that BTF describes, in registers at its entry.
fn register_args(cx: &Points<'_, '_>, function: &KernelFunction) -> Vec<ArgField> {
    let arch = cx.env.target.arch();
    let Some(btf) = cx.env.target.btf() else { return Vec::new() };
    let described = btf.find_function(function.module.as_deref(), &function.name);
    let Some(proto) = described.and_then(|id| btf.func_proto(id)) else {
        return Vec::new();
    };
    let field = |(slot, name, ty): (u32, &str, Type)| {
        let register = argument_register(arch, slot)?;
        Some(ArgField { name: name.to_string(), kind: ExprKind::Register(register), ty })
    };
    slots(btf, &proto).into_iter().filter_map(field).collect()
}

/// The scalar parameters of a function, each with the number of 8-byte words before it; a structure
/// passed by value takes one or two words.
pub(super) fn slots<'a>(btf: &Btf, proto: &FunctionProto<'a>) -> Vec<(u32, &'a str, Type)> {
    let mut found = Vec::new();
    let mut slot = 0;
    for param in &proto.params {
        let ty = btf.to_type(param.ty);
        let words = btf.size_bytes(param.ty).div_ceil(8).max(1);
        if ty.is_scalar() && words == 1 {
            found.push((slot, param.name, ty));
        }
        // A large structure is passed in memory, not in registers.
        slot += if words <= 2 { words } else { 0 };
    }
    found
}

/// Functions of the kernel, if it has kprobes.
pub(super) fn names(target: &dyn Target, rest: &str) -> Result<Vec<String>, TargetError> {
    target
        .function_probing()
        .kprobe
        .map_err(|reason| TargetError::Refused(format!("this kernel has none: {reason}")))?;
    listing::probed_functions(target, rest)
}
