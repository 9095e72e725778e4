//! What the compiler needs to know about the machine that a script will run on.
//!
//! In: implemented by the runtime for the running kernel, and by test fixtures. Out: read by
//! `check` and `lower`.
//! Guarantee: the compiler accesses the kernel only through this trait.

mod defined;
mod program;

pub use defined::Defined;
pub use program::{
    LineSite, ParameterPlace, ProgramAnswers, ProgramFunction, ProgramInstruction, ProgramParameter, ProgramQuestions,
    ProgramType, ProgramVariable,
};

use crate::btf::{Added, Btf, Kind};
use crate::params::Ids;
use crate::types::Type;
use crate::usdt::Argument;

/// A machine to compile for.
pub trait Target: std::fmt::Debug {
    /// The CPU architecture.
    fn arch(&self) -> Arch;
    /// Kernel version as (major, minor).
    fn kernel(&self) -> (u32, u32);
    /// Number of possible CPUs (`/sys/devices/system/cpu/possible`).
    fn possible_cpus(&self) -> u32;
    /// Memory page size in bytes.
    fn page_size_bytes(&self) -> u32;
    /// The highest frequency at which the kernel samples, in hertz
    /// (`kernel.perf_event_max_sample_rate`); `None` if it is not known.
    fn most_samples_hz(&self) -> Option<u64> {
        None
    }
    /// The kernel's BTF, if it is readable. The first call may map the file.
    fn btf(&self) -> Option<&Btf>;
    /// The kernel's BTF, but only if the layout of `ty` depends on it: reading it costs start-up
    /// time and memory.
    fn btf_if_needed(&self, ty: &Type) -> Option<&Btf> {
        if mentions_struct(ty) { self.btf() } else { None }
    }
    /// The kernel's BTF merged with that of the named modules; `None` if one of them has no
    /// readable BTF.
    fn btf_with_modules(&self, _modules: &[String]) -> Option<Btf> {
        None
    }
    /// Whether programs may call kernel functions (kfuncs), which needs the JIT compiler.
    fn calls_kernel_functions(&self) -> bool {
        true
    }
    /// Offset in `task_struct` of the status word with the 32-bit system-call flag; `None` if the
    /// kernel does not run 32-bit programs.
    fn compat_status_offset(&self) -> Option<u32>;
    /// Device and inode of the profiler's pid namespace; `None` for the initial one.
    fn pid_namespace(&self) -> Option<(u64, u64)> {
        None
    }
    /// Tracepoints `(category, event)` that match two glob patterns, sorted.
    fn tracepoints(&self, category: &str, event: &str) -> Result<Vec<(String, String)>, TargetError>;
    /// The fields of a tracepoint's record.
    fn tracepoint_format(&self, category: &str, event: &str) -> Result<TracepointFormat, TargetError>;
    /// The files that a binary's name in a probe refers to: a path (wildcards allowed), a command
    /// in `PATH`, or a library such as `libc`. Sorted, canonical, at least one.
    fn binaries(&self, name: &str, pid: Option<u32>) -> Result<Vec<String>, TargetError>;
    /// Device and inode of a file; equal for all paths to the same file.
    fn file_identity(&self, _path: &str) -> Option<(u64, u64)> {
        None
    }
    /// The process whose files are used if a probe names none, when only its probes are wanted.
    fn of_process(&self) -> Option<u32> {
        None
    }
    /// Function symbols of a file whose name matches a pattern, sorted by name, without duplicates.
    fn functions(&self, path: &str, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError>;
    /// Like [`Target::functions`], but by the source-level name of a C++ or Rust function:
    /// `ns::fn(int)`, or `ns::fn` for all overloads. The returned names are source-level names.
    fn functions_by_source_name(&self, _path: &str, _pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        Err(TargetError::Missing { near: Vec::new() })
    }
    /// The file offset of a virtual address of an executable file; `None` if no executable segment
    /// contains it.
    fn file_offset(&self, path: &str, address: u64) -> Result<Option<u64>, TargetError>;
    /// A symbol of a file, with its distance from `site` if that is given.
    fn variable(&self, _path: &str, _name: &str, _site: Option<u64>) -> Result<Variable, TargetError> {
        Err(TargetError::Missing { near: Vec::new() })
    }
    /// Functions, types and variables of a file, as its debug information describes them; their
    /// types are added to `types`.
    fn describe_program(&self, questions: &ProgramQuestions, _types: &mut Added) -> ProgramAnswers {
        ProgramAnswers::refused(questions, "debug information is not read here")
    }
    /// What [`Target::describe_program`] has answered for this script; `None` if it was not asked.
    fn described_program(&self, _path: &str) -> Option<&ProgramAnswers> {
        None
    }
    /// The code of a line of a source file, given by the end of its path, from debug information:
    /// one site per copy of the code. At least one.
    fn line_sites(&self, _path: &str, _file: &str, _line: u64) -> Result<Vec<LineSite>, TargetError> {
        Err(TargetError::Missing { near: Vec::new() })
    }
    /// How kernel functions can be probed. The first call queries the kernel.
    fn function_probing(&self) -> FunctionProbing;
    /// Functions of the kernel and its modules that can be probed, by pattern. `module` is a
    /// pattern for module names; `vmlinux` is the kernel itself. A name shared by several functions
    /// appears once for each. Sorted, at least one; else the error names no similar functions.
    fn kernel_functions(&self, module: Option<&str>, function: &str) -> Result<Vec<KernelFunction>, TargetError>;
    /// Why there is no such function, for a diagnostic. It compares the name with all others, which
    /// takes longer than to start a script.
    fn absent_kernel_function(&self, _module: Option<&str>, _function: &str) -> TargetError {
        TargetError::Missing { near: Vec::new() }
    }
    /// The functions of the BPF programs that are loaded, and that can be traced.
    fn bpf_functions(&self) -> Result<Vec<BpfFunction>, TargetError> {
        Err(TargetError::Missing { near: Vec::new() })
    }
    /// Static probes (USDT) of a file whose provider and name match two patterns; sorted, at least
    /// one.
    fn static_probes(&self, _path: &str, _provider: &str, _name: &str) -> Result<Vec<StaticProbe>, TargetError> {
        Err(TargetError::Missing { near: Vec::new() })
    }
    /// The address of a kernel symbol.
    fn kernel_symbol(&self, name: &str) -> Option<u64>;
    /// The cgroup v2 id of a path.
    fn cgroup_id(&self, path: &str) -> Result<u64, TargetError>;
    /// The user id of a login name.
    fn user_id(&self, name: &str) -> Result<u32, TargetError>;
}

/// The numbers that a target's names in the values of parameters have.
pub struct TargetIds<'a>(pub &'a dyn Target);

