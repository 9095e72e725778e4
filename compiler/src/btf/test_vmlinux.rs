//! Tests on the running kernel's BTF, compared with the output of `bpftool`.
//!
//! In: `/sys/kernel/btf/vmlinux`. Guarantee tested: names, sizes, offsets and values agree. Without
//! the file or without `bpftool` the tests are skipped with a message.

use super::{Btf, Kind};
use crate::types::Type;
use std::collections::HashMap;
use std::process::Command;

const PATH: &str = "/sys/kernel/btf/vmlinux";

/// The kernel's types; prints a message if they are unavailable.
fn vmlinux() -> Option<Btf> {
    match std::fs::read(PATH) {
        Ok(bytes) => Some(Btf::new(Box::new(bytes)).expect("the kernel's BTF opens")),
        Err(error) => {
            println!("SKIPPED: {PATH}: {error}");
            None
        }
    }
}

/// `bpftool`'s listing of all types; prints a message if it is unavailable.
fn bpftool() -> Option<String> {
    match Command::new("bpftool").args(["btf", "dump", "file", PATH, "format", "raw"]).output() {
        Ok(output) if output.status.success() => Some(String::from_utf8(output.stdout).expect("text")),
        _ => {
            println!("SKIPPED: bpftool cannot list {PATH}");
            None
        }
    }
}

/// The value of `key=value` in a line of the listing.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

#[test]
fn knows_the_task() {
    let Some(btf) = vmlinux() else { return };
    let task = btf.find(Kind::Struct, "task_struct").expect("every kernel has it");
    assert_eq!(btf.to_type(btf.find_member(task, "comm").unwrap().ty), Type::Str { capacity_bytes: 16 });
    assert_eq!(btf.to_type(btf.find_member(task, "pid").unwrap().ty), Type::I32);
    assert_eq!(btf.describe(btf.find_member(task, "mm").unwrap().ty), "struct mm_struct *");
    let switch = btf.raw_tracepoints().find("sched_switch").expect("every kernel has it");
    assert_eq!((switch.args[1].name, btf.describe(switch.args[1].ty).as_str()), ("prev", "struct task_struct *"));
    assert!(btf.raw_tracepoints().named(|name| name.starts_with("sched_s")).contains(&switch));
    assert!(btf.raw_tracepoints().all().count() > 500 && btf.functions().count() > 10_000);
    assert_eq!(btf.find(Kind::Struct, "no_such_struct_at_all"), None);
    assert_eq!(btf.find_enumerator("BPF_MAP_TYPE_HASH").map(|(_, value)| value), Some(1));
}

#[test]
fn agrees_with_bpftool() {
    let (Some(btf), Some(listing)) = (vmlinux(), bpftool()) else { return };
    let (mut types, mut members, mut values) = (0_u32, 0_u32, 0_u32);
    let mut owner = super::BtfId(0);
    let mut rest: Vec<super::Member<'_>> = Vec::new();
    let mut left: Vec<(&str, i64)> = Vec::new();
    for line in listing.lines() {
        if let Some(entry) = line.strip_prefix('\t') {
            if let Some(offset) = field(entry, "bits_offset").filter(|_| !rest.is_empty()) {
                let member = rest.remove(0);
                assert_eq!(member.bit_offset.to_string(), offset, "{line} of {}", btf.describe(owner));
                assert_eq!(Some(member.ty.0.to_string().as_str()), field(entry, "type_id"));
                let width = member.bitfield_width.map(|width| width.to_string());
                assert_eq!(width.as_deref(), field(entry, "bitfield_size"));
                members += 1;
            } else if let Some(value) = field(entry, "val").filter(|_| !left.is_empty()) {
                let (name, number) = left.remove(0);
                assert!(entry.starts_with(&format!("'{name}'")), "{line} is not {name}");
                let value = value.trim_end_matches(['U', 'L']);
                assert!(value == number.to_string() || value == (number as u64).to_string(), "{line}: {number}");
                values += 1;
            }
            continue;
        }
        assert!(rest.is_empty() && left.is_empty(), "{} has more parts than bpftool knows", btf.describe(owner));
        let Some((id, _)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) else { continue };
        owner = super::BtfId(id.parse().expect("a number"));
        types += 1;
        let quoted = line.split('\'').nth(1).filter(|name| *name != "(anon)");
        assert_eq!(btf.name(owner), quoted, "{line}");
        if matches!(btf.kind(owner), Some(Kind::Struct | Kind::Union)) {
            assert_eq!(Some(btf.size_bytes(owner).to_string().as_str()), field(line, "size"), "{line}");
        }
        // A typedef of a struct has its members too, but the listing prints them only once.
        let own = btf.strip(owner) == owner;
        rest = btf.members(owner).filter(|_| own).collect();
        left = btf.enumerators(owner).filter(|_| own).collect();
    }
    println!("compared {types} types, {members} members, {values} enumerators");
    assert!(types > 10_000 && members > 10_000 && values > 1_000);
}

#[test]
fn finds_what_a_table_of_all_names_finds() {
    let Some(btf) = vmlinux() else { return };
    let mut first: HashMap<&str, super::BtfId> = HashMap::new();
    for (id, name) in btf.names(Kind::Struct) {
        first.entry(name).or_insert(id);
    }
    let mut names: Vec<_> = first.into_iter().collect();
    names.sort_unstable();
    for (name, id) in names.iter().step_by(names.len() / 40) {
        assert_eq!(btf.find(Kind::Struct, name), Some(*id), "{name}");
    }
}

#[test]
fn every_type_can_be_described() {
    let Some(btf) = vmlinux() else { return };
    let unknown = btf
        .blob
        .records()
        .filter(|(id, record)| {
            let words = btf.describe(*id);
            assert!(!words.split([' ', '[']).any(|word| word == "unknown"), "{id:?}: {words}");
            let value = matches!(record.kind, Kind::Int | Kind::Pointer | Kind::Array | Kind::Struct | Kind::Enum);
            value && btf.to_type(*id) == Type::Unknown
        })
        .count();
    assert_eq!(unknown, 0, "every type of a value is one of the language's");
}
