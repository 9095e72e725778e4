//! `fentry:FUNCTION`: the entry of a kernel function, with typed arguments.
//!
//! The kernel calls the program from a trampoline at the function. This is cheaper than a kprobe,
//! and BTF describes the arguments.

use std::collections::HashMap;

use super::instead::{self, Mechanism};
use super::kprobe::{FunctionPattern, slots};
use super::{bpf_programs, modules};
use crate::ast::AttachPoint;
use crate::btf::{Btf, BtfId, FunctionProto};
use crate::catalogue::{Advice, Listing, Nature, ProbeKind, SelfTest, Trigger};
use crate::check::{ArgField, PidFilter, Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;
use crate::target::{KernelFunction, Target, TargetError};
use crate::typed::{ContextKind, ExprKind};
use crate::types::Type;
use crate::words::probes::listing;

/// `fentry`.
#[derive(Debug)]
pub(super) struct Fentry;

/// Maximum argument words that a trampoline passes, on x86: those in registers.
const MAX_WORDS: u32 = 6;

/// Since 6.6: also arguments on the stack, twelve words including the result.
const MAX_WORDS_ON_STACK: u32 = 11;
const STACK_WORDS_SINCE: (u32, u32) = (6, 6);

/// Since 6.1: structures passed by value, up to 16 bytes.
const STRUCTURES_SINCE: (u32, u32) = (6, 1);
const MAX_STRUCTURE_BYTES: u32 = 16;

impl ProbeKind for Fentry {
    word!("fentry", "probes/fentry");

    fn aliases(&self) -> &'static [&'static str] {
        &["f", "kfunc"]
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        expand(cx, point, self.name(), false)
    }

    fn kernel_modules(&self, target: &dyn Target, point: &AttachPoint) -> Vec<String> {
        modules::of_functions(target, point)
    }

    fn listing(&self) -> Listing {
        Listing::ByName(listing::functions)
    }

    fn arguments(&self, target: &dyn Target, name: &str) -> Vec<String> {
        listing::function_arguments(target, name, false)
    }

    fn all_arguments(&self, target: &dyn Target, names: &[&str]) -> Vec<Vec<String>> {
        listing::all_function_arguments(target, names, false)
    }

    fn nature(&self, _name: &str) -> Nature {
        super::nature::kernel_function("a call patched into the function: the cheapest kind of function probe")
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![SelfTest::optional("fentry", "fentry:vfs_read / pid == PID /", Trigger::Read, Advice::OtherFunctionProbes)]
    }
}

/// The programs of an fentry or fexit probe: one per function.
pub(super) fn expand(cx: &mut Points<'_, '_>, point: &AttachPoint, kind: &str, at_return: bool) -> Vec<Seed> {
    if let Some(seeds) = bpf_programs::expand(cx, point, kind, at_return) {
        return seeds;
    }
    let form = format!("{kind}:FUNCTION");
    let Some(place) = FunctionPattern::of(cx, point, &form) else { return Vec::new() };
    if place.part.text != place.function {
        let message = "only a kprobe can attach at an offset into a function";
        let help = format!("write `kprobe:{}`, or `{kind}:{}`", place.part.text, place.function);
        cx.error(Diagnostic::error(Code(414), place.part.span, message).help(help));
        return Vec::new();
    }
    let probing = cx.env.target.function_probing();
    if let Err(reason) = probing.fentry {
        let message = format!("`{kind}` probes do not work on this kernel: {reason}");
        let help = instead::help(cx, &place, at_return, probing.kprobe.is_ok().then_some(Mechanism::Kprobe));
        cx.unsupported(point, Diagnostic::error(Code(410), point.span, message).help(help));
        return Vec::new();
    }
    let Some(found) = place.find(cx) else { return Vec::new() };
    seeds(cx, kind, &place, &found, at_return)
}

/// A name that several functions have. A trampoline is attached by the number of the function's
/// type, and the kernel takes the first function that has the type's name.
fn ambiguous(place: &FunctionPattern<'_>, found: &[KernelFunction], at_return: bool) -> Diagnostic {
    let mut modules: Vec<&str> = found.iter().map(|f| f.module.as_deref().unwrap_or("vmlinux")).collect();
    modules.dedup();
    let message = format!("{} functions of the kernel are named `{}`", found.len(), place.function);
    let help = if modules.len() == found.len() {
        format!("write the module before it: {}", modules.join(", "))
    } else {
        let word = Mechanism::Kprobe.word(at_return);
        format!("types do not tell them apart; `{word}:{}` probes each of them", place.part.text)
    };
    Diagnostic::error(Code(411), place.part.span, message).help(help)
}

