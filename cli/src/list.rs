//! Lists what can be probed on this machine.
//!
//! In: a pattern such as `tracepoint:sched:*`, `*open*`, `uprobe:/bin/bash:read*`. Out: one probe
//! per line, on request with its arguments below it.
//! Guarantee: lines are sorted within a kind; kinds with long lists, or that need a file (functions
//! of the kernel and of programs), are included only if the pattern names them. A listed name
//! exists, but the kernel may not allow probing it.

mod types;

pub use types::types;

use profiler_compiler::catalogue::{Files, ProbeKind};
use profiler_compiler::target::{Target, TargetError};
use profiler_compiler::{CATALOGUE, glob};
use std::io::{self, Write};

/// Probes whose arguments are looked up at once.
const AT_ONCE: usize = 20_000;

/// Why a listing is incomplete.
#[derive(Debug)]
pub enum ListError {
    /// The output cannot be written to.
    Output(io::Error),
    /// The machine could not answer for this kind; other kinds have been listed.
    Target {
        /// The probe kind.
        kind: &'static str,
        error: TargetError,
    },
    /// No probe kind has the name at the start of the pattern.
    UnknownKind {
        name: String,
        /// Similar kinds.
        near: Vec<String>,
    },
}

impl std::fmt::Display for ListError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ListError::Output(error) => write!(f, "cannot write the list: {error}"),
            ListError::Target { kind, error } => match error {
                TargetError::Missing { near } if near.is_empty() => write!(f, "no such {kind} probe here"),
                TargetError::Missing { near } => {
                    write!(f, "no such {kind} probe here; near names: {}", near.join(", "))
                }
                TargetError::Refused(words) | TargetError::Invalid(words) => write!(f, "{kind} probes: {words}"),
            },
            ListError::UnknownKind { name, near } if near.is_empty() => write!(f, "there is no probe kind `{name}`"),
            ListError::UnknownKind { name, near } => {
                write!(f, "there is no probe kind `{name}`; did you mean `{}`?", near.join("`, `"))
            }
        }
    }
}

impl From<io::Error> for ListError {
    fn from(error: io::Error) -> Self {
        ListError::Output(error)
    }
}

/// Prints the probes that match a pattern, or without a pattern all that can be listed at once;
/// returns their number.
pub fn list(
    target: &dyn Target,
    pattern: Option<&str>,
    verbose: bool,
    out: &mut dyn Write,
) -> Result<usize, ListError> {
    let query = Query::parse(pattern.unwrap_or("*"), target.of_process().is_some());
    let kinds: Vec<_> = CATALOGUE.probes.iter().copied().filter(|kind| query.takes(*kind)).collect();
    if kinds.is_empty() {
        let names = CATALOGUE.probes.iter().map(|kind| kind.listed_name());
        let near = profiler_compiler::similar::nearest(query.kind, names, 3);
        return Err(ListError::UnknownKind { name: query.kind.to_owned(), near });
    }
    let (mut count, mut refused) = (0, None);
    for kind in kinds {
        match kind.names(target, query.rest) {
            Ok(names) => {
                let names = matching(kind, &names, query.filter.as_deref());
                count += names.len();
                print(target, kind, &names, verbose, out)?;
            }
            // No match in this kind is a valid answer for a pattern.
            Err(TargetError::Missing { near }) if near.is_empty() => {}
            // A pattern over kinds lists whatever exists.
            Err(TargetError::Missing { .. } | TargetError::Invalid(_)) if glob::is_pattern(query.kind) => {}
            Err(error) => refused = refused.or(Some(ListError::Target { kind: kind.listed_name(), error })),
        }
    }
    refused.map_or(Ok(count), Err)
}

/// Names of a probe kind that match a pattern, as written after the kind; empty for an unknown
/// kind, or if the machine cannot list them.
pub fn names(target: &dyn Target, kind: &str, pattern: &str) -> Vec<String> {
    named(kind).and_then(|kind| kind.names(target, pattern).ok()).unwrap_or_default()
}

