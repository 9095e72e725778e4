//! Records sent to user space.
//!
//! In: a function word's fields. Out: code that reserves, fills and commits a record, and the record's description.
//! Guarantee: a record that finds its ring full is counted for its program. Control records travel in a ring of their own
//! and say where in the data ring they belong, so that the reader can keep the order.
//!
//! Record: `u32` event, `u32` size; control records then have a `u64`, the data ring's producer position; then the
//! fields. Strings longer than [`MAX_INLINE_BYTES`] travel at their real length behind the fixed part.

use crate::ir::{Addr, Arg, BinOp, CmpOp, Helper, Likely, Map, MapId, MapKind, Operand, Section, Size, VReg, Width};
use crate::lower::body::Wanted;
use crate::lower::{Body, Shared, Value};
use crate::object::{Constant, Event, Field, Loss};
use crate::typed::Expr;
use crate::types::{Space, Type};
use crate::words::Function;

/// Which ring a record takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// Output of probes; may be lost under overload, and is then counted.
    Data,
    /// What must not be lost behind data: exit, clear, print.
    Control,
}

/// Longer strings are sent at their real length.
const MAX_INLINE_BYTES: u32 = 64;

/// Bytes of the control ring: thousands of records, and one page table entry's worth of memory.
const CONTROL_RING_BYTES: u32 = 64 << 10;

/// `BPF_RB_NO_WAKEUP`; one more is `BPF_RB_FORCE_WAKEUP`.
const NO_WAKEUP: i64 = 1;
/// `BPF_RB_PROD_POS`.
const PRODUCER_POSITION: i64 = 3;

impl Shared<'_> {
    /// Declares the rings that the first round found a need for.
    pub(super) fn make_rings(&mut self) {
        if self.facts.data_ring {
            self.data_ring = Some(self.ring("data_ring", self.program.ring_size_bytes));
            self.wake_flag = Some(self.bss_aligned(8, 64));
        }
        if self.facts.control_ring {
            self.control_ring = Some(self.ring("control_ring", CONTROL_RING_BYTES));
        }
    }

    fn ring(&mut self, name: &str, size_bytes: u32) -> MapId {
        self.ir.maps.push(Map {
            name: name.into(),
            kind: MapKind::RingBuf,
            key_size_bytes: 0,
            value_size_bytes: 0,
            max_entries: size_bytes.max(self.target.page_size_bytes()),
            no_prealloc: false,
        });
        MapId(self.ir.maps.len() as u32 - 1)
    }
}

impl Body<'_, '_> {
    /// Sends a record of a function: its constants and the values of these expressions.
    pub fn send(&mut self, channel: Channel, word: &'static dyn Function, constants: &[Constant], args: &[Expr]) {
        let head_bytes = match channel {
            Channel::Data => 8,
            Channel::Control => 16,
        };
        let (fields, fixed_bytes) = self.lay_out(args, head_bytes);
        let variable = fields.iter().any(|f| f.variable);
        let tails_bytes: u32 = fields.iter().filter(|f| f.variable).map(|f| self.layout(&f.ty).size_bytes).sum();
        let event = self.shared.events.len() as u32;
        self.shared.events.push(Event {
            word,
            constants: constants.to_vec(),
            fields: fields.clone(),
            max_size_bytes: fixed_bytes + tails_bytes,
            program: self.index,
            span: self.b.span(),
        });
        let ring = match channel {
            Channel::Data => {
                self.shared.learned.data_ring = true;
                self.shared.data_ring
            }
            Channel::Control => {
                self.shared.learned.control_ring = true;
                self.shared.control_ring
            }
        };
        let ring = ring.unwrap_or(MapId(0));
        if variable {
            self.send_variable(channel, ring, event, args, &fields, (fixed_bytes, tails_bytes));
        } else {
            self.send_fixed(channel, ring, event, args, &fields, fixed_bytes);
        }
    }

    /// Sends a record of one number through the data ring.
    pub(super) fn send_number(&mut self, word: &'static dyn Function, constants: &[Constant], number: Operand) {
        const SIZE_BYTES: u32 = 16;
        let event = self.shared.events.len() as u32;
        self.shared.events.push(Event {
            word,
            constants: constants.to_vec(),
            fields: vec![Field { ty: Type::I64, offset_bytes: 8, variable: false }],
            max_size_bytes: SIZE_BYTES,
            program: self.index,
            span: self.b.span(),
        });
        self.shared.learned.data_ring = true;
        let ring = self.shared.data_ring.unwrap_or(MapId(0));
        let reserve = [Arg::Map(ring), Arg::Value(i64::from(SIZE_BYTES).into()), Arg::Value(0.into())];
        let record = self.b.call(Helper::RingbufReserve, &reserve);
        let (ok, full, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Ne, Width::W64, record, 0, ok, full, Likely::Then);
        self.b.switch_to(full);
        self.count_loss(self.loss(Channel::Data));
        self.b.jump(done);
        self.b.switch_to(ok);
        let at = Addr::reg(record, 0);
        self.store_head(at, event, i64::from(SIZE_BYTES).into(), None);
        self.b.store(at.plus(8), number, Size::B8);
        let flags = self.wake_flags(Channel::Data);
        self.b.call_void(Helper::RingbufSubmit, &[Arg::Value(record.into()), Arg::Value(flags)]);
        self.b.jump(done);
        self.b.switch_to(done);
    }

