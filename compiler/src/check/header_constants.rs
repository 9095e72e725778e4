//! Constants from headers of user space and the kernel that BTF lacks.
//!
//! In: a name that scripts elsewhere get from a header. Out: its value on 64-bit x86 Linux.
//! Guarantee: constants that headers define in an enum are separate, because the kernel's own value
//! takes precedence.

/// The constants of the UAPI and of the C library: `NAME value`, then `enum` if it is a value of
/// one. `scripts/constants` writes the file from the headers.
const TABLE: &str = include_str!("constants.txt");

/// Constants of the kernel's own headers. `O_LARGEFILE` is 0 for 64-bit programs, but not for the
/// kernel.
const OF_THE_KERNEL: [(&str, i64); 8] = [
    ("NULL", 0),
    ("O_LARGEFILE", 32_768),
    ("PAGE_SIZE", 4096),
    ("PF_KTHREAD", 2_097_152),
    ("TASK_COMM_LEN", 16),
    ("TASK_INTERRUPTIBLE", 1),
    ("TASK_RUNNING", 0),
    ("TASK_UNINTERRUPTIBLE", 2),
];

/// The value of a `#define` from a header.
pub(super) fn header_constant(name: &str) -> Option<i64> {
    let own = OF_THE_KERNEL.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    own.or_else(|| of_table(name).filter(|(_, is_enum)| !is_enum).map(|(value, _)| value))
}

/// The value of an enum constant, for kernels whose BTF does not provide it.
pub(super) fn enum_constant(name: &str) -> Option<i64> {
    of_table(name).filter(|(_, is_enum)| *is_enum).map(|(value, _)| value)
}

/// A constant of either kind.
pub fn user_constant(name: &str) -> Option<i64> {
    header_constant(name).or_else(|| enum_constant(name))
}

/// A constant of the table, and whether it is a value of an enum.
fn of_table(name: &str) -> Option<(i64, bool)> {
    // A name of lower-case letters is that of a word, a macro or a type.
    if !name.starts_with(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    let line = TABLE.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')))?;
    let mut words = line.split(' ').skip(1);
    let value = words.next()?.parse().ok()?;
    Some((value, words.next() == Some("enum")))
}

#[cfg(test)]
mod tests {
    use super::{TABLE, enum_constant, header_constant, user_constant};

    #[test]
    fn every_constant_is_found() {
        let lines: Vec<&str> = TABLE.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.len() > 1500 && lines.is_sorted(), "{} lines", lines.len());
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            assert!(words.len() == 2 || words[2..] == ["enum"], "{line}");
            // One of the kernel's own replaces that of the C library.
            assert!(words[0] == "O_LARGEFILE" || user_constant(words[0]) == words[1].parse().ok(), "{line}");
        }
    }

    #[test]
    fn constants_have_the_kernels_values() {
        let known = [
            ("AF_INET6", 10),
            ("AT_FDCWD", -100),
            ("CLONE_NEWNS", 0x2_0000),
            ("DT_DIR", 4),
            ("ENOENT", 2),
            ("ICMP_ECHO", 8),
            ("IPPROTO_TCP", 6),
            ("O_LARGEFILE", 0o10_0000),
            ("SIGKILL", 9),
            ("S_IFDIR", 0o4_0000),
            ("UINT_MAX", 0xffff_ffff),
        ];
        for (name, value) in known {
            assert_eq!(user_constant(name), Some(value), "{name}");
        }
        assert_eq!((header_constant("IPPROTO_TCP"), enum_constant("IPPROTO_TCP")), (None, Some(6)));
        assert_eq!((user_constant("AF_"), user_constant("#"), user_constant("pid")), (None, None, None));
    }
}
