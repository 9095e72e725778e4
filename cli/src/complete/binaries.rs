//! Completes probes of programs and libraries: first the file, then what is in it.
//!
//! In: a partial attach point. Out: candidates for the part being written.
//! Guarantee: of the files in a directory only those that match the typed prefix are opened, and
//! only four bytes are read.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use profiler_compiler::CATALOGUE;
use profiler_compiler::catalogue::{Files, InFile};
use profiler_compiler::target::Target as _;

use super::{Candidate, MOST, candidate};
use profiler_runtime::host::Host;

/// Completions after a probe kind for programs; `None` for other kinds.
pub(super) fn probes(host: &Host, kind: &str, rest: &str) -> Option<Vec<Candidate>> {
    let wanted = match CATALOGUE.probe(kind)?.files() {
        Files::Always(wanted) => wanted,
        // Kernel functions have no path; the short name of a library is recognised once the colon
        // after it is typed.
        Files::Sometimes(wanted)
            if rest.contains('/') || (rest.contains(':') && host.binaries(file_of(rest), None).is_ok()) =>
        {
            wanted
        }
        Files::Sometimes(_) | Files::Never => return None,
    };
    let Some((file, behind)) = rest.split_once(':') else {
        let names = if rest.contains('/') { in_directory(rest) } else { by_name(host, rest) };
        return Some(names.into_iter().map(|name| candidate(format!("{kind}:{name}"), "")).collect());
    };
    let Ok(paths) = host.binaries(file, None) else { return Some(Vec::new()) };
    let found = paths.iter().flat_map(|path| match wanted {
        InFile::Functions => functions(host, path, behind),
        InFile::StaticProbes => static_probes(host, path, behind),
    });
    Some(found.map(|found| candidate(format!("{kind}:{file}:{}", found.text), found.about)).collect())
}

fn file_of(rest: &str) -> &str {
    rest.split_once(':').map_or(rest, |(file, _)| file)
}

/// Directories and programs that continue a path.
fn in_directory(written: &str) -> Vec<String> {
    let (directory, beginning) = written.rsplit_once('/').unwrap_or(("", written));
    let entries = fs::read_dir(if directory.is_empty() { "/" } else { directory }).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let wanted = names.filter(|name| {
        name.starts_with(beginning) && !name.contains(':') && (beginning.starts_with('.') || !name.starts_with('.'))
    });
    let shown = |name: String| {
        let path = format!("{directory}/{name}");
        let meta = fs::metadata(&path).ok()?;
        if meta.is_dir() {
            return Some(format!("{path}/"));
        }
        (meta.is_file() && is_program(Path::new(&path))).then(|| format!("{path}:"))
    };
    wanted.filter_map(shown).collect()
}

/// Commands and libraries by short name; all libraries if nothing is typed.
fn by_name(host: &Host, written: &str) -> Vec<String> {
    let mut names: Vec<String> =
        host.completion().libraries().into_iter().filter(|name| name.starts_with(written)).collect();
    if written.is_empty() {
        names.push("/".to_owned());
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        for directory in std::env::split_paths(&path).filter(|directory| directory.is_absolute()) {
            let programs = in_directory(&format!("{}/{written}", directory.display()));
            names.extend(
                programs.iter().filter_map(|path| path.rsplit('/').next()?.strip_suffix(':').map(str::to_owned)),
            );
        }
    }
    names.sort_unstable();
    names.dedup();
    let colon = |name: String| if name == "/" { name } else { format!("{name}:") };
    names.into_iter().map(colon).collect()
}

/// Whether a file is an ELF file.
fn is_program(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

/// Functions of a file: symbols unchanged, C++ and Rust names quoted and one component at a time.
/// Source files, then their lines with code.
fn functions(host: &Host, path: &str, behind: &str) -> Vec<Candidate> {
    let (language, name) = match behind.split_once(':') {
        Some((language @ ("cpp" | "rust"), name)) => (Some(language), name),
        _ => (None, behind),
    };
    let ahead = language.map_or(String::new(), |language| format!("{language}:"));
    let source = |beginning: &str| {
        let parts = host.completion().source_names(path, beginning, MOST).into_iter();
        let text = |name: &str, is_whole| format!("{ahead}\"{name}{}", if is_whole { "\"" } else { "::" });
        parts.map(|part| candidate(text(&part.name, part.is_whole), "")).collect::<Vec<_>>()
    };
    if let Some(beginning) = name.strip_prefix('"') {
        return source(beginning);
    }
    if language.is_some() || name.contains("::") {
        return source(name);
    }
    if let Some((file, line)) = name.split_once(':') {
        let lines = host.completion().source_lines(path, file).into_iter().map(|line| line.to_string());
        let found = lines.filter(|number| number.starts_with(line)).take(MOST);
        return found.map(|number| candidate(format!("{file}:{number}"), "")).collect();
    }
    let symbols = host.completion().symbols(path, name, MOST);
    let mut found: Vec<Candidate> = symbols.into_iter().map(|name| candidate(name, "")).collect();
    let sources = source(name);
    // Without a prefix, C++ functions outside any namespace would dominate the list.
    found.extend(sources.into_iter().filter(|found| !name.is_empty() || found.text.ends_with("::")));
    // All line tables of a large program take seconds to read.
    if !name.is_empty() {
        let files = host.completion().source_files(path, name).into_iter().take(MOST);
        found.extend(files.map(|file| candidate(format!("{file}:"), "source file")));
    }
    found
}

/// Static probes by provider, then by name; a name may be used alone.
fn static_probes(host: &Host, path: &str, behind: &str) -> Vec<Candidate> {
    let probes = host.static_probes(path, "*", "*").unwrap_or_default();
    let mut found = Vec::new();
    for probe in &probes {
        let count = probe.sites.iter().map(|site| site.arguments.len()).max().unwrap_or(0);
        let about = format!("{count} argument{}", if count == 1 { "" } else { "s" });
        match behind.split_once(':') {
            Some((provider, name)) if probe.provider == provider && probe.name.starts_with(name) => {
                found.push(candidate(format!("{provider}:{}", probe.name), about));
            }
            None if probe.provider.starts_with(behind) => found.push(candidate(format!("{}:", probe.provider), "")),
            None if probe.name.starts_with(behind) => found.push(candidate(&probe.name, about)),
            _ => {}
        }
    }
    found
}
