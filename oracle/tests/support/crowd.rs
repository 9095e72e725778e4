//! A test target with any number of CPUs.

use profiler_compiler::btf::Btf;
use profiler_compiler::target::{
    Arch, FunctionProbing, FunctionSymbol, KernelFunction, Target, TargetError, TracepointFormat,
};

use crate::fixture::Machine;

#[derive(Debug)]
pub struct Crowd {
    pub machine: Machine,
    pub cpus: u32,
}

impl Target for Crowd {
    fn possible_cpus(&self) -> u32 {
        self.cpus
    }

    fn arch(&self) -> Arch {
        self.machine.arch()
    }

    fn kernel(&self) -> (u32, u32) {
        self.machine.kernel()
    }

    fn page_size_bytes(&self) -> u32 {
        self.machine.page_size_bytes()
    }

    fn btf(&self) -> Option<&Btf> {
        self.machine.btf()
    }

    fn compat_status_offset(&self) -> Option<u32> {
        self.machine.compat_status_offset()
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

    fn functions(&self, path: &str, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        self.machine.functions(path, pattern)
    }

    fn file_offset(&self, path: &str, address: u64) -> Result<Option<u64>, TargetError> {
        self.machine.file_offset(path, address)
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

    fn function_probing(&self) -> FunctionProbing {
        self.machine.function_probing()
    }

    fn kernel_functions(&self, module: Option<&str>, pattern: &str) -> Result<Vec<KernelFunction>, TargetError> {
        self.machine.kernel_functions(module, pattern)
    }
}
