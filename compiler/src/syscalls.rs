//! System-call numbers, by the names of their tracepoints.
//!
//! In: a name as in `sys_enter_NAME`, or a number. Out: the other, and the arguments. Guarantee:
//! constant tables; the running kernel is not consulted.
//! The names are those of the kernel's functions. A few differ from those of the C library:
//! `newfstat` is `fstat`, `sendfile64` is `sendfile`, `newuname` is `uname`, `umount` is `umount2`.

mod aarch64;
mod x86_64;

use crate::target::{Arch, TracepointField, TracepointFormat};

/// The arguments of the system calls, as named by their tracepoints: `NAME: TYPE ARGUMENT, …`,
/// sorted.
const ARGUMENTS: &str = include_str!("syscalls/arguments.txt");

/// Offset of the first argument in the record of `sys_enter_NAME`, and the distance between
/// arguments.
const ARGUMENTS_OFFSET_BYTES: u32 = 16;
const ARGUMENT_BYTES: u32 = 8;

/// The system calls with tracepoints, sorted.
pub fn traced() -> impl Iterator<Item = &'static str> {
    ARGUMENTS.lines().filter_map(|line| Some(line.split_once(':')?.0))
}

/// The record of `sys_enter_NAME` or `sys_exit_NAME` from the constant tables; its id is 0.
pub fn record(event: &str) -> Option<TracepointFormat> {
    let call = event.strip_prefix("sys_enter_");
    let name = call.or_else(|| event.strip_prefix("sys_exit_"))?;
    let (_, arguments) = ARGUMENTS.lines().filter_map(|line| line.split_once(':')).find(|(known, _)| *known == name)?;
    let field = |c_type: &str, name: &str, offset_bytes, size_bytes, signed| TracepointField {
        name: name.to_owned(),
        c_type: c_type.to_owned(),
        array_len: None,
        offset_bytes,
        size_bytes,
        signed,
        data_loc: false,
    };
    let mut fields = vec![field("int", "__syscall_nr", 8, 4, true)];
    if call.is_none() {
        fields.push(field("long", "ret", ARGUMENTS_OFFSET_BYTES, ARGUMENT_BYTES, true));
    } else {
        let declared = arguments.split(',').filter_map(|argument| argument.trim().rsplit_once(' '));
        for (index, (c_type, name)) in (0..).zip(declared) {
            let offset_bytes = ARGUMENTS_OFFSET_BYTES + index * ARGUMENT_BYTES;
            fields.push(field(c_type, name, offset_bytes, ARGUMENT_BYTES, false));
        }
    }
    Some(TracepointFormat { id: 0, fields })
}

/// The number of a system call; `None` if the architecture does not have it.
pub fn number(arch: Arch, name: &str) -> Option<u32> {
    let table = table(arch);
    let index = table.binary_search_by(|(candidate, _)| (*candidate).cmp(name)).ok()?;
    Some(table[index].1)
}

/// The name of a system call; `None` if the number is unassigned.
pub fn name(arch: Arch, number: u32) -> Option<&'static str> {
    table(arch).iter().find(|(_, candidate)| *candidate == number).map(|(name, _)| *name)
}

/// The name of a system call in the manual pages, given the name of its tracepoint.
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

/// The number of a system call, given its name in the manual pages.
pub fn manual_number(arch: Arch, name: &str) -> Option<u32> {
    table(arch).iter().find(|(candidate, _)| manual_name(candidate) == name).map(|(_, number)| *number)
}

/// The system-call names of an architecture, indexed by number; empty for unassigned numbers.
pub fn names(arch: Arch) -> Vec<&'static str> {
    let calls = table(arch);
    let most = calls.iter().map(|(_, number)| *number as usize).max().unwrap_or(0);
    let mut names = vec![""; most + 1];
    for (name, number) in calls {
        names[*number as usize] = manual_name(name);
    }
    names
}

/// All system calls of an architecture, sorted by name.
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
