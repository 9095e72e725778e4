//! Kernel facts: version, processors, page size, symbols, control groups.
//!
//! In: small files of `/proc` and `/sys`. Out: numbers. Guarantee: an unreadable file yields the
//! smallest possible value.

use super::io_error;
use profiler_compiler::btf::{Btf, Kind};
use profiler_compiler::target::TargetError;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Major and minor version of the running kernel.
pub(super) fn version() -> (u32, u32) {
    parse_version(&fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()).unwrap_or((0, 0))
}

/// `6.18.44-cloud` gives 6 and 18; so does `6.18-rc1`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Number of possible CPUs.
pub(super) fn possible_cpus() -> u32 {
    parse_cpus(&fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default()).unwrap_or(1)
}

/// Whether programs are compiled; without the JIT compiler, the kernel interprets them. The file is
/// absent where the compiler is always on, and readable by root only.
pub(super) fn has_jit() -> bool {
    !fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").is_ok_and(|setting| setting.trim() == "0")
}

/// `0-3,8` gives five.
fn parse_cpus(text: &str) -> Option<u32> {
    let count = |range: &str| -> Option<u32> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
    };
    text.trim().split(',').map(count).try_fold(0_u32, |sum, n| sum.checked_add(n?))
}

/// Size of a memory page in bytes, from the auxiliary vector of the process.
pub(super) fn page_size_bytes() -> u32 {
    const AT_PAGESZ: u64 = 6;
    let vector = fs::read("/proc/self/auxv").unwrap_or_default();
    let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    let entry = vector.chunks_exact(16).find(|entry| number(entry) == AT_PAGESZ);
    entry.map_or(4096, |entry| number(&entry[8..]) as u32)
}

/// Offset in `task_struct` of the word whose bit 2 means "in a 32-bit system call"; `None` if the
/// kernel runs no 32-bit programs or the architecture is not x86-64.
pub(super) fn compat_status_offset(btf: Option<&Btf>) -> Option<u32> {
    let btf = btf.filter(|_| cfg!(target_arch = "x86_64"))?;
    // The sysctl exists if 32-bit programs can run; without it (or without /proc/sys) their entry
    // function is the evidence.
    let runs_32_bit =
        Path::new("/proc/sys/abi/vsyscall32").exists() || btf.find(Kind::Function, "do_fast_syscall_32").is_some();
    if !runs_32_bit {
        return None;
    }
    let offset = |structure: &str, member: &str| -> Option<u32> {
        Some(btf.find_member(btf.find(Kind::Struct, structure)?, member)?.byte_offset())
    };
    Some(offset("task_struct", "thread_info")? + offset("thread_info", "status")?)
}

/// Offset in `perf_event` of its timer's expiry time; `None` if BTF does not have it.
pub(super) fn timer_expiry_offset(btf: Option<&Btf>) -> Option<u32> {
    let (btf, mut offset) = (btf?, 0);
    let mut within = btf.find(Kind::Struct, "perf_event")?;
    for name in ["hw", "hrtimer", "node", "expires"] {
        let member = btf.find_member(within, name)?;
        offset += member.byte_offset();
        within = member.ty;
    }
    Some(offset)
}

/// Device and inode of our pid namespace in the kernel's encoding; `None` in the initial namespace.
pub(super) fn pid_namespace() -> Option<(u64, u64)> {
    /// `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`.
    const INITIAL: u64 = 0xEFFF_FFFC;
    let meta = fs::metadata("/proc/self/ns/pid").ok()?;
    // The kernel's device numbers have 20 bits for the minor number.
    let device = u64::from(libc::major(meta.dev())) << 20 | u64::from(libc::minor(meta.dev()));
    (meta.ino() != INITIAL).then_some((device, meta.ino()))
}

/// The address of a kernel symbol; `None` if it does not exist or addresses are hidden.
pub(super) fn symbol(name: &str) -> Option<u64> {
    let mut lines = BufReader::with_capacity(1 << 16, File::open("/proc/kallsyms").ok()?);
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        if let Some(address) = symbol_in_line(&line, name.as_bytes()) {
            return (address != 0).then_some(address);
        }
    }
}

/// `ffffffff81000000 T _stext`, or with a module: `ffffffffc0000000 t init\t[ext4]`.
fn symbol_in_line(line: &[u8], name: &[u8]) -> Option<u64> {
    let (address, rest) = line.split_at_checked(16)?;
    let end = rest.get(3..)?.strip_prefix(name)?;
    matches!(end.first(), None | Some(b'\n' | b'\t')).then_some(())?;
    u64::from_str_radix(std::str::from_utf8(address).ok()?, 16).ok()
}

