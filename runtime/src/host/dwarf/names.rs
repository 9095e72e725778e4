//! Types and global variables by name.
//!
//! In: names. Out: positions of entries, or types.
//! Guarantee: only entries outside of functions are read. If several different types have a name,
//! the answer is an error, not one of them.

use std::collections::{BTreeMap, BTreeSet};

use gimli::{AttributeValue, DwTag, EntriesTreeNode, Operation, constants};
use profiler_compiler::ast::TypeTag;
use profiler_compiler::btf::BtfId;
use profiler_compiler::target::{ProgramType, ProgramVariable};

use super::code;
use super::entries::{Entries, Entry, Position, Unit};
use super::file::Slice;
use super::types::{Types, plain};

/// The nesting of namespaces and classes that is followed.
const MAX_DEPTH: usize = 16;

/// Limit of entries that are compared because they have one name.
const MAX_ALIKE: usize = 64;

/// An entry that has a wanted name, and how deep it is in namespaces and classes.
type Candidate = (usize, Position);

/// The types of these names, each with the address of code in the source file that is preferred.
pub(super) fn types(
    entries: &Entries<'_, '_>,
    wanted: &[(&ProgramType, Option<u64>)],
    types: &mut Types<'_, '_, '_>,
) -> BTreeMap<ProgramType, Result<Option<BtfId>, String>> {
    let mut answers = BTreeMap::new();
    let mut others: BTreeMap<(TypeTag, String), Vec<&ProgramType>> = BTreeMap::new();
    for (ty, address) in wanted {
        let near = address.map(|address| units_near(entries, address)).unwrap_or_default();
        let name = BTreeSet::from([(ty.tag, ty.name.clone())]);
        match of_units(entries, &near, &name).into_values().next() {
            Some(found) => {
                answers.insert((*ty).clone(), the_one(entries, found, types));
            }
            None => others.entry((ty.tag, ty.name.clone())).or_default().push(ty),
        }
    }
    if others.is_empty() {
        return answers;
    }
    let names = others.keys().cloned().collect();
    let mut found = of_units(entries, &entries.unit_starts().into_iter().collect(), &names);
    for (name, asked) in others {
        let answer = found.remove(&name).map_or(Ok(None), |found| the_one(entries, found, types));
        answers.extend(asked.into_iter().map(|ty| (ty.clone(), answer.clone())));
    }
    answers
}

/// The units with the code at an address and with the declaration of its function, which is
/// elsewhere if the linker has compiled the code (LTO).
fn units_near(entries: &Entries<'_, '_>, address: u64) -> BTreeSet<usize> {
    let function = code::at_address(entries, address).first().map(|scope| scope.at);
    let declared = function.and_then(|at| entries.inherited(at, constants::DW_AT_name)).map(|found| found.at);
    [function, declared].into_iter().flatten().filter_map(|at| entries.unit_of(at)).collect()
}

/// The entries of these units with these names.
fn of_units(
    entries: &Entries<'_, '_>,
    units: &BTreeSet<usize>,
    names: &BTreeSet<(TypeTag, String)>,
) -> BTreeMap<(TypeTag, String), Vec<Candidate>> {
    let mut found: BTreeMap<(TypeTag, String), Vec<Candidate>> = BTreeMap::new();
    for start in units {
        visit(entries, *start, &mut |unit, entry, depth| {
            let tags = tags_of(entry.tag());
            if tags.is_empty() || entry.has_attr(constants::DW_AT_declaration) {
                return;
            }
            let Some(name) = text(entries, unit, entry) else { return };
            for tag in tags {
                let key = (*tag, name.to_owned());
                if names.contains(&key) {
                    let known = found.entry(key).or_default();
                    known.push((depth, Position(start.saturating_add(entry.offset().0))));
                    known.truncate(MAX_ALIKE);
                }
            }
        });
    }
    found
}

/// The keywords by which a script names an entry.
fn tags_of(tag: DwTag) -> &'static [TypeTag] {
    match tag {
        constants::DW_TAG_structure_type | constants::DW_TAG_class_type => &[TypeTag::Struct, TypeTag::None],
        constants::DW_TAG_union_type => &[TypeTag::Union, TypeTag::None],
        constants::DW_TAG_enumeration_type => &[TypeTag::Enum, TypeTag::None],
        constants::DW_TAG_typedef => &[TypeTag::None],
        _ => &[],
    }
}

