//! Formats integers like C's `printf`.
//!
//! In: a [`Conversion`] and the 64 bits of a value. Out: characters.
//! Guarantee: the bytes that C writes, for every combination of flags, width, precision and length
//! that C defines; `%p` writes the null pointer as `0`, as bpftrace does. Allocates only for the
//! output.

use super::Conversion;

/// Digits of a 64-bit number in base 8.
const MAX_DIGITS: usize = 22;

/// Appends an integer as `d i u x X o p` require; other letters write it as `d`.
pub(super) fn write_integer(conversion: &Conversion, bits: u64, out: &mut Vec<u8>) {
    let (negative, magnitude) = operand(conversion, bits);
    let mut room = [0; MAX_DIGITS];
    let digits = digits(conversion.letter, magnitude, &mut room);
    let digits = if magnitude == 0 && conversion.precision == Some(0) { &[] } else { digits };
    if conversion.width.is_none() && conversion.precision.is_none() && !conversion.alternate && conversion.letter != 'p'
    {
        out.extend_from_slice(sign(conversion, negative));
        out.extend_from_slice(digits);
        return;
    }
    let prefix = prefix(conversion, magnitude, negative);
    let mut zeros = (conversion.precision.unwrap_or(0) as usize).saturating_sub(digits.len());
    if conversion.letter == 'o' && conversion.alternate && zeros == 0 && digits.first() != Some(&b'0') {
        zeros = 1;
    }
    let content = prefix.len() + zeros + digits.len();
    let padding = (conversion.width.unwrap_or(0) as usize).saturating_sub(content);
    let pad_zeros = conversion.zero && !conversion.left && conversion.precision.is_none();
    if !conversion.left && !pad_zeros {
        out.resize(out.len() + padding, b' ');
    }
    out.extend_from_slice(prefix);
    out.resize(out.len() + zeros + if pad_zeros { padding } else { 0 }, b'0');
    out.extend_from_slice(digits);
    if conversion.left {
        out.resize(out.len() + padding, b' ');
    }
}

/// Appends text with the width and precision of `%s`. `0` pads with zeros: undefined in C, but
/// bpftrace does it.
pub(super) fn write_padded(conversion: &Conversion, text: &[u8], out: &mut Vec<u8>) {
    let text = &text[..text.len().min(conversion.precision.map_or(usize::MAX, |most| most as usize))];
    let padding = (conversion.width.unwrap_or(0) as usize).saturating_sub(text.len());
    if conversion.left {
        out.extend_from_slice(text);
        out.resize(out.len() + padding, b' ');
    } else {
        out.resize(out.len() + padding, if conversion.zero { b'0' } else { b' ' });
        out.extend_from_slice(text);
    }
}

/// The value truncated to the conversion's size: whether it is negative, and its magnitude.
fn operand(conversion: &Conversion, bits: u64) -> (bool, u64) {
    let unused_bits = 64 - 8 * u32::from(conversion.size_bytes.clamp(1, 8));
    if matches!(conversion.letter, 'u' | 'x' | 'X' | 'o' | 'p') {
        return (false, bits << unused_bits >> unused_bits);
    }
    let value = (bits as i64) << unused_bits >> unused_bits;
    (value < 0, value.unsigned_abs())
}

/// Writes the digits of a number at the end of `room` and returns them.
fn digits(letter: char, mut value: u64, room: &mut [u8; MAX_DIGITS]) -> &[u8] {
    let mut at = MAX_DIGITS;
    let alphabet = if letter == 'X' { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let power = match letter {
        'x' | 'X' | 'p' => 4,
        'o' => 3,
        _ => 0,
    };
    loop {
        at -= 1;
        if power == 0 {
            room[at] = b'0' + (value % 10) as u8;
            value /= 10;
        } else {
            room[at] = alphabet[(value & ((1 << power) - 1)) as usize];
            value >>= power;
        }
        if value == 0 {
            return &room[at..];
        }
    }
}

fn sign(conversion: &Conversion, negative: bool) -> &'static [u8] {
    match (negative, conversion.letter) {
        (true, _) => b"-",
        (false, 'u' | 'x' | 'X' | 'o' | 'p') => b"",
        (false, _) if conversion.plus => b"+",
        (false, _) if conversion.space => b" ",
        (false, _) => b"",
    }
}

fn prefix(conversion: &Conversion, magnitude: u64, negative: bool) -> &'static [u8] {
    match conversion.letter {
        'p' if magnitude != 0 => b"0x",
        'x' if conversion.alternate && magnitude != 0 => b"0x",
        'X' if conversion.alternate && magnitude != 0 => b"0X",
        _ => sign(conversion, negative),
    }
}
