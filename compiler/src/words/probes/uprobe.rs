//! `uprobe:BINARY:FUNCTION`: the entry of a function of a program or library.

use std::collections::BTreeSet;

use crate::ast::{AttachPoint, Ident};
use crate::catalogue::{Advice, DescribedProbe, Files, InFile, Listing, Nature, ProbeKind, Reads, SelfTest, Trigger};
use crate::check::{Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::glob;
use crate::object::{Attach, Site};
use crate::params::Param;
use crate::scope::Scope;
use crate::source::Span;
use crate::target::{FunctionSymbol, ProgramType, Target, TargetError, shown_path};
use crate::typed::ContextKind;
use crate::types::Space;
use crate::words::probes::described::{self, Place};
use crate::words::probes::{listing, program_probes, source_line};

/// `uprobe`.
#[derive(Debug)]
pub(super) struct Uprobe;

/// Since 6.6: one link for any number of sites.
pub(super) const MULTI_SINCE: (u32, u32) = (6, 6);

impl ProbeKind for Uprobe {
    word!("uprobe", "probes/uprobe");

    fn aliases(&self) -> &'static [&'static str] {
        &["u"]
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        expand(cx, point, self.name(), false)
    }

    fn listing(&self) -> Listing {
        Listing::ByName(listing::user_functions)
    }

    fn files(&self) -> Files {
        Files::Always(InFile::Functions)
    }

    fn arguments(&self, target: &dyn Target, name: &str) -> Vec<String> {
        self.all_arguments(target, &[name]).pop().unwrap_or_default()
    }

    fn all_arguments(&self, target: &dyn Target, names: &[&str]) -> Vec<Vec<String>> {
        program_probes::arguments(target, names, false)
    }

    fn described(&self, target: &dyn Target, name: &str, types: &BTreeSet<ProgramType>) -> Option<DescribedProbe> {
        program_probes::described(target, name, types, false)
    }

    fn reads(&self) -> Reads {
        Reads::Text("args.NAME: parameters, with debug information; arg0 … arg5: arguments, as integers")
    }

    fn nature(&self, _name: &str) -> Nature {
        Nature {
            what: "function of a program, by symbol",
            lasts: "until the program is rebuilt; inlined calls do not fire",
            way: "a trap into the kernel: about 170 ns per call, microseconds on other machines",
        }
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![SelfTest::optional(
            "uprobe",
            "uprobe:libc:getpid / pid == PID /",
            Trigger::GetPid,
            Advice::Text("uprobes need CONFIG_UPROBE_EVENTS"),
        )]
    }
}