    fn lay_out(&self, args: &[Expr], head_bytes: u32) -> (Vec<Field>, u32) {
        let mut end = head_bytes;
        let mut fields = Vec::with_capacity(args.len());
        for arg in args {
            let layout = self.layout(&arg.ty);
            let variable = matches!(arg.ty, Type::Str { .. }) && layout.size_bytes > MAX_INLINE_BYTES;
            // Objects in memory are filled a word at a time.
            let align = if arg.ty.is_scalar() { layout.align_bytes } else { 8 };
            end = end.next_multiple_of(align);
            fields.push(Field { ty: arg.ty.clone(), offset_bytes: end, variable });
            end += if variable { 8 } else { layout.size_bytes };
        }
        (fields, end.next_multiple_of(8))
    }

    fn loss(&self, channel: Channel) -> Loss {
        match channel {
            Channel::Data => Loss::Events { program: self.index },
            Channel::Control => Loss::Control { program: self.index },
        }
    }

    fn send_fixed(
        &mut self,
        channel: Channel,
        ring: MapId,
        event: u32,
        args: &[Expr],
        fields: &[Field],
        size_bytes: u32,
    ) {
        // Scalars first: while a record is reserved, the verifier wants nothing to leave the program.
        let scalars: Vec<Option<Operand>> =
            args.iter().map(|a| if a.ty.is_scalar() { Some(self.scalar(a)) } else { None }).collect();
        let values: Vec<Option<Value>> = args
            .iter()
            .zip(&scalars)
            .map(|(a, s)| if s.is_none() && !Self::is_simple(a) { Some(self.expr(a)) } else { None })
            .collect();
        let position = self.data_position(channel);
        let reserve = [Arg::Map(ring), Arg::Value(i64::from(size_bytes).into()), Arg::Value(0.into())];
        let record = self.b.call(Helper::RingbufReserve, &reserve);
        let (ok, full, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Ne, Width::W64, record, 0, ok, full, Likely::Then);
        self.b.switch_to(full);
        self.count_loss(self.loss(channel));
        self.b.jump(done);
        self.b.switch_to(ok);
        let at = Addr::reg(record, 0);
        self.store_head(at, event, i64::from(size_bytes).into(), position);
        let mut end = if channel == Channel::Control { 16 } else { 8 };
        for (((arg, field), scalar), value) in args.iter().zip(fields).zip(&scalars).zip(values) {
            self.zero_gap(at, end, field.offset_bytes);
            end = field.offset_bytes + self.layout(&field.ty).size_bytes;
            let to = at.plus(field.offset_bytes as i32);
            match (scalar, value) {
                (Some(scalar), _) => self.store(Value::Scalar(*scalar), &field.ty, to),
                (None, Some(value)) => self.store(value, &field.ty, to),
                (None, None) => self.store_as(arg, &field.ty, to),
            }
        }
        self.zero_gap(at, end, size_bytes);
        let flags = self.wake_flags(channel);
        self.b.call_void(Helper::RingbufSubmit, &[Arg::Value(record.into()), Arg::Value(flags)]);
        self.b.jump(done);
        self.b.switch_to(done);
    }

    /// Whether an expression can be evaluated straight into a reserved record: no branches, no look-ups of its own.
    fn is_simple(e: &Expr) -> bool {
        matches!(&e.kind, crate::typed::ExprKind::Builtin(..) | crate::typed::ExprKind::Str(_))
    }

    /// A reserved record holds what was there before.
    fn zero_gap(&mut self, at: Addr, from: u32, to: u32) {
        if from < to {
            self.zero(at.plus(from as i32), to - from);
        }
    }

    fn store_head(&mut self, at: Addr, event: u32, size: Operand, position: Option<VReg>) {
        match size {
            Operand::Imm(size) => {
                self.b.store(at, (size << 32) | i64::from(event), Size::B8);
            }
            Operand::Reg(size) => {
                self.b.store(at, i64::from(event), Size::B4);
                self.b.store(at.plus(4), size, Size::B4);
            }
        }
        if let Some(position) = position {
            self.b.store(at.plus(8), position, Size::B8);
        }
    }

