//! Programs that do nothing, loaded to learn what the kernel allows.
//!
//! In: a kind of program. Out: its descriptor, or the kernel's refusal.
//! Guarantee: nothing is attached; the program goes with its descriptor.

use std::io;
use std::os::fd::OwnedFd;

use libbpf_sys as sys;

use super::{check, own};

/// A kind of program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// At raw tracepoints: what any process that may trace can load.
    RawTracepoint,
    /// At many kernel functions by one link. Since 5.18.
    KprobeMulti,
    /// At the entry of the kernel function with this number in BTF.
    Fentry(u32),
}

/// Loads a program that returns 0.
pub fn load_empty(kind: Kind) -> io::Result<OwnedFd> {
    // `r0 = 0; exit`
    let code = [instruction(0xb7), instruction(0x95)];
    let mut options = sys::bpf_prog_load_opts { sz: size_of::<sys::bpf_prog_load_opts>() as u64, ..Default::default() };
    let program_type = match kind {
        Kind::RawTracepoint => sys::BPF_PROG_TYPE_RAW_TRACEPOINT,
        Kind::KprobeMulti => {
            options.expected_attach_type = sys::BPF_TRACE_KPROBE_MULTI;
            sys::BPF_PROG_TYPE_KPROBE
        }
        Kind::Fentry(function) => {
            options.expected_attach_type = sys::BPF_TRACE_FENTRY;
            options.attach_btf_id = function;
            sys::BPF_PROG_TYPE_TRACING
        }
    };
    // SAFETY: the name, the licence, the instructions and the options outlive the call; the count is that of the instructions.
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
