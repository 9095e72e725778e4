//! Attaches programs to kernel functions.
//!
//! In: functions by name. Out: one link for all of them, or one per function.

use std::ffi::CString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use profiler_model::object::{Attach, FoundBy, FunctionSite};

use super::addresses::Addresses;
use super::partial::attach_most;
use super::{Failure, Links, Skipped, c_string, pmu, tie};
use crate::sys::link::{self, KprobeSites};
use crate::sys::perf;

/// Attaches a program to functions: with a single link, or with a perf event for each, which can
/// also probe offsets after the entry.
pub(super) fn attach(
    program: BorrowedFd<'_>,
    at_return: bool,
    sites: &[FunctionSite],
    multi: bool,
    links: &mut Links,
) -> Result<Skipped, Failure> {
    let everything = |error| match sites {
        [only] => Failure::new(&only.function, error),
        sites => Failure::new(&format!("{} functions", sites.len()), error),
    };
    let before = links.slow.len();
    let refused = if multi {
        let mut attach =
            |part: &[FunctionSite]| attach_multi(program, at_return, part).map(|link| links.slow.push(link));
        attach_most(sites, &mut attach, &is_about_site)
    } else {
        attach_each(program, at_return, sites, links)
    };
    let mut refused = refused.map_err(everything)?;
    if links.slow.len() > before || sites.is_empty() {
        let mut skipped = Skipped::default();
        skipped.add_sites(refused.into_iter().map(|(site, error)| (site.function.as_str(), error)));
        return Ok(skipped);
    }
    let (site, error) = refused.remove(0);
    let failure = Failure::new(&site.function, error);
    Err(Failure { probe: Some(site.cookie as usize), ..failure })
}

fn attach_multi(program: BorrowedFd<'_>, at_return: bool, sites: &[FunctionSite]) -> io::Result<OwnedFd> {
    let functions: Vec<CString> = sites.iter().map(|site| c_string(&site.function)).collect::<io::Result<_>>()?;
    let cookies: Vec<u64> = sites.iter().map(|site| site.cookie).collect();
    link::kprobe_multi(program, &KprobeSites { functions: &functions, cookies: &cookies, at_return })
}

fn attach_each<'s>(
    program: BorrowedFd<'_>,
    at_return: bool,
    sites: &'s [FunctionSite],
    links: &mut Links,
) -> io::Result<Vec<(&'s FunctionSite, io::Error)>> {
    let (kind, config) = pmu::event("kprobe", at_return)?;
    let addresses = Addresses::of(sites.iter().map(|site| site.function.as_str()));
    let mut refused = Vec::new();
    for site in sites {
        let events = events((kind, config), site, &addresses);
        for event in events.unwrap_or_else(|error| vec![Err(error)]) {
            match event.and_then(|event| tie(event, program, site.cookie)) {
                Ok(link) => links.slow.push(link),
                Err(error) if is_about_site(&error) => refused.push((site, error)),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(refused)
}

/// The perf events of a site: one, or one for each function that has its name.
fn events(
    (kind, config): (u32, u64),
    site: &FunctionSite,
    addresses: &Addresses<'_>,
) -> io::Result<Vec<io::Result<OwnedFd>>> {
    let at = |address: u64| perf::open_kprobe_at(kind, config, address.wrapping_add(site.offset_bytes));
    let of_name = || Ok(addresses.all(&site.function, site.module.as_deref())?.into_iter().map(at).collect());
    let name = match (site.found_by, site.module.as_deref()) {
        (FoundBy::Address(address), _) => return Ok(vec![at(address)]),
        (FoundBy::EachOfName, _) => return of_name(),
        // Functions of the kernel itself have no module prefix.
        (FoundBy::Name, None | Some("vmlinux")) => c_string(&site.function)?,
        (FoundBy::Name, Some(module)) => c_string(&format!("{module}:{}", site.function))?,
    };
    match perf::open_kprobe(kind, config, &name, site.offset_bytes) {
        // One of the functions of this name can be traced, so the compiler knows only that one.
        // Since 6.6.
        Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => of_name(),
        event => Ok(vec![event]),
    }
}

/// Whether the error may be due to a single function.
fn is_about_site(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::EADDRNOTAVAIL | libc::EILSEQ | libc::EINVAL))
}

/// Explains the kernel's error for probes of its functions.
pub(super) fn meaning(attach: &Attach, error: &io::Error) -> &'static str {
    let Some(number) = error.raw_os_error() else { return "" };
    match attach {
        Attach::Kprobe { .. } => match number {
            libc::ENOENT | libc::ESRCH => "the kernel no longer has this function",
            libc::EILSEQ | libc::EINVAL => {
                "the kernel does not allow probing this address: it is on its blacklist, the offset is in the middle of an instruction, or \
                 the probe has `override` and the function is not one that may be overridden"
            }
            libc::EOPNOTSUPP => "this kernel has no multi-kprobes (CONFIG_FPROBE)",
            _ => "",
        },
        Attach::Trampoline { .. } => match number {
            libc::EBUSY | libc::EINVAL | libc::ENODEV => {
                "the kernel does not allow tracing this function, or something else holds its entry"
            }
            libc::E2BIG => "too many programs are attached to this function",
            524 => "this kernel has no trampolines for this function",
            _ => "",
        },
        _ => "",
    }
}
