//! A checksum for damage: not for forgery.
//!
//! In: bytes. Out: 64 bits.
//! Guarantee: the same on every machine; a change within one aligned word of eight bytes always
//! changes it.

use std::fmt::Debug;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The checksum of these parts one after the other.
pub(super) fn checksum(parts: &[&[u8]]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    parts.iter().fold(FACTOR, |sum, part| {
        let (words, rest) = part.as_chunks::<8>();
        let sum = words.iter().fold(sum, |sum, word| mix(sum, u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        mix(mix(sum, u64::from_le_bytes(last)), part.len() as u64)
    })
}

/// The checksum of what a value looks like.
pub(super) fn of_debug(value: &dyn Debug) -> u64 {
    checksum(&[format!("{value:?}").as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn every_flipped_bit_changes_it() {
        let bytes: Vec<u8> = (0..100).collect();
        let whole = checksum(&[&bytes]);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(&[&damaged]), whole, "{bit}");
        }
        assert_ne!(checksum(&[&bytes[..50], &bytes[50..]]), whole);
        assert_ne!(checksum(&[&bytes, &[]]), whole);
    }
}
