//! The parameters and results of functions of programs, from debug information.
//!
//! In: the sites of a uprobe or uretprobe, and what its block uses. Out: the fields of `args`, the
//! type of `retval`, the lines of `list -v`.
//! Guarantee: debug information is read only for blocks that use it. A parameter is a field only if
//! it is at the same place in all functions of the probe.

use crate::btf::{Added, Btf};
use crate::check::{ArgField, Points, Seed, retarget};
use crate::object::{Attach, Site};
use crate::source::Span;
use crate::target::{Arch, ParameterPlace, ProgramFunction, ProgramFunctions, ProgramParameter, Target};
use crate::typed::{self, ExprKind};
use crate::types::{Space, Type};
use crate::words::builtins::retval::result_register;
use crate::words::functions::reg::register_offset;

/// Maximum number of functions of a probe with `args`.
const MAX_FUNCTIONS: usize = 1000;

/// Gives a program its `args` or the type of its `retval`, if its block uses them.
pub(super) fn describe(cx: &mut Points<'_, '_>, seed: &mut Seed, are_entries: bool) {
    let Attach::Uprobe { path, at_return, sites, .. } = &seed.attach else { return };
    let is_used = if *at_return { cx.facts.follows("retval") } else { cx.facts.uses("args") };
    if !is_used {
        return;
    }
    if !are_entries {
        seed.undescribed = Some("parameters are known only at the entry of a function: leave the offset out".into());
        return;
    }
    let (path, at_return, sites) = (path.clone(), *at_return, sites.clone());
    match described(cx, &path, &sites) {
        Ok(Some(function)) if at_return => result(cx.env.target, seed, &function),
        Ok(Some(function)) => parameters(cx.env.target, seed, &function),
        Ok(None) => {}
        Err(why) => seed.undescribed = Some(why),
    }
}

/// The description that the functions at these sites share; `None` if the target is yet to be
/// asked.
fn described(cx: &mut Points<'_, '_>, path: &str, sites: &[Site]) -> Result<Option<ProgramFunction>, String> {
    if sites.len() > MAX_FUNCTIONS {
        return Err(format!("at most {MAX_FUNCTIONS} functions can have `args`: narrow the wildcards"));
    }
    let target = cx.env.target;
    let mut known: Option<&ProgramFunction> = None;
    for site in sites {
        let function = match target.described_function(path, site.file_offset) {
            None => {
                let file_offsets = sites.iter().map(|site| site.file_offset).collect();
                cx.env.undescribed.push(ProgramFunctions { path: path.to_owned(), file_offsets });
                return Ok(None);
            }
            Some(Err(why)) => return Err(why.clone()),
            Some(Ok(function)) => function,
        };
        let first = *known.get_or_insert(function);
        if !target.btf().is_some_and(|btf| function.has_parameters_of(first, btf)) {
            let names = format!("`{}` and `{}`", first.name, function.name);
            return Err(format!("{names} have different parameters: name one function, or write a block for each"));
        }
    }
    Ok(known.cloned())
}

fn parameters(target: &dyn Target, seed: &mut Seed, function: &ProgramFunction) {
    if function.parameters.is_empty() {
        seed.undescribed = Some(format!("the function `{}` has no parameters", function.name));
    }
    let Some(btf) = target.btf() else { return };
    for parameter in function.parameters.iter().filter(|parameter| !parameter.name.is_empty()) {
        match value(target.arch(), btf, parameter) {
            Ok((kind, ty)) => seed.args.push(ArgField { name: parameter.name.clone(), kind, ty }),
            Err(why) => seed.unreadable.push((parameter.name.clone(), why)),
        }
    }
}

/// The expression that reads a parameter at the entry of its function, with its type.
fn value(arch: Arch, btf: &Btf, parameter: &ProgramParameter) -> Result<(ExprKind, Type), String> {
    let mut ty = btf.to_type(parameter.ty);
    retarget(&mut ty, Space::User);
    let kind = match &parameter.place {
        ParameterPlace::Unreadable(why) => return Err(why.clone()),
        ParameterPlace::Register(offset) => ExprKind::Register(*offset),
        ParameterPlace::Stack(offset_bytes) => {
            let pointer = Type::Pointer { to: Box::new(ty.clone()), space: Space::User };
            let register = register_offset(arch, "sp").unwrap_or_default();
            let stack = typed::Expr { kind: ExprKind::Register(register), ty: pointer, span: Span::default() };
            ExprKind::Deref { base: Box::new(stack), offset_bytes: *offset_bytes, bits: None }
        }
    };
    if ty.is_scalar() {
        Ok((kind, ty))
    } else {
        Err(format!("has the type `{}`, which has no value in scripts", btf.describe(parameter.ty)))
    }
}

/// `retval` has a type if it points to a struct; any other result stays the register.
fn result(target: &dyn Target, seed: &mut Seed, function: &ProgramFunction) {
    let Some(btf) = target.btf() else { return };
    let mut ty = btf.to_type(function.result);
    retarget(&mut ty, Space::User);
    if matches!(&ty, Type::Pointer { to, .. } if matches!(**to, Type::Struct { .. })) {
        let kind = ExprKind::Register(result_register(target.arch()));
        seed.retval = Some(ArgField { name: "retval".into(), kind, ty });
    } else {
        let result = btf.describe(function.result);
        seed.undescribed = Some(format!("the function `{}` returns `{result}`, which has no members", function.name));
    }
}

/// The parameters of a function as C declares them, and its result: `name` is `PATH:FUNCTION`.
pub(super) fn arguments(target: &dyn Target, name: &str, at_return: bool) -> Vec<String> {
    let Some((file, function)) = name.rsplit_once(':') else { return Vec::new() };
    let described = |path: &String| {
        let offsets: Vec<u64> = target.functions(path, function).ok()?.iter().map(|found| found.file_offset).collect();
        let mut types = Added::default();
        let functions = target.describe_functions(path, &offsets, &mut types);
        let btf = Btf::with(None, types);
        let function = functions.into_iter().flatten().next()?;
        Some(if at_return {
            vec![format!("{} retval", btf.describe(function.result))]
        } else {
            function.described(&btf)
        })
    };
    let paths = target.binaries(file, None).unwrap_or_default();
    paths.iter().find_map(described).unwrap_or_default()
}
