//! Functions of the kernel.
//!
//! In: functions, by name. Out: one link for all of them, or one a function.

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use profiler_compiler::object::{Attach, FunctionSite};

use super::{Failure, Links, c_string, pmu, tie};
use crate::sys::link::{self, KprobeSites};
use crate::sys::perf;

/// Attaches a program to many functions by one link.
pub(super) fn attach_multi(
    program: BorrowedFd<'_>,
    at_return: bool,
    sites: &[FunctionSite],
    links: &mut Links,
) -> Result<(), Failure> {
    let place = || match sites {
        [only] => only.function.clone(),
        sites => format!("{} functions", sites.len()),
    };
    let attach = || {
        let functions: Vec<CString> = sites.iter().map(|site| c_string(&site.function)).collect::<io::Result<_>>()?;
        let cookies: Vec<u64> = sites.iter().map(|site| site.cookie).collect();
        link::kprobe_multi(program, &KprobeSites { functions: &functions, cookies: &cookies, at_return })
    };
    links.slow.push(attach().map_err(|error| (place(), error))?);
    Ok(())
}

/// Attaches a program to each function by a perf event, which also reaches places behind the entry.
pub(super) fn attach_each(
    program: BorrowedFd<'_>,
    at_return: bool,
    sites: &[FunctionSite],
    links: &mut Links,
) -> Result<(), Failure> {
    let (kind, config) = pmu::event("kprobe", at_return).map_err(|error| ("functions".into(), error))?;
    for site in sites {
        let attach = || {
            let name = match site.module.as_deref() {
                // The kernel itself has no module's name.
                None | Some("vmlinux") => c_string(&site.function)?,
                Some(module) => c_string(&format!("{module}:{}", site.function))?,
            };
            tie(perf::open_kprobe(kind, config, &name, site.offset_bytes)?, program, site.cookie)
        };
        links.slow.push(attach().map_err(|error| (site.function.clone(), error))?);
    }
    Ok(())
}

/// What the kernel's answer means for probes in its functions.
pub(super) fn meaning(attach: &Attach, error: &io::Error) -> &'static str {
    let Some(number) = error.raw_os_error() else { return "" };
    match attach {
        Attach::Kprobe { .. } => match number {
            libc::ENOENT | libc::ESRCH => "the kernel knows no such function any more",
            libc::EADDRNOTAVAIL => "several functions have this name",
            libc::EILSEQ | libc::EINVAL => {
                "the kernel lets nobody probe this place: it is on its blacklist, or the offset is in the middle of an instruction"
            }
            libc::EOPNOTSUPP => "this kernel has no kprobes at many places (CONFIG_FPROBE)",
            _ => "",
        },
        Attach::Trampoline { .. } => match number {
            libc::EBUSY | libc::EINVAL | libc::ENODEV => {
                "the kernel lets nobody trace this function, or something else holds its entry"
            }
            libc::E2BIG => "too many programs are attached to this function",
            524 => "this kernel has no trampolines for this function",
            _ => "",
        },
        _ => "",
    }
}