/// The programs for these functions. For a pattern, functions that a trampoline cannot handle are
/// skipped, and so are names that several functions have.
pub(super) fn seeds(
    cx: &mut Points<'_, '_>,
    kind: &str,
    place: &FunctionPattern<'_>,
    found: &[KernelFunction],
    at_return: bool,
) -> Vec<Seed> {
    let (target, kernel) = (cx.env.target, cx.env.target.kernel());
    let Some(btf) = target.btf() else { return Vec::new() };
    if found.len() > 1 && !place.is_pattern() {
        cx.error(ambiguous(place, found, at_return));
        return Vec::new();
    }
    if let ([function], false) = (found, place.is_pattern()) {
        return match typed(btf, function, kernel) {
            Ok(proto) => vec![seed((kind, at_return), place, btf, function, &proto)],
            Err(words) => {
                let help =
                    format!("`{}:{}` probes it without types", Mechanism::Kprobe.word(at_return), place.part.text);
                cx.error(Diagnostic::error(Code(412), place.part.span, words).help(help));
                Vec::new()
            }
        };
    }
    // Walk all types of the kernel and of each module once, instead of searching for each name.
    let mut known: HashMap<Option<&str>, HashMap<&str, BtfId>> = HashMap::new();
    for module in found.iter().map(|function| function.module.as_deref()) {
        known.entry(module).or_insert_with(|| btf.functions_of(module).map(|(id, name)| (name, id)).collect());
    }
    let fits = |function: &KernelFunction| {
        let id = known.get(&function.module.as_deref())?.get(function.name.as_str())?;
        let proto = btf.func_proto(*id)?;
        can_be_held(btf, &proto, kernel).then(|| seed((kind, at_return), place, btf, function, &proto))
    };
    let one_of_name = found.chunk_by(|a, b| a == b).filter_map(|copies| <&[_; 1]>::try_from(copies).ok());
    let seeds: Vec<Seed> = one_of_name.filter_map(|[function]| fits(function)).collect();
    if seeds.is_empty() {
        let what = format!("a function `{}` whose arguments the kernel's BTF describes", place.part.text);
        cx.refused(place.part.span, &what, TargetError::Missing { near: Vec::new() });
    }
    seeds
}

/// The prototype of a function, or the reason why a program cannot get its arguments.
pub(super) fn typed<'a>(
    btf: &'a Btf,
    function: &KernelFunction,
    kernel: (u32, u32),
) -> Result<FunctionProto<'a>, String> {
    let name = &function.name;
    let proto = btf.find_function(function.module.as_deref(), name).and_then(|id| btf.func_proto(id));
    let proto = proto.ok_or_else(|| {
        let whose = function
            .module
            .as_ref()
            .map_or("the kernel's BTF".to_string(), |module| format!("the BTF of the module {module}"));
        format!("{whose} does not describe the arguments of `{name}`")
    })?;
    if can_be_held(btf, &proto, kernel) {
        return Ok(proto);
    }
    Err(format!("this kernel cannot hand over the arguments of `{name}`: they are too many or too large"))
}

/// Whether a trampoline can pass the arguments of a function.
fn can_be_held(btf: &Btf, proto: &FunctionProto<'_>, kernel: (u32, u32)) -> bool {
    let most = if kernel >= STACK_WORDS_SINCE { MAX_WORDS_ON_STACK } else { MAX_WORDS };
    let largest = if kernel >= STRUCTURES_SINCE { MAX_STRUCTURE_BYTES } else { 8 };
    let sizes = || proto.params.iter().map(|param| btf.size_bytes(param.ty));
    let by_value = |param: BtfId| matches!(btf.to_type(param), Type::Struct { .. });
    !proto.variadic
        && sizes().all(|size| size <= largest)
        && sizes().map(|size| size.div_ceil(8).max(1)).sum::<u32>() <= most
        && (kernel >= STRUCTURES_SINCE || !proto.params.iter().any(|param| by_value(param.ty)))
}

/// The context words that the verifier treats as pointers to structs.
fn typed_words(btf: &Btf, proto: &FunctionProto<'_>, at_return: bool) -> Vec<(u32, BtfId)> {
    let mut found = Vec::new();
    let mut word = 0;
    let result = at_return.then_some(proto.ret);
    for ty in proto.params.iter().map(|param| param.ty).chain(result) {
        found.extend(btf.verifier().followed_pointee(ty).map(|to| (word, to)));
        word += btf.size_bytes(ty).div_ceil(8).max(1);
    }
    found
}

fn seed(
    (kind, at_return): (&str, bool),
    place: &FunctionPattern<'_>,
    btf: &Btf,
    function: &KernelFunction,
    proto: &FunctionProto<'_>,
) -> Seed {
    let of_module = function.module.as_ref().map_or_else(String::new, |module| format!("{module}:"));
    let section = format!("{}/{of_module}{}", if at_return { "fexit" } else { "fentry" }, function.name);
    let attach = Attach::Trampoline { function: function.name.clone(), at_return, program: None };
    let shown = match (place.module, function.module.is_some()) {
        (None, _) => "",
        (Some(_), true) => of_module.as_str(),
        (Some(_), false) => "vmlinux:",
    };
    let name = format!("{kind}:{shown}{}", function.name);
    let mut seed = Seed::new(name, section, ContextKind::RawTracepoint, attach);
    seed.functions = vec![function.name.clone()];
    seed.pid_filter = PidFilter::Option;
    seed.no_args = "this function takes no arguments";
    let field =
        |(slot, name, ty): (u32, &str, Type)| ArgField { name: name.to_string(), kind: ExprKind::ContextArg(slot), ty };
    seed.args = slots(btf, proto).into_iter().map(field).collect();
    let words = proto.params.iter().map(|param| btf.size_bytes(param.ty).div_ceil(8).max(1)).sum();
    let result = btf.to_type(proto.ret);
    seed.context.typed_words = typed_words(btf, proto, at_return);
    seed.retval = (at_return && result.is_scalar()).then(|| field((words, "retval", result)));
    seed
}
