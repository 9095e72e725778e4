//! Kernel and module functions that can be probed.
//!
//! In: ftrace's list of functions, or if that cannot be read, the kernel's symbols except those on
//! the kprobe blacklist.
//! Out: functions by pattern, or why a name cannot be probed. Guarantee: the list is read once.

use std::fs;
use std::path::Path;

use profiler_compiler::target::{KernelFunction, TargetError};
use profiler_compiler::{glob, similar};

use super::NEAR_NAMES;

const SYMBOLS: &str = "/proc/kallsyms";
const BLACKLIST: &str = "/sys/kernel/debug/kprobes/blacklist";

/// All functions.
#[derive(Debug)]
pub(super) struct Functions {
    text: String,
    source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// `vfs_read`, `ext4_init [ext4]`: traceable functions.
    Ftrace,
    /// `ffffffff81000000 T vfs_read`, with the module after a tab: all symbols.
    Symbols,
}

impl Source {
    /// Name and module in a line, if it is of a function that can be probed.
    fn function(self, line: &str) -> Option<(&str, Option<&str>)> {
        match self {
            Source::Ftrace => traceable(line),
            Source::Symbols => code_symbol(line),
        }
    }
}

impl Functions {
    /// Reads the list.
    pub(super) fn read(tracefs: Option<&Path>) -> Result<Functions, TargetError> {
        let listed = tracefs.and_then(|root| fs::read_to_string(root.join("available_filter_functions")).ok());
        if let Some(text) = listed.filter(|text| !text.is_empty()) {
            return Ok(Functions { text, source: Source::Ftrace });
        }
        let text = fs::read_to_string(SYMBOLS)
            .map_err(|error| TargetError::Refused(format!("{SYMBOLS} cannot be read: {error}")))?;
        Ok(Functions { text, source: Source::Symbols })
    }

    /// Functions that match, sorted, at least one; a name shared by several functions appears
    /// several times.
    pub(super) fn find(&self, module: Option<&str>, pattern: &str) -> Result<Vec<KernelFunction>, TargetError> {
        let in_module = |found: Option<&str>| match module {
            None => true,
            Some(wanted) => glob::matches(wanted, found.unwrap_or("vmlinux")),
        };
        let mut found: Vec<KernelFunction> = self
            .candidates(pattern)
            .filter(|(name, _)| glob::matches(pattern, name))
            .filter(|(_, module)| in_module(*module))
            .map(|(name, module)| KernelFunction { name: name.to_owned(), module: module.map(str::to_owned) })
            .collect();
        if self.source == Source::Symbols && !found.is_empty() {
            let forbidden = fs::read_to_string(BLACKLIST).unwrap_or_default();
            found.retain(|function| !is_blacklisted(&forbidden, &function.name));
            if found.is_empty() {
                return Err(TargetError::Invalid("the kernel's blacklist forbids it".to_owned()));
            }
        }
        if found.is_empty() {
            return Err(TargetError::Missing { near: Vec::new() });
        }
        found.sort_unstable();
        Ok(found)
    }

    /// All functions that may match. For a pattern without wildcards that is a search in the text:
    /// to take each of 150,000 lines apart takes longer than all else that starts a script.
    fn candidates<'a>(&'a self, pattern: &'a str) -> Box<dyn Iterator<Item = (&'a str, Option<&'a str>)> + 'a> {
        if glob::is_pattern(pattern) || pattern.is_empty() {
            return Box::new(self.all());
        }
        let text = self.text.as_bytes();
        let line = |at: usize| {
            let begin = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |before| before + 1);
            let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |len| at + len);
            &self.text[begin..end]
        };
        let (before, after) = match self.source {
            Source::Ftrace => (b'\n', b' '),
            Source::Symbols => (b' ', b'\t'),
        };
        let is_name = move |at: &usize| {
            let (previous, next) = (at.checked_sub(1), text.get(at + pattern.len()));
            previous.is_none_or(|previous| text[previous] == before)
                && next.is_none_or(|next| [after, b'\n'].contains(next))
        };
        let places = memchr::memmem::find_iter(text, pattern.as_bytes()).filter(is_name);
        Box::new(places.filter_map(move |at| self.source.function(line(at))))
    }

    fn all(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.text.lines().filter_map(|line| self.source.function(line))
    }

    /// Why a name is not in the list: it does not exist, or the kernel does not allow tracing it.
    pub(super) fn why_absent(&self, module: Option<&str>, pattern: &str) -> TargetError {
        if glob::is_pattern(pattern) || module.is_some_and(glob::is_pattern) {
            return TargetError::Missing { near: Vec::new() };
        }
        if self.source == Source::Ftrace
            && let Ok(text) = fs::read_to_string(SYMBOLS)
            && text.lines().filter_map(code_symbol).any(|(name, _)| name == pattern)
        {
            let words =
                "the kernel does not allow tracing this function: it is not in tracefs' available_filter_functions";
            return TargetError::Invalid(words.to_owned());
        }
        let parts = self.parts(pattern);
        if !parts.is_empty() {
            return TargetError::Missing { near: parts };
        }
        TargetError::Missing { near: similar::nearest(pattern, self.all().map(|(name, _)| name), NEAR_NAMES) }
    }

    /// What the compiler made of a function that no longer exists as such: copies with fewer
    /// parameters and parts of it (`name.isra.0`, `name.part.0`, `name.constprop.0`).
    fn parts(&self, function: &str) -> Vec<String> {
        let is_part = |name: &&str| name.strip_prefix(function).is_some_and(|rest| rest.starts_with('.'));
        let mut parts: Vec<String> = self.all().map(|(name, _)| name).filter(is_part).map(str::to_owned).collect();
        parts.sort_unstable();
        parts.dedup();
        parts.truncate(NEAR_NAMES);
        parts
    }
}

