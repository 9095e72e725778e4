//! Loads the programs and maps of an ELF object into the kernel.
//!
//! In: the bytes of an object. Out: [`Loaded`], or why the kernel refused it.
//! Guarantee: a refusal says what the user can do about it. The verifier writes a log only when it
//! rejects a program or when asked to.

mod refusal;

pub use refusal::Refusal;

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

use profiler_model::object::{Attach, Object, Program};

use crate::params::Values;
use crate::sys::bpf::{BpfObject, Preparation, take_warnings, translated_size_bytes, verified_insns};
use crate::sys::bss::BssMapping;
use crate::sys::map::Map;
use crate::sys::ring::MappedRing;
use crate::sys::tracing::Traced;

/// Load options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Keep the verifier's log of every program (`-d verifier`).
    pub verifier_log: bool,
}

/// Programs and maps in the kernel; they are released when this is dropped.
#[derive(Debug)]
pub struct Loaded {
    object: BpfObject,
}

/// Why an object could not be loaded.
#[derive(Debug)]
pub enum LoadError {
    /// The process lacks the privileges to load programs.
    Privilege {
        /// What is missing and how to get it.
        reasons: Vec<String>,
    },
    /// The verifier rejected a program.
    Verifier(Refusal),
    /// The program or map exceeds the kernel's limits or its memory.
    TooLarge {
        /// The program or map.
        what: String,
    },
    /// The kernel lacks a feature that the object needs.
    Unsupported {
        /// The missing feature, in our words or in libbpf's.
        message: String,
    },
    /// Anything else.
    Other {
        /// The error code.
        error: io::Error,
        /// libbpf's messages.
        message: String,
    },
}

/// Loads an object.
pub fn load(elf: &[u8], options: LoadOptions) -> Result<Loaded, LoadError> {
    load_prepared(elf, options, &Preparation::default())
}

/// Loads the ELF of an object that no longer holds it.
pub fn load_elf_of(object: &Object, elf: &[u8], options: LoadOptions) -> Result<Loaded, LoadError> {
    load_prepared(elf, options, &Preparation { traced: traced(object), ..Preparation::default() })
}

/// Loads an object with values for its parameters that may differ from those it was built with.
pub fn load_with(object: &Object, values: &Values, options: LoadOptions) -> Result<Loaded, LoadError> {
    let preparation = Preparation { traced: traced(object), ..values.preparation(object) };
    let loaded = load_prepared(&object.elf, options, &preparation)?;
    let message = "filling the maps of parameters".to_string();
    values.fill(object, &loaded).map_err(|error| LoadError::Other { error, message })?;
    Ok(loaded)
}

/// What programs are loaded for, as far as the compiler knows it.
fn traced(object: &Object) -> Vec<(String, Traced)> {
    let of_program = |program: &Program| match &program.attach {
        Attach::Trampoline { program: Some(id), function, .. } => {
            Some((program.runs_in.clone(), Traced::Program { id: *id, function: function.clone() }))
        }
        _ => None,
    };
    let of_kernel = object.loaded_for.iter().map(|(program, id)| (program.clone(), Traced::Kernel(*id)));
    object.programs.iter().filter_map(of_program).chain(of_kernel).collect()
}

fn load_prepared(elf: &[u8], options: LoadOptions, preparation: &Preparation) -> Result<Loaded, LoadError> {
    match BpfObject::load(elf, options.verifier_log, preparation) {
        Ok(object) => Ok(Loaded { object }),
        Err(error) => Err(explain(error, take_warnings())),
    }
}

impl Loaded {
    /// A program.
    pub fn program(&self, name: &str) -> Option<BorrowedFd<'_>> {
        self.object.program(name)
    }

    /// Size in bytes of a program's instructions after the verifier has rewritten them.
    pub fn translated_size_bytes(&self, name: &str) -> Option<u32> {
        translated_size_bytes(self.program(name)?).ok()
    }

    /// Number of instructions that the verifier processed to accept a program; its limit is a
    /// million. 0 before Linux 5.16.
    pub fn verified_insns(&self, name: &str) -> Option<u32> {
        verified_insns(self.program(name)?).ok()
    }

    /// A map.
    pub fn map(&self, name: &str) -> Option<Map<'_>> {
        self.object.map(name)
    }

    /// Maps a ring buffer with records of at most `max_record_bytes`. It is an error if the object
    /// lacks the map.
    pub fn ring(&self, name: &str, max_record_bytes: u32) -> io::Result<MappedRing> {
        MappedRing::new(&self.map(name).ok_or(io::ErrorKind::NotFound)?, max_record_bytes)
    }

    /// The object's global data.
    pub fn globals(&self) -> &BssMapping {
        self.object.bss()
    }

    /// The verifier's log of each program, if [`LoadOptions::verifier_log`] requested it.
    pub fn verifier_logs(&self) -> Vec<(&str, String)> {
        self.object.logs().collect()
    }
}

