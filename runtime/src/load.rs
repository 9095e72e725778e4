//! From an ELF to programs and maps in the kernel.
//!
//! In: the bytes of an object. Out: [`Loaded`], or why the kernel refused.
//! Guarantee: a refusal says what to do about it; the verifier writes a log only when it refuses, or when asked to.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

use crate::sys::bpf::{BpfObject, take_warnings};
use crate::sys::map::Map;
use crate::sys::ring::MappedRing;

/// How to load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Keep the verifier's log of every program (`-d verifier`).
    pub verifier_log: bool,
}

/// Programs and maps in the kernel; they go when this is dropped.
#[derive(Debug)]
pub struct Loaded {
    object: BpfObject,
}

/// Why an object could not be loaded.
#[derive(Debug)]
pub enum LoadError {
    /// The process may not load programs.
    Privilege {
        /// What is missing and how to get it.
        reasons: Vec<String>,
    },
    /// The verifier rejected a program.
    Verifier(Refusal),
    /// The kernel lacks something that the object needs.
    Unsupported {
        /// libbpf's words.
        message: String,
    },
    /// Anything else.
    Other {
        /// The kernel's answer.
        error: io::Error,
        /// libbpf's words.
        message: String,
    },
}

/// What the verifier said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The program.
    pub program: String,
    /// The line of the script at which it gave up, when the log cites one.
    pub line: Option<u32>,
    /// The text of that line.
    pub text: String,
    /// Its last words: why.
    pub reason: String,
    /// All of it.
    pub log: String,
}

/// Loads an object.
pub fn load(elf: &[u8], options: LoadOptions) -> Result<Loaded, LoadError> {
    match BpfObject::load(elf, options.verifier_log) {
        Ok(object) => Ok(Loaded { object }),
        Err(error) => Err(explain(error, take_warnings())),
    }
}

impl Loaded {
    /// A program.
    pub fn program(&self, name: &str) -> Option<BorrowedFd<'_>> {
        self.object.program(name)
    }

    /// A map.
    pub fn map(&self, name: &str) -> Option<Map<'_>> {
        self.object.map(name)
    }

    /// A ring buffer whose records are at most so long, mapped; the name of a map that the object lacks is an error.
    pub fn ring(&self, name: &str, max_record_bytes: u32) -> io::Result<MappedRing> {
        MappedRing::new(&self.map(name).ok_or(io::ErrorKind::NotFound)?, max_record_bytes)
    }

    /// The object, for its global data.
    pub fn globals(&self) -> &BpfObject {
        &self.object
    }

    /// The verifier's log of each program, when [`LoadOptions::verifier_log`] asked for it.
    pub fn verifier_logs(&self) -> Vec<(&str, String)> {
        self.object.logs().collect()
    }
}

/// Sorts a refusal by what the user can do about it.
pub fn explain(error: io::Error, message: String) -> LoadError {
    if let Some(refusal) = refusal(&message) {
        return LoadError::Verifier(refusal);
    }
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => LoadError::Privilege { reasons: missing_privileges() },
        Some(libc::ENOTSUP | libc::ENOSYS | 524) => LoadError::Unsupported { message },
        _ => LoadError::Other { error, message },
    }
}

/// The verifier's log in what libbpf reports: libbpf itself loads a refused program a second time, with a log.
fn refusal(message: &str) -> Option<Refusal> {
    let (before, rest) = message.split_once("': -- BEGIN PROG LOAD LOG --\n")?;
    let program = before.rsplit_once('\'').map_or(before, |(_, name)| name).to_owned();
    let log = rest.split_once("-- END PROG LOAD LOG --").map_or(rest, |(log, _)| log);
    let cited = log.lines().rev().find_map(cited_line);
    let is_reason = |line: &&str| {
        !line.is_empty()
            && !line.starts_with("processed ")
            && !line.starts_with(';')
            && !line.starts_with("verification time")
            && !line.starts_with("stack depth")
    };
    let reason = log.lines().rev().find(is_reason)?.to_owned();
    Some(Refusal {
        program,
        line: cited.map(|(line, _)| line),
        text: cited.map(|(_, text)| text.to_owned()).unwrap_or_default(),
        reason,
        log: log.to_owned(),
    })
}

/// The number and text in `; text @ file:line`, or the text in `; text` of kernels before 6.8.
fn cited_line(line: &str) -> Option<(u32, &str)> {
    let (text, place) = line.strip_prefix("; ")?.rsplit_once(" @ ")?;
    let (_, number) = place.rsplit_once(':')?;
    Some((number.parse().ok()?, text))
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

/// What stands in the way, from what the kernel says of this process and of itself.
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
            LoadError::Unsupported { message } => write!(f, "this kernel lacks a needed feature: {}", message.trim()),
            LoadError::Other { error, message } => write!(f, "cannot load the programs: {error}; {}", message.trim()),
        }
    }
}

impl std::error::Error for LoadError {}

#[cfg(test)]
mod tests {
    use super::*;

    const WARNINGS: &str = "libbpf: prog 'probe_1': BPF program load failed: -EACCES\n\
        libbpf: prog 'probe_1': -- BEGIN PROG LOAD LOG --\n\
        0: R1=ctx() R10=fp0\n\
        ; $p = @out[0]; @ script.bt:4\n\
        5: (85) call bpf_map_lookup_elem#1\n\
        ; @sum += *$p; @ script.bt:5\n\
        6: (79) r1 = *(u64 *)(r0 +0)\n\
        R0 invalid mem access 'map_value_or_null'\n\
        processed 7 insns (limit 1000000) max_states_per_insn 0\n\
        -- END PROG LOAD LOG --\n\
        libbpf: failed to load object 'profiler'\n";

    #[test]
    fn a_refusal_cites_the_script() {
        let LoadError::Verifier(refusal) = explain(io::Error::from_raw_os_error(libc::EACCES), WARNINGS.into()) else {
            panic!("a verifier log is a verifier refusal");
        };
        assert_eq!(refusal.program, "probe_1");
        assert_eq!((refusal.line, refusal.text.as_str()), (Some(5), "@sum += *$p;"));
        assert_eq!(refusal.reason, "R0 invalid mem access 'map_value_or_null'");
        assert!(refusal.log.starts_with("0: R1") && refusal.log.ends_with("max_states_per_insn 0\n"));
    }

    #[test]
    fn a_log_without_lines_still_has_a_reason() {
        let refusal = refusal("libbpf: prog 'p': -- BEGIN PROG LOAD LOG --\nunreachable insn 3\n").unwrap();
        assert_eq!((refusal.line, refusal.reason.as_str()), (None, "unreachable insn 3"));
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