impl Ids for TargetIds<'_> {
    fn cgroup(&self, path: &str) -> Result<u64, String> {
        self.0.cgroup_id(path).map_err(|error| said(error, "there is no such control group here"))
    }

    fn user(&self, name: &str) -> Result<u64, String> {
        self.0.user_id(name).map(u64::from).map_err(|error| said(error, "there is no such user here"))
    }
}

fn said(error: TargetError, missing: &str) -> String {
    match error {
        TargetError::Missing { .. } => missing.into(),
        TargetError::Refused(words) | TargetError::Invalid(words) => words,
    }
}

/// What distinguishes the memory of a process from all other memory, as offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryOffsets {
    /// In `task_struct`: the pointer to the memory, `mm`.
    pub memory: u32,
    /// In `task_struct`: the number of `exec`s, `self_exec_id`, of whose bytes the first four are
    /// read.
    pub executed: u32,
    /// In `mm_struct`: the start of the first thread's stack, `start_stack`.
    pub start_stack: u32,
}

/// These offsets; `None` if BTF does not have them.
pub fn memory_offsets(target: &dyn Target) -> Option<MemoryOffsets> {
    let btf = target.btf()?;
    let offset = |of: &str, name: &str| Some(btf.find_member(btf.find(Kind::Struct, of)?, name)?.byte_offset());
    Some(MemoryOffsets {
        memory: offset("task_struct", "mm")?,
        executed: offset("task_struct", "self_exec_id")?,
        start_stack: offset("mm_struct", "start_stack")?,
    })
}

