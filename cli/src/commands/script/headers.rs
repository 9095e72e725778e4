//! C headers: where they are, and the names that a C compiler for the kernel predefines.
//!
//! In: the directories and files of the command line, a script's text. Out: paths of headers; a
//! header with the kernel's configuration and types.
//! Guarantee: only names that the text contains are looked up, so other scripts read nothing.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::env::consts::ARCH;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use profiler_compiler::btf::Kind;
use profiler_compiler::source::Source;
use profiler_compiler::target::Target as _;
use profiler_runtime::host::{Host, kernel_config, kernel_option, kernel_version_code};

/// The header with the names that are predefined.
const NAME: &str = "kernel configuration.h";

/// The kernel's version as a number.
const VERSION: &str = "LINUX_VERSION_CODE";

/// `__has_STRUCT` and `__has_STRUCT__MEMBER` are defined if the kernel has them.
const HAS: &str = "__has_";

/// Directories of headers that are not read: types come from BTF, and constants are built in.
const OF_THE_KERNEL: [&str; 9] = ["linux", "asm", "asm-generic", "net", "uapi", "bpf", "bits", "sys", "netinet"];

/// Headers of C, which are not read either: their types and constants are built in.
const OF_C: [&str; 15] = [
    "errno.h",
    "fcntl.h",
    "float.h",
    "inttypes.h",
    "limits.h",
    "signal.h",
    "stdarg.h",
    "stdbool.h",
    "stddef.h",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "string.h",
    "time.h",
    "unistd.h",
];

/// The headers of the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Headers {
    /// `-I`: where headers are looked for.
    pub directories: Vec<String>,
    /// `--include`: headers that are read before the script.
    pub files: Vec<String>,
}

impl Headers {
    /// The file of a header. One in quotes may be next to the file that includes it.
    pub(super) fn find(&self, directory: &Path, name: &str, is_quoted: bool) -> Option<PathBuf> {
        let beside = is_quoted.then(|| directory.join(name));
        let given = self.directories.iter().map(|directory| Path::new(directory).join(name));
        beside.into_iter().chain(given).find(|path| path.is_file())
    }

    /// Whether a header comes with the kernel, with its development files or with C; these are not
    /// read.
    pub(super) fn is_of_the_system(name: &str) -> bool {
        let directory = name.split_once('/').map(|(directory, _)| directory);
        directory.map_or(OF_C.contains(&name), |directory| OF_THE_KERNEL.contains(&directory))
    }
}

/// Appends a header that defines what the kernel's build system and a C compiler would define, of
/// the names in the text. An option of a module defines its name with `_MODULE`.
pub(super) fn predefine(source: &mut Source) {
    let names: BTreeSet<&str> = source
        .text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("CONFIG_") || word.starts_with("__") || *word == VERSION)
        .collect();
    let mut lines = String::new();
    let machine = format!("__{ARCH}__");
    if names.contains(machine.as_str()) {
        let _ = writeln!(lines, "#define {machine} 1");
    }
    // Most scripts ask for no type, so the machine is only looked at for those that do.
    let host = OnceCell::new();
    let has = |name: &str| {
        let (owner, member) = name.split_once("__").map_or((name, None), |(owner, member)| (owner, Some(member)));
        let btf = host.get_or_init(Host::new).btf()?;
        let owner = btf.find(Kind::Struct, owner)?;
        member.is_none_or(|member| btf.find_member(owner, member).is_some()).then_some(())
    };
    for name in names.iter().filter(|name| name.strip_prefix(HAS).and_then(has).is_some()) {
        let _ = writeln!(lines, "#define {name} 1");
    }
    if let Some(code) = names.contains(VERSION).then(kernel_version_code).flatten() {
        let _ = writeln!(lines, "#define {VERSION} {code}");
    }
    let options = names.iter().filter(|name| name.starts_with("CONFIG_"));
    let config = options.clone().next().and_then(|_| kernel_config()).unwrap_or_default();
    for name in options {
        let (option, wanted) = name.strip_suffix("_MODULE").map_or((*name, 'y'), |option| (option, 'm'));
        match kernel_option(&config, option).or_else(|| kernel_option(&config, name)) {
            Some("y") if wanted == 'y' => writeln!(lines, "#define {name} 1"),
            Some("m") if wanted == 'm' => writeln!(lines, "#define {name} 1"),
            Some(value) if !matches!(value, "y" | "m") => writeln!(lines, "#define {name} {value}"),
            _ => Ok(()),
        }
        .unwrap_or_default();
    }
    if !lines.is_empty() {
        source.append(NAME, &lines);
    }
}
