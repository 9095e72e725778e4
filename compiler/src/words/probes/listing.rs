//! What several probe kinds need to list their probes.
//!
//! In: the part of a pattern after the kind. Out: sorted names, as written after the kind in a
//! script.

use std::collections::{BTreeMap, HashSet};

use super::bpf_programs;
use super::uprobe::LANGUAGES;
use crate::btf::{Btf, Kind as BtfKind, Parameter, describe_in_c};
use crate::target::{FunctionSymbol, KernelFunction, Target, TargetError, shown_path};
use crate::{glob, similar};

/// Limit of suggested similar names.
const NEAR_NAMES: usize = 3;

/// Rates, before their numbers.
pub(super) const RATES: [&str; 4] = ["hz:", "ms:", "s:", "us:"];

/// Vec<String> of a fixed list that match, with or without the colon after them.
#[allow(clippy::unnecessary_wraps)] // The type of `Names`, which can fail for other kinds.
pub(super) fn select(names: &[&str], rest: &str) -> Result<Vec<String>, TargetError> {
    let matches = |name: &&&str| glob::matches(rest, name) || glob::matches(rest, name.trim_end_matches(':'));
    Ok(names.iter().filter(matches).map(|name| (*name).to_owned()).collect())
}

pub(super) fn functions(target: &dyn Target, rest: &str) -> Result<Vec<String>, TargetError> {
    if let Some(listed) = bpf_programs::listed(target, rest) {
        return listed;
    }
    let btf = btf(target)?;
    if rest.contains(':') {
        return described_functions(target, rest);
    }
    if !glob::is_pattern(rest) && btf.find(BtfKind::Function, rest).is_some() {
        return Ok(vec![rest.to_owned()]);
    }
    let mut names = choose(btf.functions().map(|(_, name)| name), rest)?;
    // If the kernel lists its traceable functions, all others are left out.
    if let Ok(traceable) = probed_functions(target, rest) {
        names.retain(|name| traceable.binary_search(name).is_ok());
    }
    Ok(names)
}

/// Functions, including those of modules, that can be probed and whose types are known.
fn described_functions(target: &dyn Target, rest: &str) -> Result<Vec<String>, TargetError> {
    let mut names = probed_functions(target, rest)?;
    let mut modules: Vec<String> = names.iter().filter_map(|name| Some(name.split_once(':')?.0.to_owned())).collect();
    modules.dedup();
    let joined = target.btf_with_modules(&modules);
    let mut described = HashSet::new();
    for module in modules.iter().map(|module| Some(module.as_str())).chain([None]) {
        let functions = joined.iter().flat_map(|btf| btf.functions_of(module));
        described.extend(functions.map(|(_, function)| (module, function)));
    }
    names.retain(|name| match name.split_once(':') {
        Some((module, function)) => described.contains(&(Some(module), function)),
        None => described.contains(&(None, name.as_str())),
    });
    Ok(names)
}

