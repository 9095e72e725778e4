//! The kinds of probes that can be listed: for each its names and the arguments of one of them.
//!
//! In: the part of a pattern behind the kind. Out: names, sorted, as they stand behind the kind in a script.

use profiler_compiler::btf::{Btf, Kind as BtfKind, Parameter};
use profiler_compiler::target::{KernelFunction, Target, TargetError, TracepointField, shown_path};
use profiler_compiler::usdt::Argument;
use profiler_compiler::{glob, similar};
use std::collections::HashSet;

/// Names within a kind; an empty name is the kind itself.
pub(super) type Names = Vec<String>;

/// A kind of probe.
pub(super) struct Kind {
    /// Its name in scripts.
    pub(super) name: &'static str,
    /// Other names for it.
    aliases: &'static [&'static str],
    /// Whether a pattern must name it.
    pub(super) only_by_name: bool,
    /// Whether its names begin with a file's.
    pub(super) in_files: bool,
    /// Names that match the rest of a pattern.
    pub(super) names: fn(&dyn Target, &str) -> Result<Names, TargetError>,
    /// Types and names of the arguments of a probe.
    pub(super) arguments: fn(&dyn Target, &str) -> Vec<String>,
}

impl Kind {
    /// Whether a name is that of this kind.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// All kinds, in the order of listings.
pub(super) static KINDS: [Kind; 18] = [
    constant("BEGIN", &["begin"], |_, rest| select(&[""], rest)),
    constant("END", &["end"], |_, rest| select(&[""], rest)),
    by_name("fentry", &["f", "kfunc"], functions, |target, name| function_arguments(target, name, false)),
    by_name("fexit", &["fr", "kretfunc"], functions, |target, name| function_arguments(target, name, true)),
    by_name("fn", &[], probed_functions, |target, name| function_arguments(target, name, false)),
    constant("hardware", &["h"], |_, rest| select(&HARDWARE, rest)),
    constant("interval", &["i"], |_, rest| select(&["hz:", "ms:", "s:", "us:"], rest)),
    Kind {
        name: "iter",
        aliases: &["it"],
        only_by_name: false,
        in_files: false,
        names: iterators,
        arguments: iterator_fields,
    },
    by_name("kprobe", &["k"], kprobes, |target, name| function_arguments(target, name, false)),
    by_name("kretprobe", &["kr"], kprobes, |target, name| function_arguments(target, name, true)),
    constant("profile", &["p"], |_, rest| select(&["hz:", "ms:", "s:", "us:"], rest)),
    Kind {
        name: "rawtracepoint",
        aliases: &["rt"],
        only_by_name: false,
        in_files: false,
        names: raw_tracepoints,
        arguments: raw_tracepoint_arguments,
    },
    constant("self", &[], |_, rest| select(&["signal:SIGUSR1"], rest)),
    constant("software", &["s"], |_, rest| select(&SOFTWARE, rest)),
    Kind {
        name: "tracepoint",
        aliases: &["t"],
        only_by_name: false,
        in_files: false,
        names: tracepoints,
        arguments: tracepoint_arguments,
    },
    in_files("uprobe", &["u"], user_functions, |_, _| Vec::new()),
    in_files("uretprobe", &["ur"], user_functions, |_, _| Vec::new()),
    in_files("usdt", &["U"], static_probes, static_probe_arguments),
];

const SOFTWARE: [&str; 14] = [
    "alignment-faults:",
    "bpf-output:",
    "context-switches:",
    "cpu:",
    "cpu-clock:",
    "cpu-migrations:",
    "cs:",
    "dummy:",
    "emulation-faults:",
    "faults:",
    "major-faults:",
    "minor-faults:",
    "page-faults:",
    "task-clock:",
];

const HARDWARE: [&str; 12] = [
    "backend-stalls:",
    "branch-instructions:",
    "branch-misses:",
    "branches:",
    "bus-cycles:",
    "cache-misses:",
    "cache-references:",
    "cpu-cycles:",
    "cycles:",
    "frontend-stalls:",
    "instructions:",
    "ref-cycles:",
];

/// How many near names are proposed.
const NEAR_NAMES: usize = 3;

type NamesOf = fn(&dyn Target, &str) -> Result<Names, TargetError>;

/// A kind whose names are always the same and have no arguments.
const fn constant(name: &'static str, aliases: &'static [&'static str], names: NamesOf) -> Kind {
    Kind { name, aliases, only_by_name: false, in_files: false, names, arguments: |_, _| Vec::new() }
}

/// A kind that a pattern must name.
const fn by_name(
    name: &'static str,
    aliases: &'static [&'static str],
    names: NamesOf,
    arguments: fn(&dyn Target, &str) -> Vec<String>,
) -> Kind {
    Kind { name, aliases, only_by_name: true, in_files: false, names, arguments }
}

/// A kind whose names begin with a file's.
const fn in_files(
    name: &'static str,
    aliases: &'static [&'static str],
    names: NamesOf,
    arguments: fn(&dyn Target, &str) -> Vec<String>,
) -> Kind {
    Kind { name, aliases, only_by_name: true, in_files: true, names, arguments }
}

