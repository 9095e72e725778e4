//! `kprobe:FUNCTION`: the entry of a function of the kernel, or a place in it.
//!
//! One function is a perf event, which shows all registers; a wildcard is one multi link, whatever it matches.

use crate::ast::{AttachPoint, Ident};
use crate::btf::{Btf, FunctionProto};
use crate::check::{ArgField, Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::glob;
use crate::object::{Attach, FunctionSite};
use crate::target::{KernelFunction, Target, TargetError};
use crate::typed::{ContextKind, ExprKind};
use crate::types::Type;
use crate::words::builtins::arg::argument_register;
use crate::words::{Doc, ProbeKind};

use super::instead::{self, Mechanism};
use super::{modules, uprobe};

/// `kprobe`.
#[derive(Debug)]
pub struct Kprobe;

/// Since 6.2: multi links find functions of modules by their names.
const MULTI_MODULES_SINCE: (u32, u32) = (6, 2);

/// Advice where `args` are asked for.
const NO_ARGS: &str = "arg0, arg1, … are the arguments as numbers; `fentry:FUNCTION` and `fn:FUNCTION` have `args`";

impl ProbeKind for Kprobe {
    fn name(&self) -> &'static str {
        "kprobe"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["k"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "kprobe:[MODULE:]FUNCTION[+OFFSET]",
            summary: "the entry of a function of the kernel",
            page: include_str!("../../../../spec/words/probes/kprobe.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        expand(cx, point, self.name(), false)
    }

    fn kernel_modules(&self, _target: &dyn Target, point: &AttachPoint) -> Vec<String> {
        modules::named(point)
    }
}

/// A function of the kernel as an attach point names it.
#[derive(Debug)]
pub struct Place<'a> {
    /// The module or its pattern.
    pub module: Option<&'a str>,
    /// The part that names the function.
    pub part: &'a Ident,
    /// The function or its pattern.
    pub function: &'a str,
    /// Bytes from its entry.
    pub offset_bytes: u64,
}

impl<'a> Place<'a> {
    /// The place that an attach point names; reports one that is not written as it must be.
    pub fn of(cx: &mut Points<'_, '_>, point: &'a AttachPoint, form: &str) -> Option<Place<'a>> {
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
            Some(offset_bytes) => Some(Place { module, part, function, offset_bytes }),
            None => {
                cx.wrong_form(point, form);
                None
            }
        }
    }

    /// Whether it may mean several functions.
    pub fn is_pattern(&self) -> bool {
        glob::is_pattern(self.function) || self.module.is_some_and(glob::is_pattern)
    }

    /// The functions that it means, a pattern's each once; reports a name that is none or that several have.
    pub fn find(&self, cx: &mut Points<'_, '_>) -> Option<Vec<KernelFunction>> {
        let mut found = match cx.env.target.kernel_functions(self.module, self.function) {
            Ok(found) => found,
            Err(mut error) => {
                let calls = instead::system_call(cx, self.function);
                if let TargetError::Missing { near } = &mut error
                    && !calls.is_empty()
                {
                    *near = calls;
                }
                let what = format!("kernel function `{}`", self.function);
                let instead = instead::help(cx, self, false, None);
                cx.refused_in_kernel(self.part.span, &what, error, instead);
                return None;
            }
        };
        if self.is_pattern() {
            found.dedup_by(|a, b| a.name == b.name);
        } else if found.len() > 1 {
            cx.error(ambiguous(self, &found));
            return None;
        }
        Some(found)
    }
}

fn ambiguous(place: &Place<'_>, found: &[KernelFunction]) -> Diagnostic {
    let mut modules: Vec<&str> = found.iter().map(|f| f.module.as_deref().unwrap_or("vmlinux")).collect();
    modules.dedup();
    let message = format!("{} functions of the kernel are called `{}`", found.len(), place.function);
    let help = if modules.len() == found.len() {
        format!("write the module before it: {}", modules.join(", "))
    } else {
        "a probe cannot tell them apart; probe a function that calls them".to_string()
    };
    Diagnostic::error(Code(411), place.part.span, message).help(help)
}

/// The programs of a kprobe or kretprobe.
pub fn expand(cx: &mut Points<'_, '_>, point: &AttachPoint, kind: &str, at_return: bool) -> Vec<Seed> {
    let form = if at_return { format!("{kind}:FUNCTION") } else { format!("{kind}:FUNCTION[+OFFSET]") };
    let Some(place) = Place::of(cx, point, &form) else { return Vec::new() };
    if at_return && place.part.text != place.function {
        let help = format!("write `{}` alone", place.function);
        cx.error(Diagnostic::error(Code(407), place.part.span, "a return has no offset").help(help));
        return Vec::new();
    }
    let probing = cx.env.target.function_probing();
    if let Err(reason) = probing.kprobe {
        let message = format!("`{kind}` probes do not work on this kernel: {reason}");
        let help = instead::help(cx, &place, at_return, probing.fentry.is_ok().then_some(Mechanism::Fentry));
        cx.error(Diagnostic::error(Code(410), point.span, message).help(help));
        return Vec::new();
    }
    let Some(found) = place.find(cx) else { return Vec::new() };
    seeds(cx, kind, &place, &found, at_return)
}

/// The programs for these functions.
pub fn seeds(
    cx: &Points<'_, '_>,
    kind: &str,
    place: &Place<'_>,
    found: &[KernelFunction],
    at_return: bool,
) -> Vec<Seed> {
    let multi = place.is_pattern() && cx.env.target.function_probing().kprobe_multi;
    let modules_too = cx.env.target.kernel() >= MULTI_MODULES_SINCE;
    let (many, single): (Vec<_>, Vec<_>) = found.iter().partition(|f| multi && (modules_too || f.module.is_none()));
    let groups = [(many, true), (single, false)];
    groups
        .into_iter()
        .filter(|(functions, _)| !functions.is_empty())
        .map(|(functions, multi)| seed(cx, kind, place, &functions, at_return, multi))
        .collect()
}

fn seed(
    cx: &Points<'_, '_>,
    kind: &str,
    place: &Place<'_>,
    functions: &[&KernelFunction],
    at_return: bool,
    multi: bool,
) -> Seed {
    let word = if at_return { "kretprobe" } else { "kprobe" };
    let section = if multi { format!("{word}.multi") } else { word.to_string() };
    let sites = (0..).zip(functions).map(|(cookie, function)| FunctionSite {
        function: function.name.clone(),
        module: place.module.and(function.module.clone()),
        offset_bytes: place.offset_bytes,
        cookie,
    });
    let attach = Attach::Kprobe { at_return, sites: sites.collect(), multi };
    let mut seed = Seed::new(String::new(), section, ContextKind::Registers, attach);
    seed.names = functions.iter().map(|function| name(kind, place, function)).collect();
    seed.functions = functions.iter().map(|function| function.name.clone()).collect();
    seed.points = functions.len() as u32;
    seed.filter_pid = true;
    seed.no_args = NO_ARGS;
    if !at_return && !place.is_pattern() && place.offset_bytes == 0 && cx.facts.uses("args") {
        seed.args = register_args(cx, functions[0]);
    }
    seed
}

/// A probe's name: with the module when the script has one.
fn name(kind: &str, place: &Place<'_>, function: &KernelFunction) -> String {
    let offset = if place.offset_bytes == 0 { String::new() } else { format!("+{}", place.offset_bytes) };
    match place.module {
        Some(_) => format!("{kind}:{}:{}{offset}", function.module.as_deref().unwrap_or("vmlinux"), function.name),
        None => format!("{kind}:{}{offset}", function.name),
    }
}

/// The arguments of a function that BTF describes, in the registers of its entry.
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

/// The scalar parameters of a function, each with the number of 8-byte words before it; a structure by value takes one or two.
pub fn slots<'a>(btf: &Btf, proto: &FunctionProto<'a>) -> Vec<(u32, &'a str, Type)> {
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
