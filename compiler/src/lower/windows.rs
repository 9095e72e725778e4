//! Double-buffered maps: each run of a program uses one of a map's two buffers.
//!
//! In: the views that clear, the groups of maps that handlers print together or empty, the
//! generation word in `.bss`. Out: which buffer a program's code accesses.
//! Guarantee: a run reads the generation word once, before it accesses a map, so all its map
//! accesses are in one window. Once the programs that ran when a generation changed have ended, no
//! program writes to the inactive buffer.
//!
//! Each group has a bit in the generation word. A program that accesses maps of a group has its
//! body twice, once for each generation. So an event costs one more load and one more branch, a
//! look-up costs nothing more, and programs without such maps are unchanged.
//!
//! Views always get windows. Handlers that print several maps, or print and clear, get them only
//! where this needs little memory and few bodies; otherwise they print and clear the single buffer.
//! A map that handlers print and never clear keeps its contents when a window ends: it then
//! consists of both buffers. Its value at that moment joins the buffer that programs have just left
//! with what the other buffer held when programs left it.

use crate::ir::{Addr, BinOp, CmpOp, Helper, Likely, Section, Size, VReg, Width};
use crate::lower::events::{self, Channel};
use crate::lower::shared::Shared;
use crate::lower::storage::{Alternate, Storage};
use crate::lower::{Body, stmt};
use crate::object::Constant;
use crate::results;

/// The bit of the maps that views clear; all views have windows of the same length.
const OF_VIEWS: u32 = 0;

/// Bits from this one on do not fit in an instruction's immediate.
const MAX_BITS: u32 = 31;

/// Most groups that one program may access: each doubles the number of its bodies.
const MAX_GROUPS_OF_PROGRAM: u32 = 2;

impl Shared<'_> {
    /// Allocates second buffers and the generation word.
    pub(super) fn place_alternates(&mut self, groups: usize) {
        self.alternates = vec![None; self.program.maps.len()];
        let program = self.program;
        let views = program.views.iter().filter(|view| view.every.is_some_and(|every| every.clear));
        for map in views.flat_map(|view| view.maps.iter().copied()) {
            self.place_alternate(map, OF_VIEWS, false);
        }
        let crowded = crowded(&self.facts.windowed);
        let mut left_bytes = program.max_map_memory_bytes / 2;
        for (group, bit) in program.windows.iter().take(groups).zip(OF_VIEWS + 1..MAX_BITS) {
            let bytes: u64 = group.maps.iter().map(|map| self.place_bytes(&self.places[map.0])).sum();
            if crowded & (1 << bit) != 0 || bytes > left_bytes {
                continue;
            }
            left_bytes -= bytes;
            for map in &group.maps {
                self.place_alternate(map.0, bit, group.keeps);
            }
        }
        self.generation = self.alternates.iter().any(Option::is_some).then_some(self.gate + 8);
    }

    fn place_alternate(&mut self, map: usize, bit: u32, keeps: bool) {
        if self.alternates[map].is_none() {
            self.alternates[map] = Some(Alternate { bit, place: self.place(map, "alt"), keeps });
        }
    }

    fn place_bytes(&self, place: &Storage) -> u64 {
        match place {
            Storage::Global { stride_bytes, copies, .. } => u64::from(*stride_bytes) * u64::from(*copies),
            Storage::Map { id, .. } => self.ir.maps[id.0 as usize].memory_bytes(u64::from(self.target.possible_cpus())),
            Storage::Threads { .. } => 0,
        }
    }

    /// The bits of the double-buffered groups among these.
    fn bits(&self, groups: &[usize]) -> u64 {
        let maps = groups.iter().filter_map(|group| self.program.windows.get(*group)?.maps.first());
        let alternates = maps.filter_map(|map| self.alternates[map.0].as_ref());
        alternates.fold(0, |bits, alternate| bits | 1 << alternate.bit)
    }
}

