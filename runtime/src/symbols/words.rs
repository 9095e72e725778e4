//! Numbers in records of the kernel and of processes, in the byte order of the machine.
//!
//! In: bytes. Out: numbers. Guarantee: `None` where the bytes end.

/// The 32-bit number at an offset.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The 64-bit number at an offset.
pub(super) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::{long, word};

    #[test]
    fn numbers_end_within_the_bytes() {
        let bytes: Vec<u8> = [1_u32, 2, 3].into_iter().flat_map(u32::to_ne_bytes).collect();
        assert_eq!((word(&bytes, 8), word(&bytes, 9), word(&bytes, 13)), (Some(3), None, None));
        assert!(long(&bytes, 4).is_some_and(|number| number.to_ne_bytes() == bytes[4..]));
        assert_eq!((long(&bytes, 5), long(&bytes, usize::MAX)), (None, None));
    }
}
