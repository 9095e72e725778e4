//! Records sent to user space.
//!
//! In: the fields of a function's record. Out: code that reserves, fills and commits a record, and
//! the record's description.
//! Guarantee: a record that does not fit in its ring is counted as lost for its program. Control
//! records have a ring of their own and carry their position in the data ring, so that the reader
//! can keep the order.
//!
//! Record: `u32` event, `u32` size; in control records a `u64`, the data ring's producer position;
//! then the fields. Strings longer than `MAX_INLINE_BYTES` are appended after the fixed part at
//! their actual length.

use crate::ir::{
    Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Map, MapId, MapKind, Operand, Section, Size, VReg, Width,
};
use crate::lower::body::Destination;
use crate::lower::memory::{self, Source};
use crate::lower::shared::Shared;
use crate::lower::{Body, Value};
use crate::object::{Constant, Event, Field, Loss};
use crate::results::WordName;
use crate::typed::Expr;
use crate::types::{Space, Type};

/// Which ring a record is sent through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// Output of probes. It may be lost under overload; losses are counted.
    Data,
    /// Records that overload of the data ring must not lose: exit, clear, print.
    Control,
}

impl Channel {
    /// Bytes before a record's fields.
    fn head_bytes(self) -> u32 {
        match self {
            Channel::Data => 8,
            Channel::Control => 16,
        }
    }
}

/// Longer strings are sent at their actual length.
const MAX_INLINE_BYTES: u32 = 64;

/// Size of the control ring: space for thousands of records.
const CONTROL_RING_BYTES: u32 = 64 << 10;

/// `BPF_RB_NO_WAKEUP`; one more is `BPF_RB_FORCE_WAKEUP`.
const NO_WAKEUP: i64 = 1;
/// `BPF_RB_PROD_POS`.
const PRODUCER_POSITION: i64 = 3;

impl Shared<'_> {
    /// Declares the rings that the first pass found necessary.
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

/// A record to send.
#[derive(Debug, Clone, Copy)]
struct Outgoing<'e> {
    channel: Channel,
    ring: MapId,
    /// Its number among the events.
    event: u32,
    args: &'e [Expr],
    /// By argument.
    fields: &'e [Field],
    /// Size without strings of actual length.
    fixed_bytes: u32,
    /// Maximum size of these strings.
    tails_bytes: u32,
}

/// Sends a function's record: its constants and the values of these expressions.
pub fn send(cx: &mut Body<'_, '_>, channel: Channel, word: &'static str, constants: &[Constant], args: &[Expr]) {
    let (fields, fixed_bytes) = lay_out(cx, args, channel.head_bytes());
    let variable = fields.iter().any(|f| f.variable);
    let tails_bytes: u32 = fields.iter().filter(|f| f.variable).map(|f| cx.layout(&f.ty).size_bytes).sum();
    let event = cx.shared.events.len() as u32;
    let word = WordName::new(word);
    cx.shared.events.push(Event {
        ends_the_run: cx.shared.catalogue.function_of(&word).ends_the_run(),
        word,
        constants: constants.to_vec(),
        fields: fields.clone(),
        max_size_bytes: fixed_bytes + tails_bytes,
        program: cx.index,
        span: cx.b.span(),
        expanded_from: cx.expanded_from.clone(),
    });
    let ring = ring_of(cx, channel);
    let outgoing = Outgoing { channel, ring, event, args, fields: &fields, fixed_bytes, tails_bytes };
    if variable {
        send_variable(cx, &outgoing);
    } else {
        send_fixed(cx, &outgoing);
    }
}

/// Sends a record with one number.
pub(super) fn send_number(
    cx: &mut Body<'_, '_>,
    channel: Channel,
    word: WordName,
    constants: &[Constant],
    number: Operand,
) {
    let head_bytes = channel.head_bytes();
    let size_bytes = head_bytes + 8;
    let event = cx.shared.events.len() as u32;
    cx.shared.events.push(Event {
        word,
        ends_the_run: false,
        constants: constants.to_vec(),
        fields: vec![Field { ty: Type::I64, offset_bytes: head_bytes, variable: false }],
        max_size_bytes: size_bytes,
        program: cx.index,
        span: cx.b.span(),
        expanded_from: cx.expanded_from.clone(),
    });
    let ring = ring_of(cx, channel);
    let reserved = reserve(cx, channel, ring, event, size_bytes);
    cx.b.store(reserved.at.plus(head_bytes as i32), number, Size::B8);
    submit(cx, channel, &reserved);
}

/// A record of the ring that is being written.
struct Reserved {
    record: VReg,
    /// Its address as the base of stores.
    at: Addr,
    /// The block after it, to which the code jumps if the ring buffer is full.
    done: BlockId,
}

