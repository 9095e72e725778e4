//! Renders formats with values.
//!
//! In: a [`Format`], and values or the record that contains them. Out: bytes appended to a buffer.
//! Guarantee: integers and untruncated strings of a record are written from its bytes without
//! allocation.

use super::number::{write_integer, write_padded};
use super::{Conversion, Format, Piece, allocation_flags};
use crate::decode;
use crate::object::Field;
use crate::results::Record;
use crate::text::controls::Escapes;
use crate::text::{BufferStyle, write_buffer, write_value};
use crate::types::Type;
use crate::units::Unit;
use crate::value::{Symbols, Value};

/// Digits after the point of `%f`, as in C.
const FLOAT_DIGITS: usize = 6;

impl Format {
    /// Appends the text; `arg(n)` is the value of the n-th conversion.
    pub fn render(&self, mut arg: impl FnMut(usize) -> Value, symbols: &dyn Symbols, out: &mut Vec<u8>) {
        let mut index = 0;
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Conversion(conversion) => {
                    conversion.write(&arg(index), symbols, out);
                    index += 1;
                }
            }
        }
    }

    /// Appends the text; the n-th conversion shows the record's n-th field. `escapes` is for
    /// fields, where stacks keep their lines; characters of the format are the script's own.
    pub fn render_record(&self, record: &Record<'_>, symbols: &dyn Symbols, escapes: Escapes, out: &mut Vec<u8>) {
        let mut fields = record.event.fields.iter();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Conversion(conversion) => {
                    let start = out.len();
                    let field = fields.next();
                    match field {
                        Some(field) => conversion.write_field(record, field, symbols, out),
                        None => conversion.write(&Value::Missing, symbols, out),
                    }
                    let has_lines = field.is_some_and(|field| matches!(field.ty, Type::Stack(_)));
                    let escapes = if has_lines && escapes == Escapes::Lines { Escapes::Controls } else { escapes };
                    escapes.apply(out, start);
                }
            }
        }
    }
}

impl Conversion {
    /// Appends a field; integers and untruncated strings are written directly from the record's
    /// bytes.
    fn write_field(&self, record: &Record<'_>, field: &Field, symbols: &dyn Symbols, out: &mut Vec<u8>) {
        let bytes = record.field_bytes(field);
        match &field.ty {
            Type::Int(int) if !matches!(self.letter, 's' | 'q' | 'c' | 't' | 'G') => {
                if let Some(number) = decode::integer(*int, bytes) {
                    return write_integer(self, number as u64, out);
                }
            }
            Type::Str { capacity_bytes } if self.letter != 'q' => {
                if let (text, false) = decode::string(bytes, *capacity_bytes) {
                    return write_padded(self, text, out);
                }
            }
            _ => {}
        }
        self.write(&decode::decode(&field.ty, bytes, record.lookup), symbols, out);
    }

    /// Appends a value.
    fn write(&self, value: &Value, symbols: &dyn Symbols, out: &mut Vec<u8>) {
        match (self.letter, number(value), value) {
            ('c', Some(bits), _) => write_padded(&Conversion { precision: None, ..*self }, &[bits as u8], out),
            ('d' | 'i' | 'u' | 'x' | 'X' | 'o' | 'p', Some(bits), _) => write_integer(self, bits, out),
            ('t', Some(bits), value) => {
                let text = Unit::Duration.text(signed(bits, value));
                write_padded(&Conversion { precision: None, ..*self }, text.as_bytes(), out);
            }
            ('G', Some(bits), _) => {
                let text = allocation_flags::names(bits);
                write_padded(&Conversion { precision: None, ..*self }, text.as_bytes(), out);
            }
            ('f', _, Value::Float(bits)) => {
                let digits = self.precision.map_or(FLOAT_DIGITS, |digits| digits as usize);
                let (number, is_signed) = (f64::from_bits(*bits), self.plus);
                let text = if is_signed { format!("{number:+.digits$}") } else { format!("{number:.digits$}") };
                write_padded(&Conversion { precision: None, ..*self }, text.as_bytes(), out);
            }
            ('q', _, value) => {
                let mut text = Vec::new();
                Conversion { letter: 's', width: None, ..*self }.write(value, symbols, &mut text);
                write_padded(&Conversion { precision: None, ..*self }, &quoted(&text), out);
            }
            ('R', _, Value::Buf(bytes)) => self.write_buffer(bytes, BufferStyle::Escaped, out),
            ('H', _, Value::Buf(bytes)) => self.write_buffer(bytes, BufferStyle::Spaced, out),
            (_, _, Value::Str(text)) => write_padded(self, text, out),
            _ => {
                let mut text = Vec::new();
                write_value(value, symbols, &mut text);
                // In C, precision applies to strings only; other values are never truncated.
                write_padded(&Conversion { precision: None, ..*self }, &text, out);
            }
        }
    }

    fn write_buffer(&self, bytes: &[u8], style: BufferStyle, out: &mut Vec<u8>) {
        let mut text = Vec::with_capacity(bytes.len() * 4);
        write_buffer(bytes, style, &mut text);
        write_padded(&Conversion { precision: None, ..*self }, &text, out);
    }
}

/// A text as one word of a shell: within single quotes; each quote in it ends them, follows a
/// backslash, and begins them again.
fn quoted(text: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'\'').collect();
    [b"'", parts.join(&b"'\\''"[..]).as_slice(), b"'"].concat()
}

/// The number as a double, for display with three digits.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn signed(bits: u64, value: &Value) -> f64 {
    if matches!(value, Value::Uint(_)) { bits as f64 } else { bits as i64 as f64 }
}

/// The bits of a numeric value.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Bool(b) => Some(u64::from(*b)),
        Value::Int(n) | Value::Enum { number: n, .. } => Some(*n as u64),
        Value::Average { average } => Some(*average as u64),
        Value::Uint(n) | Value::Pointer(n) => Some(*n),
        _ => None,
    }
}
