//! States in the printed tree.
//!
//! In: a [`State`]. Out: its lines.
//! Guarantee: as for the whole tree.

use super::{Printer, type_text};
use crate::ast::{State, StatePart};

impl Printer {
    pub(super) fn state(&mut self, state: &State) {
        self.parent(&format!("declared state {}", state.name.text), |p| {
            for part in &state.key {
                p.state_part("by", part);
            }
            for part in &state.fields {
                p.state_part("field", part);
            }
            if let Some(limit) = &state.limit {
                p.parent("limit", |p| p.expr(limit));
            }
        });
    }

    fn state_part(&mut self, what: &str, part: &StatePart) {
        let ty = part.ty.as_ref().map(|ty| format!(": {}", type_text(ty))).unwrap_or_default();
        self.line(&format!("{what} {}{ty}", part.name.text));
    }
}