/// Reserves a record and writes its head; if the ring buffer is full, counts the loss. The current
/// block is then the one with the record.
fn reserve(cx: &mut Body<'_, '_>, channel: Channel, ring: MapId, event: u32, size_bytes: u32) -> Reserved {
    let position = data_position(cx, channel);
    let reserve = [Arg::Map(ring), Arg::Value(i64::from(size_bytes).into()), Arg::Value(0.into())];
    let record = cx.b.call(Helper::RingbufReserve, &reserve);
    let (ok, full, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Ne, Width::W64, record, 0, ok, full, Likely::Then);
    cx.b.switch_to(full);
    cx.count_loss(loss(cx, channel));
    cx.b.jump(done);
    cx.b.switch_to(ok);
    let at = Addr::reg(record, 0);
    store_head(cx, at, event, i64::from(size_bytes).into(), position);
    Reserved { record, at, done }
}

/// Submits a record and continues after it.
fn submit(cx: &mut Body<'_, '_>, channel: Channel, reserved: &Reserved) {
    let flags = wake_flags(cx, channel);
    cx.b.call_void(Helper::RingbufSubmit, &[Arg::Value(reserved.record.into()), Arg::Value(flags)]);
    cx.b.jump(reserved.done);
    cx.b.switch_to(reserved.done);
}

fn ring_of(cx: &mut Body<'_, '_>, channel: Channel) -> MapId {
    let ring = match channel {
        Channel::Data => {
            cx.shared.learned.data_ring = true;
            cx.shared.data_ring
        }
        Channel::Control => {
            cx.shared.learned.control_ring = true;
            cx.shared.control_ring
        }
    };
    ring.unwrap_or(MapId(0))
}

fn lay_out(cx: &Body<'_, '_>, args: &[Expr], head_bytes: u32) -> (Vec<Field>, u32) {
    let mut end = head_bytes;
    let mut fields = Vec::with_capacity(args.len());
    for arg in args {
        let layout = cx.layout(&arg.ty);
        let variable = matches!(arg.ty, Type::Str { .. }) && layout.size_bytes > MAX_INLINE_BYTES;
        // Objects in memory are written in 8-byte words.
        let align = if arg.ty.is_scalar() { layout.align_bytes } else { 8 };
        end = end.next_multiple_of(align);
        fields.push(Field { ty: arg.ty.clone(), offset_bytes: end, variable });
        end += if variable { 8 } else { layout.size_bytes };
    }
    (fields, end.next_multiple_of(8))
}

fn loss(cx: &Body<'_, '_>, channel: Channel) -> Loss {
    match channel {
        Channel::Data => Loss::Events { program: cx.index },
        Channel::Control => Loss::Control { program: cx.index },
    }
}

fn send_fixed(cx: &mut Body<'_, '_>, outgoing: &Outgoing<'_>) {
    let Outgoing { channel, ring, event, args, fields, fixed_bytes: size_bytes, .. } = *outgoing;
    // Evaluate scalars first: the verifier allows no exit from the program while a record is
    // reserved.
    let scalars: Vec<Option<Operand>> =
        args.iter().map(|a| if a.ty.is_scalar() { Some(cx.scalar(a)) } else { None }).collect();
    let values: Vec<Option<Value>> = args
        .iter()
        .zip(&scalars)
        .map(|(a, s)| if s.is_none() && !is_simple(a) { Some(cx.expr(a)) } else { None })
        .collect();
    let reserved = reserve(cx, channel, ring, event, size_bytes);
    let at = reserved.at;
    let mut end = channel.head_bytes();
    for (((arg, field), scalar), value) in args.iter().zip(fields).zip(&scalars).zip(values) {
        zero_gap(cx, at, end, field.offset_bytes);
        end = field.offset_bytes + cx.layout(&field.ty).size_bytes;
        let to = at.plus(field.offset_bytes as i32);
        match (scalar, value) {
            (Some(scalar), _) => cx.store(Value::Scalar(*scalar), &field.ty, to),
            (None, Some(value)) => cx.store(value, &field.ty, to),
            (None, None) => cx.store_as(arg, &field.ty, to),
        }
    }
    zero_gap(cx, at, end, size_bytes);
    submit(cx, channel, &reserved);
}

/// Whether an expression can be evaluated straight into a reserved record: it has no branches
/// and no look-ups.
fn is_simple(e: &Expr) -> bool {
    matches!(&e.kind, crate::typed::ExprKind::Builtin(..) | crate::typed::ExprKind::Str(_))
}

/// A reserved record contains old bytes, so gaps are zeroed.
fn zero_gap(cx: &mut Body<'_, '_>, at: Addr, from: u32, to: u32) {
    if from < to {
        cx.zero(at.plus(from as i32), to - from);
    }
}

fn store_head(cx: &mut Body<'_, '_>, at: Addr, event: u32, size: Operand, position: Option<VReg>) {
    match size {
        Operand::Imm(size) => {
            cx.b.store(at, (size << 32) | i64::from(event), Size::B8);
        }
        Operand::Reg(size) => {
            cx.b.store(at, i64::from(event), Size::B4);
            cx.b.store(at.plus(4), size, Size::B4);
        }
    }
    if let Some(position) = position {
        cx.b.store(at.plus(8), position, Size::B8);
    }
}

