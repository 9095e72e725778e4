//! Checks memory accesses at known addresses, and helper arguments.
//!
//! In: one instruction. Out: its faults. Known addresses lie in stack objects, data sections or the
//! context. A register that is assigned once, by `context` or `&section`, holds a known address
//! too. Accesses through other registers are left to the kernel's verifier.

use super::Check;
use crate::ir::{
    Addr, Arg, Base, BlockId, FunctionId, Helper, Inst, MapId, MapKind, Operand, Section, SlotId, WALK_BYTES,
};

/// What a register that is assigned only once points to.
#[derive(Debug, Clone, Copy)]
enum Known {
    Context,
    Data(Section, u32),
}

/// The kind of argument that a helper expects.
#[derive(Debug, Clone, Copy)]
enum Wants {
    Map,
    /// An address with this many accessible bytes, if the size is known.
    Memory(Option<u32>),
    Context,
    /// A subprogram with the role that this helper calls.
    Callback,
    Any,
}

impl Check<'_> {
    /// Faults of accesses to stack objects, and overlapping ranges of a `Move`.
    pub(super) fn access_faults(&self, inst: &Inst) -> Vec<String> {
        let mut faults = match inst {
            Inst::SlotAddr { slot, offset, .. } => vec![self.slot_fault(*slot, *offset, 1, 1)],
            _ => accesses(inst)
                .into_iter()
                .map(|(addr, size_bytes, align_bytes, _)| match addr.base {
                    Base::Slot(slot) => self.slot_fault(slot, addr.offset, size_bytes, align_bytes),
                    Base::Reg(_) => None,
                })
                .collect(),
        };
        if let Inst::Move { to, from, size_bytes, .. } = inst {
            let apart = i64::from(to.offset).abs_diff(i64::from(from.offset));
            let overlaps = to.base == from.base && apart < u64::from(*size_bytes);
            faults.push(overlaps.then(|| "the ranges overlap".to_string()));
        }
        faults.into_iter().flatten().collect()
    }

    fn slot_fault(&self, slot: SlotId, offset: i32, bytes: u32, align: u32) -> Option<String> {
        let Some(object) = self.function.slots.get(slot.0 as usize) else {
            return Some("no such slot".to_string());
        };
        let end = i64::from(offset) + i64::from(bytes);
        if offset < 0 || end > i64::from(object.size_bytes) {
            return Some(format!("outside its slot of {} bytes", object.size_bytes));
        }
        let aligned = object.align_bytes >= align && i64::from(offset) % i64::from(align.max(1)) == 0;
        (!aligned).then(|| format!("not aligned to {align} bytes"))
    }

    /// Faults of a helper call.
    pub(super) fn call_faults(&self, inst: &Inst) -> Vec<String> {
        let Inst::Call { helper, args, .. } = inst else { return Vec::new() };
        if args.len() != helper.arity() {
            return vec![format!("takes {} arguments", helper.arity())];
        }
        let wants = self.wanted(*helper, args);
        let checked = args.iter().zip(wants).enumerate();
        let faults = checked.filter_map(|(index, (arg, wants))| {
            self.arg_fault(*helper, *arg, wants).map(|why| format!("argument {}: {why}", index + 1))
        });
        faults.collect()
    }

    fn arg_fault(&self, helper: Helper, arg: Arg, wants: Wants) -> Option<String> {
        match (arg, wants) {
            (Arg::Map(map), Wants::Map) => self.map_fault(helper, map),
            (Arg::Function(id), Wants::Callback) => self.callback_fault(helper, id),
            (Arg::Function(_), _) => Some("a subprogram does not go here".to_string()),
            (_, Wants::Callback) => Some("must be a subprogram".to_string()),
            (Arg::Map(_), _) => Some("a map does not go here".to_string()),
            (_, Wants::Map) => Some("must be a map".to_string()),
            (Arg::Context, _) if self.function.context_size_bytes == 0 => {
                Some("the function has no context".to_string())
            }
            (Arg::Context, Wants::Memory(_)) => Some("the context does not go here".to_string()),
            (Arg::Slot(slot, offset), Wants::Memory(size_bytes)) => {
                self.slot_fault(slot, offset, size_bytes.unwrap_or(1), 1)
            }
            (Arg::Slot(slot, offset), _) => self.slot_fault(slot, offset, 1, 1),
            (Arg::Context | Arg::Value(_), _) => None,
        }
    }

    fn callback_fault(&self, helper: Helper, id: FunctionId) -> Option<String> {
        match self.program.subprograms.get(id.0 as usize) {
            Some(_) if id.0 >= self.may_name => Some("a subprogram is made before it is named".to_string()),
            Some(callback) if Some(callback.role) != helper.calls() => {
                Some("the helper calls other subprograms".to_string())
            }
            Some(_) => None,
            None => Some("no such subprogram".to_string()),
        }
    }

    fn map_fault(&self, helper: Helper, map: MapId) -> Option<String> {
        let Some(map) = self.program.maps.get(map.0 as usize) else {
            return Some("no such map".to_string());
        };
        let fits = match helper {
            Helper::GetStackid => map.kind == MapKind::StackTrace,
            Helper::RingbufOutput | Helper::RingbufReserve | Helper::RingbufQuery => map.kind == MapKind::RingBuf,
            Helper::SkbOutput => map.kind == MapKind::PerfEventArray,
            Helper::TaskStorageGet | Helper::TaskStorageDelete => map.kind == MapKind::TaskStorage,
            Helper::MapLookupPercpuElem => {
                matches!(map.kind, MapKind::PerCpuHash | MapKind::PerCpuArray | MapKind::LruPerCpuHash)
            }
            _ => !matches!(
                map.kind,
                MapKind::StackTrace | MapKind::RingBuf | MapKind::TaskStorage | MapKind::PerfEventArray
            ),
        };
        (!fits).then(|| "the helper does not work on this kind of map".to_string())
    }

    fn wanted(&self, helper: Helper, args: &[Arg]) -> [Wants; 5] {
        use Wants::{Any, Callback, Context, Map, Memory};
        let of_map = match args.first() {
            Some(Arg::Map(map)) => self.program.maps.get(map.0 as usize),
            _ => None,
        };
        let key = Memory(of_map.map(|map| map.key_size_bytes));
        let value = Memory(of_map.map(|map| map.value_size_bytes));
        let constant = |index: usize| match args.get(index) {
            Some(Arg::Value(Operand::Imm(bytes))) => u32::try_from(*bytes).ok(),
            _ => None,
        };
        match helper {
            Helper::Loop => [Any, Callback, Any, Any, Any],
            Helper::ForEachMapElem => [Map, Callback, Any, Any, Any],
            Helper::MapLookupElem | Helper::MapDeleteElem | Helper::MapLookupPercpuElem => [Map, key, Any, Any, Any],
            Helper::MapUpdateElem => [Map, key, value, Any, Any],
            Helper::TaskStorageGet => [Map, Any, value, Any, Any],
            Helper::TaskStorageDelete | Helper::RingbufReserve | Helper::RingbufQuery => [Map, Any, Any, Any, Any],
            Helper::RingbufOutput => [Map, Memory(constant(2)), Any, Any, Any],
            Helper::Run => [Callback, Context, Any, Any, Any],
            Helper::RunApart => [Callback, Any, Any, Any, Any],
            Helper::GetStackid => [Context, Map, Any, Any, Any],
            Helper::OverrideReturn => [Context, Any, Any, Any, Any],
            Helper::TracePrintk | Helper::GetCurrentComm => [Memory(constant(1)), Any, Any, Any, Any],
            Helper::ProbeReadUser
            | Helper::ProbeReadKernel
            | Helper::ProbeReadUserStr
            | Helper::ProbeReadKernelStr
            | Helper::CopyFromUserTask => [Memory(constant(1)), Any, Any, Any, Any],
            Helper::GetStack => [Context, Memory(constant(2)), Any, Any, Any],
            Helper::GetTaskStack => [Any, Memory(constant(2)), Any, Any, Any],
            Helper::IterTaskNew | Helper::IterTaskNext | Helper::IterTaskDestroy => {
                [Memory(Some(WALK_BYTES)), Any, Any, Any, Any]
            }
            Helper::SeqPrintf => [Any, Memory(constant(2)), Any, Memory(constant(4)), Any],
            Helper::Snprintf => [Memory(constant(1)), Any, Any, Memory(constant(4)), Any],
            Helper::SeqWrite | Helper::DPath => [Any, Memory(constant(2)), Any, Any, Any],
            Helper::SkbOutput => [Any, Map, Any, Memory(constant(4)), Any],
            Helper::ProbeWriteUser => [Any, Memory(constant(2)), Any, Any, Any],
            Helper::GetNsCurrentPidTgid => [Any, Any, Memory(constant(3)), Any, Any],
            _ => [Any; 5],
        }
    }

    /// Checks accesses through registers that hold a known address.
    pub(super) fn check_known_addresses(&mut self) {
        let known = self.known_addresses();
        for (index, block) in self.function.blocks.iter().enumerate() {
            for (inst, _) in &block.insts {
                for (addr, size_bytes, _, writes) in accesses(inst) {
                    let Base::Reg(base) = addr.base else { continue };
                    let place = known[base.0 as usize];
                    let fault = place.and_then(|at| self.known_fault(at, addr, size_bytes, writes));
                    if let Some(fault) = fault {
                        self.inst_fault(BlockId(index as u32), inst, fault);
                    }
                }
            }
        }
    }

    fn known_addresses(&self) -> Vec<Option<Known>> {
        let mut known = vec![None; self.function.vregs as usize];
        let mut assigned = vec![false; known.len()];
        for (inst, _) in self.function.blocks.iter().flat_map(|block| &block.insts) {
            let Some(dst) = inst.def() else { continue };
            let place = match inst {
                Inst::Context { .. } => Some(Known::Context),
                Inst::DataAddr { section, offset, .. } => Some(Known::Data(*section, *offset)),
                _ => None,
            };
            let again = std::mem::replace(&mut assigned[dst.0 as usize], true);
            known[dst.0 as usize] = place.filter(|_| !again);
        }
        known
    }

    fn known_fault(&self, at: Known, addr: Addr, bytes: u32, writes: bool) -> Option<&'static str> {
        let (start, size_bytes) = match at {
            Known::Context => (0, self.function.context_size_bytes),
            Known::Data(section, offset) => (offset, self.section_size_bytes(section)),
        };
        let first = i64::from(start) + i64::from(addr.offset);
        if first < 0 || first + i64::from(bytes) > i64::from(size_bytes) {
            return Some("outside the context or section");
        }
        let read_only = matches!(at, Known::Data(Section::Rodata, _));
        (read_only && writes).then_some("writes to read-only data")
    }
}

/// The memory accesses of an instruction: address, bytes, alignment, and whether it writes.
fn accesses(inst: &Inst) -> Vec<(Addr, u32, u32, bool)> {
    match inst {
        Inst::Load { addr, size, .. } => vec![(*addr, size.bytes(), size.bytes(), false)],
        Inst::Store { addr, size, .. } | Inst::Atomic { addr, size, .. } => {
            vec![(*addr, size.bytes(), size.bytes(), true)]
        }
        Inst::Exchange { addr, .. } | Inst::CompareExchange { addr, .. } => {
            vec![(*addr, 8, 8, true)]
        }
        Inst::Zero { addr, size_bytes } => {
            let align_bytes = if *size_bytes >= 8 { 8 } else { 1 };
            vec![(*addr, *size_bytes, align_bytes, true)]
        }
        Inst::Move { to, from, size_bytes, align_bytes } => {
            vec![(*to, *size_bytes, *align_bytes, true), (*from, *size_bytes, *align_bytes, false)]
        }
        _ => Vec::new(),
    }
}