/// The groups to leave with a single buffer, so that no program accesses too many double-buffered
/// ones.
fn crowded(touched: &[u64]) -> u64 {
    let mut dropped = 0;
    for bits in touched {
        let mut kept = 0;
        for bit in (0..MAX_BITS).map(|bit| 1 << bit) {
            match bits & !dropped & bit {
                0 => {}
                _ if kept < MAX_GROUPS_OF_PROGRAM => kept += 1,
                bit => dropped |= bit,
            }
        }
    }
    dropped
}

/// The state at the start of each body of a function.
#[derive(Debug, Clone, Copy)]
struct Start {
    scratch_bytes: u32,
    slots: usize,
}

/// Lowers predicate and statements once for each combination of generations that the program's
/// maps use.
pub(super) fn in_each(cx: &mut Body<'_, '_>) {
    // The first pass finds out which groups a program accesses.
    let touched = cx.shared.facts.windowed.get(cx.index).copied().unwrap_or(0);
    let bits: Vec<u32> = (0..MAX_BITS).filter(|bit| touched & (1 << bit) != 0).collect();
    let Some(offset) = cx.shared.generation.filter(|_| !bits.is_empty()) else {
        return stmt::predicate_and_statements(cx);
    };
    let base = cx.b.data_addr(Section::Bss, offset);
    let generations = cx.b.load(Addr::reg(base, 0), Size::B8);
    let start = Start { scratch_bytes: cx.scratch.used_bytes, slots: cx.function.stack.len() };
    in_each_of(cx, generations, &bits, 0, start);
}

fn in_each_of(cx: &mut Body<'_, '_>, generations: VReg, bits: &[u32], chosen: u64, start: Start) {
    let Some((bit, others)) = bits.split_first() else { return in_generation(cx, chosen, start) };
    let (first, second) = (cx.b.new_block(), cx.b.new_block());
    let generation = cx.b.bin(BinOp::And, Width::W64, generations, 1i64 << bit);
    cx.b.branch(CmpOp::Eq, Width::W64, generation, 0, first, second, Likely::Unknown);
    cx.b.switch_to(first);
    in_each_of(cx, generations, others, chosen, start);
    cx.b.switch_to(second);
    in_each_of(cx, generations, others, chosen | 1 << bit, start);
}

fn in_generation(cx: &mut Body<'_, '_>, generations: u64, start: Start) {
    // Nothing that another body's code computed is valid here. Only one of the bodies runs, so
    // they share scratch memory.
    cx.function.lookups.clear();
    cx.function.loops.forget_frame();
    cx.function.stack.rewind(start.slots);
    let others_bytes = std::mem::replace(&mut cx.scratch.used_bytes, start.scratch_bytes);
    cx.generations = generations;
    stmt::predicate_and_statements(cx);
    cx.scratch.used_bytes = cx.scratch.used_bytes.max(others_bytes);
}

/// Sends a request to end the windows of these groups.
pub(super) fn turn(cx: &mut Body<'_, '_>, groups: &[usize]) {
    let bits = cx.shared.bits(groups);
    if bits != 0 {
        let now = cx.b.call(Helper::KtimeGetBootNs, &[]);
        events::send_number(cx, Channel::Control, results::TURN, &[Constant::Int(bits as i64)], now.into());
    }
}

/// Reports that the maps of these groups that are never emptied are printed with their current
/// contents from here on.
pub(super) fn turn_end(cx: &mut Body<'_, '_>, groups: &[usize]) {
    let bits = cx.shared.bits(groups);
    if bits != 0 {
        events::send_number(cx, Channel::Control, results::TURN, &[Constant::Int(bits as i64)], results::AT_END.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_has_more_than_four_bodies() {
        assert_eq!(crowded(&[]), 0);
        assert_eq!(crowded(&[0b11, 0b101, 0b110]), 0);
        assert_eq!(crowded(&[0b111, 0b1100, 0b1011]), 0b1100, "what one program drops, no other counts");
    }
}
