//! Tests: one invalid program for each rule.

use super::verify;
use crate::ir::build::FunctionBuilder;
use crate::ir::{
    Addr, Arg, BinOp, BlockId, CmpOp, FunctionId, Helper, Inst, Likely, Map, MapId, MapKind, Program, Role, Section,
    Size, SlotId, Terminator, VReg, Width,
};
use crate::source::Span;

fn map(name: &str, kind: MapKind) -> Map {
    let (size_bytes, max_entries) = if kind == MapKind::RingBuf { (0, 4096) } else { (8, 16) };
    Map {
        name: name.into(),
        kind,
        key_size_bytes: size_bytes,
        value_size_bytes: size_bytes,
        max_entries,
        no_prealloc: false,
    }
}

/// A program with a hash map, a ring buffer, 4 bytes of `.rodata`, 16 bytes of `.bss`, and one
/// function that `body` builds, with an 8-byte slot, a 2-byte slot and 16 bytes of context.
fn program(body: impl FnOnce(&mut FunctionBuilder)) -> Program {
    let mut b = FunctionBuilder::new("f", "raw_tp/x", Span::default());
    b.set_context_size(16);
    b.slot(8, 8, "wide");
    b.slot(2, 2, "narrow");
    body(&mut b);
    b.ret(0);
    Program {
        functions: vec![b.finish()],
        subprograms: Vec::new(),
        maps: vec![map("hash", MapKind::Hash), map("ring", MapKind::RingBuf)],
        rodata: vec![0; 4],
        rodata_names: Vec::new(),
        bss_size_bytes: 16,
        kernel_functions: Vec::new(),
    }
}

const WIDE: SlotId = SlotId(0);
const NARROW: SlotId = SlotId(1);

fn assert_fault(program: &Program, expected: &str) {
    match verify(program) {
        Ok(()) => panic!("passes, but should have `{expected}`"),
        Err(faults) => assert_eq!(faults, [expected]),
    }
}

fn assert_body_fault(body: impl FnOnce(&mut FunctionBuilder), expected: &str) {
    assert_fault(&program(body), &format!("fn f: b0: {expected}"));
}

#[test]
fn what_keeps_the_rules_passes() {
    let good = program(|b| {
        b.zero(Addr::slot(WIDE, 0), 8);
        let value = b.call(Helper::MapLookupElem, &[MapId(0).into(), WIDE.into()]);
        let (hit, end) = (b.new_block(), b.new_block());
        b.branch(CmpOp::Ne, Width::W64, value, 0, hit, end, Likely::Then);
        b.switch_to(hit);
        let one = b.copy(1);
        b.atomic_add(Addr::reg(value, 0), one, Size::B8);
        b.jump(end);
        b.switch_to(end);
        let counter = b.data_addr(Section::Bss, 8);
        b.store(Addr::reg(counter, 0), 1, Size::B8);
    });
    assert_eq!(verify(&good), Ok(()));
}

#[test]
fn a_register_must_be_assigned_on_every_path() {
    let one_sided = program(|b| {
        let x = b.new_vreg();
        let (then, end) = (b.new_block(), b.new_block());
        let zero = b.copy(0);
        b.branch(CmpOp::Eq, Width::W64, zero, 0, then, end, Likely::Unknown);
        b.switch_to(then);
        b.assign(x, 1);
        b.jump(end);
        b.switch_to(end);
        b.copy(x);
    });
    assert_fault(&one_sided, "fn f: b2: `%2 = %0`: %0 may not be assigned");
    assert_body_fault(
        |b| {
            let x = b.new_vreg();
            let next = b.new_block();
            b.branch(CmpOp::Eq, Width::W64, x, 0, next, next, Likely::Unknown);
            b.switch_to(next);
        },
        "`if %0 == 0 goto b1 else b1`: %0 may not be assigned",
    );
}

