//! Converts types from debug information.
//!
//! In: positions of types. Out: types added to those of the script.
//! Guarantee: the number of types is limited; a struct beyond the limit has no members. Types that
//! are the same in several units are one type, so their values can be in one map. A type without
//! values in the language is a floating-point number.

mod records;

use std::collections::{BTreeMap, VecDeque};

use gimli::constants;
use profiler_compiler::btf::{Added, BtfId};

use super::entries::{Entries, Found, Position, Value};

/// Limit of types converted for one question.
const MAX_TYPES: usize = 20_000;

/// Limit in bytes of the names and offsets of all members and values.
const MAX_SHAPES_BYTES: usize = 64 << 20;

/// The longest chain of `const`, `volatile` and the like.
const MAX_QUALIFIERS: usize = 32;

/// The largest dimension of an array; longer ones have no size that a script can use.
const MAX_ELEMENTS: u64 = 1 << 30;

/// The longest name of a type that is kept.
const MAX_NAME_BYTES: usize = 4096;

/// Types as they are converted.
#[derive(Debug)]
pub(super) struct Types<'e, 'data, 'index> {
    entries: &'e Entries<'data, 'index>,
    added: &'e mut Added,
    known: BTreeMap<Position, BtfId>,
    /// Structs, unions and enums by what they consist of.
    alike: BTreeMap<Vec<u8>, BtfId>,
    /// Types whose ids are known, but not yet what they are.
    queue: VecDeque<(Found<'data>, BtfId)>,
    left_bytes: usize,
    /// Whether only the names of types are wanted.
    names_only: bool,
}

/// Follows typedefs (if `through_names`), `const` and the like to the type itself; `None` for
/// `void` and where there is none.
pub(super) fn plain<'data>(
    entries: &Entries<'data, '_>,
    at: Option<Position>,
    through_names: bool,
) -> Option<Found<'data>> {
    let mut at = at;
    for _ in 0..MAX_QUALIFIERS {
        let found = entries.get(at?)?;
        // The type is in a unit of its own.
        if found.entry.has_attr(constants::DW_AT_signature) {
            at = entries.target(&found, constants::DW_AT_signature);
            continue;
        }
        let is_transparent = match found.tag() {
            constants::DW_TAG_const_type
            | constants::DW_TAG_volatile_type
            | constants::DW_TAG_restrict_type
            | constants::DW_TAG_atomic_type
            | constants::DW_TAG_packed_type
            | constants::DW_TAG_immutable_type
            | constants::DW_TAG_subrange_type => true,
            constants::DW_TAG_typedef => through_names,
            _ => false,
        };
        if !is_transparent {
            return Some(found);
        }
        at = entries.type_of(found.at);
    }
    None
}

/// The dimensions of an array, the outermost first.
pub(super) fn lengths<'data>(entries: &Entries<'data, '_>, array: &Found<'data>) -> Vec<u32> {
    let length = |dimension: &Found<'data>| {
        let count = dimension.number(constants::DW_AT_count);
        // An array without a length, and one whose last index is -1, are empty.
        let last = || dimension.number(constants::DW_AT_upper_bound).and_then(|last| last.checked_add(1));
        count.or_else(last).filter(|length| *length <= MAX_ELEMENTS).unwrap_or(0) as u32
    };
    let dimensions = entries.children(array, &[constants::DW_TAG_subrange_type]);
    dimensions.iter().take(MAX_QUALIFIERS).map(length).collect()
}