/// The programs of a uprobe or uretprobe: one per file.
pub(super) fn expand(cx: &mut Points<'_, '_>, point: &AttachPoint, kind: &str, at_return: bool) -> Vec<Seed> {
    if let Some([binary, file, line]) = source_line::after_at(&point.parts) {
        return source_line::expand(cx, point.span, [&binary, &file, &line], (kind, at_return));
    }
    let (binary, language, function) = match point.parts.as_slice() {
        [binary, function] => (binary, None, function),
        [binary, language, function] if LANGUAGES.contains(&language.text.as_str()) => {
            (binary, Some(language), function)
        }
        [binary, file, line] if line.text.parse::<u64>().is_ok() => {
            return source_line::expand(cx, point.span, [binary, file, line], (kind, at_return));
        }
        _ => {
            let line = if at_return { String::new() } else { format!("`, `{kind}:BINARY:FILE:LINE") };
            cx.wrong_form(point, &format!("{kind}:BINARY:FUNCTION{line}` or `{kind}:BINARY:cpp:\"NAME\""));
            return Vec::new();
        }
    };
    let wanted =
        FunctionPoint { kind, function, by_source_name: language.is_some() || function.text.contains("::"), at_return };
    if at_return
        && !wanted.by_source_name
        && let Some((name, _)) = function.text.split_once('+')
    {
        let help = format!("write `{name}` alone");
        cx.error(Diagnostic::error(Code(407), function.span, "a return has no offset").help(help));
        return Vec::new();
    }
    let Some(paths) = files(cx, binary) else { return Vec::new() };
    let mut seeds = Vec::new();
    let mut refusal = None;
    for path in &paths {
        match wanted.seed(cx, &binary.text, path) {
            Ok(found) => seeds.extend(found),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    if seeds.is_empty() {
        let error = refusal.unwrap_or(TargetError::Missing { near: Vec::new() });
        let what = if binary.text.starts_with('*') {
            format!("function `{}` in the files that the process runs", function.text)
        } else {
            format!("function `{}` in `{}`", function.text, binary.text)
        };
        if cx.refused_in_program(function.span, (&what, &binary.text), error) {
            let path = paths.into_iter().next().unwrap_or_default();
            seeds.push(Seed { names: Vec::new(), ..program(cx, (kind, at_return), path, Vec::new()) });
        }
    } else {
        cx.env.probed_files.insert(binary.text.clone());
    }
    seeds
}

/// The files of a probe's first part; reports if there are none.
pub(super) fn files(cx: &mut Points<'_, '_>, binary: &Ident) -> Option<Vec<String>> {
    let names_process = !cx.env.options.pids.is_empty() || !chosen(&cx.env.params).is_empty();
    if let Some(other) = binary.text.strip_prefix(OF_PROCESS_OR) {
        return binaries(cx, binary.span, if names_process { "*" } else { other });
    }
    if binary.text == "*" && !names_process {
        let message = "`*` stands for the files that a process runs, and no process is named";
        let first = cx.env.report.mark();
        cx.error(
            Diagnostic::error(Code(424), binary.span, message)
                .help("name one with `-p PID` (a recipe: `--pid PID`), or write a path"),
        );
        cx.env.report.say_once(first);
        return None;
    }
    binaries(cx, binary.span, &binary.text)
}

/// `*|FILE` is `*` if a process is named, and FILE otherwise.
const OF_PROCESS_OR: &str = "*|";

/// Languages whose compilers mangle function names.
pub(super) const LANGUAGES: [&str; 2] = ["cpp", "rust"];

/// Libraries that were merged into libc in glibc 2.34; the remaining files contain no functions.
const PARTS_OF_LIBC: [&str; 5] = ["libanl.so", "libdl.so", "libpthread.so", "librt.so", "libutil.so"];

/// The library that now contains the one at this path.
fn taken_in_by(path: &str) -> Option<String> {
    let (directory, file) = path.rsplit_once('/')?;
    PARTS_OF_LIBC.iter().any(|part| file.starts_with(part)).then(|| format!("{directory}/libc.so.6"))
}

/// The files that a binary's name refers to; reports if there are none.
pub(super) fn binaries(cx: &mut Points<'_, '_>, span: Span, name: &str) -> Option<Vec<String>> {
    let found = of_processes(cx, name).or_else(|error| {
        let is_part = PARTS_OF_LIBC.iter().any(|part| part.strip_suffix(".so") == Some(name));
        if is_part { of_processes(cx, "libc") } else { Err(error) }
    });
    match found {
        Ok(paths) => Some(paths),
        Err(error) => {
            cx.no_binary(span, name, error);
            None
        }
    }
}

/// The files that the name refers to in any of the processes of `-p`, or else of the parameter
/// `pid`; if these have none, those of that name here.
fn of_processes(cx: &Points<'_, '_>, name: &str) -> Result<Vec<String>, TargetError> {
    let pids = &cx.env.options.pids;
    if !pids.is_empty() {
        return in_any(cx.env.target, pids, name);
    }
    let chosen = chosen(&cx.env.params);
    let found = in_any(cx.env.target, &chosen, name);
    let is_elsewhere = chosen.is_empty() || found.is_err() && name != "*";
    if is_elsewhere { cx.env.target.binaries(name, None) } else { found }
}

fn in_any(target: &dyn Target, pids: &[u32], name: &str) -> Result<Vec<String>, TargetError> {
    let mut paths: Vec<String> = Vec::new();
    let mut refusal = None;
    for pid in pids {
        match target.binaries(name, Some(*pid)) {
            Ok(found) => paths.extend(found),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    paths.sort_unstable();
    paths.dedup();
    match refusal {
        Some(error) if paths.is_empty() => Err(error),
        _ => Ok(paths),
    }
}

/// The processes that parameters of the script and its modules have as values.
fn chosen(params: &[Param]) -> Vec<u32> {
    params.iter().flat_map(|param| param.processes(&param.value)).collect()
}

/// The function that an attach point names.
struct FunctionPoint<'a> {
    kind: &'a str,
    function: &'a Ident,
    /// Whether the function is given by its source name, not by its symbol.
    by_source_name: bool,
    at_return: bool,
}

impl FunctionPoint<'_> {
    /// The program for one file.
    fn seed(&self, cx: &mut Points<'_, '_>, written: &str, path: &str) -> Result<Option<Seed>, TargetError> {
        let (path, sites) = match self.sites(cx, path) {
            Err(TargetError::Missing { near }) => match taken_in_by(path) {
                Some(whole) => (whole.clone(), self.sites(cx, &whole)?),
                None => return Err(TargetError::Missing { near }),
            },
            sites => (path.to_string(), sites?),
        };
        Ok((!sites.is_empty()).then(|| self.seed_at(cx, &shown_path(written, &path), path, sites)))
    }

    fn sites(&self, cx: &Points<'_, '_>, path: &str) -> Result<Vec<Site>, TargetError> {
        let target = cx.env.target;
        let text = self.function.text.as_str();
        if self.by_source_name {
            return Ok(distinct(target.functions_by_source_name(path, text)?, 0));
        }
        if let Some(address) = number(text) {
            let offset = target.file_offset(path, address)?;
            let file_offset = offset.ok_or_else(|| TargetError::Invalid("no code is at that address".into()))?;
            return Ok(vec![Site { file_offset, name: text.to_string(), cookie: 0, semaphore_offset: 0 }]);
        }
        let (name, distance) = match text.split_once('+') {
            Some((name, distance)) => (name, number(distance)),
            None => (text, Some(0)),
        };
        let Some(distance) = distance else {
            return Err(TargetError::Invalid("an offset is a number, such as `+0x10`".into()));
        };
        let found = target.functions(path, name)?;
        let is_within = |symbol: &FunctionSymbol| symbol.size_bytes == 0 || distance < symbol.size_bytes;
        if !glob::is_pattern(name)
            && distance != 0
            && let Some(symbol) = found.iter().find(|symbol| !is_within(symbol))
        {
            return Err(TargetError::Invalid(format!("the function is only {} bytes long", symbol.size_bytes)));
        }
        Ok(distinct(found, distance))
    }

    fn seed_at(&self, cx: &mut Points<'_, '_>, shown: &str, path: String, sites: Vec<Site>) -> Seed {
        let mut functions: Vec<String> = Vec::new();
        for site in &sites {
            if site.cookie == functions.len() as u64 {
                functions.push(site.name.clone());
            }
        }
        let kind = self.kind;
        let names = functions.iter().map(|name| format!("{kind}:{shown}:{name}")).collect();
        let mut seed = program(cx, (kind, self.at_return), path, sites);
        (seed.names, seed.functions) = (names, functions);
        let is_offset = self.function.text.contains('+') && !self.by_source_name;
        described::describe(cx, &mut seed, if is_offset { Place::Offsets } else { Place::Functions });
        seed
    }
}

/// The program for sites in one file, without names. Without sites it is only checked
/// ([`Seed::is_absent`]).
pub(super) fn program(cx: &Points<'_, '_>, (kind, at_return): (&str, bool), path: String, sites: Vec<Site>) -> Seed {
    let multi = cx.env.target.kernel() >= MULTI_SINCE;
    let section = if multi { format!("{kind}.multi") } else { kind.to_string() };
    let points = sites.len() as u32;
    let scope = Scope::of(&cx.env.processes());
    let attach = Attach::Uprobe { path, at_return, sites, multi, scope };
    let mut seed = Seed::new(String::new(), section, ContextKind::Registers, attach);
    seed.points = points;
    seed.pointer_space = Space::User;
    seed.context.preemptible = true;
    seed.no_args = if at_return {
        "arguments are no longer there at the return: save them at the entry, in a map with key `tid`"
    } else {
        "functions have arg0, arg1, …, and `args` if the program has debug information"
    };
    seed
}

/// The sites of functions; cookies number the names. Names that share code are one site, because
/// two probes there would count twice.
fn distinct(functions: Vec<FunctionSymbol>, distance: u64) -> Vec<Site> {
    let mut seen = BTreeSet::new();
    let mut sites: Vec<Site> = Vec::with_capacity(functions.len());
    for symbol in functions {
        let file_offset = symbol.file_offset.saturating_add(distance);
        if seen.insert(file_offset) {
            // Sorted by name: functions with the same (source) name are consecutive.
            let cookie = sites.last().map_or(0, |last| last.cookie + u64::from(last.name != symbol.name));
            sites.push(Site { file_offset, name: symbol.name, cookie, semaphore_offset: 0 });
        }
    }
    sites
}

/// A decimal number, or a hexadecimal one after `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