#[test]
fn numbers_must_be_in_range() {
    assert_body_fault(|b| b.assign(VReg(7), 1), "`%7 = 1`: no such register");
    assert_body_fault(|b| b.jump(BlockId(9)), "`goto b9`: no such block");
    let slot = |b: &mut FunctionBuilder| b.store(Addr::slot(SlotId(5), 0), 1, Size::B1);
    assert_body_fault(slot, "`store1 [slot?5] = 1`: no such slot");
    let lookup = |b: &mut FunctionBuilder| {
        b.call_void(Helper::MapLookupElem, &[MapId(4).into(), WIDE.into()]);
    };
    assert_body_fault(lookup, "`call map_lookup_elem(@?4, &wide0)`: argument 1: no such map");
    let mut empty = program(|_| {});
    empty.functions[0].blocks.clear();
    assert_fault(&empty, "fn f: has no blocks");
}

#[test]
fn stack_accesses_stay_inside_and_aligned() {
    let store = |offset, size| move |b: &mut FunctionBuilder| b.store(Addr::slot(WIDE, offset), 1, size);
    assert_body_fault(store(8, Size::B1), "`store1 [wide0+8] = 1`: outside its slot of 8 bytes");
    assert_body_fault(store(-1, Size::B1), "`store1 [wide0-1] = 1`: outside its slot of 8 bytes");
    assert_body_fault(store(2, Size::B4), "`store4 [wide0+2] = 1`: not aligned to 4 bytes");
    let zero = |b: &mut FunctionBuilder| b.zero(Addr::slot(NARROW, 1), 2);
    assert_body_fault(zero, "`zero [narrow1+1], 2`: outside its slot of 2 bytes");
    let address = |b: &mut FunctionBuilder| {
        b.slot_addr(WIDE, 8);
    };
    assert_body_fault(address, "`%0 = &wide0+8`: outside its slot of 8 bytes");
    let overlap = |b: &mut FunctionBuilder| {
        b.move_(Addr::slot(WIDE, 0), Addr::slot(WIDE, 2), 4, 2);
    };
    assert_body_fault(overlap, "`move [wide0] = [wide0+2], 4 align 2`: the ranges overlap");
    let odd = |b: &mut FunctionBuilder| {
        b.move_(Addr::slot(WIDE, 0), Addr::slot(WIDE, 3), 3, 3);
    };
    assert_body_fault(odd, "`move [wide0] = [wide0+3], 3 align 3`: no such alignment");
    let aligned = |b: &mut FunctionBuilder| {
        b.move_(Addr::slot(WIDE, 0), Addr::slot(NARROW, 0), 2, 4);
    };
    assert_body_fault(aligned, "`move [wide0] = [narrow1], 2 align 4`: not aligned to 4 bytes");
}

