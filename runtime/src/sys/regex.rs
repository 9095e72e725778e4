//! POSIX extended regular expressions, from libc.
//!
//! In: a pattern. Out: whether texts contain a match.
//! Guarantee: an invalid pattern returns libc's error message.

use std::ffi::CString;
use std::fmt;
use std::mem::MaybeUninit;

/// A compiled pattern.
pub struct Regex(Box<libc::regex_t>);

/// Buffer size for libc's longest message.
const MESSAGE_BYTES: usize = 128;

impl Regex {
    /// Compiles a pattern; `\d` matches a digit, as in most dialects.
    pub fn new(pattern: &str) -> Result<Regex, String> {
        let pattern = CString::new(pattern.replace("\\d", "[0-9]")).map_err(|_| "it holds a NUL".to_owned())?;
        let mut compiled = Box::new(MaybeUninit::<libc::regex_t>::uninit());
        let flags = libc::REG_EXTENDED | libc::REG_NOSUB;
        // SAFETY: the pattern is NUL-terminated, and there is space for the compiled pattern.
        let code = unsafe { libc::regcomp(compiled.as_mut_ptr(), pattern.as_ptr(), flags) };
        if code == 0 {
            // SAFETY: `regcomp` has filled it.
            return Ok(Regex(unsafe { compiled.assume_init() }));
        }
        let mut message = [0u8; MESSAGE_BYTES];
        // SAFETY: the size is the buffer's; the pattern may be null, and libc's messages depend
        // only on the code.
        unsafe { libc::regerror(code, std::ptr::null(), message.as_mut_ptr().cast(), message.len()) };
        let end = message.iter().position(|byte| *byte == 0).unwrap_or(message.len());
        Err(String::from_utf8_lossy(&message[..end]).into_owned())
    }

    /// Whether any part of the text matches.
    pub fn matches(&self, text: &str) -> bool {
        let Ok(text) = CString::new(text) else { return false };
        // SAFETY: the pattern was compiled without subexpressions to report, so none are written.
        unsafe { libc::regexec(&raw const *self.0, text.as_ptr(), 0, std::ptr::null_mut(), 0) == 0 }
    }
}

impl Drop for Regex {
    fn drop(&mut self) {
        // SAFETY: compiled by `new`, freed once.
        unsafe { libc::regfree(&raw mut *self.0) };
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Regex").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Regex;

    #[test]
    fn patterns_match_anywhere_unless_tied() {
        let matches = |pattern: &str, text: &str| Regex::new(pattern).expect("a pattern").matches(text);
        assert!(matches("interval:ms:(200|300)", "interval:ms:300"));
        assert!(!matches("interval:ms:(200|300)", "interval:ms:100"));
        assert!(matches("map_", "test:map_reads") && !matches("^map_", "test:map_reads"));
        assert!(matches(r"s:\d+$", "interval:s:12") && !matches("x", "a\0x"));
    }

    #[test]
    fn what_is_no_pattern_is_explained() {
        let refusal = Regex::new("[invalid").expect_err("no pattern");
        assert!(refusal.contains('['), "{refusal}");
        assert!(Regex::new("a\0b").is_err());
    }
}