/// Types and names of the arguments of a probe, `kind:name`, as C declares them.
pub fn arguments(target: &dyn Target, probe: &str) -> Vec<String> {
    let Some((kind, name)) = probe.split_once(':') else { return Vec::new() };
    named(kind).map_or_else(Vec::new, |kind| kind.arguments(target, name))
}

fn named(name: &str) -> Option<&'static dyn ProbeKind> {
    CATALOGUE.probes.iter().copied().find(|kind| kind.is_called(name))
}

/// A parsed pattern.
struct Query<'a> {
    /// Name or pattern of the kind.
    kind: &'a str,
    /// The part after the kind.
    rest: &'a str,
    /// Matches whole lines if the pattern names no kind.
    filter: Option<String>,
    /// Whether it refers to files, by a path or through a process.
    in_files: bool,
}

impl<'a> Query<'a> {
    fn parse(pattern: &'a str, of_process: bool) -> Query<'a> {
        if let Some((kind, rest)) = pattern.split_once(':') {
            let in_files = of_process || rest.contains('/');
            return Query { kind, rest: if rest.is_empty() { "*" } else { rest }, filter: None, in_files };
        }
        if named(pattern).is_some() {
            return Query { kind: pattern, rest: "*", filter: None, in_files: of_process };
        }
        // A word without a wildcard matches anywhere in a name.
        let filter = if glob::is_pattern(pattern) { pattern.to_owned() } else { format!("*{pattern}*") };
        Query { kind: "*", rest: "*", filter: Some(filter), in_files: of_process }
    }

    fn takes(&self, kind: &'static dyn ProbeKind) -> bool {
        let is_in_files = matches!(kind.files(), Files::Always(_));
        kind.is_called(self.kind)
            || (glob::is_pattern(self.kind)
                && (!kind.is_listed_by_name() || (self.in_files && is_in_files))
                && glob::matches(self.kind, kind.listed_name()))
    }
}

/// The names that match a filter as they are listed, each with its line.
fn matching<'n>(kind: &dyn ProbeKind, names: &'n [String], filter: Option<&str>) -> Vec<(&'n str, String)> {
    let listed = kind.listed_name();
    let line = |name: &str| if name.is_empty() { listed.to_owned() } else { format!("{listed}:{name}") };
    let lines = names.iter().map(|name| (name.as_str(), line(name)));
    lines.filter(|(_, line)| filter.is_none_or(|filter| glob::matches(filter, line))).collect()
}

