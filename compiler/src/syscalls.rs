//! The numbers of system calls, by the names that their tracepoints have.
//!
//! In: a name as in `sys_enter_NAME`, or a number. Out: the other. Guarantee: constant tables, no look at the machine.
//! The names are those of the kernel's functions, which differ from those of the C library for a few (`newfstat` is
//! `fstat`, `sendfile64` is `sendfile`, `newuname` is `uname`, `umount` is `umount2`).

mod aarch64;
mod x86_64;

use crate::target::Arch;

/// The number of a system call; `None` when the processor has none of that name.
pub fn number(arch: Arch, name: &str) -> Option<u32> {
    let table = table(arch);
    let index = table.binary_search_by(|(candidate, _)| (*candidate).cmp(name)).ok()?;
    Some(table[index].1)
}

/// The name of a system call; `None` when the number is not assigned.
pub fn name(arch: Arch, number: u32) -> Option<&'static str> {
    table(arch).iter().find(|(_, candidate)| *candidate == number).map(|(name, _)| *name)
}

/// What the manual calls a system call, by the name of its tracepoint.
pub fn manual_name(name: &'static str) -> &'static str {
    match name {
        "newfstat" => "fstat",
        "newlstat" => "lstat",
        "newstat" => "stat",
        "newuname" => "uname",
        "sendfile64" => "sendfile",
        "umount" => "umount2",
        "arm64_personality" => "personality",
        "fadvise64_64" => "fadvise64",
        other => other,
    }
}

/// The number of the system call that the manual calls so.
pub fn manual_number(arch: Arch, name: &str) -> Option<u32> {
    table(arch).iter().find(|(candidate, _)| manual_name(candidate) == name).map(|(_, number)| *number)
}

/// All system calls of a processor, sorted by name.
pub fn table(arch: Arch) -> &'static [(&'static str, u32)] {
    match arch {
        Arch::X86_64 => &x86_64::TABLE,
        Arch::Aarch64 => &aarch64::TABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::{name, number, table};
    use crate::target::Arch;

    const EVENTS: &str = "/sys/kernel/tracing/events/syscalls";

    #[test]
    fn tables_are_sorted_and_unambiguous() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let table = table(arch);
            assert!(table.windows(2).all(|pair| pair[0].0 < pair[1].0), "{arch:?} is sorted");
            for (call, at) in table {
                assert_eq!((number(arch, call), name(arch, *at)), (Some(*at), Some(*call)), "{arch:?}");
            }
        }
    }

    #[test]
    fn knows_calls_by_the_names_of_their_tracepoints() {
        let both = |call| (number(Arch::X86_64, call), number(Arch::Aarch64, call));
        assert_eq!(both("openat"), (Some(257), Some(56)));
        assert_eq!(both("newfstat"), (Some(5), Some(80)));
        assert_eq!(both("sendfile64"), (Some(40), Some(71)));
        assert_eq!(both("open"), (Some(2), None));
        assert_eq!(both("clone3"), (Some(435), Some(435)));
        assert_eq!(both("fstat"), (None, None));
        assert_eq!(name(Arch::X86_64, 100_000), None);
    }

    #[test]
    fn every_tracepoint_of_this_machine_is_known() {
        let arch = if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 };
        let Ok(entries) = std::fs::read_dir(EVENTS) else {
            println!("SKIPPED: {EVENTS} is not readable");
            return;
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let calls: Vec<String> = names.filter_map(|name| Some(name.strip_prefix("sys_enter_")?.to_owned())).collect();
        let unknown: Vec<&String> = calls.iter().filter(|call| number(arch, call).is_none()).collect();
        println!("{} system calls have tracepoints here", calls.len());
        assert!(unknown.is_empty(), "a newer kernel has {unknown:?}");
    }
}
