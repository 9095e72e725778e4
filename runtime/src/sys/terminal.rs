//! The terminal's size.
//!
//! In: standard output, or standard error. Out: columns and lines.
//! Guarantee: never 0; `None` if it is not a terminal or its size is unknown.

/// Columns and lines of the terminal on standard output.
pub fn size() -> Option<(usize, usize)> {
    size_of(libc::STDOUT_FILENO)
}

/// Columns of the terminal on standard error.
pub fn width_of_standard_error() -> Option<usize> {
    size_of(libc::STDERR_FILENO).map(|(columns, _)| columns)
}

fn size_of(descriptor: i32) -> Option<(usize, usize)> {
    // SAFETY: all zero is a valid `winsize`.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes a `winsize`, which outlives the call.
    let ret = unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &raw mut size) };
    (ret == 0 && size.ws_col > 0 && size.ws_row > 0).then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}