/// Functions that can be probed; those of modules are prefixed with the module's name.
pub(super) fn probed_functions(target: &dyn Target, rest: &str) -> Result<Vec<String>, TargetError> {
    let (module, function) = match rest.split_once(':') {
        Some((module, function)) => (Some(module), function),
        None => (None, rest),
    };
    let line = |found: &KernelFunction| match &found.module {
        Some(module) => format!("{module}:{}", found.name),
        None => found.name.clone(),
    };
    let found = target.kernel_functions(module, function);
    let found = found.map_err(|error| explained(target, module, function, error))?;
    let mut names: Vec<String> = found.iter().map(line).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// The error about a function of the kernel, with similar names if there is no such function.
pub(super) fn explained(target: &dyn Target, module: Option<&str>, function: &str, error: TargetError) -> TargetError {
    match error {
        TargetError::Missing { .. } => target.absent_kernel_function(module, function),
        other => other,
    }
}

pub(super) fn function_arguments(target: &dyn Target, name: &str, with_result: bool) -> Vec<String> {
    all_function_arguments(target, &[name], with_result).pop().unwrap_or_default()
}

/// The same for many functions: a search for each would read all types as often.
pub(super) fn all_function_arguments(target: &dyn Target, names: &[&str], with_result: bool) -> Vec<Vec<String>> {
    let mut found = vec![Vec::new(); names.len()];
    let mut by_module: BTreeMap<Option<&str>, Vec<(&str, usize)>> = BTreeMap::new();
    for (place, name) in names.iter().enumerate() {
        let (module, function) = name.split_once(':').map_or((None, *name), |(module, name)| (Some(module), name));
        by_module.entry(module).or_default().push((function, place));
    }
    for (module, functions) in by_module {
        let of_module = module.and_then(|module| target.btf_with_modules(&[module.to_owned()]));
        let Some(btf) = of_module.as_ref().or(target.btf()) else { continue };
        let mut ids = BTreeMap::new();
        btf.functions_of(module).for_each(|(id, name)| {
            ids.entry(name).or_insert(id);
        });
        for (function, place) in functions {
            let Some(proto) = ids.get(function).and_then(|id| btf.func_proto(*id)) else { continue };
            let result = with_result.then(|| format!("{} retval", describe_in_c(btf, proto.ret)));
            found[place] = parameters(btf, &proto.params).into_iter().chain(result).collect();
        }
    }
    found
}

/// `struct file * file`; a parameter without a name is `arg0` and so on.
pub(super) fn parameters(btf: &Btf, params: &[Parameter<'_>]) -> Vec<String> {
    let line = |(index, param): (usize, &Parameter<'_>)| {
        let ty = describe_in_c(btf, param.ty);
        if param.name.is_empty() { format!("{ty} arg{index}") } else { format!("{ty} {}", param.name) }
    };
    params.iter().enumerate().map(line).collect()
}

/// `PATH:FUNCTION`, `PATH:cpp:NAME`, `PATH:rust:NAME`, all with optional wildcards. A function with
/// `::` is a name in the source.
pub(super) fn user_functions(target: &dyn Target, rest: &str) -> Result<Vec<String>, TargetError> {
    let (file, function, language) = parts(rest);
    if file == "*" && target.of_process().is_none() {
        return Err(TargetError::Invalid("name a file or command, as in uprobe:/bin/bash:*".to_owned()));
    }
    let function = if function.is_empty() { "*" } else { function.trim_matches('"') };
    each_file(target, file, |path| {
        let found = match language {
            Some(_) => target.functions_by_source_name(path, function)?,
            None => target.functions(path, function)?,
        };
        let shown = |symbol: FunctionSymbol| match language {
            Some(language) => format!("{language}:\"{}\"", symbol.name),
            None => symbol.name,
        };
        let mut names: Vec<String> = found.into_iter().map(shown).collect();
        names.dedup();
        Ok(names)
    })
}

/// The file, the function, and for a name in the source its language.
fn parts(rest: &str) -> (&str, &str, Option<&'static str>) {
    let of = |language: &'static str| {
        let (file, name) = rest.split_once(&format!(":{language}:"))?;
        Some((file, name, Some(language)))
    };
    let by_name = || {
        let (file, name) = rest.split_once(':').filter(|_| rest.contains("::"))?;
        Some((file, name, Some(LANGUAGES[0])))
    };
    let in_source = LANGUAGES.into_iter().find_map(of).or_else(by_name);
    in_source.unwrap_or_else(|| {
        let (file, name) = rest.rsplit_once(':').unwrap_or((rest, "*"));
        (file, name, None)
    })
}

/// The names in each file that a name refers to, prefixed with the file name.
pub(super) fn each_file(
    target: &dyn Target,
    file: &str,
    names_in: impl Fn(&str) -> Result<Vec<String>, TargetError>,
) -> Result<Vec<String>, TargetError> {
    let mut names = Vec::new();
    let files = target.binaries(file, None)?;
    for path in &files {
        match names_in(path) {
            Ok(found) => names.extend(found.iter().map(|name| format!("{}:{name}", shown_path(file, path)))),
            // With several files, those without the name are not an error.
            Err(_) if files.len() > 1 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(names)
}

pub(super) fn btf(target: &dyn Target) -> Result<&Btf, TargetError> {
    target
        .btf()
        .ok_or_else(|| TargetError::Refused("the kernel's types (/sys/kernel/btf/vmlinux) cannot be read".into()))
}

/// Vec<String> that match, sorted and without duplicates; if an exact name does not exist, the
/// error suggests similar ones.
pub(super) fn choose<'a>(names: impl Iterator<Item = &'a str>, rest: &str) -> Result<Vec<String>, TargetError> {
    if !glob::is_pattern(rest) {
        return Err(TargetError::Missing { near: similar::nearest(rest, names, NEAR_NAMES) });
    }
    let mut found: Vec<String> = names.filter(|name| glob::matches(rest, name)).map(str::to_owned).collect();
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
