//! `printf` formats.
//!
//! In: a format string and the types of its arguments. Out: a [`Format`] that renders values.
//! Guarantee: rendering cannot fail; a conversion that does not suit its value prints the value plainly.

/// A parsed format string.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Format {
    /// Literal text and conversions in order.
    pub pieces: Vec<Piece>,
}

/// A part of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text to copy.
    Text(Vec<u8>),
    /// The next argument.
    Conversion(Conversion),
}

/// `%-08.3lx` and kin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// `-`: pad on the right.
    pub left: bool,
    /// `0`: pad with zeros.
    pub zero: bool,
    /// `+`: a sign before positive numbers.
    pub plus: bool,
    /// ` `: a blank before positive numbers.
    pub space: bool,
    /// `#`: `0x` or `0` before the digits.
    pub alternate: bool,
    /// Least width.
    pub width: Option<u32>,
    /// Digits, or most characters of a string.
    pub precision: Option<u32>,
    /// The letter: `d i u x X o c s p`, `r` (buffer); `R` stands for `rx`, `H` for `rh`.
    pub letter: char,
    /// Bytes of the length modifier (`hh` 1, `h` 2, none or `l` 8): the value is cut to it before printing.
    pub size_bytes: u8,
}
