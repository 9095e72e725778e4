//! Acts on files, memory and swap.
//!
//! In: a path or a device. Out: the number of bytes written.
//! Guarantee: changes are undone: a swap device is switched off, a cgroup is removed.

use std::fs::{self, OpenOptions};
use std::io::{Error, Result, Write as _};
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
    let killed = in_small_group("refill");
    sys::swap_off(&device)?;
    if killed? { Err(Error::other("the kernel did not swap")) } else { Ok(()) }
}

/// Makes a child ask for more memory than its cgroup allows.
pub fn out_of_memory() -> Result<()> {
    if in_small_group("fill")? { Ok(()) } else { Err(Error::other("the kernel gave more memory than it was to")) }
}

/// Runs an act in a child in a new cgroup with 16 MiB; returns whether the child was killed.
fn in_small_group(act: &str) -> Result<bool> {
    const GROUPS: &str = "/sys/fs/cgroup";
    let group = format!("{GROUPS}/workload-{act}-{}", std::process::id());
    fs::write(format!("{GROUPS}/cgroup.subtree_control"), "+memory")?;
    fs::create_dir(&group)?;
    let killed = fs::write(format!("{group}/memory.max"), "16777216").and_then(|()| act_in(&group, act));
    fs::remove_dir(&group)?;
    killed
}

/// The child waits for end of input before it begins, so that it is in the cgroup by then.
fn act_in(group: &str, act: &str) -> Result<bool> {
    let own = std::env::current_exe()?;
    let mut child = Command::new("/bin/sh")
        .arg("-c")
        .arg(r#"read -r line; exec "$0" act "$1""#)
        .arg(own)
        .arg(act)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    println!("child {}", child.id());
    fs::write(format!("{group}/cgroup.procs"), child.id().to_string())?;
    drop(child.stdin.take());
    Ok(!child.wait()?.success())
}