    /// For control records, how far the data ring was filled.
    fn data_position(&mut self, channel: Channel) -> Option<VReg> {
        if channel == Channel::Data {
            return None;
        }
        Some(match self.shared.data_ring {
            Some(ring) => self.b.call(Helper::RingbufQuery, &[Arg::Map(ring), Arg::Value(PRODUCER_POSITION.into())]),
            None => self.b.copy(0),
        })
    }

    /// A commit wakes the reader only when it sleeps: waking costs the traced thread more than the record.
    fn wake_flags(&mut self, channel: Channel) -> Operand {
        let (Channel::Data, Some(offset)) = (channel, self.shared.wake_flag) else { return Operand::Imm(0) };
        let flag = self.b.data_addr(Section::Bss, offset);
        let sleeping = self.b.load(Addr::reg(flag, 0), Size::B8);
        let asleep = self.b.set(CmpOp::Ne, Width::W64, sleeping, 0);
        self.b.bin(BinOp::Add, Width::W64, asleep, NO_WAKEUP).into()
    }

    /// Assembles a record with strings of real length in scratch memory and sends a copy of it.
    fn send_variable(
        &mut self,
        channel: Channel,
        ring: MapId,
        event: u32,
        args: &[Expr],
        fields: &[Field],
        (fixed_bytes, tails_bytes): (u32, u32),
    ) {
        let at = self.memory((fixed_bytes + tails_bytes).max(MAX_INLINE_BYTES + 8), "event");
        self.zero(at, fixed_bytes);
        let cursor = self.b.copy(i64::from(fixed_bytes));
        for (arg, field) in args.iter().zip(fields) {
            let to = at.plus(field.offset_bytes as i32);
            if field.variable {
                self.append_string(arg, &field.ty, at, to, cursor);
            } else {
                self.store_as(arg, &field.ty, to);
            }
        }
        let position = self.data_position(channel);
        self.store_head(at, event, cursor.into(), position);
        let flags = self.wake_flags(channel);
        let from = self.address_arg(at);
        let sent =
            self.b.call(Helper::RingbufOutput, &[Arg::Map(ring), from, Arg::Value(cursor.into()), Arg::Value(flags)]);
        let (full, done) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Eq, Width::W64, sent, 0, done, full, Likely::Then);
        self.b.switch_to(full);
        self.count_loss(self.loss(channel));
        self.b.jump(done);
        self.b.switch_to(done);
    }

    /// Puts a string at the cursor and its place into the fixed part.
    fn append_string(&mut self, arg: &Expr, ty: &Type, at: Addr, descriptor: Addr, cursor: VReg) {
        let Type::Str { capacity_bytes } = *ty else { return };
        let base = self.address(at);
        let tail = self.b.bin(BinOp::Add, Width::W64, base, cursor);
        let wanted = Wanted { addr: Addr::reg(tail, 0), padded: false };
        let value = self.expr_in(arg, wanted);
        let len = match value {
            Value::Text(addr, len) if addr == wanted.addr => len,
            Value::Memory(addr) | Value::Text(addr, _) => {
                let from = self.address(addr);
                self.wanted = Some(wanted);
                match self.read_string(from, capacity_bytes, Space::Kernel) {
                    Value::Text(_, len) => len,
                    _ => Operand::Imm(0),
                }
            }
            value => {
                let len = match &value {
                    Value::Bytes(text) => (text.len() as i64 + 1).min(i64::from(capacity_bytes)),
                    _ => 0,
                };
                let temp = self.in_memory(value, ty);
                self.copy_bounded(wanted.addr, temp, capacity_bytes);
                Operand::Imm(len)
            }
        };
        // Verifier: an error is negative; as an unsigned number it is larger than any length.
        let bounded = self.b.copy(len);
        let (bad, good) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Gt, Width::W64, bounded, i64::from(capacity_bytes), bad, good, Likely::Otherwise);
        self.b.switch_to(bad);
        self.b.assign(bounded, 0);
        self.b.jump(good);
        self.b.switch_to(good);
        let bounded = self.b.clamp(bounded, capacity_bytes);
        self.b.store(descriptor, cursor, Size::B4);
        self.b.store(descriptor.plus(4), bounded, Size::B4);
        let next = self.b.bin(BinOp::Add, Width::W64, cursor, bounded);
        self.b.assign(cursor, next);
    }

    fn copy_bounded(&mut self, to: Addr, from: Addr, size_bytes: u32) {
        let from = self.address(from);
        self.probe_read(to, from, size_bytes, Space::Kernel);
    }
}
