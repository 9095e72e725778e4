//! Where a parameter is when its function is entered, as debug information says.
//!
//! In: the entry of a parameter. Out: a [`Location`].
//! Guarantee: a register is reported only if it is certain to have the value before the first
//! instruction has run.

use gimli::{AttributeValue, Expression, Operation, constants};

use super::entries::{Entries, Found};
use super::file::Slice;

/// Limit of ranges read of one parameter.
const MAX_RANGES: usize = 10_000;

/// What debug information says about a parameter at the entry of its function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Location {
    /// In this register, by its number in DWARF.
    Register(u16),
    /// In this register in the whole function, as far as a compiler knows that writes down one
    /// place only: perhaps not yet at the entry.
    MainlyRegister(u16),
    /// In these registers, half in each.
    Registers(u16, u16),
    /// On the caller's part of the stack, at this offset from the frame's address (CFA).
    Caller(u32),
    /// In memory of the function, which it has yet to store, or in no place at the entry.
    Stored,
    /// In no place: it always has this value.
    Constant(i64),
    /// In no place at all: nothing uses it.
    None,
}

/// The location of a parameter of a function that begins at this address.
pub(super) fn at_entry<'data>(
    entries: &Entries<'data, '_>,
    function: &Found<'data>,
    parameter: &Found<'data>,
    address: u64,
) -> Location {
    match parameter.entry.attr_value(constants::DW_AT_location) {
        None => constant_of(parameter).map_or(Location::None, Location::Constant),
        Some(AttributeValue::Exprloc(expression)) => match location(function, parameter, expression) {
            Location::Register(number) => Location::MainlyRegister(number),
            other => other,
        },
        Some(list) => {
            let Ok(Some(mut list)) = entries.dwarf().attr_locations(&parameter.unit, list) else {
                return Location::None;
            };
            for _ in 0..MAX_RANGES {
                let (Ok(Some(part)), Some(())) = (list.next(), entries.step()) else { break };
                if (part.range.begin..part.range.end).contains(&address) {
                    return location(function, parameter, part.data);
                }
            }
            Location::Stored
        }
    }
}

fn location<'data>(
    function: &Found<'data>,
    parameter: &Found<'data>,
    expression: Expression<Slice<'data>>,
) -> Location {
    let mut operations = expression.operations(parameter.unit.encoding());
    if let Some([first, second]) = register_pair(&expression, parameter) {
        return Location::Registers(first, second);
    }
    let (Ok(first), Ok(second)) = (operations.next(), operations.next()) else { return Location::None };
    match (first, second) {
        (Some(Operation::Register { register }), None) => Location::Register(register.0),
        (Some(Operation::FrameOffset { offset }), None) => match u32::try_from(offset) {
            Ok(offset) if frame_is_caller(function) => Location::Caller(offset),
            _ => Location::Stored,
        },
        (Some(Operation::RegisterOffset { .. }), None) => Location::Stored,
        (Some(first), Some(Operation::StackValue)) => constant(&first).map_or(Location::None, Location::Constant),
        _ => Location::None,
    }
}

/// The only value that a parameter has.
pub(super) fn constant_of(parameter: &Found<'_>) -> Option<i64> {
    let value = parameter.entry.attr(constants::DW_AT_const_value)?;
    value.sdata_value().or_else(|| value.udata_value().map(u64::cast_signed))
}

/// The value of an operation that has no operand but this.
pub(super) fn constant(operation: &Operation<Slice<'_>>) -> Option<i64> {
    match *operation {
        Operation::UnsignedConstant { value } => Some(value.cast_signed()),
        Operation::SignedConstant { value } => Some(value),
        _ => None,
    }
}

/// The registers with the halves of a value of 16 bytes.
pub(super) fn register_pair<'data>(
    expression: &Expression<Slice<'data>>,
    parameter: &Found<'data>,
) -> Option<[u16; 2]> {
    let mut operations = expression.operations(parameter.unit.encoding());
    let mut half = || {
        let Operation::Register { register } = operations.next().ok()?? else { return None };
        let piece = operations.next().ok()??;
        matches!(piece, Operation::Piece { size_in_bits: 64, bit_offset: None | Some(0) }).then_some(register.0)
    };
    let halves = [half()?, half()?];
    matches!(operations.next(), Ok(None)).then_some(halves)
}

/// Whether offsets in a function's frame are from the address at which its caller's part ends.
fn frame_is_caller(function: &Found<'_>) -> bool {
    let Some(AttributeValue::Exprloc(base)) = function.entry.attr_value(constants::DW_AT_frame_base) else {
        return false;
    };
    let mut operations = base.operations(function.unit.encoding());
    matches!((operations.next(), operations.next()), (Ok(Some(Operation::CallFrameCFA)), Ok(None)))
}