/// Classifies a failure by what the user can do about it. `messages` are libbpf's, with the
/// verifier's log if it wrote one.
pub fn explain(error: io::Error, messages: String) -> LoadError {
    let descriptors = |error| LoadError::Other { error, message: "raise the limit of open files (ulimit -n)".into() };
    if let Some(refusal) = Refusal::in_messages(&messages) {
        if let Some(number) = refusal.missing_helper() {
            return LoadError::Unsupported { message: format!("it has no BPF helper {number}") };
        }
        // If libbpf has no descriptor left to find out whether the kernel supports global data, it
        // assumes that it does not, and omits the map of such data.
        if refusal.reason.ends_with("is not pointing to valid bpf_map") {
            return descriptors(io::Error::from_raw_os_error(libc::EMFILE));
        }
        // With `EMFILE`, libbpf loaded a program but had no descriptor left for it.
        if error.raw_os_error() != Some(libc::EMFILE) {
            return LoadError::Verifier(refusal);
        }
    }
    let map = between(&messages, "map '", "': failed to create:");
    let program = between(&messages, "prog '", "': BPF program load failed");
    match (error.raw_os_error(), map, program) {
        (Some(libc::EPERM | libc::EACCES), ..) => LoadError::Privilege { reasons: missing_privileges() },
        // libbpf's messages then refer to whatever it tried last.
        (Some(libc::EMFILE | libc::ENFILE), ..) => descriptors(error),
        (Some(libc::E2BIG | libc::ENOMEM), Some(map), _) => LoadError::TooLarge { what: format!("map {map}") },
        (Some(libc::E2BIG | libc::ENOMEM), _, Some(program)) => {
            LoadError::TooLarge { what: format!("program {program}") }
        }
        // Our request is well-formed, so a kernel that reports it as invalid does not support it.
        (Some(libc::EINVAL), Some(map), _) => {
            LoadError::Unsupported { message: format!("it does not support the type of map {map}") }
        }
        (Some(libc::EINVAL), _, Some(program)) => {
            LoadError::Unsupported { message: format!("it does not support the type of program {program}") }
        }
        (Some(libc::ENOTSUP | libc::ENOSYS | ENOTSUPP), ..) => LoadError::Unsupported { message: messages },
        _ => LoadError::Other { error, message: messages },
    }
}

/// `ENOTSUPP`, which only the kernel defines; no C library has it.
const ENOTSUPP: i32 = 524;

/// The text between the first `close` and the last `open` before it.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    Some(text.split_once(close)?.0.rsplit_once(open)?.1)
}

/// Capabilities by number, as in `linux/capability.h`.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

fn missing_privileges() -> Vec<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    privileges(
        &read("/proc/self/status"),
        &read("/proc/sys/kernel/unprivileged_bpf_disabled"),
        &read("/sys/kernel/security/lockdown"),
    )
}

/// The reasons for a refusal, from what the kernel reports about this process and about itself.
fn privileges(status: &str, unprivileged_bpf_disabled: &str, lockdown: &str) -> Vec<String> {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let has = |cap: u32| effective & (1 << cap | 1 << CAP_SYS_ADMIN) != 0;
    let missing: Vec<&str> = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
        .iter()
        .filter(|(cap, _)| !has(*cap))
        .map(|c| c.1)
        .collect();
    let mut reasons = Vec::new();
    if !missing.is_empty() {
        reasons
            .push(format!("this process lacks {}: run it as root, or grant them to the binary", missing.join(" and ")));
        if !matches!(unprivileged_bpf_disabled.trim(), "" | "0") {
            reasons.push("kernel.unprivileged_bpf_disabled is set, so no program loads without CAP_BPF".into());
        }
    }
    if lockdown.contains("[confidentiality]") {
        reasons.push("the kernel is locked down for confidentiality, which forbids reading kernel memory".into());
    }
    if reasons.is_empty() {
        reasons.push("a security module or the kernel's configuration forbids this kind of program".into());
    }
    reasons
}

