//! Text rendering of values.
//!
//! In: a [`Value`], and [`Symbols`] for the addresses in it. Out: the bytes that bpftrace
//! prints for it.
//! Guarantee: every value can be printed; strings are copied byte for byte, even if they are not
//! UTF-8.

use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};

use crate::strftime::{Dialect, strftime};
use crate::types::{Space, StackMode};
use crate::value::{Bucket, Histogram, Inlined, Labels, Location, Source, Stack, SymbolName, Symbols, Value};

pub mod controls;
pub mod distribution;

/// Maximum width of a histogram bar in columns.
const BAR_WIDTH: u8 = 52;

/// Appends the text of a value.
pub fn write_value(value: &Value, symbols: &dyn Symbols, out: &mut Vec<u8>) {
    match value {
        Value::Missing => out.extend_from_slice(b"null"),
        Value::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
        Value::Int(n) => put(out, format_args!("{n}")),
        Value::Average { average } => put(out, format_args!("{average}")),
        Value::Uint(n) => put(out, format_args!("{n}")),
        Value::Float(bits) => put(out, format_args!("{:?}", f64::from_bits(*bits))),
        Value::Str(text) => out.extend_from_slice(text),
        Value::Buf(bytes) => write_buffer(bytes, BufferStyle::Ascii, out),
        Value::Pointer(address) => put(out, format_args!("{address:#x}")),
        Value::Array(elements) => write_list(elements, ["[", ",", "]"], symbols, out),
        Value::Tuple(parts) => write_list(parts, ["(", ", ", ")"], symbols, out),
        Value::Record(fields) => write_record(fields, symbols, out),
        Value::Enum { name: Some(name), .. } => out.extend_from_slice(name.as_bytes()),
        Value::Enum { number, name: None } => put(out, format_args!("{number}")),
        Value::Stack(stack) => write_stack(stack, symbols, out),
        Value::Symbol { space, address, pid } => write_symbol(*space, *pid, *address, symbols, out),
        Value::Inet(address) => write_inet(address, out),
        Value::Timestamp { since_boot_ns, format } => {
            let unix_ns = symbols.boot_time_ns().saturating_add(*since_boot_ns);
            let text = strftime(format, unix_ns, &symbols.zone(unix_ns), Dialect::Strftime);
            out.extend_from_slice(text.as_bytes());
        }
        Value::Username(uid) => out.extend_from_slice(symbols.username(*uid).unwrap_or_default().as_bytes()),
        Value::Series(series) => series.write(symbols, out),
        Value::Histogram(histogram) => write_histogram(histogram, out),
        Value::Stats { count, average, total } => {
            put(out, format_args!("{{ .count = {count}, .average = {average}, .total = {total} }}"));
        }
        Value::Distribution(values) => distribution::write_distribution(values, distribution::COLUMNS, out),
    }
}

/// How raw bytes are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferStyle {
    /// Printable ASCII unchanged, the rest as `\x00` (`%r`).
    Ascii,
    /// `\x00` for every byte (`%rx`).
    Escaped,
    /// `00 01` (`%rh`).
    Spaced,
}

/// Appends raw bytes.
pub fn write_buffer(bytes: &[u8], style: BufferStyle, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (index, &byte) in bytes.iter().enumerate() {
        if style == BufferStyle::Ascii && (b' '..=b'~').contains(&byte) {
            out.push(byte);
            continue;
        }
        match style {
            BufferStyle::Spaced if index > 0 => out.push(b' '),
            BufferStyle::Spaced => {}
            BufferStyle::Ascii | BufferStyle::Escaped => out.extend_from_slice(b"\\x"),
        }
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

fn write_list(values: &[Value], [open, comma, close]: [&str; 3], symbols: &dyn Symbols, out: &mut Vec<u8>) {
    out.extend_from_slice(open.as_bytes());
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(comma.as_bytes());
        }
        write_value(value, symbols, out);
    }
    out.extend_from_slice(close.as_bytes());
}

fn write_record(fields: &[(String, Value)], symbols: &dyn Symbols, out: &mut Vec<u8>) {
    if fields.is_empty() {
        out.extend_from_slice(b"{}");
        return;
    }
    for (index, (name, value)) in fields.iter().enumerate() {
        put(out, format_args!("{}.{name} = ", if index == 0 { "{ " } else { ", " }));
        write_value(value, symbols, out);
    }
    out.extend_from_slice(b" }");
}