fn print(
    target: &dyn Target,
    kind: &'static dyn ProbeKind,
    names: &[(&str, String)],
    verbose: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    for part in names.chunks(AT_ONCE) {
        let called: Vec<&str> = part.iter().map(|(name, _)| *name).collect();
        let arguments = if verbose { kind.all_arguments(target, &called) } else { vec![Vec::new(); part.len()] };
        for ((_, line), arguments) in part.iter().zip(arguments) {
            writeln!(out, "{line}")?;
            for argument in arguments {
                writeln!(out, "    {argument}")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ListError, list};
    use profiler_compiler::target::{Target, TargetError};
    use profiler_runtime::host::Host;

    fn listing(pattern: &str, verbose: bool) -> Result<String, ListError> {
        let mut out = Vec::new();
        let count = list(&Host::new(), Some(pattern), verbose, &mut out)?;
        let text = String::from_utf8(out).expect("text");
        let probes = text.lines().filter(|line| !line.starts_with(' ')).count();
        assert_eq!(count, probes);
        Ok(text)
    }

    fn has_tracefs() -> bool {
        let has = Host::new().tracefs().is_ok();
        if !has {
            println!("SKIPPED: tracefs is not readable");
        }
        has
    }

    #[test]
    fn lists_fixed_kinds() {
        assert_eq!(listing("watchpoint:*", false).expect("a kind"), "watchpoint:ADDRESS:LENGTH:MODE\n");
        assert_eq!(listing("w:0x1000:8:w", false).expect("a kind"), "watchpoint:0x1000:8:w\n");
        assert_eq!(listing("BEGIN", false).expect("a kind"), "BEGIN\n");
        assert_eq!(listing("i:*", false).expect("a kind"), listing("interval", false).expect("a kind"));
        assert!(listing("software:cpu-*", false).expect("a kind").contains("software:cpu-clock:\n"));
        assert_eq!(listing("software:no-such*", false).expect("a kind"), "");
        assert!(
            matches!(listing("trasepoint:*", false), Err(ListError::UnknownKind { near, .. }) if near == ["tracepoint"])
        );
    }

    #[test]
    fn lists_tracepoints() {
        if !has_tracefs() {
            return;
        }
        assert_eq!(listing("tracepoint:sched:sched_switch", false).expect("it is"), "tracepoint:sched:sched_switch\n");
        let verbose = listing("t:sched:sched_switch", true).expect("it is");
        assert!(verbose.starts_with("tracepoint:sched:sched_switch\n    char prev_comm[16]\n    pid_t prev_pid\n"));
        let openat = listing("tracepoint:syscalls:sys_enter_openat", true).expect("it is");
        assert!(openat.contains("\n    const char * filename\n"), "{openat}");
        let by_word = listing("sched_swit", false).expect("a word");
        assert!(by_word.contains("tracepoint:sched:sched_switch\n"));
        assert!(listing("tracepoint:*openat", false).expect("a pattern").contains("sys_enter_openat\n"));
        assert!(listing("tracepoint:sched", false).expect("a category").contains("sched_switch\n"));
        let near = listing("tracepoint:sched:sched_swich", false);
        assert!(
            matches!(near, Err(ListError::Target { error: TargetError::Missing { near }, .. }) if !near.is_empty())
        );
    }

    #[test]
    fn lists_kernel_functions_only_by_name() {
        if Host::new().btf().is_none() {
            println!("SKIPPED: no BTF");
            return;
        }
        let read = listing("fentry:vfs_read", true).expect("it is");
        assert!(read.starts_with("fentry:vfs_read\n    struct file * file\n"), "{read}");
        let exit = listing("fexit:vfs_read", true).expect("it is");
        assert!(exit.contains(" retval\n"), "{exit}");
        assert!(listing("fn:vfs_rea*", false).expect("a pattern").contains("fn:vfs_read\n"));
        match listing("kprobe:vfs_rea*", false) {
            Ok(text) => assert!(text.contains("kprobe:vfs_read\n"), "{text}"),
            Err(ListError::Target { error: TargetError::Refused(words), .. }) => println!("SKIPPED: {words}"),
            Err(error) => panic!("{error}"),
        }
        assert!(!listing("*vfs_read*", false).expect("a pattern").contains("fentry"));
        let switch = listing("rawtracepoint:sched_switch", true).expect("it is");
        assert!(switch.contains("    struct task_struct * prev\n"), "{switch}");
        assert_eq!(listing("iter:task", true).expect("it is"), "iter:task\n    struct task_struct * task\n");
        assert!(listing("it:task_*", false).expect("a pattern").starts_with("iter:task_file\niter:task_vma\n"));
        assert!(listing("rt:sched_*", false).expect("some").lines().count() > 5);
    }

    #[test]
    fn lists_functions_of_a_file() {
        let own = std::env::current_exe().expect("a path");
        let text = listing(&format!("uprobe:{}:mai*", own.display()), false).expect("it has main");
        assert!(text.lines().any(|line| line.starts_with("uprobe:/") && line.ends_with(":main")), "{text}");
        assert!(matches!(listing("uprobe:*", false), Err(ListError::Target { error: TargetError::Invalid(_), .. })));
    }

    #[test]
    fn lists_everything() {
        if !has_tracefs() {
            return;
        }
        let all = listing("*", false).expect("no kind refuses");
        for line in
            ["BEGIN", "END", "interval:s:", "profile:hz:", "software:cpu-clock:", "tracepoint:sched:sched_switch"]
        {
            assert!(all.lines().any(|found| found == line), "{line}");
        }
        assert!(!all.contains("uprobe:") && !all.contains("fentry:"));
    }
}
