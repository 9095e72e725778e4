//! Functions in programs and libraries.
//!
//! In: a file, offsets in it, and the processes to probe. Out: links: one per process for the file,
//! or one per site and process on kernels without multi links.
//! Guarantee: if processes are given, no other process has a breakpoint. Of several sites, those
//! that the kernel refuses are left out.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use profiler_model::object::{PROCESS_SHIFT, Site};

use super::partial::attach_most;
use super::{Failure, Links, Skipped, c_string, pmu, tie};
use crate::sys::link::{self, UprobeSites};
use crate::sys::perf;

/// Position of the semaphore offset in an event's configuration: `format/ref_ctr_offset` contains
/// `config:32-63`.
const SEMAPHORE_SHIFT: u32 = 32;

/// The kernel's `ENOTSUPP`, which user space has no name for.
const NOT_SUPPORTED: i32 = 524;

/// The file of a uprobe, and the processes to probe.
pub(super) struct UprobeTarget<'a> {
    pub(super) path: &'a str,
    pub(super) at_return: bool,
    /// `None` for every process.
    pub(super) pids: Option<BTreeSet<u32>>,
}

/// Attaches a program to sites of a file.
pub(super) fn attach(
    program: BorrowedFd<'_>,
    place: &UprobeTarget<'_>,
    sites: &[Site],
    multi: bool,
    links: &mut Links,
) -> Result<Skipped, Failure> {
    let path = c_string(place.path).map_err(|error| Failure::new(place.path, error))?;
    let mut way = Way { program, path, at_return: place.at_return, event: None, has_process_in_cookie: false };
    if !multi {
        way.event = Some(pmu::event("uprobe", place.at_return).map_err(|error| Failure::new(place.path, error))?);
    }
    let whom: Vec<Option<u32>> =
        place.pids.as_ref().map_or_else(|| vec![None], |pids| pids.iter().copied().map(Some).collect());
    way.has_process_in_cookie = !multi && place.at_return && whom.len() > 1;
    let mut skipped = Skipped::default();
    for pid in whom {
        // The kernel interprets 0 as every process; the idle task runs no code of a program.
        let refused = if pid == Some(0) { Ok(Vec::new()) } else { way.attach(sites, pid, links) };
        match refused {
            Ok(refused) => skipped.add_sites(refused.into_iter().map(|(site, error)| (site.name.as_str(), error))),
            Err(error) if pid.is_some() && error.raw_os_error() == Some(libc::ESRCH) => skipped.absent.extend(pid),
            Err(error) => return Err(Failure::new(place.path, error)),
        }
    }
    // If no site is attached, the program fails.
    let is_refused = |site: &Site| skipped.sites.iter().any(|(name, _)| *name == site.name);
    if skipped.sites.is_empty() || !sites.iter().all(is_refused) {
        return Ok(skipped);
    }
    let (name, error) = skipped.sites.remove(0);
    let site = sites.iter().find(|site| site.name == name);
    let failure = Failure::new(&format!("{name} of {}", place.path), error);
    Err(Failure { probe: site.map(|site| site.cookie as u32 as usize), ..failure })
}

/// How to attach to sites.
struct Way<'a> {
    program: BorrowedFd<'a>,
    path: CString,
    at_return: bool,
    /// The type and configuration of a perf event, on kernels without multi links.
    event: Option<(u32, u64)>,
    /// Whether the program identifies the process of an event by the cookie.
    has_process_in_cookie: bool,
}

impl Way<'_> {
    /// Attaches to the sites in one process or in all. Returns those that the kernel refused.
    fn attach<'s>(
        &self,
        sites: &'s [Site],
        pid: Option<u32>,
        links: &mut Links,
    ) -> io::Result<Vec<(&'s Site, io::Error)>> {
        let Some(event) = self.event else {
            let mut attach = |part: &'s [Site]| self.multi(part, pid).map(|link| links.slow.push(link));
            return attach_most(sites, &mut attach, &is_about_site);
        };
        let mut refused = Vec::new();
        for site in sites {
            match self.single(event, site, pid) {
                Ok(link) => links.slow.push(link),
                Err(error) if is_about_site(&error) => refused.push((site, error)),
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    fn multi(&self, sites: &[Site], pid: Option<u32>) -> io::Result<OwnedFd> {
        let offsets: Vec<u64> = sites.iter().map(|site| site.file_offset).collect();
        let cookies: Vec<u64> = sites.iter().map(|site| site.cookie).collect();
        let mut semaphores: Vec<u64> = sites.iter().map(|site| site.semaphore_offset).collect();
        if semaphores.iter().all(|semaphore| *semaphore == 0) {
            semaphores.clear();
        }
        let (path, at_return) = (self.path.as_c_str(), self.at_return);
        let sites = UprobeSites { path, offsets: &offsets, cookies: &cookies, semaphores: &semaphores, at_return, pid };
        link::uprobe_multi(self.program, &sites)
    }

    fn single(&self, (kind, config): (u32, u64), site: &Site, pid: Option<u32>) -> io::Result<OwnedFd> {
        let config = config | site.semaphore_offset << SEMAPHORE_SHIFT;
        let event = perf::open_uprobe(kind, config, &self.path, site.file_offset, pid)?;
        let process = pid.filter(|_| self.has_process_in_cookie).map_or(0, |pid| u64::from(pid) << PROCESS_SHIFT);
        tie(event, self.program, site.cookie | process)
    }
}

/// Whether the error may be due to a single site: its instruction cannot run out of line, or the
/// site does not exist.
fn is_about_site(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::ENOEXEC | libc::EOPNOTSUPP | libc::EIO | libc::ERANGE | NOT_SUPPORTED)
    )
}

/// Explains the kernel's error for a site in a program.
pub(super) fn meaning(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(NOT_SUPPORTED | libc::ENOEXEC | libc::EOPNOTSUPP) => {
            "the kernel cannot put a breakpoint on the instruction there: it cannot be executed out of line, or it is already a breakpoint"
        }
        Some(libc::EIO | libc::EINVAL) => "the kernel finds no instruction there",
        _ => "",
    }
}
