//! Packets sent to user space.
//!
//! In: a `struct sk_buff` of the kernel. Out: code that copies the packet to a perf buffer, with
//! the record that says what it is; the description of the record.
//! Guarantee: a packet that is not copied is counted as a lost event of its program.
//!
//! Record: `u32` event, `u32` size; `u64` time, `u64` size of the packet; then the packet's bytes,
//! which the kernel appends.

use crate::ir::{Arg, BinOp, CmpOp, Helper, Likely, Map, MapId, MapKind, Operand, Size, VReg, Width};
use crate::lower::shared::Shared;
use crate::lower::{Body, Value, typed_pointers};
use crate::object::{Constant, Event, Field, Loss};
use crate::results::WordName;
use crate::typed::Expr;
use crate::types::Type;

/// Size of the record without the packet.
pub(crate) const HEAD_BYTES: u32 = 24;
/// Maximum number of bytes that are copied of a packet: a perf record has less than 64 KiB.
pub(crate) const MAX_PACKET_BYTES: u32 = 65_000;

/// What the call returns for a null pointer, as the helper does: `-EFAULT`.
const NO_PACKET: i64 = -14;
/// `BPF_F_CURRENT_CPU`: the buffer of this CPU.
const CURRENT_CPU: i64 = 0xffff_ffff;

/// Declares the map of perf buffers, if the first pass found it necessary.
pub(super) fn make_buffers(shared: &mut Shared<'_>) {
    if shared.facts.packets {
        shared.ir.maps.push(Map {
            name: "packets".into(),
            kind: MapKind::PerfEventArray,
            key_size_bytes: 4,
            value_size_bytes: 4,
            max_entries: shared.target.possible_cpus(),
            no_prealloc: false,
        });
        shared.packets = Some(MapId(shared.ir.maps.len() as u32 - 1));
    }
}

/// A packet, as a script has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'e> {
    /// The file.
    pub(crate) path: &'e str,
    /// A typed pointer to the `struct sk_buff`.
    pub(crate) skb: &'e Expr,
    /// The packet's size.
    pub(crate) size: &'e Expr,
    /// How many bytes are wanted after the first `offset_bytes`.
    pub(crate) length: &'e Expr,
    pub(crate) offset_bytes: u32,
}

/// Sends a function's record with a packet: the helper's result.
pub(crate) fn send(cx: &mut Body<'_, '_>, word: &'static str, constants: &[Constant], packet: &Outgoing<'_>) -> Value {
    cx.shared.learned.packets = true;
    cx.shared.packet_files.insert(packet.path.into());
    let event = add_event(cx, word, constants);
    let size = cx.scalar_reg(packet.size);
    let length = cx.scalar_reg(packet.length);
    let copied = copied_bytes(cx, size, length, packet.offset_bytes);
    let head = cx.memory(HEAD_BYTES, "packet");
    let record_bytes = cx.b.bin(BinOp::Add, Width::W64, copied, i64::from(HEAD_BYTES));
    cx.b.store(head, i64::from(event), Size::B4);
    cx.b.store(head.plus(4), record_bytes, Size::B4);
    let now = cx.b.call(Helper::KtimeGetBootNs, &[]);
    cx.b.store(head.plus(8), now, Size::B8);
    cx.b.store(head.plus(16), size, Size::B8);
    let upper = cx.b.bin(BinOp::Shl, Width::W64, copied, 32);
    let flags = cx.b.bin(BinOp::Or, Width::W64, upper, CURRENT_CPU);
    let map = Arg::Map(cx.shared.packets.unwrap_or(MapId(0)));
    let result = typed_pointers::call_or(cx, packet.skb, NO_PACKET, |cx, skb| {
        let (from, bytes) = (cx.address_arg(head), Arg::Value(i64::from(HEAD_BYTES).into()));
        cx.b.call(Helper::SkbOutput, &[Arg::Value(skb.into()), map, Arg::Value(flags.into()), from, bytes])
    });
    let (lost, done) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Eq, Width::W64, result, 0, done, lost, Likely::Then);
    cx.b.switch_to(lost);
    cx.count_loss(Loss::Events { program: cx.index });
    cx.b.jump(done);
    cx.b.switch_to(done);
    Value::Scalar(result.into())
}

fn add_event(cx: &mut Body<'_, '_>, word: &'static str, constants: &[Constant]) -> u32 {
    let field = |offset_bytes| Field { ty: Type::U64, offset_bytes, variable: false };
    cx.shared.events.push(Event {
        word: WordName::new(word),
        ends_the_run: false,
        constants: constants.to_vec(),
        fields: vec![field(8), field(16)],
        max_size_bytes: HEAD_BYTES + MAX_PACKET_BYTES,
        program: cx.index,
        span: cx.b.span(),
        expanded_from: cx.expanded_from.clone(),
    });
    cx.shared.events.len() as u32 - 1
}

/// How many bytes of the packet's start are copied: up to the end of what is wanted, of the packet
/// and of a perf record. The helper copies nothing if it is asked for more than there is.
fn copied_bytes(cx: &mut Body<'_, '_>, size: VReg, length: VReg, offset_bytes: u32) -> VReg {
    let wanted = cx.b.clamp(length, MAX_PACKET_BYTES - offset_bytes);
    let copied = cx.b.bin(BinOp::Add, Width::W64, wanted, i64::from(offset_bytes));
    let copied = cx.b.copy(copied);
    let (less, done) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Gt, Width::W64, copied, Operand::Reg(size), less, done, Likely::Unknown);
    cx.b.switch_to(less);
    cx.b.assign(copied, size);
    cx.b.jump(done);
    cx.b.switch_to(done);
    copied
}