/// The type that all candidates are: those that are least nested.
fn the_one(
    entries: &Entries<'_, '_>,
    mut found: Vec<Candidate>,
    types: &mut Types<'_, '_, '_>,
) -> Result<Option<BtfId>, String> {
    let least = found.iter().map(|(depth, _)| *depth).min();
    found.retain(|(depth, _)| Some(*depth) == least);
    let Some((_, first)) = found.first() else { return Ok(None) };
    // A typedef is the same as another one if it names the same type.
    let mut meant = |at: Position| types.id(plain(entries, Some(at), true).map(|found| found.at));
    let of_first = meant(*first);
    if found.iter().any(|(_, at)| meant(*at) != of_first) {
        return Err("it has several different types of this name, none of them in the source file of the probe".into());
    }
    Ok(Some(types.id(Some(*first))))
}

/// The types of variables, by name and address.
pub(super) fn variables(
    entries: &Entries<'_, '_>,
    wanted: &BTreeSet<ProgramVariable>,
    types: &mut Types<'_, '_, '_>,
) -> BTreeMap<ProgramVariable, Result<BtfId, String>> {
    let by_address: BTreeMap<u64, &ProgramVariable> = wanted.iter().map(|it| (it.address, it)).collect();
    let by_name: BTreeMap<&str, &ProgramVariable> = wanted.iter().map(|it| (it.name.as_str(), it)).collect();
    let (mut exact, mut named) = (BTreeMap::new(), BTreeMap::new());
    let starts = if wanted.is_empty() { Vec::new() } else { entries.unit_starts() };
    for start in starts {
        visit(entries, start, &mut |unit, entry, _| {
            if entry.tag() != constants::DW_TAG_variable {
                return;
            }
            let at = Position(start.saturating_add(entry.offset().0));
            if let Some(variable) = address(entries, unit, entry).and_then(|address| by_address.get(&address)) {
                exact.entry((*variable).clone()).or_insert(at);
            } else if let Some(variable) = text(entries, unit, entry).and_then(|name| by_name.get(name)) {
                // A variable of a library may be in the program, by a copy relocation.
                named.entry((*variable).clone()).or_insert(at);
            }
        });
    }
    let answer = |variable: &ProgramVariable| {
        let at = exact.get(variable).or_else(|| named.get(variable));
        let at = at.ok_or_else(|| "the debug information does not describe this variable".to_owned())?;
        Ok(types.id(entries.type_of(*at)))
    };
    let answers: Vec<_> = wanted.iter().map(answer).collect();
    wanted.iter().cloned().zip(answers).collect()
}

/// The address of a variable that is always at the same place of its file.
fn address<'data>(entries: &Entries<'data, '_>, unit: &Unit<'data>, entry: &Entry<'data>) -> Option<u64> {
    let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(constants::DW_AT_location) else { return None };
    let mut operations = expression.operations(unit.encoding());
    match (operations.next().ok()?, operations.next().ok()?) {
        (Some(Operation::Address { address }), None) => Some(address),
        (Some(Operation::AddressIndex { index }), None) => entries.dwarf().address(unit, index).ok(),
        _ => None,
    }
}

/// The name of an entry.
fn text<'data>(entries: &Entries<'data, '_>, unit: &Unit<'data>, entry: &Entry<'data>) -> Option<&'data str> {
    let text = entries.dwarf().attr_string(unit, entry.attr_value(constants::DW_AT_name)?).ok()?;
    std::str::from_utf8(text.slice()).ok()
}

/// What is called with each entry: its unit and its depth in namespaces and classes.
type See<'s, 'data> = dyn FnMut(&Unit<'data>, &Entry<'data>, usize) + 's;

/// Visits the entries of a unit outside of functions.
fn visit<'data>(entries: &Entries<'data, '_>, unit_start: usize, see: &mut See<'_, 'data>) {
    let Some(unit) = entries.unit_at(unit_start) else { return };
    let Ok(mut tree) = unit.entries_tree(None) else { return };
    let Ok(root) = tree.root() else { return };
    visit_children(entries, (&unit, root), 0, see);
}

fn visit_children<'data>(
    entries: &Entries<'data, '_>,
    (unit, node): (&Unit<'data>, EntriesTreeNode<'_, '_, Slice<'data>>),
    depth: usize,
    see: &mut See<'_, 'data>,
) {
    let mut children = node.children();
    while let (Ok(Some(child)), Some(())) = (children.next(), entries.step()) {
        see(unit, child.entry(), depth);
        let has_names = matches!(
            child.entry().tag(),
            constants::DW_TAG_namespace
                | constants::DW_TAG_module
                | constants::DW_TAG_structure_type
                | constants::DW_TAG_class_type
                | constants::DW_TAG_union_type
        );
        if has_names && depth < MAX_DEPTH {
            visit_children(entries, (unit, child), depth + 1, see);
        }
    }
}
