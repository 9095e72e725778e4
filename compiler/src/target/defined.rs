//! A target extended with types of kernel modules, of the script or of programs.
//!
//! In: a [`Target`], types. Out: the same target, whose BTF includes these types.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Arch, FunctionProbing, FunctionSymbol, KernelFunction, ProgramFunction, ProgramFunctions, StaticProbe, Target,
    TargetError, TracepointFormat, Variable,
};
use crate::btf::{Added, Btf};

/// A target as a script sees it.
#[derive(Debug)]
pub struct Defined<'a> {
    machine: &'a dyn Target,
    types: Btf,
    /// Functions of programs, by path and file offset.
    functions: BTreeMap<String, BTreeMap<u64, Result<ProgramFunction, String>>>,
}

impl<'a> Defined<'a> {
    /// Adds these types to those of the target.
    pub fn new(machine: &'a dyn Target, types: Added) -> Defined<'a> {
        Defined { machine, types: Btf::with(machine.btf(), types), functions: BTreeMap::new() }
    }

    /// Adds the descriptions of functions of programs with their types, which lookups by name do
    /// not find: a program may have other types of the same names as the kernel.
    pub fn with_functions(machine: &'a dyn Target, wanted: &[ProgramFunctions]) -> Defined<'a> {
        let mut types = machine.btf().map(Btf::added).cloned().unwrap_or_default();
        types.hide_what_follows();
        // All functions of a file at once, so that a type that several have is one type.
        let mut offsets: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for ProgramFunctions { path, file_offsets } in wanted {
            offsets.entry(path).or_default().extend(file_offsets);
        }
        let mut functions = BTreeMap::new();
        for (path, offsets) in offsets {
            let offsets: Vec<u64> = offsets.into_iter().collect();
            let described = machine.describe_functions(path, &offsets, &mut types);
            functions.insert(path.to_owned(), offsets.into_iter().zip(described).collect());
        }
        Defined { machine, types: Btf::with(machine.btf(), types), functions }
    }

    /// Replaces the target's types by `types`, which includes those of kernel modules.
    pub fn of_modules(machine: &'a dyn Target, types: Btf) -> Defined<'a> {
        Defined { machine, types, functions: BTreeMap::new() }
    }
}

impl Target for Defined<'_> {
    fn arch(&self) -> Arch {
        self.machine.arch()
    }

    fn kernel(&self) -> (u32, u32) {
        self.machine.kernel()
    }

    fn possible_cpus(&self) -> u32 {
        self.machine.possible_cpus()
    }

    fn page_size_bytes(&self) -> u32 {
        self.machine.page_size_bytes()
    }

    fn btf(&self) -> Option<&Btf> {
        Some(&self.types)
    }

    fn compat_status_offset(&self) -> Option<u32> {
        self.machine.compat_status_offset()
    }

    fn pid_namespace(&self) -> Option<(u64, u64)> {
        self.machine.pid_namespace()
    }

    fn function_probing(&self) -> FunctionProbing {
        self.machine.function_probing()
    }

    fn kernel_functions(&self, module: Option<&str>, function: &str) -> Result<Vec<KernelFunction>, TargetError> {
        self.machine.kernel_functions(module, function)
    }

    fn tracepoints(&self, category: &str, event: &str) -> Result<Vec<(String, String)>, TargetError> {
        self.machine.tracepoints(category, event)
    }

    fn tracepoint_format(&self, category: &str, event: &str) -> Result<TracepointFormat, TargetError> {
        self.machine.tracepoint_format(category, event)
    }

    fn binaries(&self, name: &str, pid: Option<u32>) -> Result<Vec<String>, TargetError> {
        self.machine.binaries(name, pid)
    }

    fn file_identity(&self, path: &str) -> Option<(u64, u64)> {
        self.machine.file_identity(path)
    }

    fn of_process(&self) -> Option<u32> {
        self.machine.of_process()
    }

    fn functions_by_source_name(&self, path: &str, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        self.machine.functions_by_source_name(path, pattern)
    }

    fn static_probes(&self, path: &str, provider: &str, name: &str) -> Result<Vec<StaticProbe>, TargetError> {
        self.machine.static_probes(path, provider, name)
    }

    fn functions(&self, path: &str, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        self.machine.functions(path, pattern)
    }

    fn file_offset(&self, path: &str, address: u64) -> Result<Option<u64>, TargetError> {
        self.machine.file_offset(path, address)
    }

    fn variable(&self, path: &str, name: &str, site: Option<u64>) -> Result<Variable, TargetError> {
        self.machine.variable(path, name, site)
    }

    fn describe_functions(
        &self,
        path: &str,
        file_offsets: &[u64],
        types: &mut Added,
    ) -> Vec<Result<ProgramFunction, String>> {
        self.machine.describe_functions(path, file_offsets, types)
    }

    fn described_function(&self, path: &str, file_offset: u64) -> Option<&Result<ProgramFunction, String>> {
        self.functions.get(path)?.get(&file_offset)
    }

    fn kernel_symbol(&self, name: &str) -> Option<u64> {
        self.machine.kernel_symbol(name)
    }

    fn cgroup_id(&self, path: &str) -> Result<u64, TargetError> {
        self.machine.cgroup_id(path)
    }
}
