//! Functions of programs and libraries.
//!
//! In: a file and offsets in it. Out: links: one for the file, or one a site on kernels without multi links.

use std::ffi::CString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use profiler_compiler::object::Site;

use super::{Failure, Links, c_string, pmu, tie};
use crate::sys::link::{self, UprobeSites};
use crate::sys::perf;

/// Where the offset of a semaphore stands in an event's configuration: `format/ref_ctr_offset` says `config:32-63`.
const SEMAPHORE_SHIFT: u32 = 32;

/// The file of a uprobe and whom it concerns.
pub(super) struct Place<'a> {
    pub(super) path: &'a str,
    pub(super) at_return: bool,
    pub(super) pid: Option<u32>,
}

/// Attaches a program to sites of a file.
pub(super) fn attach(
    program: BorrowedFd<'_>,
    place: &Place<'_>,
    sites: &[Site],
    multi: bool,
    links: &mut Links,
) -> Result<(), Failure> {
    if !multi {
        return attach_each(program, place, sites, links);
    }
    links.slow.push(attach_multi(program, place, sites).map_err(|error| (place.path.to_owned(), error))?);
    Ok(())
}

fn attach_multi(program: BorrowedFd<'_>, place: &Place<'_>, sites: &[Site]) -> io::Result<OwnedFd> {
    let path = c_string(place.path)?;
    let offsets: Vec<u64> = sites.iter().map(|site| site.file_offset).collect();
    let cookies: Vec<u64> = sites.iter().map(|site| site.cookie).collect();
    let mut semaphores: Vec<u64> = sites.iter().map(|site| site.semaphore_offset).collect();
    if semaphores.iter().all(|semaphore| *semaphore == 0) {
        semaphores.clear();
    }
    let (at_return, pid) = (place.at_return, place.pid);
    let sites =
        UprobeSites { path: &path, offsets: &offsets, cookies: &cookies, semaphores: &semaphores, at_return, pid };
    link::uprobe_multi(program, &sites)
}

/// One perf event a site, for kernels without multi links.
fn attach_each(program: BorrowedFd<'_>, place: &Place<'_>, sites: &[Site], links: &mut Links) -> Result<(), Failure> {
    let at = |name: &str| format!("{} of {}", name, place.path);
    let setup = || -> io::Result<(u32, u64, CString)> {
        let (kind, bit) = pmu::event("uprobe", place.at_return)?;
        Ok((kind, bit, c_string(place.path)?))
    };
    let (kind, config, path) = setup().map_err(|error| (at("functions"), error))?;
    for site in sites {
        let config = config | site.semaphore_offset << SEMAPHORE_SHIFT;
        let link = perf::open_uprobe(kind, config, &path, site.file_offset, place.pid)
            .and_then(|event| tie(event, program, site.cookie))
            .map_err(|error| (at(&site.name), error))?;
        links.slow.push(link);
    }
    Ok(())
}
