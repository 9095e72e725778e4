//! Typed pointers: the verifier knows their types, so memory is read with loads instead of a
//! helper.
//!
//! In: pointers as the script has them. Out: loads, each safe against faults, and null tests
//! between them.
//! Guarantee: only what every verifier from 6.1 on accepts. Such a pointer is never used in
//! arithmetic, compared or stored. The code only loads through it or, once it is known not to be
//! null, passes an address derived from it to a helper that takes any number. A pointer that goes
//! through a variable, a map, a cast or an array element has lost its type, as have the arguments
//! of kprobes and raw tracepoints. Since 6.2 a kfunc gives such a number a type again, at no cost;
//! before, memory there is read with the helper, which takes about 50 ns.

use crate::btf::{BtfId, Kind, Step};
use crate::catalogue::TypedPointers;
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Size, VReg, Width};
use crate::lower::{Body, Value, kernel_functions, memory};
use crate::typed::{Expr, ExprKind};
use crate::types::{Space, Type};

/// The first kernel with `bpf_rdonly_cast`.
const CASTS_SINCE: (u32, u32) = (6, 2);

/// The value of a type at an offset from a pointer, read without a helper, or read with the
/// helper at an address that was found without one. `None` if neither is possible.
pub(super) fn read(cx: &mut Body<'_, '_>, pointer: &Expr, offset_bytes: u32, ty: &Type) -> Option<Value> {
    if let Some(word) = pointer_in_context(cx, pointer, offset_bytes, ty) {
        let found = load_context(cx, word);
        return Some(Value::Scalar(memory::as_number(cx, found).into()));
    }
    let typed = owner(cx, pointer);
    let owner = typed.or_else(|| owner_after_cast(cx, pointer))?;
    let load = load_of(cx, owner, offset_bytes, ty);
    if typed.is_none() && load.is_none() {
        // For the helper, a number will do.
        return None;
    }
    let wanted = cx.wanted.take();
    let size = load.map(|(size, _)| size);
    let found = match &pointer.kind {
        ExprKind::Builtin(word, _) if typed.is_some() => {
            let task = cx.b.call(cx.shared.catalogue.builtin_of(word).typed_by()?, &[]);
            size.map(|size| cx.b.peek(task, offset_bytes as i16, size))
        }
        _ => Some(found_or_zero(cx, pointer, offset_bytes, size)),
    };
    cx.wanted = wanted;
    let (found, signed) = (found?, ty.as_int().is_some_and(|int| int.signed));
    Some(match load {
        None => memory::read(cx, found, ty, Space::Kernel),
        Some((_, Step::Pointer(_) | Step::Address)) => Value::Scalar(memory::as_number(cx, found).into()),
        Some(_) if signed => cx.extended(found, ty),
        Some(_) => Value::Scalar(found.into()),
    })
}

/// The index of the context's word that is this pointer, where the verifier knows its type.
fn pointer_in_context(cx: &Body<'_, '_>, base: &Expr, offset_bytes: u32, ty: &Type) -> Option<u32> {
    let known = known(cx);
    let word = known.context_word(base, offset_bytes).filter(|_| matches!(ty, Type::Pointer { .. }))?;
    known.words.iter().any(|(typed, _)| *typed == word).then_some(word)
}

/// How a value of a type is loaded from a struct: the size, and what the verifier takes the result
/// for. `None` if it cannot be loaded.
fn load_of(cx: &Body<'_, '_>, owner: BtfId, offset_bytes: u32, ty: &Type) -> Option<(Size, Step)> {
    let size = Size::from_bytes(u32::from(ty.as_int()?.size_bytes))?;
    let step = known(cx).step(owner, offset_bytes, size.bytes())?;
    Some((size, step))
}

/// What is loaded at an offset from a pointer or, without a size, its address. 0 if the pointer, or
/// one on the way to it, is null.
fn found_or_zero(cx: &mut Body<'_, '_>, pointer: &Expr, offset_bytes: u32, size: Option<Size>) -> VReg {
    found_or(cx, pointer, 0, |cx, base| match size {
        Some(size) => cx.b.peek(base, offset_bytes as i16, size),
        None => cx.b.bin(BinOp::Add, Width::W64, base, i64::from(offset_bytes)),
    })
}

