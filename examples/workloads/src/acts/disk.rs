//! Acts on files, memory and swap.
//!
//! In: a path or a device. Out: the number of bytes written.
//! Guarantee: changes are undone: a swap device is switched off, a cgroup is removed.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, Read as _, Result, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};

use super::path;
use crate::sys;

/// Writes bytes to a file or a device and flushes them to disk: first these bytes, then all dirty
/// data.
pub fn sync(name: &str, bytes: u64) -> Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(name)?;
    file.write_all(&vec![b'x'; bytes as usize])?;
    file.sync_data()?;
    file.write_at(b"y", 0)?;
    sys::sync();
    Ok(())
}

/// Swaps to a device. The kernel requires only a page with the signature of a swap area.
pub fn swap(device: &str) -> Result<()> {
    const PAGE: usize = 4096;
    const LAST_PAGE: u32 = 12287;
    let mut header = vec![0; PAGE];
    header[1024..1028].copy_from_slice(&1u32.to_ne_bytes());
    header[1028..1032].copy_from_slice(&LAST_PAGE.to_ne_bytes());
    header[PAGE - 10..].copy_from_slice(b"SWAPSPACE2");
    let file = OpenOptions::new().write(true).open(device)?;
    file.write_at(&header, 0)?;
    file.sync_all()?;
    let device = path(device)?;
    sys::swap_on(&device)?;
    let before = events(&["pswpin "])?;
    let killed = in_small_group(&["refill"], Limit::Throttles);
    let swapped = events(&["pswpin "])? - before;
    sys::swap_off(&device)?;
    if killed? || swapped == 0 { Err(Error::other("the kernel did not swap")) } else { Ok(()) }
}

/// Makes a child ask for more memory than its cgroup allows.
pub fn out_of_memory() -> Result<()> {
    if in_small_group(&["fill"], Limit::Kills)? {
        Ok(())
    } else {
        Err(Error::other("the kernel gave more memory than it was to"))
    }
}

/// Writes pages, and has the kernel forget them.
fn forgotten(name: &str, bytes: u64) -> Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(name)?;
    file.write_all(&vec![b'x'; bytes as usize])?;
    file.sync_all()?;
    sys::advise(&file, true)
}

/// Reads each page twice, without the kernel reading ahead.
pub fn cached(name: &str, pages: u64) -> Result<()> {
    const PAGE: u64 = 4096;
    forgotten(name, pages * PAGE)?;
    let file = File::open(name)?;
    sys::advise(&file, false)?;
    let mut page = vec![0; PAGE as usize];
    for index in (0..pages).rev().chain(0..pages) {
        file.read_exact_at(&mut page, index * PAGE)?;
    }
    fs::remove_file(name)?;
    println!("pages {}\nonce {pages}", 2 * pages);
    Ok(())
}

/// The counters of pages that reclaim has freed.
const STOLEN_PAGES: [&str; 2] = ["pgsteal_anon ", "pgsteal_file "];

/// Makes a child read a file that is larger than its cgroup's limit.
pub fn reclaim(name: &str, mib: u64) -> Result<()> {
    forgotten(name, mib << 20)?;
    let before = events(&STOLEN_PAGES)?;
    let killed = in_small_group(&["drain", name], Limit::Kills);
    let stolen = events(&STOLEN_PAGES)? - before;
    fs::remove_file(name)?;
    println!("least_bytes {}\nstolen_bytes {}", mib.saturating_sub(17) << 20, stolen * 4096);
    if killed? { Err(Error::other("the kernel did not free memory")) } else { Ok(()) }
}

/// The sum of some of the kernel's counters of memory events since boot, on the whole machine.
fn events(names: &[&str]) -> Result<u64> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let number = |name: &&str| {
        text.lines().find_map(|line| line.strip_prefix(name)).and_then(|number| number.parse::<u64>().ok())
    };
    names.iter().map(number).sum::<Option<u64>>().ok_or_else(|| Error::other("the kernel does not count its pages"))
}

/// Reads a file to its end.
pub fn drain(name: &str) -> Result<()> {
    let mut file = File::open(name)?;
    let mut block = vec![0; 65536];
    while file.read(&mut block)? > 0 {}
    Ok(())
}

/// What the kernel does when a group needs more memory than its limit and cannot free any.
#[derive(Clone, Copy)]
enum Limit {
    Kills,
    /// It waits, so a slow device does not end the child. Groups of version 1 have no such limit.
    Throttles,
}

/// Where groups for memory are, and the name of the limit: version 2, or version 1.
fn memory_groups(limit: Limit) -> Result<(&'static str, &'static str)> {
    const GROUPS: &str = "/sys/fs/cgroup";
    const OLD_GROUPS: &str = "/sys/fs/cgroup/memory";
    if fs::exists(format!("{OLD_GROUPS}/memory.limit_in_bytes"))? {
        return Ok((OLD_GROUPS, "memory.limit_in_bytes"));
    }
    fs::write(format!("{GROUPS}/cgroup.subtree_control"), "+memory")?;
    let name = match limit {
        Limit::Kills => "memory.max",
        Limit::Throttles => "memory.high",
    };
    Ok((GROUPS, name))
}

/// Runs an act in a child in a new cgroup with 16 MiB; returns whether the child was killed.
fn in_small_group(act: &[&str], limit: Limit) -> Result<bool> {
    let (groups, limit) = memory_groups(limit)?;
    let group = format!("{groups}/workload-{}-{}", act.first().unwrap_or(&""), std::process::id());
    fs::create_dir(&group)?;
    let killed = fs::write(format!("{group}/{limit}"), "16777216").and_then(|()| act_in(&group, act));
    fs::remove_dir(&group)?;
    killed
}

/// The child waits for end of input before it begins, so that it is in the cgroup by then.
fn act_in(group: &str, act: &[&str]) -> Result<bool> {
    let own = std::env::current_exe()?;
    let mut child = Command::new("/bin/sh")
        .arg("-c")
        .arg(r#"read -r line; exec "$0" act "$@""#)
        .arg(own)
        .args(act)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    println!("child {}", child.id());
    fs::write(format!("{group}/cgroup.procs"), child.id().to_string())?;
    drop(child.stdin.take());
    Ok(!child.wait()?.success())
}