impl<'e, 'data, 'index> Types<'e, 'data, 'index> {
    pub(super) fn new(
        entries: &'e Entries<'data, 'index>,
        added: &'e mut Added,
        names_only: bool,
    ) -> Types<'e, 'data, 'index> {
        let (known, alike, queue) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Types { entries, added, known, alike, queue, left_bytes: MAX_SHAPES_BYTES, names_only }
    }

    /// The id of the type at a position; of `void` if there is none.
    pub(super) fn id(&mut self, at: Option<Position>) -> BtfId {
        let Some(start) = at else { return BtfId::VOID };
        if let Some(id) = self.known.get(&start) {
            return *id;
        }
        let id = match plain(self.entries, at, false) {
            // A declaration of `void` has no type; one that cannot be read is not a value.
            None if self.entries.get(start).is_some_and(|found| !found.entry.has_attr(constants::DW_AT_type)) => {
                BtfId::VOID
            }
            None => self.added.float("unknown", 0),
            Some(found) => match self.known.get(&found.at) {
                Some(id) => *id,
                None => self.first(found),
            },
        };
        self.known.insert(start, id);
        id
    }

    /// The id of a type that was not met before.
    fn first(&mut self, found: Found<'data>) -> BtfId {
        let at = found.at;
        let id = match found.tag() {
            constants::DW_TAG_base_type => self.number(&found),
            constants::DW_TAG_unspecified_type | constants::DW_TAG_subroutine_type => BtfId::VOID,
            _ if self.known.len() >= MAX_TYPES => self.cut(&found),
            constants::DW_TAG_structure_type
            | constants::DW_TAG_class_type
            | constants::DW_TAG_union_type
            | constants::DW_TAG_enumeration_type => self.composite(found),
            constants::DW_TAG_typedef if self.names_only => self.name_alone(&found),
            constants::DW_TAG_pointer_type
            | constants::DW_TAG_reference_type
            | constants::DW_TAG_rvalue_reference_type
            | constants::DW_TAG_typedef
            | constants::DW_TAG_array_type => self.queued(found),
            _ => self.added.float("unknown", 0),
        };
        self.known.insert(at, id);
        id
    }

    fn queued(&mut self, found: Found<'data>) -> BtfId {
        let id = self.added.reserve();
        self.queue.push_back((found, id));
        id
    }

    fn composite(&mut self, found: Found<'data>) -> BtfId {
        if self.names_only {
            return self.name_alone(&found);
        }
        let shape = self.shape(&found);
        if let Some(id) = self.alike.get(&shape) {
            return *id;
        }
        let Some(left_bytes) = self.left_bytes.checked_sub(shape.len()) else { return self.cut(&found) };
        self.left_bytes = left_bytes;
        let id = self.queued(found);
        self.alike.insert(shape, id);
        id
    }

    /// A struct, union, enum or typedef without what it consists of.
    fn name_alone(&mut self, found: &Found<'data>) -> BtfId {
        let (id, name) = (self.added.reserve(), self.name(found));
        match found.tag() {
            constants::DW_TAG_enumeration_type => self.added.enumeration_type(id, &name, (4, false), &[]),
            constants::DW_TAG_typedef => self.added.typedef_type(id, &name, BtfId::VOID),
            tag => self.added.forward(id, &name, tag == constants::DW_TAG_union_type),
        }
        id
    }

    /// A type beyond the limit.
    fn cut(&mut self, found: &Found<'data>) -> BtfId {
        match found.tag() {
            constants::DW_TAG_structure_type | constants::DW_TAG_class_type | constants::DW_TAG_union_type => {
                let (id, name) = (self.added.reserve(), self.name(found));
                self.added.forward(id, &name, found.tag() == constants::DW_TAG_union_type);
                id
            }
            constants::DW_TAG_pointer_type => self.added.pointer(BtfId::VOID),
            _ => self.added.float("unknown", 0),
        }
    }

    /// Converts all types that the known ones refer to.
    pub(super) fn finish(&mut self) {
        while let Some((found, id)) = self.queue.pop_front() {
            let target = self.entries.type_of(found.at);
            match found.tag() {
                constants::DW_TAG_typedef => {
                    let (name, of) = (self.name(&found), self.id(target));
                    self.added.typedef_type(id, &name, of);
                }
                constants::DW_TAG_array_type => self.array(&found, id, target),
                constants::DW_TAG_enumeration_type => self.enumeration(&found, id),
                constants::DW_TAG_structure_type | constants::DW_TAG_class_type | constants::DW_TAG_union_type => {
                    self.record(&found, id);
                }
                _ => {
                    let to = self.id(target);
                    self.added.pointer_type(id, to);
                }
            }
        }
    }

    fn name(&self, found: &Found<'data>) -> String {
        let name = self.entries.own_text(found, constants::DW_AT_name).unwrap_or_default();
        if name.len() > MAX_NAME_BYTES || name.contains('\0') { String::new() } else { name }
    }

    /// An integer, `bool`, `char`, or a number that has no value in the language.
    fn number(&mut self, found: &Found<'data>) -> BtfId {
        let name = self.name(found);
        let size_bytes = found.number(constants::DW_AT_byte_size).unwrap_or(0);
        let encoding = match found.entry.attr_value(constants::DW_AT_encoding) {
            Some(Value::Encoding(encoding)) => encoding,
            _ => constants::DwAte(0),
        };
        let is_char = matches!(encoding, constants::DW_ATE_signed_char | constants::DW_ATE_unsigned_char);
        let signed = match encoding {
            constants::DW_ATE_boolean if size_bytes == 1 => return self.added.boolean(),
            constants::DW_ATE_signed | constants::DW_ATE_signed_char => true,
            constants::DW_ATE_unsigned
            | constants::DW_ATE_unsigned_char
            | constants::DW_ATE_UTF
            | constants::DW_ATE_boolean => false,
            _ => return self.added.float(&name, size_bytes.min(16) as u32),
        };
        // An integer named `char` is text.
        let name = if name == "char" && !(is_char && size_bytes == 1) { "character" } else { &name };
        match size_bytes {
            1 | 2 | 4 | 8 | 16 => self.added.int(name, size_bytes as u32, signed),
            _ => self.added.float(name, size_bytes.min(16) as u32),
        }
    }

    fn array(&mut self, found: &Found<'data>, id: BtfId, element: Option<Position>) {
        let lengths = lengths(self.entries, found);
        let mut of = self.id(element);
        let Some((outer, inner)) = lengths.split_first() else {
            return self.added.array_type(id, of, 0);
        };
        for length in inner.iter().rev() {
            of = self.added.array(of, *length);
        }
        self.added.array_type(id, of, *outer);
    }
}