/// What `read` makes of a typed pointer. `otherwise` if the pointer, or one on the way to it, is
/// null.
fn found_or(
    cx: &mut Body<'_, '_>,
    pointer: &Expr,
    otherwise: i64,
    read: impl FnOnce(&mut Body<'_, '_>, VReg) -> VReg,
) -> VReg {
    let (null, done, result) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_vreg());
    let found = typed_pointer(cx, pointer, null);
    let found = read(cx, found);
    cx.b.assign(result, found);
    cx.b.jump(done);
    cx.b.switch_to(null);
    cx.b.assign(result, otherwise);
    cx.b.jump(done);
    cx.b.switch_to(done);
    result
}

/// What is known about pointers here. In a loop the context pointer is loaded from memory, and has
/// no type.
fn known<'b>(cx: &'b Body<'_, '_>) -> TypedPointers<'b> {
    let words = if cx.captures.depth() == 0 { cx.probe.context.typed_words.as_slice() } else { &[] };
    TypedPointers { catalogue: cx.shared.catalogue, btf: cx.shared.target.btf(), words }
}

/// The struct that a pointer points to, if the verifier knows it.
fn owner(cx: &Body<'_, '_>, pointer: &Expr) -> Option<BtfId> {
    // Failed reads are reported from the helper's result.
    if cx.shared.program.reports_failures { None } else { known(cx).owner(pointer) }
}

/// The struct that a pointer points to, if the verifier can be told.
fn owner_after_cast(cx: &mut Body<'_, '_>, pointer: &Expr) -> Option<BtfId> {
    let to = pointee(&pointer.ty)?;
    let is_context = |word| cx.shared.catalogue.builtin_of(word).is_context();
    let is_refused = matches!(&pointer.kind, ExprKind::Builtin(word, _) if is_context(word));
    (!is_refused && can_cast(cx)).then_some(to)
}

/// The struct to which a pointer into kernel memory points.
fn pointee(ty: &Type) -> Option<BtfId> {
    let Type::Pointer { to, space: Space::Kernel } = ty else { return None };
    if let Type::Struct { id, .. } = **to { Some(id) } else { None }
}

/// Whether programs can tell the verifier what a number points to.
fn can_cast(cx: &mut Body<'_, '_>) -> bool {
    let target = cx.shared.target;
    // Failed reads are reported from the helper's result.
    if cx.shared.program.reports_failures || target.kernel() < CASTS_SINCE || !target.calls_kernel_functions() {
        return false;
    }
    kernel_functions::know(cx, &[Helper::RdonlyCast]);
    cx.shared.ir.kernel_functions.iter().any(|(helper, _)| *helper == Helper::RdonlyCast)
}

/// A pointer to a struct of the kernel, read at any address: as the first member of a struct that
/// begins with a pointer. Other values are left to the helper, so that scripts that use no types of
/// the kernel start without reading them.
pub(super) fn read_pointer(cx: &mut Body<'_, '_>, address: VReg, ty: &Type) -> Option<VReg> {
    let to = pointee(ty)?;
    let btf = cx.shared.target.btf().filter(|btf| !btf.is_added(to))?;
    let link = *cx.shared.list_head.get_or_init(|| btf.find(Kind::Struct, "list_head"));
    let link = link?;
    if !can_cast(cx) || !matches!(known(cx).step(link, 0, 8)?, Step::Pointer(_) | Step::Address) {
        return None;
    }
    let link = Arg::Value(i64::from(link.0).into());
    let link = cx.b.call(Helper::RdonlyCast, &[Arg::Value(address.into()), link]);
    let found = cx.b.peek(link, 0, Size::B8);
    Some(memory::as_number(cx, found))
}

/// The result of `call` for a typed pointer, or for the address of a struct in the memory at one; 0
/// if the pointer, or one on the way to it, is null. The checker has made sure that it is typed.
pub(crate) fn call_or_zero(
    cx: &mut Body<'_, '_>,
    argument: &Expr,
    call: impl FnOnce(&mut Body<'_, '_>, VReg) -> VReg,
) -> VReg {
    call_or(cx, argument, 0, call)
}