/// How to find the area of memory that contains an address, and what identifies its file, as
/// offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AreaOffsets {
    pub tree: TreeOffsets,
    /// In `mm_struct`: the address of the vDSO.
    pub vdso: u32,
    /// In `vm_area_struct`: the memory, the first address, the one after the last, the offset in
    /// the file in pages, and the file.
    pub memory: u32,
    pub start: u32,
    pub end: u32,
    pub page: u32,
    pub file: u32,
    /// In `file`: the inode.
    pub inode: u32,
    /// In `inode`: its number, its file system, and the time of its last change, whose nanoseconds
    /// are 4 bytes.
    pub number: u32,
    pub file_system: u32,
    pub changed_s: u32,
    pub changed_ns: u32,
    /// In `super_block`: the device.
    pub device: u32,
    /// Since 6.8: how to find the file that a process opened, if this one is below it.
    pub backing: Option<BackingOffsets>,
}

/// The tree of the areas of a memory (`include/linux/maple_tree.h`), as offsets. Since 6.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeOffsets {
    /// In `mm_struct`: the root.
    pub root: u32,
    /// In a node: the last addresses of all children but the last one.
    pub pivots: u32,
    /// In a node that notes gaps, and in others: the children.
    pub slots_with_gaps: u32,
    pub slots: u32,
}

/// The way from a file that another file system keeps its contents in to the inode that processes
/// see, as offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackingOffsets {
    /// In `file`: the 4 bytes of which `flag` says that it is part of a `backing_file`.
    pub mode: u32,
    pub flag: u32,
    /// In `backing_file`, which starts with the `file`: the directory entry that was opened.
    pub entry: u32,
    /// In `dentry`: the inode.
    pub inode: u32,
}

/// These offsets; `None` if BTF does not have them.
pub fn area_offsets(target: &dyn Target) -> Option<AreaOffsets> {
    let btf = target.btf()?;
    let offset = |of: &str, name: &str| Some(btf.find_member(btf.find(Kind::Struct, of)?, name)?.byte_offset());
    // Since 6.6: `__i_ctime`. Since 6.11: two members.
    let changed = offset("inode", "i_ctime").or_else(|| offset("inode", "__i_ctime"));
    let changed = match changed {
        Some(at) => (at + offset("timespec64", "tv_sec")?, at + offset("timespec64", "tv_nsec")?),
        None => (offset("inode", "i_ctime_sec")?, offset("inode", "i_ctime_nsec")?),
    };
    let backing = || {
        let entry = offset("backing_file", "user_path")? + offset("path", "dentry")?;
        // `FMODE_BACKING` (`include/linux/fs.h`). Since 6.14: bit 24.
        let flag = if target.kernel() < (6, 14) { 1 << 25 } else { 1 << 24 };
        Some(BackingOffsets { mode: offset("file", "f_mode")?, flag, entry, inode: offset("dentry", "d_inode")? })
    };
    let pivots = offset("maple_range_64", "pivot")?;
    if offset("maple_arange_64", "pivot")? != pivots {
        return None;
    }
    Some(AreaOffsets {
        tree: TreeOffsets {
            root: offset("mm_struct", "mm_mt")? + offset("maple_tree", "ma_root")?,
            pivots,
            slots_with_gaps: offset("maple_arange_64", "slot")?,
            slots: offset("maple_range_64", "slot")?,
        },
        vdso: offset("mm_struct", "context")?
            + btf.find_member(btf.find(Kind::Typedef, "mm_context_t")?, "vdso")?.byte_offset(),
        memory: offset("vm_area_struct", "vm_mm")?,
        start: offset("vm_area_struct", "vm_start")?,
        end: offset("vm_area_struct", "vm_end")?,
        page: offset("vm_area_struct", "vm_pgoff")?,
        file: offset("vm_area_struct", "vm_file")?,
        inode: offset("file", "f_inode")?,
        number: offset("inode", "i_ino")?,
        file_system: offset("inode", "i_sb")?,
        changed_s: changed.0,
        changed_ns: changed.1,
        device: offset("super_block", "s_dev")?,
        backing: backing(),
    })
}