#[test]
fn subprograms_fit_the_helpers_that_call_them() {
    let subprogram = |name: &str, role, body: &dyn Fn(&mut FunctionBuilder)| {
        let mut b = FunctionBuilder::subprogram(name, role, Span::default());
        body(&mut b);
        b.ret(0);
        b.finish()
    };
    let calls = |id| {
        move |b: &mut FunctionBuilder| {
            b.call_void(Helper::Loop, &[1.into(), Arg::Function(FunctionId(id)), WIDE.into(), 0.into()]);
        }
    };
    let with = |role, callee: &dyn Fn(&mut FunctionBuilder), id| {
        let mut whole = program(calls(id));
        whole.subprograms = vec![subprogram("s", role, callee)];
        whole
    };
    let empty = |_: &mut FunctionBuilder| {};
    assert_eq!(verify(&with(Role::Iteration, &empty, 0)), Ok(()));
    let other = "fn f: b0: `call loop(1, s, &wide0, 0)`: argument 2: the helper calls other subprograms";
    assert_fault(&with(Role::Entry, &empty, 0), other);
    let none = "fn f: b0: `call loop(1, fn?3, &wide0, 0)`: argument 2: no such subprogram";
    assert_fault(&with(Role::Iteration, &empty, 3), none);
    let itself = |b: &mut FunctionBuilder| {
        b.call_void(Helper::Loop, &[1.into(), Arg::Function(FunctionId(0)), 0.into(), 0.into()]);
    };
    let recursion = "fn s: b0: `call loop(1, s, 0, 0)`: argument 2: a subprogram is made before it is named";
    assert_fault(&with(Role::Iteration, &itself, 0), recursion);
    let third = |b: &mut FunctionBuilder| {
        b.parameter(2);
    };
    let seven = Arg::Value(7.into());
    let apart = |arguments: &[Arg]| {
        let mut whole = with(Role::Apart, &empty, 0);
        let call = |b: &mut FunctionBuilder| b.call_void(Helper::RunApart, arguments);
        whole.functions = program(call).functions;
        verify(&whole)
    };
    assert_eq!(apart(&[Arg::Function(FunctionId(0)), seven, seven]), Ok(()));
    let few = "fn f: b0: `call run_apart(s, 7)`: takes 3 arguments";
    assert_eq!(apart(&[Arg::Function(FunctionId(0)), seven]), Err(vec![few.to_string()]));
    assert_fault(&with(Role::Iteration, &third, 0), "fn s: b0: `%0 = parameter 2`: no such parameter");
    let context = |b: &mut FunctionBuilder| b.call_void(Helper::GetAttachCookie, &[Arg::Context]);
    let unseen = "fn s: b0: `call get_attach_cookie(context)`: argument 1: the function has no context";
    assert_fault(&with(Role::Iteration, &context, 0), unseen);
    let mut misplaced = program(|_| {});
    misplaced.functions.push(subprogram("s", Role::Entry, &empty));
    assert_fault(&misplaced, "fn s: a program is no subprogram");
}

#[test]
fn helpers_get_what_they_take() {
    let arity = |b: &mut FunctionBuilder| b.call_void(Helper::KtimeGetNs, &[0.into()]);
    assert_body_fault(arity, "`call ktime_get_ns(0)`: takes 0 arguments");
    let no_map = |b: &mut FunctionBuilder| {
        b.call_void(Helper::MapLookupElem, &[0.into(), WIDE.into()]);
    };
    assert_body_fault(no_map, "`call map_lookup_elem(0, &wide0)`: argument 1: must be a map");
    let key = |b: &mut FunctionBuilder| {
        b.call_void(Helper::MapLookupElem, &[MapId(0).into(), NARROW.into()]);
    };
    let expected = "`call map_lookup_elem(@hash, &narrow1)`: argument 2: outside its slot of 2 bytes";
    assert_body_fault(key, expected);
    let kind = |b: &mut FunctionBuilder| {
        b.call_void(Helper::RingbufQuery, &[MapId(0).into(), 0.into()]);
    };
    let expected = "`call ringbuf_query(@hash, 0)`: argument 1: \
                    the helper does not work on this kind of map";
    assert_body_fault(kind, expected);
    let context = |b: &mut FunctionBuilder| {
        b.call_void(Helper::GetCurrentComm, &[Arg::Context, 8.into()]);
    };
    let expected = "`call get_current_comm(context, 8)`: argument 1: the context does not go here";
    assert_body_fault(context, expected);
    let size = |b: &mut FunctionBuilder| {
        b.call_void(Helper::ProbeReadKernel, &[WIDE.into(), 9.into(), 0.into()]);
    };
    let expected = "`call probe_read_kernel(&wide0, 9, 0)`: argument 1: \
                    outside its slot of 8 bytes";
    assert_body_fault(size, expected);
    let misplaced = |b: &mut FunctionBuilder| {
        b.call_void(Helper::GetCurrentComm, &[WIDE.into(), MapId(0).into()]);
    };
    let expected = "`call get_current_comm(&wide0, @hash)`: argument 2: a map does not go here";
    assert_body_fault(misplaced, expected);
}