/// As [`call_or_zero`], with another result for a null pointer.
pub(super) fn call_or(
    cx: &mut Body<'_, '_>,
    argument: &Expr,
    otherwise: i64,
    call: impl FnOnce(&mut Body<'_, '_>, VReg) -> VReg,
) -> VReg {
    let (pointer, offset_bytes) = match &argument.kind {
        ExprKind::Deref { base, offset_bytes, .. } if matches!(argument.ty, Type::Struct { .. }) => {
            (base.as_ref(), *offset_bytes)
        }
        _ => (argument, 0),
    };
    found_or(cx, pointer, otherwise, |cx, found| {
        let argument = match offset_bytes {
            0 => found,
            _ => cx.b.bin(BinOp::Add, Width::W64, found, i64::from(offset_bytes)),
        };
        call(cx, argument)
    })
}

/// The path of a `struct path`, empty if the kernel cannot say it.
pub(crate) fn whole_path(cx: &mut Body<'_, '_>, path: &Expr, capacity_bytes: u32) -> Value {
    // The kernel writes the path to the end of the memory, and then moves it to the start, so it is
    // copied to where the bytes after the string's end are 0.
    let wanted = cx.wanted.take();
    let whole = cx.allocate(&Type::Str { capacity_bytes });
    let length = call_or_zero(cx, path, |cx, path| {
        let (to, size) = (cx.address_arg(whole), Arg::Value(i64::from(capacity_bytes).into()));
        cx.b.call(Helper::DPath, &[Arg::Value(path.into()), to, size])
    });
    let (refused, done) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::SLe, Width::W64, length, 0, refused, done, Likely::Otherwise);
    cx.b.switch_to(refused);
    cx.b.store(whole, 0, Size::B1);
    cx.b.jump(done);
    cx.b.switch_to(done);
    cx.wanted = wanted;
    let address = cx.address(whole);
    memory::read_string(cx, memory::Source { address, space: Space::Kernel }, capacity_bytes)
}

/// A typed pointer in a register. If it, or one on the way to it, is null, jumps to `null`; one
/// that was cast is not tested.
fn typed_pointer(cx: &mut Body<'_, '_>, pointer: &Expr, null: BlockId) -> VReg {
    let is_known = known(cx).owner(pointer).is_some();
    let found = match &pointer.kind {
        ExprKind::Builtin(word, _) if is_known => match cx.shared.catalogue.builtin_of(word).typed_by() {
            Some(helper) => return cx.b.call(helper, &[]),
            None => cx.scalar_reg(pointer),
        },
        ExprKind::ContextArg(word) if is_known => load_context(cx, *word),
        ExprKind::Deref { base, offset_bytes, .. } if is_known || is_followed(cx, pointer) => {
            match known(cx).context_word(base, *offset_bytes) {
                Some(word) => load_context(cx, word),
                None => {
                    let base = typed_pointer(cx, base, null);
                    cx.b.peek(base, *offset_bytes as i16, Size::B8)
                }
            }
        }
        _ => return cast(cx, pointer),
    };
    // Verifier: it demands the test for members tagged `__rcu`, and for some others. An address
    // near 0 could not be read anyway.
    let some = cx.b.new_block();
    cx.b.branch(CmpOp::Ne, Width::W64, found, 0, some, null, Likely::Then);
    cx.b.switch_to(some);
    found
}

/// Whether a pointer is a member of a struct in memory, and the verifier knows the type of the
/// pointer once that of the struct is given.
fn is_followed(cx: &mut Body<'_, '_>, pointer: &Expr) -> bool {
    let ExprKind::Deref { base, offset_bytes, bits: None } = &pointer.kind else { return false };
    let (Some(owner), Some(to)) = (owner_after_cast(cx, base), owner_after_cast(cx, pointer)) else { return false };
    known(cx).step(owner, *offset_bytes, Size::B8.bytes()) == Some(Step::Pointer(to))
}

/// A number, to which the verifier then gives the type of the script. Loads through it need no test
/// for null.
fn cast(cx: &mut Body<'_, '_>, pointer: &Expr) -> VReg {
    let Some(to) = owner_after_cast(cx, pointer) else { return cx.scalar_reg(pointer) };
    let address = cx.scalar_reg(pointer);
    cx.b.call(Helper::RdonlyCast, &[Arg::Value(address.into()), Arg::Value(i64::from(to.0).into())])
}

fn load_context(cx: &mut Body<'_, '_>, word: u32) -> VReg {
    let context = cx.b.context();
    cx.b.load(Addr::reg(context, word as i32 * 8), Size::B8)
}
