//! Tests which ways of probing functions the kernel supports.
//!
//! In: the kernel's BTF. Out: [`FunctionProbing`]. Guarantee: nothing stays loaded or attached.
//! Without the privilege to test, the answer is what a kernel of this version usually supports;
//! loading shows the rest.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use profiler_compiler::btf::{Btf, Kind};
use profiler_compiler::target::FunctionProbing;

use super::kernel;
use crate::sys::link::{self, KprobeSites};
use crate::sys::program::{EmptyKind, load_empty};

/// Since 5.18: kprobes at many functions with one link.
const KPROBE_MULTI_SINCE: (u32, u32) = (5, 18);

/// Functions that a test program is loaded for, but not attached to; the first exists for such
/// tests.
const WELL_KNOWN: [&str; 2] = ["bpf_fentry_test1", "vfs_read"];

/// Tests the kernel.
pub(super) fn ask(btf: Option<&Btf>) -> FunctionProbing {
    let may_ask = load_empty(EmptyKind::RawTracepoint).is_ok();
    FunctionProbing { kprobe: kprobe(), kprobe_multi: kprobe_multi(may_ask), fentry: fentry(btf, may_ask) }
}

fn kprobe() -> Result<(), String> {
    if !Path::new("/sys/bus/event_source/devices/kprobe/type").exists() {
        return Err("it was built without kprobes (CONFIG_KPROBE_EVENTS)".to_owned());
    }
    // The file may be unreadable; then it says nothing.
    match fs::read_to_string("/sys/kernel/debug/kprobes/enabled") {
        Ok(text) if text.trim() == "0" => {
            Err("kprobes are switched off: `echo 1 > /sys/kernel/debug/kprobes/enabled`".to_owned())
        }
        _ => Ok(()),
    }
}

fn kprobe_multi(may_ask: bool) -> bool {
    if !may_ask {
        return kernel::version() >= KPROBE_MULTI_SINCE;
    }
    let Ok(program) = load_empty(EmptyKind::KprobeMulti) else { return false };
    let nowhere = KprobeSites { functions: &[], cookies: &[], at_return: false };
    // A kernel with such links rejects one without functions as invalid; other kernels report them
    // as unsupported.
    let refusal = link::kprobe_multi(program.as_fd(), &nowhere).err().and_then(|error| error.raw_os_error());
    refusal == Some(libc::EINVAL)
}

fn fentry(btf: Option<&Btf>, may_ask: bool) -> Result<(), String> {
    let btf = btf.ok_or("its types (/sys/kernel/btf/vmlinux) cannot be read")?;
    if !may_ask {
        return Ok(());
    }
    let function = WELL_KNOWN.iter().find_map(|name| btf.find(Kind::Function, name));
    let function = function.ok_or("its BTF describes no functions")?;
    load_empty(EmptyKind::Fentry(function.0)).map(drop).map_err(|error| {
        let words = match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => "operation not permitted".to_owned(),
            _ => io::Error::to_string(&error),
        };
        format!("it refuses programs at function entry ({words})")
    })
}

#[cfg(test)]
mod tests {
    use super::ask;
    use crate::host::Host;
    use profiler_compiler::target::Target;

    #[test]
    fn the_answer_is_that_of_the_kernel_s_own_files() {
        let probing = ask(Host::new().btf());
        let has_events = std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists();
        assert!(has_events || probing.kprobe.is_err(), "{probing:?}");
        for reason in [&probing.kprobe, &probing.fentry].into_iter().filter_map(|answer| answer.as_ref().err()) {
            assert!(!reason.is_empty() && !reason.ends_with('.'), "{reason}");
        }
    }
}
