//! What the words ask for when they are lowered.
//!
//! In: typed arguments. Out: values.

use crate::ir::{Addr, Arg, BinOp, CmpOp, Helper, Likely, Map, MapId, MapKind, Operand, Section, Size, VReg, Width};
use crate::lower::{Body, Value};
use crate::object::{Attach, Constant, IN_COLLISION_TABLE, Loss, StackTable};
use crate::typed::{ContextKind, Expr};
use crate::types::{Space, StackType, Type};

/// `BPF_F_USER_STACK`.
const USER_STACK: i64 = 1 << 8;

/// The program's own frame and that of `bpf_trace_runN` or of the trampoline, which called it: not part of the traced code.
const RAW_TRACEPOINT_FRAMES: i64 = 2;

/// What the kernel answers when another stack has the same hash: `-EEXIST`.
const EEXIST: i64 = -17;

/// Stacks that a table holds, at places by their hash. One whose place is taken goes to a second table, by the same hash: of a
/// thousand stacks some thirty. What finds no place there either is lost, and counted: of a thousand not even one.
const STACK_TABLE_ENTRIES: u32 = 16 << 10;

/// Stacks that the table of collisions holds.
const COLLISION_TABLE_ENTRIES: u32 = 4 << 10;

/// The space behind an address argument.
pub fn space_of(e: &Expr) -> Space {
    match e.ty {
        Type::Pointer { space, .. } => space,
        _ => Space::Kernel,
    }
}

impl Body<'_, '_> {
    /// The same as [`Body::room`] for a word that writes every byte itself.
    pub fn room_unwritten(&mut self, ty: &Type) -> Addr {
        match self.wanted.take() {
            Some(wanted) => wanted.addr,
            None => self.room_for(ty, "temp"),
        }
    }

    /// One of a program's names: the constants are the first name's number and how many there are.
    pub fn probe_name(&mut self, ty: &Type, constants: &[Constant]) -> Value {
        let [Constant::Int(first), Constant::Int(count)] = constants else { return Value::None };
        let number = if *count == 1 {
            Operand::Imm(*first)
        } else {
            let which = self.which_probe();
            self.b.bin(BinOp::Add, Width::W64, which, *first).into()
        };
        let to = self.room_unwritten(ty);
        self.b.store(to, number, Size::B8);
        Value::Memory(to)
    }

    /// The position of the probe that fired among those of the program.
    fn which_probe(&mut self) -> VReg {
        let Some(filter) = &self.probe.context.syscalls else {
            // Since 5.15.
            let cookie = self.b.call(Helper::GetAttachCookie, &[Arg::Context]);
            let is_whole = self.probe.context.static_arguments.is_empty();
            return if is_whole { cookie } else { self.b.extend(cookie, Size::B4, false) };
        };
        let most = filter.numbers.iter().copied().max().unwrap_or(0) as usize + 1;
        let mut table = vec![0u8; most.next_power_of_two() * 2];
        for (position, number) in filter.numbers.iter().enumerate() {
            let at = *number as usize * 2;
            table[at..at + 2].copy_from_slice(&(position as u16).to_ne_bytes());
        }
        let mask = most.next_power_of_two() as i64 - 1;
        let offset = self.shared.rodata(&table);
        let number = self.syscall_number();
        // Verifier: the filter has let only known numbers pass; the mask bounds them.
        let index = self.b.bin(BinOp::And, Width::W64, number, mask);
        let distance = self.b.bin(BinOp::Shl, Width::W64, index, 1);
        let base = self.b.data_addr(Section::Rodata, offset);
        let at = self.b.bin(BinOp::Add, Width::W64, base, distance);
        self.b.load(Addr::reg(at, 0), Size::B2)
    }

    /// A buffer: its length, then the bytes.
    pub fn read_buffer(&mut self, from: VReg, size: VReg, capacity_bytes: u32, space: Space, ty: &Type) -> Value {
        let to = self.room(ty);
        let bounded = self.b.clamp(size, capacity_bytes);
        self.b.store(to, bounded, Size::B4);
        let helper = match space {
            Space::Kernel => Helper::ProbeReadKernel,
            Space::User => Helper::ProbeReadUser,
        };
        let bytes = self.address_arg(to.plus(4));
        let failed = self.b.call(helper, &[bytes, Arg::Value(bounded.into()), Arg::Value(from.into())]);
        self.report_failed_read(helper, failed);
        Value::Memory(to)
    }

