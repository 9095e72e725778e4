//! Formats filled with values.
//!
//! In: a [`Format`], and values or the record that holds them. Out: bytes appended to a buffer.
//! Guarantee: integers and strings of a record are written from its bytes without allocation.

use super::number::{write_integer, write_padded};
use super::{Conversion, Format, Piece};
use crate::decode;
use crate::object::Field;
use crate::text::{BufferStyle, write_buffer, write_value};
use crate::types::Type;
use crate::units::Unit;
use crate::value::{Symbols, Value};
use crate::words::Record;

impl Format {
    /// Appends the text with `arg(n)` for its n-th conversion.
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

    /// Appends the text with a record's n-th field for the n-th conversion.
    pub fn render_record(&self, record: &Record<'_>, symbols: &dyn Symbols, out: &mut Vec<u8>) {
        let mut fields = record.event.fields.iter();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Conversion(conversion) => match fields.next() {
                    Some(field) => conversion.write_field(record, field, symbols, out),
                    None => conversion.write(&Value::Missing, symbols, out),
                },
            }
        }
    }
}

impl Conversion {
    /// Appends a field, from the bytes when it is an integer or an uncut string.
    fn write_field(&self, record: &Record<'_>, field: &Field, symbols: &dyn Symbols, out: &mut Vec<u8>) {
        let bytes = record.field_bytes(field);
        match &field.ty {
            Type::Int(int) if !matches!(self.letter, 's' | 'c' | 't') => {
                if let Some(number) = decode::integer(*int, bytes) {
                    return write_integer(self, number as u64, out);
                }
            }
            Type::Str { capacity_bytes } => {
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
            ('R', _, Value::Buf(bytes)) => self.write_buffer(bytes, BufferStyle::Escaped, out),
            ('H', _, Value::Buf(bytes)) => self.write_buffer(bytes, BufferStyle::Spaced, out),
            (_, _, Value::Str(text)) => write_padded(self, text, out),
            _ => {
                let mut text = Vec::new();
                write_value(value, symbols, &mut text);
                // C's precision is for strings; cutting a stack or a number in half helps nobody.
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

/// A number for people, whose three digits a double holds.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn signed(bits: u64, value: &Value) -> f64 {
    if matches!(value, Value::Uint(_)) { bits as f64 } else { bits as i64 as f64 }
}

/// The bits of a value that is a number.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Bool(b) => Some(u64::from(*b)),
        Value::Int(n) | Value::Enum { number: n, .. } | Value::Average { average: n } => Some(*n as u64),
        Value::Uint(n) | Value::Pointer(n) => Some(*n),
        _ => None,
    }
}
