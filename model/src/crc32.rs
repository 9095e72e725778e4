//! The checksum CRC-32 of `.gnu_debuglink` and gzip.
//!
//! In: bytes, in pieces. Out: the checksum of all of them.
//! Guarantee: it does not depend on how the bytes are divided.

/// The polynomial, bits reflected.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// The checksum of the bytes so far.
#[derive(Debug)]
pub struct Crc32 {
    /// The remainders of all bytes.
    table: [u32; 256],
    inverted: u32,
}

impl Default for Crc32 {
    fn default() -> Crc32 {
        let bit = |sum: u32| if sum & 1 == 0 { sum >> 1 } else { sum >> 1 ^ POLYNOMIAL };
        let table = std::array::from_fn(|byte| (0..8).fold(byte as u32, |sum, _| bit(sum)));
        Crc32 { table, inverted: u32::MAX }
    }
}

impl Crc32 {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        let step = |sum: u32, byte: &u8| self.table[usize::from(sum as u8 ^ byte)] ^ sum >> 8;
        self.inverted = bytes.iter().fold(self.inverted, step);
    }

    /// The checksum.
    pub fn sum(&self) -> u32 {
        !self.inverted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        let mut whole = Crc32::default();
        whole.add(b"123456789");
        let mut parts = Crc32::default();
        for part in [b"1234".as_slice(), b"", b"56789"] {
            parts.add(part);
        }
        assert_eq!((whole.sum(), parts.sum()), (0xcbf4_3926, 0xcbf4_3926));
    }
}