#[test]
fn data_and_context_stay_inside() {
    let data = |b: &mut FunctionBuilder| {
        b.data_addr(Section::Rodata, 4);
    };
    assert_body_fault(data, "`%0 = &rodata+4`: outside the section");
    let past = |b: &mut FunctionBuilder| {
        let bss = b.data_addr(Section::Bss, 8);
        b.load(Addr::reg(bss, 8), Size::B1);
    };
    assert_body_fault(past, "`%1 = load1 [%0+8]`: outside the context or section");
    let write = |b: &mut FunctionBuilder| {
        let rodata = b.data_addr(Section::Rodata, 0);
        b.store(Addr::reg(rodata, 0), 1, Size::B1);
    };
    assert_body_fault(write, "`store1 [%0] = 1`: writes to read-only data");
    let context = |b: &mut FunctionBuilder| {
        let context = b.context();
        b.load(Addr::reg(context, 16), Size::B8);
    };
    assert_body_fault(context, "`%1 = load8 [%0+16]`: outside the context or section");
    let none = |b: &mut FunctionBuilder| {
        b.set_context_size(0);
        b.context();
    };
    assert_body_fault(none, "`%0 = context`: the function has no context");
}

#[test]
fn operations_have_sizes_that_exist() {
    let atomic = |op, size| {
        move |b: &mut FunctionBuilder| {
            let src = b.copy(1);
            b.inst(Inst::Atomic { op, addr: Addr::slot(WIDE, 0), src, fetch: None, size });
        }
    };
    let expected = "`atomic_add2 [wide0], %0`: atomic operations have 4 or 8 bytes";
    assert_body_fault(atomic(BinOp::Add, Size::B2), expected);
    assert_body_fault(atomic(BinOp::Mul, Size::B8), "`atomic_mul8 [wide0], %0`: no such atomic operation");
    let swap = |b: &mut FunctionBuilder| {
        let x = b.copy(1);
        b.swap(x, Size::B1);
    };
    assert_body_fault(swap, "`%1 = swap1 %0`: one byte has no other order");
    let zero = |b: &mut FunctionBuilder| b.zero(Addr::slot(WIDE, 0), 0);
    assert_body_fault(zero, "`zero [wide0], 0`: no bytes");
}

#[test]
fn maps_and_names_are_sound() {
    let with = |change: fn(&mut Program)| {
        let mut program = program(|_| {});
        change(&mut program);
        program
    };
    let twice = with(|p| p.functions.push(p.functions[0].clone()));
    assert_fault(&twice, "fn f: there are two of this name");
    let same = with(|p| p.maps[1].name = "hash".into());
    assert_fault(&same, "map @hash: there are two of this name");
    let symbol = with(|p| p.maps[0].name = "@x".into());
    assert_fault(&symbol, "map @@x: the name is no symbol");
    let ring = with(|p| p.maps[1].max_entries = 5000);
    assert_fault(&ring, "map @ring: the ring is no power of two of pages");
    let keyed = with(|p| p.maps[1].key_size_bytes = 4);
    assert_fault(&keyed, "map @ring: a ring has no key and value");
    let keyless = with(|p| p.maps[0].key_size_bytes = 0);
    assert_fault(&keyless, "map @hash: key or value have no size");
    let array = with(|p| p.maps[0].kind = MapKind::Array);
    assert_fault(&array, "map @hash: the key of this kind has 4 bytes");
    let slot = with(|p| p.functions[0].slots[0].align_bytes = 3);
    assert_fault(&slot, "fn f: slot wide0: bad size or alignment");
}

#[test]
fn code_that_nothing_reaches_may_read_anything() {
    let dead = program(|b| {
        let x = b.new_vreg();
        b.end(Terminator::Return(0));
        b.copy(x);
    });
    assert_eq!(verify(&dead), Ok(()));
}
