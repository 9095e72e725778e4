//! The kind of file system that a file is in.
//!
//! In: an open file, also one that is open as a path only. Out: its kind.
//! Guarantee: nothing is read from the file.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;

use super::check_errno;

/// `PROC_SUPER_MAGIC`; this number and those below are of `include/uapi/linux/magic.h`, if not said
/// otherwise.
const PROC: i64 = 0x9fa0;

/// File systems of which a file is an answer of the kernel: reading it can block, take what others
/// wait for (`/proc/kmsg`, `trace_pipe`), or have other effects.
const OF_THE_KERNEL: [i64; 14] = [
    PROC,
    0x6265_6572, // sysfs
    0x7472_6163, // tracefs
    0x6462_6720, // debugfs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
    0xcafe_4a11, // bpf
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0x4249_4e4d, // binfmt_misc: BINFMTFS_MAGIC
    0x6265_6570, // configfs: fs/configfs/mount.c
    0x1980_0202, // mqueue: ipc/mqueue.c
];

/// Whether a file is in procfs.
pub fn is_proc(file: &File) -> io::Result<bool> {
    Ok(kind(file)? == PROC)
}

/// Whether the contents of a file are answers of the kernel.
pub fn is_of_the_kernel(file: &File) -> io::Result<bool> {
    Ok(OF_THE_KERNEL.contains(&kind(file)?))
}

/// Since 3.12: also of a file that is open as a path only.
fn kind(file: &File) -> io::Result<i64> {
    let mut found = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and the place is as large as the call expects.
    check_errno(unsafe { libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()) })?;
    // SAFETY: the call has succeeded, so it has written the place.
    Ok(unsafe { found.assume_init() }.f_type)
}
