//! A look-up that yields whether there was something and what.
//!
//! In: a map, a key, a variable. Out: code; the variable changes only when the key is there.

use crate::ir::{Addr, CmpOp, Likely, Width};
use crate::lower::storage::Place;
use crate::lower::{Body, Value};
use crate::typed::{Expr, MapIndex, VarIndex};

impl Body<'_, '_> {
    /// Whether a keyed map has an entry; its value goes into the variable.
    pub fn map_find(&mut self, map: MapIndex, key: &Expr, var: VarIndex) -> Value {
        let Place::Map { id, .. } = self.map_place(map) else { return Value::None };
        let found = self.look_up_once(map, id, Some(key));
        let (hit, done) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Ne, Width::W64, found, 0, hit, done, Likely::Then);
        self.b.switch_to(hit);
        let held = self.plain_type(map);
        match self.var_address(var) {
            None => {
                if let Value::Scalar(value) = self.load_as(Addr::reg(found, 0), &held) {
                    self.write_var(var, value);
                }
            }
            Some(to) => {
                let ty = self.probe.vars[var.0].ty.clone();
                self.copy_as(Addr::reg(found, 0), &held, &ty, to);
            }
        }
        self.b.jump(done);
        self.b.switch_to(done);
        Value::Scalar(self.b.set(CmpOp::Ne, Width::W64, found, 0).into())
    }
}