/// Those of a fixed list that match, with or without the colon behind them.
#[allow(clippy::unnecessary_wraps)] // One of the functions of a `Kind`, of which others fail.
fn select(names: &[&str], rest: &str) -> Result<Names, TargetError> {
    let matches = |name: &&&str| glob::matches(rest, name) || glob::matches(rest, name.trim_end_matches(':'));
    Ok(names.iter().filter(matches).map(|name| (*name).to_owned()).collect())
}

fn tracepoints(target: &dyn Target, rest: &str) -> Result<Names, TargetError> {
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

fn tracepoint_arguments(target: &dyn Target, name: &str) -> Vec<String> {
    let format = name.split_once(':').and_then(|(category, event)| target.tracepoint_format(category, event).ok());
    format.map_or_else(Vec::new, |format| format.fields.iter().map(declaration).collect())
}

/// `char prev_comm[16]`
fn declaration(field: &TracepointField) -> String {
    let array = field.array_len.map_or(String::new(), |len| format!("[{len}]"));
    format!("{} {}{array}", field.c_type, field.name)
}

fn raw_tracepoints(target: &dyn Target, rest: &str) -> Result<Names, TargetError> {
    let btf = btf(target)?;
    if !glob::is_pattern(rest) && btf.raw_tracepoint(rest).is_some() {
        return Ok(vec![rest.to_owned()]);
    }
    choose(btf.raw_tracepoints().map(|tracepoint| tracepoint.name), rest)
}

fn raw_tracepoint_arguments(target: &dyn Target, name: &str) -> Vec<String> {
    let Some(btf) = target.btf() else { return Vec::new() };
    btf.raw_tracepoint(name).map_or_else(Vec::new, |tracepoint| parameters(btf, &tracepoint.args))
}

fn iterators(target: &dyn Target, rest: &str) -> Result<Names, TargetError> {
    let btf = btf(target)?;
    if !glob::is_pattern(rest) && btf.iterator(rest).is_some() {
        return Ok(vec![rest.to_owned()]);
    }
    choose(btf.iterators(), rest)
}

fn iterator_fields(target: &dyn Target, name: &str) -> Vec<String> {
    let Some(btf) = target.btf() else { return Vec::new() };
    let Some(iterator) = btf.iterator(name) else { return Vec::new() };
    btf.iterator_fields(iterator).into_iter().map(|(name, ty)| format!("{} {name}", btf.describe(ty))).collect()
}

fn functions(target: &dyn Target, rest: &str) -> Result<Names, TargetError> {
    let btf = btf(target)?;
    if rest.contains(':') {
        return described_functions(target, rest);
    }
    if !glob::is_pattern(rest) && btf.find(BtfKind::Function, rest).is_some() {
        return Ok(vec![rest.to_owned()]);
    }
    let mut names = choose(btf.functions().map(|(_, name)| name), rest)?;
    // Where the kernel says which functions can be traced, the others are left out.
    if let Ok(traceable) = probed_functions(target, rest) {
        names.retain(|name| traceable.binary_search(name).is_ok());
    }
    Ok(names)
}

/// The functions of modules that can be probed and whose types are known.
fn described_functions(target: &dyn Target, rest: &str) -> Result<Names, TargetError> {
    let mut names = probed_functions(target, rest)?;
    let mut modules: Names = names.iter().filter_map(|name| Some(name.split_once(':')?.0.to_owned())).collect();
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

/// Functions that can be probed, those of modules with the module's name.
fn probed_functions(target: &dyn Target, rest: &str) -> Result<Names, TargetError> {
    let (module, function) = match rest.split_once(':') {
        Some((module, function)) => (Some(module), function),
        None => (None, rest),
    };
    let line = |found: &KernelFunction| match &found.module {
        Some(module) => format!("{module}:{}", found.name),
        None => found.name.clone(),
    };
    let mut names: Names = target.kernel_functions(module, function)?.iter().map(line).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn kprobes(target: &dyn Target, rest: &str) -> Result<Names, TargetError> {
    target
        .function_probing()
        .kprobe
        .map_err(|reason| TargetError::Refused(format!("this kernel has none: {reason}")))?;
    probed_functions(target, rest)
}

fn function_arguments(target: &dyn Target, name: &str, with_result: bool) -> Vec<String> {
    let (module, function) = name.split_once(':').map_or((None, name), |(module, function)| (Some(module), function));
    let of_module = module.and_then(|module| target.btf_with_modules(&[module.to_owned()]));
    let Some(btf) = of_module.as_ref().or(target.btf()) else { return Vec::new() };
    let described = btf.find_function(module, function);
    let Some(proto) = described.and_then(|id| btf.func_proto(id)) else { return Vec::new() };
    let mut lines = parameters(btf, &proto.params);
    if with_result {
        lines.push(format!("{} retval", btf.describe(proto.ret)));
    }
    lines
}

/// `struct file * file`; a parameter without a name is `arg0` and so on.
fn parameters(btf: &Btf, params: &[Parameter<'_>]) -> Vec<String> {
    let line = |(index, param): (usize, &Parameter<'_>)| {
        let ty = btf.describe(param.ty);
        if param.name.is_empty() { format!("{ty} arg{index}") } else { format!("{ty} {}", param.name) }
    };
    params.iter().enumerate().map(line).collect()
}

/// `PATH:FUNCTION`, where both may have wildcards.
fn user_functions(target: &dyn Target, rest: &str) -> Result<Names, TargetError> {
    let (file, function) = rest.rsplit_once(':').unwrap_or((rest, "*"));
    if file == "*" && target.of_process().is_none() {
        return Err(TargetError::Invalid("name a file or command, as in uprobe:/bin/bash:*".to_owned()));
    }
    let function = if function.is_empty() { "*" } else { function };
    each_file(target, file, |path| {
        Ok(target.functions(path, function)?.into_iter().map(|symbol| symbol.name).collect())
    })
}

/// `PATH:PROVIDER:NAME`, where each may have wildcards and the provider may be left out.
fn static_probes(target: &dyn Target, rest: &str) -> Result<Names, TargetError> {
    let mut parts: Vec<&str> = rest.splitn(3, ':').collect();
    if parts.len() == 2 {
        parts.insert(1, "*");
    }
    let part = |index: usize| parts.get(index).copied().filter(|part| !part.is_empty()).unwrap_or("*");
    each_file(target, part(0), |path| {
        let probes = target.static_probes(path, part(1), part(2))?;
        Ok(probes.into_iter().map(|probe| format!("{}:{}", probe.provider, probe.name)).collect())
    })
}

/// The names in each file that one name means, behind the file's.
fn each_file(
    target: &dyn Target,
    file: &str,
    names_in: impl Fn(&str) -> Result<Names, TargetError>,
) -> Result<Names, TargetError> {
    let mut names = Vec::new();
    let files = target.binaries(file, None)?;
    for path in &files {
        match names_in(path) {
            Ok(found) => names.extend(found.iter().map(|name| format!("{}:{name}", shown_path(file, path)))),
            // Among several files, those without the name are no error.
            Err(_) if files.len() > 1 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(names)
}

/// Where each argument is, as the program's notes say; sites may differ.
fn static_probe_arguments(target: &dyn Target, name: &str) -> Vec<String> {
    let mut parts = name.rsplitn(3, ':');
    let (Some(name), Some(provider), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let probes = target.static_probes(path, provider, name).unwrap_or_default();
    let mut lines: Vec<String> = Vec::new();
    for site in probes.iter().flat_map(|probe| &probe.sites) {
        let place = |(index, argument): (usize, &Argument)| {
            let sign = if argument.signed { "int" } else { "uint" };
            format!("{sign}{} arg{index}  {}", u32::from(argument.size_bytes) * 8, argument.text)
        };
        let line = site.arguments.iter().enumerate().map(place).collect::<Vec<_>>().join(", ");
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn btf(target: &dyn Target) -> Result<&Btf, TargetError> {
    target
        .btf()
        .ok_or_else(|| TargetError::Refused("the kernel's types (/sys/kernel/btf/vmlinux) cannot be read".into()))
}

/// Names that match, sorted, each once; when an exact name is not there, near ones.
fn choose<'a>(names: impl Iterator<Item = &'a str>, rest: &str) -> Result<Names, TargetError> {
    if !glob::is_pattern(rest) {
        return Err(TargetError::Missing { near: similar::nearest(rest, names, NEAR_NAMES) });
    }
    let mut found: Names = names.filter(|name| glob::matches(rest, name)).map(str::to_owned).collect();
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
