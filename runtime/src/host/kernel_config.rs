//! The configuration of the running kernel, and its version as C headers have it.
//!
//! In: `/proc/config.gz`, `/boot/config-RELEASE` or `/lib/modules/RELEASE/config`; the release.
//! Out: the text, the number.
//! Guarantee: no more than [`LIMIT_BYTES`] are kept, whatever the files contain.

use std::fs;
use std::io::{self, Read as _};
use std::iter;

use miniz_oxide::inflate::decompress_slice_iter_to_slice;

/// Limit of the text in bytes; those of distributions have 300 KiB.
const LIMIT_BYTES: usize = 4 << 20;

/// Bytes of a gzip header without optional fields, which the kernel does not write.
const GZIP_HEAD_BYTES: usize = 10;

/// Bytes after the compressed data: the checksum and the size.
const GZIP_TAIL_BYTES: usize = 8;

/// The configuration; `None` if the kernel and the system do not say.
pub fn kernel_config() -> Option<String> {
    if let Some(text) = read("/proc/config.gz").ok().and_then(|bytes| unzip(&bytes)) {
        return Some(text);
    }
    let release = release()?;
    let release = release.trim();
    let paths = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    paths.iter().find_map(|path| String::from_utf8(read(path).ok()?).ok())
}

/// `LINUX_VERSION_CODE` of the running kernel's headers.
pub fn kernel_version_code() -> Option<u32> {
    version_code(&release()?)
}

/// `6.18.44-cloud` gives 0x06122c (`include/generated/uapi/linux/version.h`: the third number is at
/// most 255).
fn version_code(release: &str) -> Option<u32> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    let (major, minor) = (numbers.next()?, numbers.next()?);
    Some((major << 16) + (minor << 8) + numbers.next().unwrap_or(0).min(255))
}

fn release() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/osrelease").ok()
}

/// The value of an option in a configuration's text: `y`, `m`, a number or a string in quotes.
pub fn option<'a>(config: &'a str, name: &str) -> Option<&'a str> {
    config.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::trim_end)
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(LIMIT_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Unpacks a gzip file; `None` if it is damaged or too large.
fn unzip(bytes: &[u8]) -> Option<String> {
    let plain = bytes.starts_with(&[0x1f, 0x8b, 8, 0]);
    let end = bytes.len().checked_sub(GZIP_TAIL_BYTES).filter(|end| plain && *end >= GZIP_HEAD_BYTES)?;
    let size = u32::from_le_bytes(bytes.get(bytes.len() - 4..)?.try_into().ok()?) as usize;
    if size > LIMIT_BYTES {
        return None;
    }
    let mut text = vec![0; size];
    let packed = bytes.get(GZIP_HEAD_BYTES..end)?;
    let length = decompress_slice_iter_to_slice(&mut text, iter::once(packed), false, true).ok()?;
    (length == size).then(|| String::from_utf8(text).ok())?
}

#[cfg(test)]
mod tests {
    use super::{option, unzip, version_code};

    #[test]
    fn the_version_is_one_number() {
        assert_eq!(version_code("6.18.44-cloud"), Some(0x0006_122c));
        assert_eq!(version_code("4.14.300\n"), Some(0x0004_0eff));
        assert_eq!(version_code("6.18-rc1"), Some(0x0006_1200));
        assert_eq!(version_code(""), None);
    }

    /// `gzip -n` of `CONFIG_A=y\n`.
    const PACKED: [u8; 31] = [
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x73, 0xf6, 0xf7, 0x73, 0xf3, 0x74, 0x8f, 0x77, 0xb4, 0xad, 0xe4, 2, 0,
        0x8e, 0xb1, 0x80, 0xda, 11, 0, 0, 0,
    ];

    #[test]
    fn a_packed_configuration_is_read_and_a_damaged_one_refused() {
        assert_eq!(unzip(&PACKED).as_deref(), Some("CONFIG_A=y\n"));
        assert!((0..PACKED.len()).all(|length| unzip(&PACKED[..length]).is_none()));
        assert_eq!(unzip(b"CONFIG_A=y\n"), None);
    }

    #[test]
    fn options_have_their_whole_name() {
        let config = "CONFIG_HZ_250=y\n# CONFIG_SMP is not set\nCONFIG_HZ=250\n";
        assert_eq!((option(config, "CONFIG_HZ"), option(config, "CONFIG_SMP")), (Some("250"), None));
    }
}
