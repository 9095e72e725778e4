//! Gzip files (RFC 1952).
//!
//! In: bytes. Out: a gzip file of one member.
//! Guarantee: the same bytes give the same file: it has neither a name nor a time.

use profiler_model::crc32::Crc32;

/// Magic, deflate, no flags, no time, no extra flags, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// Of 0 to 10.
const LEVEL: u8 = 6;

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = HEADER.to_vec();
    file.extend(miniz_oxide::deflate::compress_to_vec(bytes, LEVEL));
    let mut checksum = Crc32::default();
    checksum.add(bytes);
    file.extend(checksum.sum().to_le_bytes());
    // The format wants the length modulo 2^32.
    file.extend(((bytes.len() as u64 & 0xffff_ffff) as u32).to_le_bytes());
    file
}
