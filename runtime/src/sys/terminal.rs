//! The terminal's size.
//!
//! In: standard output. Out: columns and lines.
//! Guarantee: never 0; `None` when standard output is no terminal or does not know.

/// Columns and lines of the terminal that standard output is.
pub fn size() -> Option<(usize, usize)> {
    // SAFETY: all zero is a valid `winsize`.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes a `winsize`, which outlives the call.
    let ret = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (ret == 0 && size.ws_col > 0 && size.ws_row > 0).then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}
