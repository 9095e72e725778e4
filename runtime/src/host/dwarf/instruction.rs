//! A function with its parameters before one of its instructions.
//!
//! In: the function that contains the instruction, perhaps an inlined one. Out: names, types and
//! places of its parameters.
//! Guarantee: a parameter is read only from where debug information says that it is at this
//! instruction.

use gimli::{AttributeValue, Expression, Operation, constants};
use profiler_compiler::target::{Arch, ParameterPlace, ProgramFunction, ProgramParameter};

use super::calls::{self, Class};
use super::entries::{Entries, Found, Position};
use super::file::{FrameSections, Slice};
use super::frames::{self, Frame};
use super::function::{is_never_passed, parameters_of};
use super::location::{constant, constant_of, register_pair};
use super::types::Types;

/// Limit of ranges read of one parameter.
const MAX_RANGES: usize = 10_000;

/// The number in DWARF of the stack pointer on arm64, which is after the other registers in
/// `pt_regs`.
const AARCH64_SP: u16 = 31;

/// Why a parameter has no place.
const DISCARDED: &str = "has no place in memory or in a register at this line";
const COMPUTED: &str = "is not stored at this line: only a computation gives its value";

/// An instruction and the function that contains it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instruction {
    /// The function that is called.
    pub function: Position,
    /// The same, or an inlined function in it, whose parameters are described.
    pub scope: Position,
    pub address: u64,
    pub arch: Arch,
}

/// Describes the function that contains an instruction.
pub(super) fn describe(
    entries: &Entries<'_, '_>,
    sections: &FrameSections,
    at: Instruction,
    types: &mut Types<'_, '_, '_>,
) -> Result<ProgramFunction, String> {
    let damaged = || "its debug information is damaged, or in a supplementary file (dwz), which is not read".to_owned();
    let scope = entries.get(at.scope).ok_or_else(damaged)?;
    let function = entries.get(at.function).ok_or_else(damaged)?;
    let origin = entries.target(&scope, constants::DW_AT_abstract_origin);
    let origin = origin.map(|at| entries.get(at).ok_or_else(damaged)).transpose()?;
    let frame = frames::at(entries, sections, at.address);
    let mut parameters = Vec::new();
    for (declared, actual) in parameters_of(entries, &scope, origin.as_ref()) {
        if actual.is_none() && is_never_passed(entries, &declared) {
            continue;
        }
        let ty = Some(entries.type_of(declared.at).unwrap_or(Position::UNKNOWN));
        let place = match calls::class(entries, ty) {
            class @ (Class::Words(1) | Class::Pair) => {
                let actual = actual.ok_or("was optimised away by the compiler");
                let place = actual.and_then(|actual| place(entries, &function, &actual, (at, frame)));
                match place.unwrap_or_else(|why| ParameterPlace::Unreadable(why.into())) {
                    ParameterPlace::Memory(register, first) if class == Class::Pair => {
                        let second = ParameterPlace::Memory(register, first.saturating_add(8));
                        ParameterPlace::Members(vec![ParameterPlace::Memory(register, first), second])
                    }
                    place => place,
                }
            }
            class => calls::unreadable(class),
        };
        let name = entries.text(declared.at, constants::DW_AT_name).unwrap_or_default();
        parameters.push(ProgramParameter { name, ty: types.id(ty), place });
    }
    let name = entries.text(at.scope, constants::DW_AT_name).unwrap_or_default();
    Ok(ProgramFunction { name, parameters, result: types.id(entries.type_of(at.scope)), has_result: true })
}

/// Where a parameter is before the instruction; else why it is nowhere.
fn place<'data>(
    entries: &Entries<'data, '_>,
    function: &Found<'data>,
    parameter: &Found<'data>,
    (at, frame): (Instruction, Option<Frame>),
) -> Result<ParameterPlace, &'static str> {
    let evaluate = |expression| evaluate(function, parameter, expression, (at.arch, frame));
    match parameter.entry.attr_value(constants::DW_AT_location) {
        None => constant_of(parameter).map(ParameterPlace::Constant).ok_or("was optimised away by the compiler"),
        Some(AttributeValue::Exprloc(expression)) => evaluate(expression),
        Some(list) => {
            let Ok(Some(mut list)) = entries.dwarf().attr_locations(&parameter.unit, list) else {
                return Err(DISCARDED);
            };
            for _ in 0..MAX_RANGES {
                let (Ok(Some(part)), Some(())) = (list.next(), entries.step()) else { break };
                if (part.range.begin..part.range.end).contains(&at.address) {
                    return evaluate(part.data);
                }
            }
            Err(DISCARDED)
        }
    }
}

fn evaluate<'data>(
    function: &Found<'data>,
    parameter: &Found<'data>,
    expression: Expression<Slice<'data>>,
    (arch, frame): (Arch, Option<Frame>),
) -> Result<ParameterPlace, &'static str> {
    let mut operations = expression.operations(parameter.unit.encoding());
    if let Some(halves) = register_pair(&expression, parameter) {
        let halves = halves.map(|number| calls::register(arch, number).map(ParameterPlace::Register).ok_or(COMPUTED));
        return Ok(ParameterPlace::Members(halves.into_iter().collect::<Result<_, _>>()?));
    }
    let (Ok(first), Ok(second)) = (operations.next(), operations.next()) else { return Err(DISCARDED) };
    let memory = |number, offset: i64| {
        let register = base_register(arch, number).ok_or(COMPUTED)?;
        Ok(ParameterPlace::Memory(register, i32::try_from(offset).map_err(|_| COMPUTED)?))
    };
    match (first, second) {
        (Some(Operation::Register { register }), None) => {
            calls::register(arch, register.0).map(ParameterPlace::Register).ok_or(COMPUTED)
        }
        (Some(Operation::RegisterOffset { register, offset, .. }), None) => memory(register.0, offset),
        (Some(Operation::FrameOffset { offset }), None) => {
            let base = frame_base(function, frame).ok_or("is in a frame that has no known start at this line")?;
            memory(base.register, base.offset.checked_add(offset).ok_or(COMPUTED)?)
        }
        (Some(first), Some(Operation::StackValue)) => constant(&first).map(ParameterPlace::Constant).ok_or(COMPUTED),
        (Some(Operation::Piece { .. }) | None, _) => Err(DISCARDED),
        _ => Err(COMPUTED),
    }
}

/// The address that offsets in a function's frame are from.
fn frame_base(function: &Found<'_>, frame: Option<Frame>) -> Option<Frame> {
    let Some(AttributeValue::Exprloc(base)) = function.entry.attr_value(constants::DW_AT_frame_base) else {
        return None;
    };
    let mut operations = base.operations(function.unit.encoding());
    match (operations.next().ok()?, operations.next().ok()?) {
        (Some(Operation::CallFrameCFA), None) => frame,
        (Some(Operation::Register { register }), None) => Some(Frame { register: register.0, offset: 0 }),
        (Some(Operation::RegisterOffset { register, offset, .. }), None) => {
            Some(Frame { register: register.0, offset })
        }
        _ => None,
    }
}

/// The offset in `pt_regs` of a register that has an address.
fn base_register(arch: Arch, number: u16) -> Option<u32> {
    match (arch, number) {
        (Arch::Aarch64, AARCH64_SP) => Some(u32::from(AARCH64_SP) * 8),
        _ => calls::register(arch, number),
    }
}
