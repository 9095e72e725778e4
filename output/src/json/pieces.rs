//! Pieces of JSON: strings, lists and numbers.
//!
//! In: values. Out: their text, appended.
//! Guarantee: whatever the bytes, a string is UTF-8 and has nothing that a terminal interprets.

use std::io::Write as _;

use profiler_model::text::controls::is_harmless;

/// Arrays have no space after the comma.
pub(crate) fn write_list<T>(items: &[T], out: &mut Vec<u8>, mut write: impl FnMut(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

/// A number, or a string if a double cannot represent it.
pub(super) fn write_integer(n: i128, out: &mut Vec<u8>) {
    let magnitude = n.unsigned_abs();
    let significant_bits = (128 - magnitude.leading_zeros()).saturating_sub(magnitude.trailing_zeros());
    if significant_bits <= f64::MANTISSA_DIGITS {
        put(out, format_args!("{n}"));
    } else {
        put(out, format_args!("\"{n}\""));
    }
}

/// A JSON string with its quotes.
pub fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    write_string(text.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends a JSON string; bytes that are not UTF-8 become U+FFFD.
pub(crate) fn write_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                // JSON allows some characters unescaped that terminals interpret.
                _ if !is_harmless(character) => put(out, format_args!("\\u{:04x}", character as u32)),
                _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

pub(crate) fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(text);
}
