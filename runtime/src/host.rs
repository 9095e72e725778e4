//! The running machine as the compiler sees it.
//!
//! In: the files of `/sys`, `/proc` and the file system. Out: [`Target`].
//! Guarantee: nothing is read before it is needed. What does not change (kernel version and sizes,
//! the symbol tables of a file) is read once.

mod binary;
pub mod bounded;
pub(crate) mod budget;
mod completion;
pub(crate) mod debug_files;
pub(crate) mod debug_sections;
pub mod demangle;
mod described;
pub mod dwarf;
pub mod elf;
mod functions;
pub(crate) mod inflate;
mod kernel;
mod kernel_config;
pub mod library;
pub mod mapped;
pub(crate) mod needed;
mod probing;
mod replaced;
#[cfg(test)]
pub(crate) mod small_files;
pub(crate) mod stat;
pub mod symbol_prefixes;
mod tracefs;
mod usdt;
mod variables;

pub use completion::Completion;
pub use kernel_config::{kernel_config, kernel_version_code, option as kernel_option};
pub use mapped::{OtherCode, other_code};

use crate::sys::account::Account;
use crate::sys::bpf_functions;
use crate::sys::mmap::MappedFile;
use elf::Symbols;
use profiler_compiler::btf::{Added, Btf};
use profiler_compiler::target::{
    Arch, BpfFunction, FunctionProbing, FunctionSymbol, KernelFunction, LineSite, ProgramAnswers, ProgramQuestions,
    StaticProbe, Target, TargetError, TracepointFormat, Variable,
};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{fs, io};

const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// The directory of BTF files, one per module. Since 5.11.
const BTF_DIRECTORY: &str = "/sys/kernel/btf";

/// How many similar names are suggested for one that does not exist.
const NEAR_NAMES: usize = 3;

/// The running machine.
#[derive(Debug, Default)]
pub struct Host {
    /// The process to whose probes the search is limited.
    process: Option<u32>,
    /// Whether the kernel's types replace a tracefs that may not be read.
    only_checks: bool,
    numbers: Numbers,
    btf: OnceLock<Option<Btf>>,
    tracefs: OnceLock<Result<PathBuf, TargetError>>,
    symbols: Mutex<HashMap<PathBuf, Arc<Symbols>>>,
    probing: OnceLock<FunctionProbing>,
    functions: OnceLock<Result<functions::Functions, TargetError>>,
    static_probes: Mutex<HashMap<PathBuf, Arc<Vec<StaticProbe>>>>,
    names: Mutex<HashMap<PathBuf, Arc<symbol_prefixes::Names>>>,
    debug_information: dwarf::Cache,
}

/// Values that do not change while we run. They are cached because the compiler asks for them at
/// every map and probe.
#[derive(Debug, Default)]
struct Numbers {
    kernel: OnceLock<(u32, u32)>,
    possible_cpus: OnceLock<u32>,
    page_size_bytes: OnceLock<u32>,
    has_jit: OnceLock<bool>,
    compat_status_offset: OnceLock<Option<u32>>,
    pid_namespace: OnceLock<Option<(u64, u64)>>,
}

impl Host {
    /// The machine; nothing has been read yet.
    pub fn new() -> Host {
        Host::default()
    }

    /// The machine for checking a script without running it: tracepoints are known even without the
    /// right to read tracefs.
    pub fn for_checking() -> Host {
        Host { only_checks: true, ..Host::default() }
    }

    /// The machine, with probes of this process only.
    pub fn of_process(pid: Option<u32>) -> Host {
        Host { process: pid, ..Host::default() }
    }

    /// Whether the kernel's types have been read.
    pub fn has_read_types(&self) -> bool {
        self.btf.get().is_some()
    }

    /// Offset in the kernel's `perf_event` of the time at which its timer is due; `None` if the
    /// kernel's types lack it.
    pub fn timer_expiry_offset(&self) -> Option<u32> {
        kernel::timer_expiry_offset(self.btf())
    }

    /// The files whose code a process has mapped, by paths that are valid here; empty if the
    /// process may not be inspected.
    pub fn files_run_by(pid: u32) -> Vec<PathBuf> {
        mapped::of_process(pid)
    }

