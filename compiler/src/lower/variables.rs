//! Reads and writes variables, wherever they are stored.
//!
//! In: a variable. Out: its value, its address, a new value.
//! Guarantee: a variable that a loop shares with the code around it is read from and written to
//! scratch memory each time.

use crate::ir::{Addr, Operand, Size};
use crate::lower::captures::Mentions;
use crate::lower::function::{VarPlace, Variables};
use crate::lower::{Body, Value, memory};
use crate::typed::{Expr, ExprKind, VarIndex};
use crate::types::Type;

/// Places the variables of a program's own function.
pub(super) fn declare(cx: &mut Body<'_, '_>) {
    cx.function.vars = Variables::default();
    for (index, var) in cx.probe.vars.iter().enumerate() {
        let is_scalar = var.ty.is_scalar() || var.ty == Type::Unknown;
        let place = match (cx.captures.of_var(index), is_scalar) {
            (Mentions::Loop, _) => None,
            // Defined on every path; the optimiser removes what is not needed.
            (Mentions::Probe, true) => Some(VarPlace::Register(cx.b.copy(0))),
            (Mentions::Probe, false) => Some(VarPlace::Memory(cx.allocate_named(&var.ty, "var"))),
            (Mentions::Several, true) => Some(VarPlace::SharedScalar(cx.scratch_room(8))),
            (Mentions::Several, false) => {
                let size_bytes = cx.layout(&var.ty).size_bytes;
                Some(VarPlace::Shared(cx.scratch_room(size_bytes)))
            }
        };
        cx.function.vars.0.push(place);
    }
}

/// Where a variable is stored. A loop's own variables are placed on first use.
fn place(cx: &mut Body<'_, '_>, var: VarIndex) -> VarPlace {
    if let Some(place) = cx.function.vars.0[var.0] {
        return place;
    }
    let ty = &cx.probe.vars[var.0].ty;
    let place = if ty.is_scalar() || *ty == Type::Unknown {
        VarPlace::Register(cx.b.new_vreg())
    } else {
        VarPlace::Memory(cx.allocate_named(ty, "var"))
    };
    cx.function.vars.0[var.0] = Some(place);
    place
}

/// The address of a variable; `None` for scalars.
pub(super) fn address(cx: &mut Body<'_, '_>, var: VarIndex) -> Option<Addr> {
    match place(cx, var) {
        VarPlace::Register(_) | VarPlace::SharedScalar(_) => None,
        VarPlace::Memory(addr) => Some(addr),
        VarPlace::Shared(offset) => Some(cx.scratch_at(offset)),
    }
}

/// The address of a variable in scratch memory, as a number.
pub(super) fn address_as_number(cx: &mut Body<'_, '_>, var: VarIndex) -> Operand {
    let (VarPlace::Shared(offset) | VarPlace::SharedScalar(offset)) = place(cx, var) else { return Operand::Imm(0) };
    let at = cx.scratch_at(offset);
    let address = cx.address(at);
    memory::as_number(cx, address).into()
}

pub(super) fn read(cx: &mut Body<'_, '_>, var: VarIndex) -> Value {
    match place(cx, var) {
        // A copy: the variable may change before the value is used (`$x++ + $x`).
        VarPlace::Register(reg) => Value::Scalar(cx.b.copy(reg).into()),
        VarPlace::SharedScalar(offset) => {
            let at = cx.scratch_at(offset);
            Value::Scalar(cx.b.load(at, Size::B8).into())
        }
        VarPlace::Memory(addr) => Value::Memory(addr),
        VarPlace::Shared(offset) => Value::Memory(cx.scratch_at(offset)),
    }
}

/// Sets a scalar variable.
pub(super) fn write(cx: &mut Body<'_, '_>, var: VarIndex, value: Operand) {
    match place(cx, var) {
        VarPlace::Register(reg) => cx.b.assign(reg, value),
        VarPlace::SharedScalar(offset) => {
            let at = cx.scratch_at(offset);
            cx.b.store(at, value, Size::B8);
        }
        VarPlace::Memory(_) | VarPlace::Shared(_) => {}
    }
}

pub(super) fn clear(cx: &mut Body<'_, '_>, var: VarIndex) {
    match address(cx, var) {
        None => write(cx, var, Operand::Imm(0)),
        Some(addr) => {
            let size_bytes = cx.layout(&cx.probe.vars[var.0].ty).size_bytes;
            cx.zero(addr, size_bytes);
        }
    }
}

/// Assigns the value of an expression.
pub(super) fn assign(cx: &mut Body<'_, '_>, var: VarIndex, value: &Expr) {
    match address(cx, var) {
        None => {
            let value = cx.scalar(value);
            write(cx, var, value);
        }
        Some(addr) => {
            let ty = cx.probe.vars[var.0].ty.clone();
            let reads_itself = value.any(&|part| matches!(part, ExprKind::Var(read) if *read == var));
            memory::replace(cx, value, &ty, addr, reads_itself);
        }
    }
}
