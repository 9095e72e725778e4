//! What the compiler asks about the machine that a script will run on.
//!
//! In: implemented by the runtime for the running kernel and by fixtures in tests. Out: read by `check` and `lower`.
//! Guarantee: the compiler learns of a kernel through this trait only.

mod defined;

pub use defined::Defined;

use crate::btf::Btf;
use crate::types::Type;
use crate::usdt::Argument;

/// A machine to compile for.
pub trait Target: std::fmt::Debug {
    /// The processor.
    fn arch(&self) -> Arch;
    /// Kernel version as (major, minor).
    fn kernel(&self) -> (u32, u32);
    /// Number of CPUs that can ever exist (`/sys/devices/system/cpu/possible`).
    fn possible_cpus(&self) -> u32;
    /// Memory page size.
    fn page_size_bytes(&self) -> u32;
    /// The kernel's types, when they are readable. The first call may map the file.
    fn btf(&self) -> Option<&Btf>;
    /// The kernel's types, only when a type's layout depends on them: reading them costs start-up time and memory.
    fn btf_if_needed(&self, ty: &Type) -> Option<&Btf> {
        if mentions_struct(ty) { self.btf() } else { None }
    }
    /// The kernel's types and those of its modules of these names; `None` when one of them does not tell its types.
    fn btf_with_modules(&self, _modules: &[String]) -> Option<Btf> {
        None
    }
    /// Where `task_struct` keeps the word that says "in a 32-bit system call"; `None` when the kernel runs none.
    fn compat_status_offset(&self) -> Option<u32>;
    /// Device and inode of the pid namespace that the profiler is in; `None` for the initial one.
    fn pid_namespace(&self) -> Option<(u64, u64)> {
        None
    }
    /// Tracepoints `(category, event)` that match two patterns (`*` wildcards), sorted.
    fn tracepoints(&self, category: &str, event: &str) -> Result<Vec<(String, String)>, TargetError>;
    /// The fields of a tracepoint's record.
    fn tracepoint_format(&self, category: &str, event: &str) -> Result<TracepointFormat, TargetError>;
    /// Files that a binary's name in a probe means: a path (wildcards allowed), a command in `PATH`, or a library such as
    /// `libc`. Sorted, canonical, at least one.
    fn binaries(&self, name: &str, pid: Option<u32>) -> Result<Vec<String>, TargetError>;
    /// The process whose files are meant where none is named, when only its probes are wanted.
    fn of_process(&self) -> Option<u32> {
        None
    }
    /// Function symbols of a file whose name matches a pattern, sorted by name, without duplicates.
    fn functions(&self, path: &str, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError>;
    /// The same by the name that the source of a C++ or Rust program has for a function: `ns::fn(int)`, or `ns::fn` for all of
    /// them whatever their parameters. Names that they come with are the source's.
    fn functions_by_source_name(&self, _path: &str, _pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        Err(TargetError::Missing { near: Vec::new() })
    }
    /// The file offset of a virtual address of an executable file; `None` when no executable segment holds it.
    fn file_offset(&self, path: &str, address: u64) -> Result<Option<u64>, TargetError>;
    /// A symbol of a file, with its distance from a place in the file when one is given.
    fn variable(&self, _path: &str, _name: &str, _site: Option<u64>) -> Result<Variable, TargetError> {
        Err(TargetError::Missing { near: Vec::new() })
    }
    /// How functions of the kernel can be probed. The first call asks the kernel.
    fn function_probing(&self) -> FunctionProbing;
    /// Functions of the kernel and its modules that can be probed, by pattern; `module` is the pattern of a module's name, or
    /// `vmlinux` for the kernel itself. A name that several functions have is there several times. Sorted, at least one.
    fn kernel_functions(&self, module: Option<&str>, function: &str) -> Result<Vec<KernelFunction>, TargetError>;
    /// Static probes (USDT) of a file whose provider and name match two patterns, sorted; at least one.
    fn static_probes(&self, _path: &str, _provider: &str, _name: &str) -> Result<Vec<StaticProbe>, TargetError> {
        Err(TargetError::Missing { near: Vec::new() })
    }
    /// The address of a kernel symbol.
    fn kernel_symbol(&self, name: &str) -> Option<u64>;
    /// The cgroup v2 id of a path.
    fn cgroup_id(&self, path: &str) -> Result<u64, TargetError>;
}

/// How a probe's name shows a file: as the script writes it when that is a path; a relative pattern keeps its folder; anything
/// else is shown by where it was found.
pub fn shown_path(written: &str, found: &str) -> String {
    let Some(star) = written.find('*') else {
        return if written.contains('/') { written.to_string() } else { found.to_string() };
    };
    let relative = || {
        let (folder, rest) = written.split_at(written[..star].rfind('/')? + 1);
        let depth = rest.matches('/').count() + 1;
        let at = found.rmatch_indices('/').nth(depth - 1)?.0 + 1;
        let plain = folder.trim_start_matches("./");
        let is_there = !folder.starts_with('/') && (plain.is_empty() || found[..at].ends_with(&format!("/{plain}")));
        is_there.then(|| format!("{folder}{}", &found[at..]))
    };
    relative().unwrap_or_else(|| found.to_string())
}

fn mentions_struct(ty: &Type) -> bool {
    match ty {
        Type::Struct { .. } => true,
        Type::Array { of, .. } => mentions_struct(of),
        Type::Tuple(parts) => parts.iter().any(mentions_struct),
        Type::Record(parts) => parts.iter().any(|(_, ty)| mentions_struct(ty)),
        _ => false,
    }
}

/// A processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// AMD64.
    X86_64,
    /// `ARMv8`, 64 bits.
    Aarch64,
}

