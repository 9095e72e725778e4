//! Keyed maps as JSON: rows outside the drop-in, one object in it.
//!
//! In: a map's entries in print order. Out: one JSON array or object.
//! Guarantee: different keys have different rows, and a key can be read back from its row. In the
//! object, every entry has a unique name, so that a reader gets as many entries as the map has.

use std::collections::{HashMap, HashSet};

use profiler_model::types::{Space, StackMode};
use profiler_model::value::{FilePosition, Location, Source, Stack, SymbolName, Symbols, Value};

use super::{put, write_json, write_list, write_string};
use crate::entries::{Entry, write_key};

/// The version of the row format. A format that readers of this one would misread gets another
/// number.
pub(super) const VERSION: u32 = 2;

/// An array of `{"key": [part, …], "value": …}`. If keys of several processes print alike they
/// share a row, which has `pids`; the addresses in `key` are then those of one of them.
pub(super) fn write_rows(entries: &[Entry<'_>], symbols: &dyn Symbols, out: &mut Vec<u8>) {
    write_list(entries, out, |(key, value, processes), out| {
        out.extend_from_slice(b"{\"key\": ");
        let parts = match key {
            Some(Value::Tuple(parts)) => parts.as_slice(),
            Some(part) => std::slice::from_ref(*part),
            None => &[],
        };
        write_list(parts, out, |part, out| write_part(part, symbols, out));
        if processes.len() > 1 {
            out.extend_from_slice(b", \"pids\": ");
            write_list(processes, out, |pid, out| put(out, format_args!("{pid}")));
        }
        out.extend_from_slice(b", \"value\": ");
        write_json(value, symbols, out);
        out.push(b'}');
    });
}

/// One part of a key. Parts that print alike but differ are written as objects with what
/// distinguishes them.
fn write_part(part: &Value, symbols: &dyn Symbols, out: &mut Vec<u8>) {
    match part {
        Value::Str(text) if std::str::from_utf8(text).is_err() => {
            put(out, format_args!("{{\"bytes\": "));
            write_list(text, out, |byte, out| put(out, format_args!("{byte}")));
            out.push(b'}');
        }
        Value::Enum { name: Some(name), .. } => write_string(name.as_bytes(), out),
        Value::Array(parts) | Value::Tuple(parts) => {
            write_list(parts, out, |part, out| write_part(part, symbols, out));
        }
        Value::Record(fields) => {
            out.push(b'{');
            for (index, (name, part)) in fields.iter().enumerate() {
                out.extend_from_slice(if index > 0 { b", " } else { b"" });
                write_string(name.as_bytes(), out);
                out.extend_from_slice(b": ");
                write_part(part, symbols, out);
            }
            out.push(b'}');
        }
        Value::Stack(stack) => write_stack(stack, symbols, out),
        Value::Symbol { space, address, pid } => {
            out.push(b'{');
            write_process(*space, *pid, out);
            write_address(*address, &located(resolve(*space, *pid, *address, symbols)), out);
            out.push(b'}');
        }
        Value::Timestamp { since_boot_ns, .. } => {
            put(
                out,
                format_args!(
                    "{{\"unix_ns\": \"{}\", \"text\": ",
                    symbols.boot_time_ns().saturating_add(*since_boot_ns)
                ),
            );
            write_json(part, symbols, out);
            out.push(b'}');
        }
        Value::Username(uid) => {
            put(out, format_args!("{{\"uid\": {uid}, \"name\": "));
            write_json(part, symbols, out);
            out.push(b'}');
        }
        other => write_json(other, symbols, out),
    }
}

fn write_stack(stack: &Stack, symbols: &dyn Symbols, out: &mut Vec<u8>) {
    let locations = match stack.mode {
        StackMode::Raw => vec![Location::Unknown; stack.frames.len()],
        StackMode::Bpftrace | StackMode::Perf | StackMode::BuildId => symbols.locate_stack(stack),
    };
    let frames: Vec<(u64, Location)> = stack.frames.iter().copied().zip(locations).collect();
    out.push(b'{');
    write_process(stack.space, stack.pid, out);
    out.extend_from_slice(b"\"frames\": ");
    out.push(b'[');
    for (index, (address, location)) in frames.iter().enumerate() {
        out.extend_from_slice(if index > 0 { b"," } else { b"" });
        write_frame(*address, location, out);
    }
    out.push(b']');
    if let Some(end) = stack.end {
        out.extend_from_slice(b", \"end\": ");
        write_string(end.reason().as_bytes(), out);
    }
    out.push(b'}');
}

/// An object for each inlined function, innermost first, then one for the function that contains
/// them.
fn write_frame(address: u64, location: &Location, out: &mut Vec<u8>) {
    let origin = match location {
        Location::Symbol(_, origin) => Some(origin),
        _ => None,
    };
    for inlined in origin.iter().flat_map(|origin| &origin.inlined) {
        put(out, format_args!("{{\"address\": \"{address:#x}\", \"name\": "));
        write_string(inlined.name.as_bytes(), out);
        write_source(inlined.source.as_ref(), out);
        out.extend_from_slice(b", \"inlined\": true},");
    }
    out.push(b'{');
    write_address(address, location, out);
    write_source(origin.and_then(|origin| origin.source.as_ref()), out);
    out.push(b'}');
}

fn write_source(source: Option<&Source>, out: &mut Vec<u8>) {
    if let Some(Source { file, line }) = source {
        out.extend_from_slice(b", \"file\": ");
        write_string(file.as_bytes(), out);
        put(out, format_args!(", \"line\": {line}"));
    }
}

/// User-space addresses are meaningful only within one process.
fn write_process(space: Space, pid: u32, out: &mut Vec<u8>) {
    if space == Space::User {
        put(out, format_args!("\"pid\": {pid}, "));
    }
}

/// Always a string, because half of the kernel's addresses have more bits than a double.
fn write_address(address: u64, location: &Location, out: &mut Vec<u8>) {
    put(out, format_args!("\"address\": \"{address:#x}\""));
    let module = match location {
        Location::Symbol(symbol, _) => {
            out.extend_from_slice(b", \"name\": ");
            write_string(symbol.name.as_bytes(), out);
            put(out, format_args!(", \"offset\": {}", symbol.offset));
            symbol.module.as_ref()
        }
        Location::Module(module, _) => Some(module),
        // The call stack ends here. The following addresses are kept because they are part of the
        // key.
        Location::NoCode => {
            out.extend_from_slice(b", \"is_code\": false");
            None
        }
        Location::Unknown => None,
    };
    if let Some(module) = module {
        out.extend_from_slice(b", \"module\": ");
        write_string(module.as_bytes(), out);
    }
    if let Some(FilePosition { build_id, offset, .. }) = location.position() {
        put(out, format_args!(", \"file_offset\": {offset}"));
        if let Some(build_id) = build_id {
            put(out, format_args!(", \"build_id\": \"{build_id}\""));
        }
    }
}

fn located(symbol: Option<SymbolName>) -> Location {
    symbol.map_or(Location::Unknown, Location::named)
}

fn resolve(space: Space, pid: u32, address: u64, symbols: &dyn Symbols) -> Option<SymbolName> {
    match space {
        Space::Kernel => symbols.kernel(address),
        Space::User => symbols.user(pid, address),
    }
}

/// An object in bpftrace's form: the parts of a key joined by commas, without spaces. bpftrace
/// repeats the name of keys that print alike; here the second one is `name#2`.
pub(super) fn write_object(entries: &[Entry<'_>], symbols: &dyn Symbols, out: &mut Vec<u8>) {
    let printed: Vec<String> = entries.iter().map(|(key, ..)| printed(*key, symbols)).collect();
    // The printed name of a key is never given to another key.
    let own: HashSet<&str> = printed.iter().map(String::as_str).collect();
    let mut uses: HashMap<&str, u64> = HashMap::new();
    out.push(b'{');
    for (index, (name, (_, value, _))) in printed.iter().zip(entries).enumerate() {
        out.extend_from_slice(if index > 0 { b", " } else { b"" });
        let uses = uses.entry(name).or_default();
        *uses += 1;
        let mut given = name.clone();
        while *uses > 1 {
            given = format!("{name}#{uses}");
            if !own.contains(given.as_str()) {
                break;
            }
            *uses += 1;
        }
        write_string(given.as_bytes(), out);
        out.extend_from_slice(b": ");
        write_json(value, symbols, out);
    }
    out.push(b'}');
}

/// A key as it appears in JSON.
fn printed(key: Option<&Value>, symbols: &dyn Symbols) -> String {
    let mut text = Vec::new();
    if let Some(key) = key {
        write_key(key, symbols, &mut text);
    }
    text.retain(|&byte| byte != b' ');
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use profiler_model::value::{Inlined, Origin};

    use super::*;

    #[test]
    fn inlined_functions_come_before_the_function_that_contains_them() {
        let source = |line| Some(Source { file: "/a\"b.c".into(), line });
        let inlined =
            vec![Inlined { name: "inner".into(), source: source(3) }, Inlined { name: "middle".into(), source: None }];
        let symbol = SymbolName { name: "outer".into(), offset: 4, module: Some("/bin/x".into()) };
        let mut out = Vec::new();
        write_frame(0x40, &Location::Symbol(symbol, Origin { source: source(9), inlined, position: None }), &mut out);
        let expected = [
            r#"{"address": "0x40", "name": "inner", "file": "/a\"b.c", "line": 3, "inlined": true}"#,
            r#"{"address": "0x40", "name": "middle", "inlined": true}"#,
            r#"{"address": "0x40", "name": "outer", "offset": 4, "module": "/bin/x", "file": "/a\"b.c", "line": 9}"#,
        ];
        assert_eq!(String::from_utf8_lossy(&out), expected.join(","));
    }
}