impl LoadError {
    /// Whether the kernel rejected one program that several blocks share as too large or too
    /// complex, although each block alone may be acceptable.
    pub fn is_too_much_in_one_program(&self, object: &Object) -> bool {
        let is_shared = |name: &str| object.programs.iter().filter(|block| block.runs_in == name).count() > 1;
        match self {
            LoadError::Verifier(refusal) => refusal.is_too_complex() && is_shared(&refusal.program),
            LoadError::TooLarge { what } => what.strip_prefix("program ").is_some_and(is_shared),
            LoadError::Privilege { .. } | LoadError::Unsupported { .. } | LoadError::Other { .. } => false,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Privilege { reasons } => write!(f, "the kernel refused the programs: {}", reasons.join("; ")),
            LoadError::Verifier(refusal) => {
                write!(f, "the kernel's verifier refused program {}", refusal.program)?;
                if let Some(line) = refusal.line {
                    write!(f, " at line {line}")?;
                }
                write!(f, ": {}", refusal.reason)
            }
            LoadError::TooLarge { what } => write!(f, "{what} is too large for the kernel or its memory"),
            LoadError::Unsupported { message } => write!(f, "this kernel lacks a needed feature: {}", message.trim()),
            LoadError::Other { error, message } => write!(f, "cannot load the programs: {error}; {}", message.trim()),
        }
    }
}

impl std::error::Error for LoadError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(number: i32, messages: &str) -> String {
        explain(io::Error::from_raw_os_error(number), messages.into()).to_string()
    }

    #[test]
    fn what_a_kernel_lacks_and_what_is_too_large_are_told_apart() {
        let log = "libbpf: prog 'p0': BPF program load failed: -EINVAL\n\
            libbpf: prog 'p0': -- BEGIN PROG LOAD LOG --\n0: (85) call unknown#999\ninvalid func unknown#999\n\
            processed 1 insns\n-- END PROG LOAD LOG --\n";
        for (number, messages, expected) in [
            (libc::EINVAL, log, "this kernel lacks a needed feature: it has no BPF helper 999"),
            (libc::E2BIG, "libbpf: prog 'p0': BPF program load failed: -E2BIG\n", "program p0 is too large"),
            (libc::E2BIG, "libbpf: map '@': failed to create: -E2BIG\n", "map @ is too large"),
            (libc::ENOMEM, "libbpf: map '@a': failed to create: -ENOMEM\n", "map @a is too large"),
            (libc::EINVAL, "libbpf: map 'r': failed to create: -EINVAL\n", "it does not support the type of map r"),
            (
                libc::EINVAL,
                "libbpf: prog 'p0': BPF program load failed: -EINVAL\n",
                "it does not support the type of program p0",
            ),
            (ENOTSUPP, "libbpf: no such thing\n", "this kernel lacks a needed feature: libbpf: no such thing"),
            (libc::EPERM, "libbpf: map 'r': failed to create: -EPERM\n", "the kernel refused the programs: "),
            (libc::ENOSPC, "libbpf: prog 'p0': failed\n", "cannot load the programs: No space left"),
        ] {
            let words = explained(number, messages);
            assert!(words.contains(expected), "{words}");
        }
    }

    #[test]
    fn missing_capabilities_are_named() {
        let reasons = privileges("Name:\tx\nCapEff:\t0000008000000000\n", "2\n", "[none] integrity confidentiality\n");
        assert_eq!(reasons.len(), 2);
        assert!(reasons[0].contains("lacks CAP_PERFMON:"), "{reasons:?}");
        let reasons = privileges("CapEff:\t0000000000000000\n", "0\n", "");
        assert!(reasons[0].contains("CAP_BPF and CAP_PERFMON"), "{reasons:?}");
        let reasons = privileges("CapEff:\t0000000000200000\n", "2\n", "none integrity [confidentiality]\n");
        assert!(reasons.len() == 1 && reasons[0].contains("locked down"), "{reasons:?}");
        assert!(privileges("CapEff:\t000001ffffffffff\n", "2\n", "")[0].contains("security module"));
    }

    #[test]
    fn bytes_that_are_no_elf_are_refused() {
        assert!(matches!(load(b"not an ELF", LoadOptions::default()), Err(LoadError::Other { .. })));
    }
}