/// The id of a cgroup v2 control group, given as an absolute path, relative to the mount as in
/// `/proc/PID/cgroup`, or as the id of a container, of which 12 characters are enough.
pub(super) fn cgroup_id(path: &str) -> Result<u64, TargetError> {
    let mount = cgroup2_mount(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()).ok_or_else(|| {
        TargetError::Refused("no cgroup v2 hierarchy is mounted: mount -t cgroup2 none /sys/fs/cgroup".to_owned())
    })?;
    let given = Path::new(path);
    let within = if given.starts_with(&mount) { given.to_owned() } else { mount.join(path.trim_start_matches('/')) };
    match fs::metadata(&within) {
        // Since 5.5: the id is the inode number of the directory.
        Ok(meta) => Ok(meta.ino()),
        Err(_) if given.is_absolute() && given.exists() => {
            let (given, mount) = (given.display(), mount.display());
            Err(TargetError::Invalid(format!("{given} is not in the cgroup v2 hierarchy at {mount}")))
        }
        Err(_) if is_container_id(path) => container(&mount, path),
        Err(error) => Err(io_error(&within, &error)),
    }
}

/// Docker, containerd, CRI-O and Podman name containers by 64 hexadecimal digits, and print 12.
fn is_container_id(text: &str) -> bool {
    (12..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// The control group whose name has the id in it: `docker-ID.scope`, `cri-containerd-ID.scope`,
/// `ID`. What is below such a group belongs to the same container.
fn container(mount: &Path, id: &str) -> Result<u64, TargetError> {
    let (mut open, mut found) = (vec![mount.to_owned()], Vec::new());
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let has_id = entry.file_name().to_string_lossy().split(['-', '.', ':']).any(|part| part.starts_with(id));
            (if has_id { &mut found } else { &mut open }).push(entry.path());
        }
    }
    match found.as_slice() {
        [] => Err(TargetError::Invalid("no control group here bears this container's id".to_owned())),
        [group] => fs::metadata(group).map(|meta| meta.ino()).map_err(|error| io_error(group, &error)),
        several => Err(TargetError::Invalid(format!("{} containers have ids that begin so", several.len()))),
    }
}

/// Mount point of the cgroup v2 hierarchy.
fn cgroup2_mount(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?;
        filesystem.starts_with("cgroup2 ").then(|| PathBuf::from(point))
    })
}

#[cfg(test)]
mod tests {
    use super::{cgroup_id, cgroup2_mount, parse_cpus, parse_version, symbol, symbol_in_line};
    use profiler_compiler::target::TargetError;
    use std::path::PathBuf;

    #[test]
    fn reads_versions_and_ranges() {
        assert_eq!(parse_version("6.18.44-fc\n"), Some((6, 18)));
        assert_eq!(parse_version("7.0-rc1"), Some((7, 0)));
        assert_eq!(parse_version(""), None);
        assert_eq!(parse_cpus("0-3,8\n"), Some(5));
        assert_eq!(parse_cpus("0"), Some(1));
        assert_eq!(parse_cpus("3-1"), None);
    }

    #[test]
    fn reads_symbols() {
        assert_eq!(symbol_in_line(b"ffffffff81000000 T _stext\n", b"_stext"), Some(0xffff_ffff_8100_0000));
        assert_eq!(symbol_in_line(b"ffffffffc0000000 t init\t[ext4]\n", b"init"), Some(0xffff_ffff_c000_0000));
        assert_eq!(symbol_in_line(b"ffffffff81000000 T _stext_end\n", b"_stext"), None);
        assert_eq!(symbol_in_line(b"short", b""), None);
        assert_eq!(symbol("no such symbol"), None);
        match symbol("_stext") {
            Some(address) => assert!(address > 1 << 63),
            None => println!("SKIPPED: kernel addresses are hidden"),
        }
    }

    #[test]
    fn finds_the_cgroup_hierarchy() {
        let mounts =
            "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n";
        assert_eq!(cgroup2_mount(mounts), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        match cgroup_id("/") {
            Ok(id) => assert!(id > 0),
            Err(error) => println!("SKIPPED: {error:?}"),
        }
        assert!(!matches!(cgroup_id("/no/such/group"), Ok(_) | Err(TargetError::Invalid(_))));
        assert!(!matches!(cgroup_id("/proc/self"), Ok(_) | Err(TargetError::Missing { .. })));
    }
}
