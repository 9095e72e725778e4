//! Maps that a view takes by windows: two places, of which each run of a program uses one.
//!
//! In: the views, the number of the generation in `.bss`. Out: which place a program's code means.
//! Guarantee: a run reads the generation once, before it touches a map, so all that it does to maps is in one window. Once the
//! programs that ran when the generation changed have ended, nobody writes to the other place.
//!
//! A program that touches such a map has its body twice, once for each generation. So an event costs one load and one branch more,
//! no look-up anything, and programs without such maps nothing.

use std::collections::BTreeSet;

use crate::ir::{Addr, CmpOp, Likely, Section, Size, Width};
use crate::lower::Body;
use crate::typed::Program;

/// The maps that a view clears.
pub(super) fn windowed(program: &Program) -> BTreeSet<usize> {
    let clearing = program.views.iter().filter(|view| view.every.is_some_and(|every| every.clear));
    clearing.flat_map(|view| view.maps.iter().copied()).collect()
}

impl Body<'_, '_> {
    /// Lowers predicate and statements for each generation in which they mean other places.
    pub(super) fn in_generations(&mut self) {
        let Some(offset) = self.shared.generation.filter(|_| self.may_touch_windows()) else {
            return self.predicate_and_statements();
        };
        let base = self.b.data_addr(Section::Bss, offset);
        let generation = self.b.load(Addr::reg(base, 0), Size::B8);
        let (first, second) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Eq, Width::W64, generation, 0, first, second, Likely::Unknown);
        self.b.switch_to(first);
        self.predicate_and_statements();
        // Nothing that the first half's code made holds on the way to the second.
        self.vars.clear();
        self.lookups.clear();
        self.frame = None;
        self.signal = None;
        self.generation = 1;
        self.b.switch_to(second);
        self.predicate_and_statements();
    }

    /// Whether the program touches a map with two places. The first round of lowering finds out, and takes it that it does.
    fn may_touch_windows(&self) -> bool {
        let is_first_round = self.shared.facts.scratch_bytes.is_empty();
        is_first_round || self.shared.facts.windowed.contains(&self.index)
    }
}
