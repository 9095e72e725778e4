//! Empty BPF programs, loaded to test what the kernel allows.
//!
//! In: a program kind. Out: its descriptor, or the kernel's error.
//! Guarantee: nothing is attached; closing the descriptor frees the program.
//!
//! The call is libbpf's own: libbpf-rs loads programs only as parts of an ELF object.

use std::io;
use std::os::fd::OwnedFd;

use libbpf_sys as sys;

use super::{check, own};

/// A kind of empty program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyKind {
    /// For raw tracepoints: any process with tracing privileges can load it.
    RawTracepoint,
    /// For kprobes and uprobes.
    Probe,
    /// For many kernel functions with one link. Since 5.18.
    KprobeMulti,
    /// For the entry of the kernel function with this BTF id.
    Fentry(u32),
}

/// Loads a program that returns 0.
pub fn load_empty(kind: EmptyKind) -> io::Result<OwnedFd> {
    // `r0 = 0; exit`
    let code = [instruction(0xb7), instruction(0x95)];
    let mut options = sys::bpf_prog_load_opts { sz: size_of::<sys::bpf_prog_load_opts>() as u64, ..Default::default() };
    let program_type = match kind {
        EmptyKind::RawTracepoint => sys::BPF_PROG_TYPE_RAW_TRACEPOINT,
        EmptyKind::Probe => sys::BPF_PROG_TYPE_KPROBE,
        EmptyKind::KprobeMulti => {
            options.expected_attach_type = sys::BPF_TRACE_KPROBE_MULTI;
            sys::BPF_PROG_TYPE_KPROBE
        }
        EmptyKind::Fentry(function) => {
            options.expected_attach_type = sys::BPF_TRACE_FENTRY;
            options.attach_btf_id = function;
            sys::BPF_PROG_TYPE_TRACING
        }
    };
    // SAFETY: the name, the licence, the instructions and the options outlive the call; the count
    // is that of the instructions.
    let fd = unsafe {
        sys::bpf_prog_load(
            program_type,
            c"profiler_asks".as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr(),
            code.len() as u64,
            &raw mut options,
        )
    };
    check(fd).map(own)
}

fn instruction(code: u8) -> sys::bpf_insn {
    sys::bpf_insn { code, ..Default::default() }
}
