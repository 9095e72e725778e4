//! A function with its parameters.
//!
//! In: the entry of a function. Out: names, types and places of its parameters, the type of its
//! result.
//! Guarantee: a parameter that the compiler has removed or moved is unreadable, or is read from
//! where debug information says that it is.

use gimli::{AttributeValue, constants};
use profiler_compiler::target::{Arch, ParameterPlace, ProgramFunction, ProgramParameter};

use super::calls::{self, Class, Places};
use super::entries::{Entries, Found, Position};
use super::location::{self, Location};
use super::types::Types;

/// Limit of parameters.
const MAX_PARAMETERS: usize = 1000;

/// Describes the function whose entry and address these are.
pub(super) fn describe(
    entries: &Entries<'_, '_>,
    (at, address): (Position, u64),
    is_clone: bool,
    arch: Arch,
    types: &mut Types<'_, '_, '_>,
) -> Result<ProgramFunction, String> {
    let damaged = || "its debug information is damaged, or in a supplementary file (dwz), which is not read".to_owned();
    let function = entries.get(at).ok_or_else(damaged)?;
    let origin = entries.target(&function, constants::DW_AT_abstract_origin);
    let origin = origin.map(|at| entries.get(at).ok_or_else(damaged)).transpose()?;
    let result = entries.type_of(at);
    let of_result = calls::class(entries, result);
    let mut places = Places::new(arch, of_result);
    let is_certain = !is_clone && !has_own_convention(&function) && !entries.may_change_calls(at);
    let mut parameters = Vec::new();
    for (declared, actual) in parameters_of(entries, &function, origin.as_ref()) {
        if actual.is_none() && is_never_passed(entries, &declared) {
            continue;
        }
        let ty = Some(entries.type_of(declared.at).unwrap_or(Position::UNKNOWN));
        let class = calls::class(entries, ty);
        let by_convention = places.next(class);
        let known =
            actual.as_ref().map_or(Location::None, |actual| location::at_entry(entries, &function, actual, address));
        let place = match class {
            Class::Words(1) | Class::Pair => place(arch, known, by_convention, is_certain),
            _ => by_convention,
        };
        let name = entries.text(declared.at, constants::DW_AT_name).unwrap_or_default();
        parameters.push(ProgramParameter { name, ty: types.id(ty), place });
    }
    let name = entries.text(at, constants::DW_AT_name).unwrap_or_default();
    Ok(ProgramFunction { name, parameters, result: types.id(result), has_result: is_certain })
}

/// The parameters as the source declares them, each with the entry that has its place.
pub(super) fn parameters_of<'data>(
    entries: &Entries<'data, '_>,
    function: &Found<'data>,
    origin: Option<&Found<'data>>,
) -> Vec<(Found<'data>, Option<Found<'data>>)> {
    let parameter = [constants::DW_TAG_formal_parameter];
    let own = entries.children(function, &parameter);
    let Some(origin) = origin else {
        return own.into_iter().take(MAX_PARAMETERS).map(|own| (own.clone(), Some(own))).collect();
    };
    let mut declared = entries.children(origin, &parameter);
    declared.truncate(MAX_PARAMETERS);
    let origin_of = |own: &Found<'data>| entries.target(own, constants::DW_AT_abstract_origin);
    let with_place = |declared: Found<'data>| {
        let actual = own.iter().find(|own| origin_of(own) == Some(declared.at)).cloned();
        (declared, actual)
    };
    declared.into_iter().map(with_place).collect()
}

/// Whether a parameter is one that GCC declares for constructors and destructors in C++, but passes
/// to none of those that it makes of them.
pub(super) fn is_never_passed(entries: &Entries<'_, '_>, declared: &Found<'_>) -> bool {
    declared.flag(constants::DW_AT_artificial)
        && entries.text(declared.at, constants::DW_AT_name).is_some_and(|name| name.starts_with("__"))
}

/// Whether the compiler says that the function is not called as others are.
fn has_own_convention(function: &Found<'_>) -> bool {
    matches!(
        function.entry.attr_value(constants::DW_AT_calling_convention),
        Some(AttributeValue::CallingConvention(convention)) if convention != constants::DW_CC_normal
    )
}

/// The place of an integer or pointer.
fn place(arch: Arch, known: Location, by_convention: ParameterPlace, is_certain: bool) -> ParameterPlace {
    let removed = || ParameterPlace::Unreadable("was optimised away by the compiler".into());
    let in_register = |number| calls::register(arch, number).map_or_else(removed, ParameterPlace::Register);
    match known {
        Location::Register(number) => in_register(number),
        Location::Constant(value) => ParameterPlace::Constant(value),
        Location::Registers(first, second) => ParameterPlace::Members(vec![in_register(first), in_register(second)]),
        Location::Caller(offset) => ParameterPlace::Stack(calls::frame_distance_bytes(arch).saturating_add(offset)),
        Location::MainlyRegister(_) | Location::Stored if is_certain => by_convention,
        Location::MainlyRegister(number) if calls::is_argument(arch, number) => in_register(number),
        Location::MainlyRegister(_) | Location::Stored | Location::None => removed(),
    }
}