/// The path of a file in a probe's name: as written if the script gives a path; a relative pattern
/// keeps its directory; otherwise the path where the file was found.
/// else is shown by where it was found.
pub fn shown_path(written: &str, found: &str) -> String {
    let Some(star) = written.find('*') else {
        return if written.contains('/') { written.to_string() } else { found.to_string() };
    };
    let relative = || {
        let (directory, rest) = written.split_at(written[..star].rfind('/')? + 1);
        let depth = rest.matches('/').count() + 1;
        let at = found.rmatch_indices('/').nth(depth - 1)?.0 + 1;
        let plain = directory.trim_start_matches("./");
        let is_there = !directory.starts_with('/') && (plain.is_empty() || found[..at].ends_with(&format!("/{plain}")));
        is_there.then(|| format!("{directory}{}", &found[at..]))
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

/// A CPU architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// AMD64.
    X86_64,
    /// `ARMv8`, 64 bits.
    Aarch64,
}

/// Why a query failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetError {
    /// It does not exist.
    Missing {
        /// The closest names that exist.
        near: Vec<String>,
    },
    /// Access was denied: what was refused, and what to do.
    Refused(String),
    /// It is of the wrong kind (not an ELF file, a directory…), as text.
    Invalid(String),
}

/// How kernel functions can be probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionProbing {
    /// Kprobes; if unsupported, the reason as the end of a sentence.
    pub kprobe: Result<(), String>,
    /// Whether one attachment can cover many functions (`kprobe.multi`).
    pub kprobe_multi: bool,
    /// Programs at the entries and exits of functions described by BTF (`fentry`); if unsupported,
    /// the reason as the end of a sentence.
    pub fentry: Result<(), String>,
}

/// A kernel function that can be probed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelFunction {
    pub name: String,
    /// Its module; `None` for the kernel itself.
    pub module: Option<String>,
}

/// A function of a BPF program that is loaded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BpfFunction {
    /// The program's id.
    pub program: u32,
    pub name: String,
}

/// A tracepoint's record, from its `format` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracepointFormat {
    /// The event id.
    pub id: u32,
    /// Fields after the common ones, by offset.
    pub fields: Vec<TracepointField>,
}

/// A field of a tracepoint's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracepointField {
    pub name: String,
    /// Its C type as the kernel prints it, without name and array suffix (`unsigned long`, `char`,
    /// `const char *`, `__data_loc char[]`).
    pub c_type: String,
    /// Number of elements of an array field.
    pub array_len: Option<u32>,
    /// Offset in the record, whose first 8 bytes are the common fields.
    pub offset_bytes: u32,
    pub size_bytes: u32,
    /// Whether it is signed (two's complement).
    pub signed: bool,
    /// Whether it contains the offset and length of data after the record (`__data_loc`).
    pub data_loc: bool,
}

/// A function in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSymbol {
    /// Its name as in the symbol table.
    pub name: String,
    /// File offset of its first byte.
    pub file_offset: u64,
    /// Its size in bytes; 0 if unknown.
    pub size_bytes: u64,
}

/// A variable (or a function) in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its virtual address in the file.
    pub address: u64,
    /// Its size in bytes; 0 if unknown.
    pub size_bytes: u64,
    /// Whether the file is always loaded at the addresses that it contains (not
    /// position-independent).
    pub is_fixed: bool,
    /// Its distance in bytes from the given site, once both are loaded.
    pub from_site: Option<i64>,
}

/// A static probe of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticProbe {
    pub provider: String,
    pub name: String,
    /// Its sites. There are several if a function was inlined, or if the source contains the probe
    /// more than once.
    pub sites: Vec<StaticSite>,
}

/// A site of a static probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticSite {
    /// Offset in the file.
    pub file_offset: u64,
    /// File offset of its semaphore; 0 if it has none.
    pub semaphore_offset: u64,
    /// Its arguments, with the variables that they name resolved.
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
