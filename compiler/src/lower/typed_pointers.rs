//! Typed pointers: the verifier knows their types, so memory is read with loads instead of a
//! helper.
//!
//! In: pointers as the script has them. Out: loads, each safe against faults, and null tests
//! between them.
//! Guarantee: only what every verifier from 6.1 on accepts. Such a pointer is never used in
//! arithmetic, compared or stored. The code only loads a number or the next pointer through it or,
//! once it is known not to be null, passes an address derived from it to a helper that takes any
//! number. A pointer that goes through a variable, a map, a cast or an array element has lost its
//! type, and is read with the helper.

use crate::btf::{BtfId, Step};
use crate::ir::{Addr, BinOp, BlockId, CmpOp, Likely, Size, VReg, Width};
use crate::lower::{Body, Value, memory};
use crate::typed::{Expr, ExprKind};
use crate::types::{Space, Type};

/// The value of a type at an offset from a pointer, read without a helper, or read with the
/// helper at an address that was found without one. `None` if neither is possible.
pub(super) fn read(cx: &mut Body<'_, '_>, pointer: &Expr, offset_bytes: u32, ty: &Type) -> Option<Value> {
    let owner = owner(cx, pointer)?;
    let size = number_size(ty).filter(|size| step_of(cx, owner, offset_bytes, *size) == Some(Step::Number));
    let wanted = cx.wanted.take();
    let found = match &pointer.kind {
        ExprKind::Builtin(word, _) => {
            let task = cx.b.call(cx.shared.catalogue.builtin_of(word).typed_by()?, &[]);
            size.map(|size| cx.b.peek(task, offset_bytes as i16, size))
        }
        _ => Some(found_or_zero(cx, pointer, offset_bytes, size)),
    };
    cx.wanted = wanted;
    let (found, signed) = (found?, ty.as_int().is_some_and(|int| int.signed));
    Some(match size {
        None => memory::read(cx, found, ty, Space::Kernel),
        Some(_) if signed => cx.extended(found, ty),
        Some(_) => Value::Scalar(found.into()),
    })
}

/// The number at an offset from a pointer or, without a size, its address. 0 if the pointer, or
/// one on the way to it, is null.
fn found_or_zero(cx: &mut Body<'_, '_>, pointer: &Expr, offset_bytes: u32, size: Option<Size>) -> VReg {
    let (null, done, result) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_vreg());
    let base = typed_pointer(cx, pointer, null);
    let found = match size {
        Some(size) => cx.b.peek(base, offset_bytes as i16, size),
        None => cx.b.bin(BinOp::Add, Width::W64, base, i64::from(offset_bytes)),
    };
    cx.b.assign(result, found);
    cx.b.jump(done);
    cx.b.switch_to(null);
    cx.b.assign(result, 0);
    cx.b.jump(done);
    cx.b.switch_to(done);
    result
}

/// The struct that a pointer points to, if [`Self::typed_pointer`] can yield the pointer.
fn owner(cx: &Body<'_, '_>, pointer: &Expr) -> Option<BtfId> {
    let Type::Pointer { to, space: Space::Kernel } = &pointer.ty else { return None };
    let Type::Struct { id, .. } = **to else { return None };
    // Failed reads are reported from the helper's result.
    if cx.shared.program.reports_failures {
        return None;
    }
    let found = match &pointer.kind {
        ExprKind::Builtin(word, _) => cx.shared.catalogue.builtin_of(word).typed_by().map(|_| id)?,
        ExprKind::ContextArg(word) => context_pointer(cx, *word)?,
        ExprKind::Deref { base, offset_bytes, bits: None } => match context_word(cx, base, *offset_bytes) {
            Some(word) => context_pointer(cx, word)?,
            None => match step_of(cx, owner(cx, base)?, *offset_bytes, Size::B8)? {
                Step::Pointer(to) => to,
                Step::Number => return None,
            },
        },
        _ => return None,
    };
    (found == id).then_some(found)
}

/// The struct that a word of the context points to.
fn context_pointer(cx: &Body<'_, '_>, word: u32) -> Option<BtfId> {
    // In a loop the context pointer is loaded from memory.
    let is_here = cx.captures.depth() == 0;
    let typed = &cx.probe.context.typed_words;
    typed.iter().find(|(of, _)| is_here && *of == word).map(|(_, to)| *to)
}

fn step_of(cx: &Body<'_, '_>, owner: BtfId, offset_bytes: u32, size: Size) -> Option<Step> {
    i16::try_from(offset_bytes).ok()?;
    cx.shared.target.btf()?.verifier().walk(owner, offset_bytes, size.bytes())
}

/// A typed pointer in a register. If it, or one on the way to it, is null, jumps to `null`.
fn typed_pointer(cx: &mut Body<'_, '_>, pointer: &Expr, null: BlockId) -> VReg {
    let found = match &pointer.kind {
        ExprKind::Builtin(word, _) => match cx.shared.catalogue.builtin_of(word).typed_by() {
            Some(helper) => return cx.b.call(helper, &[]),
            None => cx.scalar_reg(pointer),
        },
        ExprKind::ContextArg(word) => load_context(cx, *word),
        ExprKind::Deref { base, offset_bytes, .. } => match context_word(cx, base, *offset_bytes) {
            Some(word) => load_context(cx, word),
            None => {
                let base = typed_pointer(cx, base, null);
                cx.b.peek(base, *offset_bytes as i16, Size::B8)
            }
        },
        _ => cx.scalar_reg(pointer),
    };
    // Verifier: it demands the test for members tagged `__rcu`, and for some others. An address
    // near 0 could not be read anyway.
    let some = cx.b.new_block();
    cx.b.branch(CmpOp::Ne, Width::W64, found, 0, some, null, Likely::Then);
    cx.b.switch_to(some);
    found
}

fn load_context(cx: &mut Body<'_, '_>, word: u32) -> VReg {
    let context = cx.b.context();
    cx.b.load(Addr::reg(context, word as i32 * 8), Size::B8)
}

/// The index of the context word at this offset from the context.
fn context_word(cx: &Body<'_, '_>, base: &Expr, offset_bytes: u32) -> Option<u32> {
    let ExprKind::Builtin(word, _) = &base.kind else { return None };
    (cx.shared.catalogue.builtin_of(word).is_context() && offset_bytes.is_multiple_of(8)).then_some(offset_bytes / 8)
}

/// The size of a number; `None` for pointers.
fn number_size(ty: &Type) -> Option<Size> {
    match ty {
        Type::Pointer { .. } => None,
        ty => Size::from_bytes(u32::from(ty.as_int()?.size_bytes)),
    }
}