    /// What tab completion asks.
    pub fn completion(&self) -> Completion<'_> {
        Completion(self)
    }

    /// Where tracefs is mounted.
    pub fn tracefs(&self) -> Result<&Path, TargetError> {
        self.tracefs.get_or_init(tracefs::root).as_ref().map(PathBuf::as_path).map_err(Clone::clone)
    }

    fn all_kernel_functions(&self) -> Result<&functions::Functions, TargetError> {
        let read = || functions::Functions::read(self.tracefs().ok());
        self.functions.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// The symbols of a file, cached by path.
    fn symbols(&self, path: &str) -> Result<Arc<Symbols>, TargetError> {
        let path = Path::new(path);
        let known = self.symbols.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some(symbols) = known {
            return Ok(symbols);
        }
        let symbols = Arc::new(Symbols::read(path)?);
        let mut table = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        table.insert(path.to_owned(), Arc::clone(&symbols));
        Ok(symbols)
    }
}

impl Host {
    /// The static probes of a file, cached by path.
    fn all_static_probes(&self, path: &Path) -> Result<Arc<Vec<StaticProbe>>, TargetError> {
        let known = self.static_probes.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some(probes) = known {
            return Ok(probes);
        }
        let probes = Arc::new(usdt::read(path, self.arch())?);
        let mut table = self.static_probes.lock().unwrap_or_else(PoisonError::into_inner);
        table.insert(path.to_owned(), Arc::clone(&probes));
        Ok(probes)
    }
}

impl Target for Host {
    fn arch(&self) -> Arch {
        if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 }
    }

    fn kernel(&self) -> (u32, u32) {
        *self.numbers.kernel.get_or_init(kernel::version)
    }

    fn possible_cpus(&self) -> u32 {
        *self.numbers.possible_cpus.get_or_init(kernel::possible_cpus)
    }

    fn page_size_bytes(&self) -> u32 {
        *self.numbers.page_size_bytes.get_or_init(kernel::page_size_bytes)
    }

    fn btf(&self) -> Option<&Btf> {
        let open = || Btf::new(Box::new(MappedFile::open(Path::new(BTF_PATH)).ok()?));
        self.btf.get_or_init(open).as_ref()
    }

    fn btf_with_modules(&self, modules: &[String]) -> Option<Btf> {
        // A module that was built without BTF, or that is unloaded by now, contributes no types.
        let read = |name: &String| Some((name.clone(), fs::read(Path::new(BTF_DIRECTORY).join(name)).ok()?));
        Btf::joined(self.btf()?, &modules.iter().filter_map(read).collect::<Vec<_>>())
    }

    fn calls_kernel_functions(&self) -> bool {
        *self.numbers.has_jit.get_or_init(kernel::has_jit)
    }

    fn compat_status_offset(&self) -> Option<u32> {
        *self.numbers.compat_status_offset.get_or_init(|| kernel::compat_status_offset(self.btf()))
    }

    fn pid_namespace(&self) -> Option<(u64, u64)> {
        *self.numbers.pid_namespace.get_or_init(kernel::pid_namespace)
    }

    fn tracepoints(&self, category: &str, event: &str) -> Result<Vec<(String, String)>, TargetError> {
        let listed = self.tracefs().and_then(|root| tracefs::tracepoints(root, category, event));
        match listed {
            Err(TargetError::Refused(_)) if self.only_checks => described::tracepoints(self.btf(), category, event),
            listed => listed,
        }
    }

    fn tracepoint_format(&self, category: &str, event: &str) -> Result<TracepointFormat, TargetError> {
        let format = self.tracefs().and_then(|root| tracefs::format(root, category, event));
        match format {
            Err(TargetError::Refused(_)) if self.only_checks => described::format(self.btf(), category, event),
            format => format,
        }
    }

    fn binaries(&self, name: &str, pid: Option<u32>) -> Result<Vec<String>, TargetError> {
        binary::find(name, pid.or(self.process))
    }

    fn file_identity(&self, path: &str) -> Option<(u64, u64)> {
        fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
    }

    fn of_process(&self) -> Option<u32> {
        self.process
    }

    fn most_samples_hz(&self) -> Option<u64> {
        fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").ok()?.trim().parse().ok()
    }

    fn functions(&self, path: &str, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        self.symbols(path)?.functions(pattern)
    }

    fn functions_by_source_name(&self, path: &str, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        self.symbols(path)?.functions_by_source_name(pattern)
    }

    fn file_offset(&self, path: &str, address: u64) -> Result<Option<u64>, TargetError> {
        Ok(self.symbols(path)?.file_offset(address))
    }

    fn variable(&self, path: &str, name: &str, site: Option<u64>) -> Result<Variable, TargetError> {
        variables::find(Path::new(path), name, site)
    }

    fn describe_program(&self, questions: &ProgramQuestions, types: &mut Added) -> ProgramAnswers {
        let symbols = self.symbols(&questions.path).ok();
        let mut offsets = questions.functions.clone();
        offsets.extend(questions.instructions.iter().map(|at| at.file_offset));
        match self.debug_information.get(&questions.path, self.arch()) {
            Ok(information) => {
                let clones = symbols.map(|symbols| symbols.clones(&offsets)).unwrap_or_default();
                information.describe(questions, &clones, types)
            }
            Err(why) => ProgramAnswers::refused(questions, &why),
        }
    }

    fn line_sites(&self, path: &str, file: &str, line: u64) -> Result<Vec<LineSite>, TargetError> {
        let information = self.debug_information.get(path, self.arch()).map_err(TargetError::Invalid)?;
        information.line_sites(file, line)
    }

    fn function_probing(&self) -> FunctionProbing {
        self.probing.get_or_init(|| probing::ask(self.btf())).clone()
    }

    fn kernel_functions(&self, module: Option<&str>, function: &str) -> Result<Vec<KernelFunction>, TargetError> {
        self.all_kernel_functions()?.find(module, function)
    }

    fn absent_kernel_function(&self, module: Option<&str>, function: &str) -> TargetError {
        match self.all_kernel_functions() {
            Ok(functions) => functions.why_absent(module, function),
            Err(error) => error,
        }
    }

    fn bpf_functions(&self) -> Result<Vec<BpfFunction>, TargetError> {
        let all = bpf_functions::all().map_err(|error| TargetError::Refused(format!("the kernel refuses: {error}")))?;
        Ok(all.into_iter().map(|(program, name)| BpfFunction { program, name }).collect())
    }

    fn static_probes(&self, path: &str, provider: &str, name: &str) -> Result<Vec<StaticProbe>, TargetError> {
        usdt::choose(&self.all_static_probes(Path::new(path))?, provider, name)
    }

    fn kernel_symbol(&self, name: &str) -> Option<u64> {
        kernel::symbol(name)
    }

    fn cgroup_id(&self, path: &str) -> Result<u64, TargetError> {
        kernel::cgroup_id(path)
    }

    fn user_id(&self, name: &str) -> Result<u32, TargetError> {
        match Account::by_name(name) {
            Ok(Some(account)) => Ok(account.uid),
            Ok(None) => Err(TargetError::Missing { near: Vec::new() }),
            Err(error) => Err(TargetError::Refused(format!("the user database cannot be read: {error}"))),
        }
    }
}

