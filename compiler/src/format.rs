//! `printf` formats.
//!
//! In: a format string and the types of its arguments. Out: a [`Format`] that renders values.
//! Guarantee: rendering cannot fail; a conversion that does not suit its value prints the value plainly.
//!
//! Numbers follow C: without a length modifier a number is cut to 32 bits, as `int`. Beyond C there are the buffer
//! conversions `%r`, `%rx` and `%rh`; and `%s` takes every value. `*` is read and means no width, as in bpftrace.
//! A `%` that begins no conversion is text.

mod number;
mod parse;
mod render;

use crate::types::Type;

pub use parse::parse;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are printf's flags")]
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
    /// The letter: `d i u x X o c s p`, `r` (buffer), `t` (a duration in ns); `R` stands for `rx`, `H` for `rh`.
    pub letter: char,
    /// Bytes of the length modifier (`hh` 1, `h` 2, none 4, `l`, `ll`, `j`, `z` and `t` 8): integers are cut to it before
    /// printing. Pointers (`%p`) are never cut.
    pub size_bytes: u8,
}

/// Why a format string is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatError {
    /// Where in the text the conversion starts, in bytes.
    pub offset: usize,
    /// What is wrong.
    pub message: String,
}

impl Format {
    /// The conversions, one for each argument, in order.
    pub fn conversions(&self) -> impl Iterator<Item = &Conversion> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Conversion(conversion) => Some(conversion),
            Piece::Text(_) => None,
        })
    }
}

/// Whether a conversion prints values of a type.
pub fn accepts(conversion: &Conversion, ty: &Type) -> bool {
    match (conversion.letter, ty) {
        (_, Type::None) => false,
        (_, Type::Unknown) | ('s', _) | ('r' | 'R' | 'H', Type::Buf { .. }) => true,
        ('r' | 'R' | 'H', _) => false,
        (letter, Type::Statistic { .. }) => letter != 'c' && letter != 'p',
        ('t', ty) => matches!(ty, Type::Int(_)),
        (_, ty) => ty.is_scalar(),
    }
}

#[cfg(test)]
mod tests;
