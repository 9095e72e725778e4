//! Gzip files (RFC 1952).
//!
//! In: bytes. Out: a gzip file of one member.
//! Guarantee: the same bytes give the same file: it has neither a name nor a time.

/// Magic, deflate, no flags, no time, no extra flags, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// Of 0 to 10.
const LEVEL: u8 = 6;
/// The polynomial of CRC-32, reflected.
const POLYNOMIAL: u32 = 0xedb8_8320;

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = HEADER.to_vec();
    file.extend(miniz_oxide::deflate::compress_to_vec(bytes, LEVEL));
    file.extend(crc32(bytes).to_le_bytes());
    // The format wants the length modulo 2^32.
    file.extend(((bytes.len() as u64 & 0xffff_ffff) as u32).to_le_bytes());
    file
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
    let mut table = [0; 256];
    for (byte, entry) in (0..).zip(&mut table) {
        *entry = (0..8).fold(byte, |crc, _| step(crc));
    }
    !bytes.iter().fold(!0, |crc, byte| (crc >> 8) ^ table[usize::from((crc as u8) ^ byte)])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
