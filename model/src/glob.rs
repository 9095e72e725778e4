//! Matching names against patterns with `*`.
//!
//! In: a pattern, a name. Out: whether it matches. Guarantee: only `*` is special and matches any
//! number of characters, including none; the time is at most the product of the lengths.

/// Whether a pattern has a wildcard.
pub fn is_pattern(text: &str) -> bool {
    text.contains('*')
}

/// Whether a name matches a pattern.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Backtracking point: if the characters after the last `*` do not match, that `*` takes one
    // more.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                retry = Some((p, n));
            }
            Some(byte) if *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((behind, taken)) = retry else { return false };
                retry = Some((behind, taken + 1));
                (p, n) = (behind, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::{is_pattern, matches};

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, expected) in [
            ("vfs_read", "vfs_read", true),
            ("vfs_read", "vfs_readv", false),
            ("vfs_*", "vfs_", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*read", "vfs_read", true),
            ("*read*", "vfs_readv", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("**a**", "a", true),
            ("sys_*_open*at", "sys_enter_openat", true),
            ("a?c", "abc", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern:?} on {name:?}");
        }
        assert!(is_pattern("a*") && !is_pattern("a?[b]"));
    }
}
