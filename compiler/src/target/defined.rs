//! A target extended with types of kernel modules, of the script or of programs.
//!
//! In: a [`Target`], types. Out: the same target, whose BTF includes these types.

use std::collections::BTreeMap;

use super::{
    Arch, BpfFunction, FunctionProbing, FunctionSymbol, KernelFunction, LineSite, ProgramAnswers, ProgramQuestions,
    StaticProbe, Target, TargetError, TracepointFormat, Variable,
};
use crate::btf::{Added, Btf};

/// A target as a script sees it.
#[derive(Debug)]
pub struct Defined<'a> {
    machine: &'a dyn Target,
    types: Btf,
    /// What debug information says, by path.
    programs: BTreeMap<String, ProgramAnswers>,
}

impl<'a> Defined<'a> {
    /// Adds these types to those of the target.
    pub fn new(machine: &'a dyn Target, types: Added) -> Defined<'a> {
        Defined { machine, types: Btf::with(machine.btf(), types), programs: BTreeMap::new() }
    }

    /// Adds what the debug information of programs says. Lookups by name do not find its types: a
    /// program may have other types of the same names as the kernel.
    pub fn with_programs(machine: &'a dyn Target, wanted: &[ProgramQuestions]) -> Defined<'a> {
        let mut types = machine.btf().map(Btf::added).cloned().unwrap_or_default();
        types.hide_what_follows();
        // All questions about a file at once, so that a type that several answers have is one type.
        let mut questions: BTreeMap<&str, ProgramQuestions> = BTreeMap::new();
        for part in wanted {
            questions.entry(&part.path).or_insert_with(|| ProgramQuestions::new(&part.path)).add(part);
        }
        let mut programs = BTreeMap::new();
        for (path, questions) in questions {
            let mut answers = ProgramAnswers::refused(&questions, "the debug information was not read");
            answers.replace(machine.describe_program(&questions, &mut types));
            programs.insert(path.to_owned(), answers);
        }
        Defined { machine, types: Btf::with(machine.btf(), types), programs }
    }

    /// Replaces the target's types by `types`, which includes those of kernel modules.
    pub fn of_modules(machine: &'a dyn Target, types: Btf) -> Defined<'a> {
        Defined { machine, types, programs: BTreeMap::new() }
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

    fn absent_kernel_function(&self, module: Option<&str>, function: &str) -> TargetError {
        self.machine.absent_kernel_function(module, function)
    }

    fn bpf_functions(&self) -> Result<Vec<BpfFunction>, TargetError> {
        self.machine.bpf_functions()
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

    fn describe_program(&self, questions: &ProgramQuestions, types: &mut Added) -> ProgramAnswers {
        self.machine.describe_program(questions, types)
    }

    fn described_program(&self, path: &str) -> Option<&ProgramAnswers> {
        self.programs.get(path)
    }

    fn line_sites(&self, path: &str, file: &str, line: u64) -> Result<Vec<LineSite>, TargetError> {
        self.machine.line_sites(path, file, line)
    }

    fn kernel_symbol(&self, name: &str) -> Option<u64> {
        self.machine.kernel_symbol(name)
    }

    fn cgroup_id(&self, path: &str) -> Result<u64, TargetError> {
        self.machine.cgroup_id(path)
    }

    fn user_id(&self, name: &str) -> Result<u32, TargetError> {
        self.machine.user_id(name)
    }
}