/// Name and module in a line of ftrace's list.
fn traceable(line: &str) -> Option<(&str, Option<&str>)> {
    // Since 5.19: entries whose function no longer exists are listed under such names.
    let (name, module) = match line.split_once(' ') {
        Some((name, rest)) => (name, rest.trim_start_matches('[').split(']').next()),
        None => (line, None),
    };
    (!name.is_empty() && !name.starts_with("__ftrace_invalid_address__")).then_some((name, module))
}

/// Name and module in a line of the kernel's symbols, if it is a code symbol.
fn code_symbol(line: &str) -> Option<(&str, Option<&str>)> {
    let (_, rest) = line.split_once(' ')?;
    let (kind, rest) = rest.split_once(' ')?;
    if !matches!(kind, "t" | "T" | "w" | "W") {
        return None;
    }
    let (name, module) = match rest.split_once('\t') {
        Some((name, module)) => (name, Some(module.trim_matches(['[', ']']))),
        None => (rest, None),
    };
    // Padding before functions, split-off cold parts of functions, and BPF programs.
    let is_function = !name.starts_with("__pfx_") && !name.contains(".cold") && module != Some("bpf");
    is_function.then_some((name, module))
}

/// `0xffffffff81000000-0xffffffff81000010\tname`
fn is_blacklisted(blacklist: &str, name: &str) -> bool {
    blacklist.lines().any(|line| line.split_once('\t').is_some_and(|(_, forbidden)| forbidden == name))
}

#[cfg(test)]
mod tests {
    use super::{Functions, Source, code_symbol, is_blacklisted, traceable};
    use profiler_compiler::target::TargetError;

    fn listed(text: &str) -> Functions {
        Functions { text: text.to_owned(), source: Source::Ftrace }
    }

    #[test]
    fn lines_have_names_and_modules() {
        assert_eq!(traceable("vfs_read"), Some(("vfs_read", None)));
        assert_eq!(traceable("ext4_init [ext4]"), Some(("ext4_init", Some("ext4"))));
        assert_eq!(traceable("__ftrace_invalid_address___64"), None);
        assert_eq!(code_symbol("ffffffff81000000 T vfs_read"), Some(("vfs_read", None)));
        assert_eq!(code_symbol("ffffffffc0000000 t init\t[ext4]"), Some(("init", Some("ext4"))));
        assert_eq!(code_symbol("ffffffff81000000 D jiffies"), None);
        assert_eq!(code_symbol("ffffffff81000000 t __pfx_vfs_read"), None);
        assert_eq!(code_symbol("nonsense"), None);
        assert!(is_blacklisted("0x1-0x2\tdo_int3\n0x2-0x3\tnmi\n", "nmi") && !is_blacklisted("0x1-0x2\tnmi_x", "nmi"));
    }

    #[test]
    fn functions_are_found_by_name_pattern_and_module() {
        let functions = listed("vfs_write\nvfs_read\nvfs_read [nfs]\nfree\n");
        let found = |module, pattern| {
            let found = functions.find(module, pattern);
            found.map(|list| list.iter().map(|f| (f.name.clone(), f.module.clone())).collect::<Vec<_>>())
        };
        let kernel = |name: &str| (name.to_owned(), None);
        let nfs = ("vfs_read".to_owned(), Some("nfs".to_owned()));
        assert_eq!(found(None, "vfs_read"), Ok(vec![kernel("vfs_read"), nfs.clone()]));
        assert_eq!(found(Some("vmlinux"), "vfs_*"), Ok(vec![kernel("vfs_read"), kernel("vfs_write")]));
        assert_eq!(found(Some("n*"), "*"), Ok(vec![nfs]));
        assert_eq!(found(None, "free"), Ok(vec![kernel("free")]));
        let near = |names: &[&str]| TargetError::Missing { near: names.iter().map(|n| (*n).to_owned()).collect() };
        assert_eq!(found(None, "vfs_raed"), Err(near(&[])));
        assert_eq!(functions.why_absent(None, "vfs_raed"), near(&["vfs_read"]));
        let split = listed("walk_one\nwalk.part.0\nwalk.isra.0\nwalk.isra.0 [nfs]\nwalks\n");
        assert_eq!(split.why_absent(None, "walk"), near(&["walk.isra.0", "walk.part.0"]));
        assert_eq!(functions.why_absent(None, "zz*"), near(&[]));
    }

    #[test]
    fn a_name_finds_those_of_all_functions_that_have_it() {
        let symbols = "f0 t t\nf1 T tt\nf2 t t\t[nfs]\nf3 D t\nf4 t t.cold\nf5 t t.part.0\nf6 w w";
        let symbols = Functions { text: symbols.to_owned(), source: Source::Symbols };
        let traceable = listed("t\ntt\nt [nfs]\nt.part.0\nat\nt [t]\nw");
        for functions in [symbols, traceable] {
            let all = functions.find(None, "*").expect("there are some");
            for name in ["t", "tt", "w", "at", "nfs", "t.part.0", "t.cold", "T", "f0", "D", ""] {
                let found = functions.find(None, name).unwrap_or_default();
                let expected: Vec<_> = all.iter().filter(|function| function.name == name).cloned().collect();
                assert_eq!(found, expected, "{name} in {}", functions.text);
            }
        }
    }

    #[test]
    fn this_kernel_has_functions() {
        match Functions::read(None).and_then(|functions| functions.find(None, "vfs_read")) {
            Ok(found) => assert!(found.iter().any(|f| f.name == "vfs_read" && f.module.is_none())),
            Err(error) => println!("SKIPPED: {error:?}"),
        }
    }
}