    /// An address with its family.
    pub fn inet(&mut self, family: &Expr, address: &Expr, ty: &Type) -> Value {
        let family = self.scalar(family);
        let value = self.expr(address);
        let to = self.room(ty);
        self.b.store(to, family, Size::B8);
        match value {
            Value::Scalar(number) => self.b.store(to.plus(8), number, Size::B4),
            other => {
                let size_bytes = self.layout(&address.ty).size_bytes.min(16);
                let from = self.in_memory(other, &address.ty);
                self.copy(to.plus(8), from, size_bytes);
            }
        }
        Value::Memory(to)
    }

    /// A stack: its number in the table and, for user stacks, process and thread.
    pub fn stack(&mut self, ty: &Type) -> Value {
        let Type::Stack(stack) = ty else { return Value::None };
        let [table, collisions] = self.stack_table(stack.limit);
        let flags = self.stack_flags(stack.space);
        let id = self.b.call(Helper::GetStackid, &[Arg::Context, Arg::Map(table), Arg::Value(flags.into())]);
        let (collision, done) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Eq, Width::W64, id, EEXIST, collision, done, Likely::Otherwise);
        self.b.switch_to(collision);
        let other = self.b.call(Helper::GetStackid, &[Arg::Context, Arg::Map(collisions), Arg::Value(flags.into())]);
        let marked = self.b.bin(BinOp::Add, Width::W64, other, IN_COLLISION_TABLE);
        self.b.assign(id, marked);
        let lost = self.b.new_block();
        self.b.branch(CmpOp::SLt, Width::W64, other, 0, lost, done, Likely::Otherwise);
        self.b.switch_to(lost);
        self.b.assign(id, EEXIST);
        self.count_loss(Loss::Stacks);
        self.b.jump(done);
        self.b.switch_to(done);
        let to = self.room_unwritten(ty);
        // Zeros are no stack, so that what was never written is none.
        let number = self.b.bin(BinOp::Add, Width::W64, id, 1);
        self.b.store(to, number, Size::B8);
        if stack.space == Space::User {
            let both = self.process_ids();
            let process = self.b.bin(BinOp::Shr, Width::W64, both, 32);
            // Stacks are counted by process: the thread's half stays zero.
            self.b.store(to.plus(8), process, Size::B8);
        }
        Value::Memory(to)
    }

    /// How many frames a stack has that is taken now.
    pub fn stack_depth(&mut self, stack: StackType) -> VReg {
        let size_bytes = u32::from(stack.limit) * 8;
        let room = self.memory(size_bytes, "stack");
        let to = self.address_arg(room);
        let size = Arg::Value(i64::from(size_bytes).into());
        let flags = Arg::Value(self.stack_flags(stack.space).into());
        let bytes = self.b.call(Helper::GetStack, &[Arg::Context, to, size, flags]);
        let depth = self.b.bin(BinOp::Sar, Width::W64, bytes, 3);
        let (failed, done) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::SLt, Width::W64, depth, 0, failed, done, Likely::Otherwise);
        self.b.switch_to(failed);
        self.b.assign(depth, 0);
        self.b.jump(done);
        self.b.switch_to(done);
        depth
    }

    /// Which stack, and how many frames of the profiler's own are left out.
    fn stack_flags(&self, space: Space) -> i64 {
        match (space, &self.probe.attach) {
            (Space::User, _) => USER_STACK,
            (Space::Kernel, Attach::RawTracepoint { .. } | Attach::Trampoline { .. }) => RAW_TRACEPOINT_FRAMES,
            (Space::Kernel, _) => 0,
        }
    }

    /// The table of stacks with so many frames, and that of its collisions.
    fn stack_table(&mut self, limit: u8) -> [MapId; 2] {
        if let Some((_, ids)) = self.shared.stack_tables.iter().find(|(table, _)| table.limit == limit) {
            return *ids;
        }
        let table = StackTable { map: format!("stacks_{limit}"), collisions: format!("collisions_{limit}"), limit };
        let sizes = [(&table.map, STACK_TABLE_ENTRIES), (&table.collisions, COLLISION_TABLE_ENTRIES)];
        let ids = sizes.map(|(name, max_entries)| {
            self.shared.ir.maps.push(Map {
                name: name.clone(),
                kind: MapKind::StackTrace,
                key_size_bytes: 4,
                value_size_bytes: u32::from(limit) * 8,
                max_entries,
                no_prealloc: false,
            });
            MapId(self.shared.ir.maps.len() as u32 - 1)
        });
        self.shared.stack_tables.push((table, ids));
        ids
    }

    /// Whether the program's context is what a word needs.
    pub fn context_kind(&self) -> ContextKind {
        self.probe.context.kind
    }
}
