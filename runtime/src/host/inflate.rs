//! Decompression of sections in zlib's format.
//!
//! In: bytes, and their size when decompressed. Out: the decompressed bytes.
//! Guarantee: arbitrary bytes give an answer; no more memory is used than the given size.

use std::iter;

use miniz_oxide::inflate::decompress_slice_iter_to_slice;

/// Decompresses bytes; `None` if they are damaged or have another size. The checksum is left out,
/// because whoever writes such bytes can also write their checksum.
pub(crate) fn inflate(from: &[u8], size_bytes: usize) -> Option<Vec<u8>> {
    let mut into = vec![0; size_bytes];
    let length = decompress_slice_iter_to_slice(&mut into, iter::once(from), true, true).ok()?;
    (length == size_bytes).then_some(into)
}

#[cfg(test)]
mod tests {
    use super::inflate;

    /// `zlib.compress(b"a" * 40)`.
    const COMPRESSED: [u8; 12] = [0x78, 0x9c, 0x4b, 0x4c, 0x24, 0x0e, 0x00, 0x00, 0x36, 0xeb, 0x0f, 0x29];

    #[test]
    fn only_intact_bytes_of_the_given_size_are_decompressed() {
        assert_eq!(inflate(&COMPRESSED, 40), Some(vec![b'a'; 40]));
        assert!([0, 39, 41].iter().all(|size| inflate(&COMPRESSED, *size).is_none()));
        assert!((0..COMPRESSED.len() - 4).all(|length| inflate(&COMPRESSED[..length], 40).is_none()));
        assert_eq!(inflate(b"not compressed", 14), None);
    }
}
