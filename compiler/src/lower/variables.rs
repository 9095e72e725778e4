//! Variables, wherever they live.
//!
//! In: a variable. Out: its value, its address, a new value.
//! Guarantee: what a loop shares with the code around it is read from and written to scratch memory each time.

use crate::ir::{Addr, Operand, Size};
use crate::lower::body::VarPlace;
use crate::lower::{Body, Value};
use crate::typed::VarIndex;
use crate::types::Type;

impl Body<'_, '_> {
    /// The place of a variable, which a loop makes for its own ones.
    fn var_place(&mut self, var: VarIndex) -> VarPlace {
        if let Some(place) = self.vars[var.0] {
            return place;
        }
        let ty = &self.probe.vars[var.0].ty;
        let place = if ty.is_scalar() || *ty == Type::Unknown {
            VarPlace::Register(self.b.new_vreg())
        } else {
            VarPlace::Memory(self.room_for(ty, "var"))
        };
        self.vars[var.0] = Some(place);
        place
    }

    /// The address of a variable that is no scalar.
    pub(super) fn var_address(&mut self, var: VarIndex) -> Option<Addr> {
        match self.var_place(var) {
            VarPlace::Register(_) | VarPlace::SharedScalar(_) => None,
            VarPlace::Memory(addr) => Some(addr),
            VarPlace::Shared(offset) => Some(self.scratch_at(offset)),
        }
    }

    pub(super) fn read_var(&mut self, var: VarIndex) -> Value {
        match self.var_place(var) {
            // A copy: the variable may change before the value is used (`$x++ + $x`).
            VarPlace::Register(reg) => Value::Scalar(self.b.copy(reg).into()),
            VarPlace::SharedScalar(offset) => {
                let at = self.scratch_at(offset);
                Value::Scalar(self.b.load(at, Size::B8).into())
            }
            VarPlace::Memory(addr) => Value::Memory(addr),
            VarPlace::Shared(offset) => Value::Memory(self.scratch_at(offset)),
        }
    }

    /// Sets a scalar variable.
    pub(super) fn write_var(&mut self, var: VarIndex, value: Operand) {
        match self.var_place(var) {
            VarPlace::Register(reg) => self.b.assign(reg, value),
            VarPlace::SharedScalar(offset) => {
                let at = self.scratch_at(offset);
                self.b.store(at, value, Size::B8);
            }
            VarPlace::Memory(_) | VarPlace::Shared(_) => {}
        }
    }

    pub(super) fn clear_var(&mut self, var: VarIndex) {
        match self.var_address(var) {
            None => self.write_var(var, Operand::Imm(0)),
            Some(addr) => {
                let size_bytes = self.layout(&self.probe.vars[var.0].ty).size_bytes;
                self.zero(addr, size_bytes);
            }
        }
    }
}