/// Why the machine could not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetError {
    /// It does not exist; with the nearest names that do.
    Missing {
        /// Names that are close.
        near: Vec<String>,
    },
    /// It exists and may not be read: what was refused, and what to do.
    Refused(String),
    /// It is not what it should be (not an ELF file, a directory…): in words.
    Invalid(String),
}

/// How functions of the kernel can be probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionProbing {
    /// Kprobes; or why there are none, as the end of a sentence.
    pub kprobe: Result<(), String>,
    /// Whether one attachment can hold many functions (`kprobe.multi`).
    pub kprobe_multi: bool,
    /// Programs at the entries and exits of functions that BTF describes (`fentry`); or why there are none.
    pub fentry: Result<(), String>,
}

/// A function of the kernel that can be probed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelFunction {
    /// Its name.
    pub name: String,
    /// The module that it is in; `None` in the kernel itself.
    pub module: Option<String>,
}

/// A tracepoint's record, from its `format` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracepointFormat {
    /// The event's number.
    pub id: u32,
    /// Fields after the common ones, by offset.
    pub fields: Vec<TracepointField>,
}

/// A field of a tracepoint's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracepointField {
    /// Its name.
    pub name: String,
    /// Its C type as the kernel prints it, without name and array part (`unsigned long`, `char`, `const char *`,
    /// `__data_loc char[]`).
    pub c_type: String,
    /// Elements of an array field.
    pub array_len: Option<u32>,
    /// Offset in the record, whose first 8 bytes are the common fields.
    pub offset_bytes: u32,
    /// Size.
    pub size_bytes: u32,
    /// Two's complement.
    pub signed: bool,
    /// Whether it holds an offset and a length of data behind the record (`__data_loc`).
    pub data_loc: bool,
}

/// A function in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSymbol {
    /// Its name as in the symbol table.
    pub name: String,
    /// Where it starts in the file.
    pub file_offset: u64,
    /// Its size; 0 when unknown.
    pub size_bytes: u64,
}

/// A variable (or a function) in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its address as the file has it.
    pub address: u64,
    /// Its size; 0 when unknown.
    pub size_bytes: u64,
    /// Whether the file is always loaded at the addresses that it has.
    pub is_fixed: bool,
    /// Bytes from the given place to it, when that place is loaded.
    pub from_site: Option<i64>,
}

/// A static probe of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticProbe {
    /// Who provides it.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Where it sits: several places when a function was inlined, or when the source has it more than once.
    pub sites: Vec<StaticSite>,
}

/// A place of a static probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticSite {
    /// Offset in the file.
    pub file_offset: u64,
    /// Offset of its semaphore in the file; 0 when it has none.
    pub semaphore_offset: u64,
    /// Its arguments; variables that they name are resolved.
    pub arguments: Vec<Argument>,
}

#[cfg(test)]
mod tests {
    use super::shown_path;

    #[test]
    fn files_are_shown_as_they_were_written() {
        for (written, found, shown) in [
            ("./bin/app", "/home/me/bin/app", "./bin/app"),
            ("/bin/sh", "/usr/bin/dash", "/bin/sh"),
            ("libc", "/usr/lib/libc.so.6", "/usr/lib/libc.so.6"),
            ("./bin/a*", "/home/me/bin/app", "./bin/app"),
            ("./*", "/home/me/app", "./app"),
            ("bin/*/a*", "/home/me/bin/x/app", "bin/x/app"),
            ("../bin/a*", "/home/me/bin/app", "/home/me/bin/app"),
            ("/bin/d*", "/usr/bin/dash", "/usr/bin/dash"),
            ("*", "/usr/bin/dash", "/usr/bin/dash"),
            ("./bin/a*", "/elsewhere/app", "/elsewhere/app"),
        ] {
            assert_eq!(shown_path(written, found), shown, "{written}");
        }
    }
}