/// A stack starts on a new line and each frame ends with a newline. If unwinding by frame pointers
/// reaches an address that is not code, the stack ends there with a note, unless notes are not
/// wanted ([`Symbols::shows_ends`]).
fn write_stack(stack: &Stack, symbols: &dyn Symbols, out: &mut Vec<u8>) {
    out.push(b'\n');
    if stack.mode == StackMode::Raw {
        stack.frames.iter().for_each(|address| put(out, format_args!("{address:x}\n")));
        return;
    }
    let locations = symbols.locate_stack(stack);
    if stack.mode == StackMode::BuildId {
        let frames = stack.frames.iter().zip(&locations);
        frames.for_each(|(&address, location)| write_position(address, location, out));
        return;
    }
    let is_perf = stack.mode == StackMode::Perf;
    for (&address, location) in stack.frames.iter().zip(&locations) {
        if let Location::Symbol(_, origin) = location {
            origin.inlined.iter().for_each(|inlined| write_inlined(address, inlined, is_perf, out));
        }
        write_margin(address, is_perf, out);
        if *location == Location::NoCode && symbols.shows_ends() {
            put(out, format_args!("[stack ends here: {address:#x} is not code]\n"));
            return;
        }
        if is_perf {
            write_frame(address, location, stack.space == Space::User, out);
        } else {
            write_frame_with_line(address, location, out);
        }
        out.push(b'\n');
    }
    if let Some(end) = stack.end.filter(|_| symbols.shows_ends()) {
        out.extend_from_slice(if is_perf { b"\t" } else { b"        " });
        put(out, format_args!("[stack ends here: {}]\n", end.reason()));
    }
}

/// The build id of a frame's file and the offset in it, as bpftrace writes them; else the address.
fn write_position(address: u64, location: &Location, out: &mut Vec<u8>) {
    let position = location.position().and_then(|position| Some((position.build_id.as_ref()?, position.offset)));
    match position {
        Some((build_id, offset)) => put(out, format_args!("{build_id} 0x{offset:02x}\n")),
        None => put(out, format_args!("{address:x}\n")),
    }
}

/// What a frame's line begins with.
fn write_margin(address: u64, is_perf: bool, out: &mut Vec<u8>) {
    if is_perf {
        put(out, format_args!("\t{address:x} "));
    } else {
        out.extend_from_slice(b"        ");
    }
}

/// The line of an inlined function, before the one of the function that contains its code.
fn write_inlined(address: u64, inlined: &Inlined, is_perf: bool, out: &mut Vec<u8>) {
    write_margin(address, is_perf, out);
    if is_perf {
        put(out, format_args!("{} (inlined)", inlined.name));
    } else {
        put(out, format_args!("[inlined] {}", inlined.name));
        write_source(inlined.source.as_ref(), out);
    }
    out.push(b'\n');
}

/// `symbol+offset@file:line`.
fn write_frame_with_line(address: u64, location: &Location, out: &mut Vec<u8>) {
    write_frame(address, location, false, out);
    if let Location::Symbol(_, origin) = location {
        write_source(origin.source.as_ref(), out);
    }
}

fn write_source(source: Option<&Source>, out: &mut Vec<u8>) {
    if let Some(Source { file, line }) = source {
        put(out, format_args!("@{file}:{line}"));
    }
}

/// `symbol+offset`; `perf` mode adds the file of user frames, but no kernel module. A frame without
/// a name always shows its file, and the offset in it.
fn write_frame(address: u64, location: &Location, has_module: bool, out: &mut Vec<u8>) {
    let module = match location {
        Location::Symbol(SymbolName { name, offset, module }, _) => {
            put(out, format_args!("{name}+{offset}"));
            module.as_deref().filter(|_| has_module)
        }
        Location::Module(module, position) => {
            write_address(address, out);
            put(out, format_args!(" ({module}+{:#x})", position.offset));
            return;
        }
        Location::NoCode | Location::Unknown => {
            write_address(address, out);
            None
        }
    };
    if let Some(module) = module.or(has_module.then_some("[unknown]")) {
        put(out, format_args!(" ({module})"));
    }
}

