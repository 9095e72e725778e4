//! Decompression by zlib, which libbpf-sys links for libelf.
//!
//! In: bytes in zlib's format, their size when decompressed. Out: the decompressed bytes.
//! Guarantee: arbitrary bytes give an answer; no more memory is used than the given size.

use libbpf_sys as _;
use libc::{c_int, c_uchar, c_ulong};

unsafe extern "C" {
    fn uncompress(into: *mut c_uchar, into_bytes: *mut c_ulong, from: *const c_uchar, from_bytes: c_ulong) -> c_int;
}

/// Decompresses bytes; `None` if they are damaged or have another size.
pub fn inflate(from: &[u8], size_bytes: usize) -> Option<Vec<u8>> {
    let mut into = vec![0; size_bytes];
    let mut written = size_bytes as c_ulong;
    // SAFETY: zlib reads `from.len()` bytes of a slice that lives during the call, and writes at
    // most `written` bytes, which is the length of `into`.
    let result = unsafe { uncompress(into.as_mut_ptr(), &raw mut written, from.as_ptr(), from.len() as c_ulong) };
    (result == 0 && written == size_bytes as c_ulong).then_some(into)
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
        assert!((0..COMPRESSED.len()).all(|length| inflate(&COMPRESSED[..length], 40).is_none()));
        assert_eq!(inflate(b"not compressed", 14), None);
    }
}
