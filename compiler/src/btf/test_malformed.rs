//! Tests on small blobs: intact, truncated, and corrupted.
//!
//! In: [`super::fixture`]. Guarantee tested: correct results on intact blobs; no panic and no
//! endless loop on others.

use super::fixture::{BlobBuilder, small_kernel};
use super::{Btf, BtfId, Kind};
use crate::types::{Int, Space, Type};

#[test]
fn reads_members_and_sizes() {
    let btf = small_kernel().open();
    let task = btf.find(Kind::Struct, "task_struct").expect("a struct");
    assert_eq!(btf.size_bytes(task), 48);
    assert_eq!(btf.describe(task), "struct task_struct");
    let stop = btf.find_member(task, "stop").expect("inside an anonymous union");
    assert_eq!((stop.bit_offset, stop.byte_offset()), (192, 24));
    assert_eq!(btf.to_type(btf.find_member(task, "comm").unwrap().ty), Type::Str { capacity_bytes: 16 });
    assert_eq!(btf.to_type(btf.find_member(task, "pid").unwrap().ty), Type::I32);
    assert_eq!(btf.to_type(btf.find_member(task, "idle").unwrap().ty), Type::Bool);
    assert_eq!(btf.describe(btf.find_member(task, "pid").unwrap().ty), "pid_t");
    assert_eq!(btf.describe(btf.find_member(task, "comm").unwrap().ty), "char[16]");
    assert!(btf.find_member(task, "").is_none() && btf.find_member(task, "nothing").is_none());
}

#[test]
fn reads_bit_fields() {
    let btf = small_kernel().open();
    let flags = btf.find_named("struct flags").expect("a struct");
    let found: Vec<_> = btf.members(flags).map(|m| (m.name, m.bit_offset, m.bitfield_width)).collect();
    assert_eq!(found, [("low", 0, Some(3)), ("high", 3, Some(5))]);
}

#[test]
fn reads_enumerators() {
    let btf = small_kernel().open();
    let colour = btf.find_named("enum colour").expect("an enum");
    assert_eq!(btf.find_enumerator("BLUE"), Some((colour, -1)));
    assert_eq!(btf.find_enumerator("HUGE").map(|(_, value)| value), Some((1 << 32) + 1));
    assert_eq!(btf.find_enumerator("GREEN"), None);
    assert_eq!(btf.to_type(colour), Type::Enum { id: colour, int: Int::I32 });
}

#[test]
fn reads_functions_and_raw_tracepoints() {
    let btf = small_kernel().open();
    let names: Vec<&str> = btf.functions().map(|(_, name)| name).collect();
    assert_eq!(names, ["__traceiter_sched_switch", "wake_up"]);
    let proto = btf.func_proto(btf.find(Kind::Function, "wake_up").unwrap()).expect("a function");
    assert!(proto.variadic && proto.params.len() == 1);
    assert_eq!(btf.describe(proto.ret), "int32");
    let all: Vec<_> = btf.raw_tracepoints().all().map(|tracepoint| (tracepoint.name, tracepoint.args.len())).collect();
    assert_eq!(all, [("sched_switch", 2)]);
    let switch = btf.raw_tracepoints().find("sched_switch").expect("a tracepoint");
    assert_eq!(btf.raw_tracepoints().named(|name| name == "sched_switch"), std::slice::from_ref(&switch));
    assert!(btf.raw_tracepoints().named(|_| false).is_empty());
    let task = btf.find(Kind::Struct, "task_struct").unwrap();
    let pointer = Type::Pointer { to: Box::new(Type::Struct { id: task, space: Space::Kernel }), space: Space::Kernel };
    let args: Vec<_> = switch.args.iter().map(|arg| (arg.name, btf.to_type(arg.ty))).collect();
    assert_eq!(args, [("prev", pointer.clone()), ("next", pointer)]);
    assert_eq!(btf.describe(switch.args[0].ty), "struct task_struct *");
}

#[test]
fn finds_whole_names_of_the_asked_kind_only() {
    let btf = small_kernel().open();
    for name in ["", "task", "ask_struct", "pid", "task_struct\0"] {
        assert_eq!(btf.find(Kind::Struct, name), None, "{name:?}");
    }
    assert!(btf.find(Kind::Typedef, "pid_t").is_some() && btf.find(Kind::Struct, "pid_t").is_none());
}

#[test]
fn refuses_other_files() {
    let refused = |bytes: Vec<u8>| Btf::new(Box::new(bytes)).is_none();
    assert!(refused(Vec::new()));
    assert!(refused(b"\x7fELF".repeat(20)));
    let blob = small_kernel().bytes();
    assert!(refused(blob[..blob.len() - 1].to_vec()), "the strings are cut off");
}

#[test]
fn circular_types_end() {
    let mut blob = BlobBuilder::new();
    let own = BtfId(1);
    blob.record(4, "own", 8, &[("", own, u32::MAX), ("", own, u32::MAX), ("", own, 0)]);
    blob.add("typedef", 8, 0, 2, &[]);
    blob.add("", 2, 0, 3, &[]);
    blob.array(BtfId(4), u32::MAX);
    let btf = blob.open();
    ask_everything(&btf);
    assert_eq!(btf.find_member(own, "nothing"), None);
    assert_eq!(btf.size_bytes(BtfId(4)), 0);
}

#[test]
fn damaged_blobs_never_panic() {
    let whole = small_kernel().bytes();
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut opened = 0;
    for _ in 0..3_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random(6) {
            // Half of the corruption writes small numbers, which types use to refer to each other.
            let value = if random(2) == 0 { random(32) } else { random(256) };
            let at = random(bytes.len());
            bytes[at] = value as u8;
        }
        if random(4) == 0 {
            bytes.truncate(random(bytes.len()));
        }
        if let Some(btf) = Btf::new(Box::new(bytes)) {
            opened += 1;
            ask_everything(&btf);
        }
    }
    assert!(opened > 500, "the damage leaves enough to read: {opened}");
}

/// Runs every query on every type, and on ids beyond the last.
fn ask_everything(btf: &Btf) {
    for id in (0..40).map(BtfId).chain([BtfId(u32::MAX)]) {
        let _ = (btf.kind(id), btf.name(id), btf.strip(id), btf.pointee(id), btf.array(id), btf.int(id));
        let _ = (btf.describe(id), btf.size_bytes(id), btf.to_type(id), btf.func_proto(id), btf.enum_signed(id));
        let _ = (btf.members(id).count(), btf.enumerators(id).count(), btf.find_member(id, "stop"));
    }
    let _ = (btf.find_enumerator("BLUE"), btf.find(Kind::Struct, "task_struct"), btf.functions().count());
    let _ = (btf.raw_tracepoints().all().count(), btf.raw_tracepoints().find("sched_switch"));
}