/// For control records, the data ring's producer position.
fn data_position(cx: &mut Body<'_, '_>, channel: Channel) -> Option<VReg> {
    if channel == Channel::Data {
        return None;
    }
    Some(match cx.shared.data_ring {
        Some(ring) => cx.b.call(Helper::RingbufQuery, &[Arg::Map(ring), Arg::Value(PRODUCER_POSITION.into())]),
        None => cx.b.copy(0),
    })
}

/// A commit wakes the reader only if it sleeps: a wake-up costs the traced thread more than the
/// record.
fn wake_flags(cx: &mut Body<'_, '_>, channel: Channel) -> Operand {
    let (Channel::Data, Some(offset)) = (channel, cx.shared.wake_flag) else { return Operand::Imm(0) };
    let flag = cx.b.data_addr(Section::Bss, offset);
    let sleeping = cx.b.load(Addr::reg(flag, 0), Size::B8);
    let asleep = cx.b.set(CmpOp::Ne, Width::W64, sleeping, 0);
    cx.b.bin(BinOp::Add, Width::W64, asleep, NO_WAKEUP).into()
}

/// Builds a record with strings of actual length in scratch memory and sends a copy of it.
fn send_variable(cx: &mut Body<'_, '_>, outgoing: &Outgoing<'_>) {
    let Outgoing { channel, ring, event, args, fields, fixed_bytes, tails_bytes } = *outgoing;
    let at = cx.memory((fixed_bytes + tails_bytes).max(MAX_INLINE_BYTES + 8), "event");
    cx.zero(at, fixed_bytes);
    let cursor = cx.b.copy(i64::from(fixed_bytes));
    for (arg, field) in args.iter().zip(fields) {
        if field.variable {
            append_string(cx, arg, field, at, cursor);
        } else {
            cx.store_as(arg, &field.ty, at.plus(field.offset_bytes as i32));
        }
    }
    let position = data_position(cx, channel);
    store_head(cx, at, event, cursor.into(), position);
    let flags = wake_flags(cx, channel);
    let from = cx.address_arg(at);
    let sent = cx.b.call(Helper::RingbufOutput, &[Arg::Map(ring), from, Arg::Value(cursor.into()), Arg::Value(flags)]);
    let (full, done) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Eq, Width::W64, sent, 0, done, full, Likely::Then);
    cx.b.switch_to(full);
    cx.count_loss(loss(cx, channel));
    cx.b.jump(done);
    cx.b.switch_to(done);
}

/// Appends a string at the cursor, and stores its offset and length in the fixed part.
fn append_string(cx: &mut Body<'_, '_>, arg: &Expr, field: &Field, at: Addr, cursor: VReg) {
    let Type::Str { capacity_bytes } = field.ty else { return };
    let descriptor = at.plus(field.offset_bytes as i32);
    let base = cx.address(at);
    let tail = cx.b.bin(BinOp::Add, Width::W64, base, cursor);
    let wanted = Destination { addr: Addr::reg(tail, 0), padded: false };
    let value = cx.expr_in(arg, wanted);
    let len = match value {
        Value::Text(addr, len) if addr == wanted.addr => len,
        Value::Memory(addr) | Value::Text(addr, _) => {
            let from = cx.address(addr);
            cx.wanted = Some(wanted);
            match memory::read_string(cx, Source { address: from, space: Space::Kernel }, capacity_bytes) {
                Value::Text(_, len) => len,
                _ => Operand::Imm(0),
            }
        }
        value => {
            let len = match &value {
                Value::Bytes(text) => (text.len() as i64 + 1).min(i64::from(capacity_bytes)),
                _ => 0,
            };
            let temp = cx.in_memory(value, &field.ty);
            copy_bounded(cx, wanted.addr, temp, capacity_bytes);
            Operand::Imm(len)
        }
    };
    // Verifier: an error is negative; as an unsigned number it is larger than any length.
    let bounded = cx.b.copy(len);
    let (bad, good) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Gt, Width::W64, bounded, i64::from(capacity_bytes), bad, good, Likely::Otherwise);
    cx.b.switch_to(bad);
    cx.b.assign(bounded, 0);
    cx.b.jump(good);
    cx.b.switch_to(good);
    let bounded = cx.b.clamp(bounded, capacity_bytes);
    cx.b.store(descriptor, cursor, Size::B4);
    cx.b.store(descriptor.plus(4), bounded, Size::B4);
    let next = cx.b.bin(BinOp::Add, Width::W64, cursor, bounded);
    cx.b.assign(cursor, next);
}

fn copy_bounded(cx: &mut Body<'_, '_>, to: Addr, from: Addr, size_bytes: u32) {
    let from = cx.address(from);
    memory::probe_read(cx, to, from, size_bytes, Space::Kernel);
}