/// Maps a file error to a target error.
fn io_error(path: &Path, error: &io::Error) -> TargetError {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => TargetError::Missing { near: Vec::new() },
        io::ErrorKind::PermissionDenied => {
            TargetError::Refused(format!("{path} may not be read: run as root, or with CAP_DAC_READ_SEARCH"))
        }
        _ => TargetError::Invalid(format!("{path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::Host;
    use profiler_compiler::btf::Kind;
    use profiler_compiler::target::{Target, TargetError};

    #[test]
    fn knows_itself() {
        let host = Host::new();
        assert!(host.kernel() >= (4, 0) && host.possible_cpus() >= 1);
        assert!(host.page_size_bytes().is_power_of_two() && host.page_size_bytes() >= 4096);
        match host.btf() {
            Some(btf) => {
                let task = btf.find(Kind::Struct, "task_struct").expect("every kernel has it");
                let offset = host.compat_status_offset();
                assert!(offset.is_none_or(|offset| offset < btf.size_bytes(task)), "{offset:?}");
            }
            None => println!("SKIPPED: this kernel has no BTF"),
        }
    }

    #[test]
    fn function_offsets_are_those_of_the_loaded_library() {
        // The dynamic linker's answer: the address of a function in our own memory, looked up in
        // the mappings of the process.
        let address = libc::getpid as *const () as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").expect("our own");
        let mapping = maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            let within =
                address.checked_sub(number(start)?).filter(|_| number(end).is_some_and(|end| address < end))?;
            let offset = number(rest.split_whitespace().nth(1)?)?;
            Some((&line[line.find('/')?..], within + offset))
        });
        let (path, offset) = mapping.expect("code is mapped from a file");
        let host = Host::new();
        let found = host.functions(path, "getpid").expect("we call it");
        assert_eq!(found[0].file_offset, offset, "{path}");
        assert_eq!(host.functions(path, "getpi*").expect("the same").first(), found.first());
        let missing = host.functions(path, "getpidd");
        assert!(matches!(missing, Err(TargetError::Missing { near }) if near.contains(&"getpid".to_owned())));
    }

    #[test]
    fn can_be_shared_between_threads() {
        fn shared<T: Send + Sync>(_: &T) {}
        shared(&Host::new());
    }
}
