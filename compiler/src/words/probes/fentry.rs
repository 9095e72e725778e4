//! `fentry:FUNCTION`: the entry of a function of the kernel, with typed arguments.
//!
//! The kernel calls the program from a trampoline at the function: cheaper than a kprobe, and BTF says what the arguments are.

use std::collections::HashMap;

use crate::ast::AttachPoint;
use crate::btf::{Btf, BtfId, FunctionProto};
use crate::check::{ArgField, Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;
use crate::target::{KernelFunction, Target, TargetError};
use crate::typed::{ContextKind, ExprKind};
use crate::types::Type;
use crate::words::{Doc, ProbeKind};

use super::instead::{self, Mechanism};
use super::kprobe::{Place, slots};
use super::modules;

/// `fentry`.
#[derive(Debug)]
pub struct Fentry;

/// Most words of arguments that a trampoline hands over, on x86: those in registers.
const MAX_WORDS: u32 = 6;

/// Since 6.6: also those on the stack, twelve with the result.
const MAX_WORDS_ON_STACK: u32 = 11;
const STACK_WORDS_SINCE: (u32, u32) = (6, 6);

/// Since 6.1: structures by value, of up to 16 bytes.
const STRUCTURES_SINCE: (u32, u32) = (6, 1);
const MAX_STRUCTURE_BYTES: u32 = 16;

impl ProbeKind for Fentry {
    fn name(&self) -> &'static str {
        "fentry"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["f", "kfunc"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "fentry:[MODULE:]FUNCTION",
            summary: "the entry of a function of the kernel, with typed arguments",
            page: include_str!("../../../../spec/words/probes/fentry.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        expand(cx, point, self.name(), false)
    }

    fn kernel_modules(&self, target: &dyn Target, point: &AttachPoint) -> Vec<String> {
        modules::of_functions(target, point)
    }
}

/// The programs of an fentry or fexit probe: one a function.
pub fn expand(cx: &mut Points<'_, '_>, point: &AttachPoint, kind: &str, at_return: bool) -> Vec<Seed> {
    let form = format!("{kind}:FUNCTION");
    let Some(place) = Place::of(cx, point, &form) else { return Vec::new() };
    if place.part.text != place.function {
        let message = "only a kprobe can sit behind the entry of a function";
        let help = format!("write `kprobe:{}`, or `{kind}:{}`", place.part.text, place.function);
        cx.error(Diagnostic::error(Code(414), place.part.span, message).help(help));
        return Vec::new();
    }
    let probing = cx.env.target.function_probing();
    if let Err(reason) = probing.fentry {
        let message = format!("`{kind}` probes do not work on this kernel: {reason}");
        let help = instead::help(cx, &place, at_return, probing.kprobe.is_ok().then_some(Mechanism::Kprobe));
        cx.error(Diagnostic::error(Code(410), point.span, message).help(help));
        return Vec::new();
    }
    let Some(found) = place.find(cx) else { return Vec::new() };
    seeds(cx, kind, &place, &found, at_return)
}

/// The programs for these functions; of a pattern's, those that can be.
pub fn seeds(
    cx: &mut Points<'_, '_>,
    kind: &str,
    place: &Place<'_>,
    found: &[KernelFunction],
    at_return: bool,
) -> Vec<Seed> {
    let (target, kernel) = (cx.env.target, cx.env.target.kernel());
    let Some(btf) = target.btf() else { return Vec::new() };
    if let ([function], false) = (found, place.is_pattern()) {
        return match typed(btf, function, kernel) {
            Ok(proto) => vec![seed(kind, place, btf, function, &proto, at_return)],
            Err(words) => {
                let help =
                    format!("`{}:{}` probes it without types", Mechanism::Kprobe.word(at_return), place.part.text);
                cx.error(Diagnostic::error(Code(412), place.part.span, words).help(help));
                Vec::new()
            }
        };
    }
    // One walk over all types of the kernel and of each module instead of a search for each name.
    let mut known: HashMap<Option<&str>, HashMap<&str, BtfId>> = HashMap::new();
    for module in found.iter().map(|function| function.module.as_deref()) {
        known.entry(module).or_insert_with(|| btf.functions_of(module).map(|(id, name)| (name, id)).collect());
    }
    let fits = |function: &KernelFunction| {
        let id = known.get(&function.module.as_deref())?.get(function.name.as_str())?;
        let proto = btf.func_proto(*id)?;
        can_be_held(btf, &proto, kernel).then(|| seed(kind, place, btf, function, &proto, at_return))
    };
    let seeds: Vec<Seed> = found.iter().filter_map(fits).collect();
    if seeds.is_empty() {
        let what = format!("a function `{}` of which the kernel's BTF tells the arguments", place.part.text);
        cx.refused(place.part.span, &what, TargetError::Missing { near: Vec::new() });
    }
    seeds
}

/// Parameters and result of a function, or why a program cannot have them.
pub fn typed<'a>(btf: &'a Btf, function: &KernelFunction, kernel: (u32, u32)) -> Result<FunctionProto<'a>, String> {
    let name = &function.name;
    let proto = btf.find_function(function.module.as_deref(), name).and_then(|id| btf.func_proto(id));
    let proto = proto.ok_or_else(|| {
        let whose = function
            .module
            .as_ref()
            .map_or("the kernel's BTF".to_string(), |module| format!("the BTF of the module {module}"));
        format!("{whose} does not tell the arguments of `{name}`")
    })?;
    if can_be_held(btf, &proto, kernel) {
        return Ok(proto);
    }
    Err(format!("this kernel cannot hand over the arguments of `{name}`: they are too many or too large"))
}

/// Whether a trampoline can hold the arguments of a function.
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

fn seed(
    kind: &str,
    place: &Place<'_>,
    btf: &Btf,
    function: &KernelFunction,
    proto: &FunctionProto<'_>,
    at_return: bool,
) -> Seed {
    let of_module = function.module.as_ref().map_or_else(String::new, |module| format!("{module}:"));
    let section = format!("{}/{of_module}{}", if at_return { "fexit" } else { "fentry" }, function.name);
    let attach = Attach::Trampoline { function: function.name.clone(), at_return };
    let shown = match (place.module, function.module.is_some()) {
        (None, _) => "",
        (Some(_), true) => of_module.as_str(),
        (Some(_), false) => "vmlinux:",
    };
    let name = format!("{kind}:{shown}{}", function.name);
    let mut seed = Seed::new(name, section, ContextKind::RawTracepoint, attach);
    seed.functions = vec![function.name.clone()];
    seed.filter_pid = true;
    seed.no_args = "this function takes no arguments";
    let field =
        |(slot, name, ty): (u32, &str, Type)| ArgField { name: name.to_string(), kind: ExprKind::ContextArg(slot), ty };
    seed.args = slots(btf, proto).into_iter().map(field).collect();
    let words = proto.params.iter().map(|param| btf.size_bytes(param.ty).div_ceil(8).max(1)).sum();
    let result = btf.to_type(proto.ret);
    seed.retval = (at_return && result.is_scalar()).then(|| field((words, "retval", result)));
    seed
}
