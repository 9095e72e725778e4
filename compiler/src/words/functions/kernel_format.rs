//! Formats that the kernel prints itself (`bpf_bprintf_prepare` in `kernel/bpf/helpers.c`).
//!
//! In: a format and its values. Out: diagnostics; the format as the kernel reads it.
//! Guarantee: the kernel accepts the format and prints what `printf` would.

use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::format::{Conversion, Format, Piece};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

const HELP: &str = "it has %d %i %u %x %X %p %c for numbers and %s for strings, with widths, `-`, `0`, `+` and ` `";

/// Reports the first part of a format that the kernel cannot print; `most` is how many values the
/// helper takes.
pub(super) fn fault(
    cx: &check::Body<'_, '_>,
    format: &Format,
    values: &[typed::Expr],
    most: usize,
    span: Span,
) -> Option<Diagnostic> {
    if values.len() > most {
        let message = format!("the kernel prints at most {most} values at once, these are {}", values.len());
        return Some(Diagnostic::error(Code(387), span, message).help("write the line with several calls"));
    }
    let is_shown = |piece: &Piece| match piece {
        Piece::Text(text) => text.iter().all(|byte| is_printed(*byte)),
        Piece::Conversion(_) => true,
    };
    if !format.pieces.iter().all(is_shown) {
        let message = "the kernel prints a format of ASCII characters only";
        return Some(Diagnostic::error(Code(387), span, message).help("print other text by `%s`"));
    }
    let of_value = |(conversion, value): (&Conversion, &typed::Expr)| {
        if value.ty == Type::Unknown || fits(conversion, &value.ty) {
            return None;
        }
        let (letter, ty) = (shown(conversion), cx.one(&value.ty));
        let message = format!("the kernel cannot print {ty} with `{letter}`");
        Some(Diagnostic::error(Code(387), value.span, message).help(HELP))
    };
    format.conversions().zip(values).find_map(of_value)
}

fn is_printed(byte: u8) -> bool {
    byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t'..=b'\r')
}

fn fits(conversion: &Conversion, ty: &Type) -> bool {
    let is_plain = flags(conversion).is_empty();
    let is_known = match conversion.letter {
        's' => matches!(ty, Type::Str { .. }),
        'c' => ty.is_scalar(),
        // A width would not count the `0x`.
        'p' => ty.is_scalar() && is_plain,
        letter => ty.is_scalar() && "diuxX".contains(letter) && conversion.size_bytes >= 4,
    };
    is_known && !conversion.alternate && conversion.precision.is_none()
}

/// The conversion with its flags and width, as a script has it.
fn shown(conversion: &Conversion) -> String {
    let precision = conversion.precision.map_or(String::new(), |digits| format!(".{digits}"));
    let size = match conversion.size_bytes {
        1 => "hh",
        2 => "h",
        _ => "",
    };
    format!("%{}{precision}{size}{}", flags(conversion), conversion.written())
}

fn flags(conversion: &Conversion) -> String {
    let flags = [
        (conversion.left, '-'),
        (conversion.zero, '0'),
        (conversion.plus, '+'),
        (conversion.space, ' '),
        (conversion.alternate, '#'),
    ];
    let mut text: String = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect();
    text.extend(conversion.width.map(|width| width.to_string()));
    text
}

/// The format for the kernel, ending in a NUL.
pub(super) fn bytes(format: &Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in &format.pieces {
        match piece {
            Piece::Text(text) => {
                for byte in text {
                    bytes.push(*byte);
                    bytes.extend((*byte == b'%').then_some(b'%'));
                }
            }
            Piece::Conversion(conversion) => bytes.extend(written(conversion).into_bytes()),
        }
    }
    bytes.push(0);
    bytes
}

fn written(conversion: &Conversion) -> String {
    let (flags, letter) = (flags(conversion), conversion.letter);
    match letter {
        // With `%p` the kernel prints a hash of the address.
        'p' => "0x%llx".to_owned(),
        's' | 'c' => format!("%{flags}{letter}"),
        _ if conversion.size_bytes == 8 => format!("%{flags}ll{letter}"),
        _ => format!("%{flags}{letter}"),
    }
}