fn write_symbol(space: Space, pid: u32, address: u64, symbols: &dyn Symbols, out: &mut Vec<u8>) {
    match resolve(space, pid, address, symbols) {
        Some(symbol) => out.extend_from_slice(symbol.name.as_bytes()),
        None => write_address(address, out),
    }
}

fn resolve(space: Space, pid: u32, address: u64, symbols: &dyn Symbols) -> Option<SymbolName> {
    match space {
        Space::Kernel => symbols.kernel(address),
        Space::User => symbols.user(pid, address),
    }
}

/// An address without a name; bpftrace prints the null address as `0`.
fn write_address(address: u64, out: &mut Vec<u8>) {
    if address == 0 {
        out.push(b'0');
    } else {
        put(out, format_args!("{address:#x}"));
    }
}

fn write_inet(address: &IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V6(v6) if is_ipv4_compatible(v6) => {
            let [.., a, b, c, d] = v6.octets();
            put(out, format_args!("::{a}.{b}.{c}.{d}"));
        }
        address => put(out, format_args!("{address}")),
    }
}

/// Whether `inet_ntop` prints the last 32 bits after `::` as an IPv4 address, where Rust prints two
/// groups.
fn is_ipv4_compatible(address: &Ipv6Addr) -> bool {
    let segments = address.segments();
    segments[..6].iter().all(|&segment| segment == 0) && segments[6] != 0
}

fn write_histogram(histogram: &Histogram, out: &mut Vec<u8>) {
    let highest = histogram.buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0);
    for bucket in &histogram.buckets {
        let label = bucket_label(bucket, histogram.labels);
        let bar = "@".repeat(bar_len(bucket.count, highest));
        put(out, format_args!("{label:<16}{:>8} |{bar:<1$}|\n", bucket.count, usize::from(BAR_WIDTH)));
    }
}

/// Bar length, computed in single precision and truncated, as bpftrace does; 0 of 0 gives no bar.
#[expect(clippy::cast_precision_loss, reason = "52 columns need no more")]
fn bar_len(count: u64, highest: u64) -> usize {
    (count as f32 / highest as f32 * f32::from(BAR_WIDTH)) as usize
}

/// `(..., 0)`, `[3]`, `[2, 4)` or `[100, ...)`.
fn bucket_label(bucket: &Bucket, labels: Labels) -> String {
    let write = |bound: i64| bound_label(bound as u64, bound < 0, labels);
    match (bucket.low, bucket.high, labels) {
        (None, Some(high), _) => format!("(..., {})", write(high)),
        (None, None, _) => "(..., ...)".to_string(),
        (Some(low), Some(high), Labels::Plain | Labels::Powers { .. }) if low.checked_add(1) == Some(high) => {
            format!("[{}]", write(low))
        }
        (Some(low), Some(high), _) => format!("[{}, {})", write(low), write(high)),
        // The last bucket of powers ends at 2^63, which does not fit in `i64`.
        (Some(low), None, Labels::Powers { .. }) => {
            format!("[{}, {})", write(low), bound_label(1 << 63, false, labels))
        }
        (Some(low), None, _) => format!("[{}, ...)", write(low)),
    }
}

fn bound_label(bound: u64, negative: bool, labels: Labels) -> String {
    const SUFFIXES: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    if negative {
        return (bound as i64).to_string();
    }
    match labels {
        Labels::Powers { sub_bits } if bound > 0 => {
            // The suffix depends on the width of the bucket that starts here, not on the bound
            // itself.
            let width_bits = bound.ilog2().saturating_sub(u32::from(sub_bits));
            let decade = width_bits / 10;
            format!("{}{}", bound >> (10 * decade), SUFFIXES[decade as usize])
        }
        Labels::Binary if bound > 0 && bound.is_multiple_of(1 << 20) => format!("{}M", bound >> 20),
        Labels::Binary if bound > 0 && bound.is_multiple_of(1 << 10) => format!("{}K", bound >> 10),
        _ => bound.to_string(),
    }
}

/// Formats a number with commas between groups of three digits.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Appends formatted text.
pub(crate) fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector never fails.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
