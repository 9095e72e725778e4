//! `printf` formats.
//!
//! In: a format string and the types of its arguments. Out: a [`Format`] that renders values.
//! Guarantee: rendering cannot fail; a conversion that does not fit its value prints the value in
//! its default form.
//!
//! Numbers follow C: without a length modifier a number is truncated to 32 bits, like `int`.
//! Additions to C are the buffer conversions `%r`, `%rx` and `%rh`, and `%s`, which accepts every
//! value; `%q` is `%s` quoted for the shell; `%gr` prints the flags of a memory allocation. `*` is
//! accepted but sets no width, as in bpftrace. A `%` that does not begin a conversion is literal
//! text.

mod allocation_flags;
mod number;
mod parse;
mod render;

use serde::{Deserialize, Serialize};

use crate::types::Type;

pub use parse::parse;

/// A parsed format string.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Format {
    /// Literal text and conversions in order.
    pub pieces: Vec<Piece>,
}

/// A part of a format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Piece {
    /// Literal text.
    Text(Vec<u8>),
    /// A conversion, which prints the next argument.
    Conversion(Conversion),
}

/// `%-08.3lx` and similar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "they are printf's flags")]
pub struct Conversion {
    /// `-`: left-align, pad on the right.
    pub left: bool,
    /// `0`: pad with zeros.
    pub zero: bool,
    /// `+`: a sign before positive numbers.
    pub plus: bool,
    /// ` `: a blank before positive numbers.
    pub space: bool,
    /// `#`: `0x` or `0` before the digits.
    pub alternate: bool,
    /// Minimum width.
    pub width: Option<u32>,
    /// Number of digits, or maximum number of characters of a string.
    pub precision: Option<u32>,
    /// The letter: `d i u x X o c s q p f`, `r` (buffer), `t` (a duration in ns); `R` stands for
    /// `rx`, `H` for `rh`, `G` for `gr` (flags of an allocation).
    pub letter: char,
    /// Size from the length modifier (`hh` 1, `h` 2, none 4, `l`, `ll`, `j`, `z` and `t` 8):
    /// integers are truncated to it before printing. Pointers (`%p`) are never truncated.
    pub size_bytes: u8,
}

impl Conversion {
    /// The letters of the conversion as a format string has them.
    pub fn written(&self) -> String {
        match self.letter {
            'R' => "rx".to_owned(),
            'H' => "rh".to_owned(),
            'G' => "gr".to_owned(),
            letter => letter.to_string(),
        }
    }
}

/// Why a format string is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatError {
    /// Byte offset of the conversion in the format.
    pub offset: usize,
    /// What is wrong.
    pub message: String,
}

impl Format {
    /// The conversions in order, one per argument.
    pub fn conversions(&self) -> impl Iterator<Item = &Conversion> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Conversion(conversion) => Some(conversion),
            Piece::Text(_) => None,
        })
    }
}

/// Whether a conversion can print values of a type.
pub fn accepts(conversion: &Conversion, ty: &Type) -> bool {
    match (conversion.letter, ty) {
        (_, Type::None) => false,
        (_, Type::Unknown) | ('s' | 'q', _) | ('r' | 'R' | 'H', Type::Buf { .. }) => true,
        ('r' | 'R' | 'H', _) => false,
        (letter, Type::Statistic { .. }) => letter != 'c' && letter != 'p',
        ('t', ty) => matches!(ty, Type::Int(_)),
        ('f', ty) => matches!(ty, Type::Float { .. }),
        ('G', ty) => matches!(ty, Type::Int(_) | Type::Enum { .. }),
        (_, ty) => ty.is_scalar(),
    }
}

#[cfg(test)]
mod tests;
