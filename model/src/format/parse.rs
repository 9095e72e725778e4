//! Parses format strings.
//!
//! In: the text of a format, escapes resolved. Out: a [`Format`], or the offset and reason of an
//! error.
//! Guarantee: text pieces are never empty or adjacent.

use super::{Conversion, Format, FormatError, Piece};

/// Maximum width or precision of a conversion, so that one event cannot exhaust memory.
const MAX_WIDTH: u32 = 1 << 16;

/// Parses a format string whose escapes are already resolved.
pub fn parse(text: &[u8]) -> Result<Format, FormatError> {
    let mut pieces = Vec::new();
    let mut literal = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if byte == b'%'
            && let Some((found, len)) =
                conversion(&text[at..]).map_err(|message| FormatError { offset: at, message })?
        {
            match found {
                Found::Percent => literal.push(b'%'),
                Found::Conversion(conversion) => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    }
                    pieces.push(Piece::Conversion(conversion));
                }
            }
            at += len;
        } else {
            literal.push(byte);
            at += 1;
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal));
    }
    Ok(Format { pieces })
}

enum Found {
    Percent,
    Conversion(Conversion),
}

/// The conversion at the start of `text`, and its length; `None` if the `%` is plain text.
fn conversion(text: &[u8]) -> Result<Option<(Found, usize)>, String> {
    let mut conversion = Conversion {
        left: false,
        zero: false,
        plus: false,
        space: false,
        alternate: false,
        width: None,
        precision: None,
        letter: 's',
        size_bytes: 4,
    };
    let mut at = 1;
    while let Some(flag) = text.get(at).and_then(|&byte| flag(&mut conversion, byte)) {
        *flag = true;
        at += 1;
    }
    conversion.width = number(text, &mut at)?;
    if text.get(at) == Some(&b'.') {
        at += 1;
        let star = text.get(at) == Some(&b'*');
        // As in C, a dot without digits means a precision of 0.
        conversion.precision = number(text, &mut at)?.or((!star).then_some(0));
    }
    // `t` is a C length modifier before a letter; elsewhere it is our own conversion (durations).
    if text.get(at) == Some(&b't')
        && !text.get(at + 1).is_some_and(|next| b"%hlLjztdiuxXocspqreEfFgGaAn".contains(next))
    {
        conversion.letter = 't';
        conversion.size_bytes = 8;
        return Ok(Some((Found::Conversion(conversion), at + 1)));
    }
    let modifiers = text[at..].iter().take_while(|byte| b"hlLjzt".contains(byte)).count();
    conversion.size_bytes = size_bytes(&text[at..at + modifiers]);
    at += modifiers;
    let (letter, len) = match &text[at..] {
        [b'%', ..] => return Ok(Some((Found::Percent, at + 1))),
        [b'r', b'x', ..] => ('R', 2),
        [b'r', b'h', ..] => ('H', 2),
        [b'g', b'r', ..] => ('G', 2),
        [letter @ (b'd' | b'i' | b'u' | b'x' | b'X' | b'o' | b'c' | b's' | b'p' | b'q' | b'r' | b'f'), ..] => {
            (char::from(*letter), 1)
        }
        [letter, ..] if b"eEFgGaAn".contains(letter) => {
            return Err(format!("unsupported conversion `%{}`", char::from(*letter)));
        }
        _ => return Ok(None),
    };
    conversion.letter = letter;
    if letter == 'p' {
        conversion.size_bytes = 8;
    }
    Ok(Some((Found::Conversion(conversion), at + len)))
}

fn flag(conversion: &mut Conversion, byte: u8) -> Option<&mut bool> {
    match byte {
        b'-' => Some(&mut conversion.left),
        b'0' => Some(&mut conversion.zero),
        b'+' => Some(&mut conversion.plus),
        b' ' => Some(&mut conversion.space),
        b'#' => Some(&mut conversion.alternate),
        _ => None,
    }
}

/// Reads a number; `None` if there is none, or for `*`.
fn number(text: &[u8], at: &mut usize) -> Result<Option<u32>, String> {
    if text.get(*at) == Some(&b'*') {
        *at += 1;
        return Ok(None);
    }
    let mut value = None;
    while let Some(digit) = text.get(*at).filter(|byte| byte.is_ascii_digit()) {
        let next = value.unwrap_or(0u32) * 10 + u32::from(digit - b'0');
        if next > MAX_WIDTH {
            return Err(format!("a width or precision is at most {MAX_WIDTH}"));
        }
        value = Some(next);
        *at += 1;
    }
    Ok(value)
}

fn size_bytes(modifiers: &[u8]) -> u8 {
    match modifiers {
        b"hh" => 1,
        b"h" => 2,
        b"l" | b"ll" | b"j" | b"z" | b"t" => 8,
        _ => 4,
    }
}
