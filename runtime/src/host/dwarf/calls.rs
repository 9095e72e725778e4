//! Where the calling convention puts the parameters of a function.
//!
//! In: the types of its result and parameters. Out: the place of each when the function is entered.
//! Guarantee: a place that depends on something that is not known is an error.

use gimli::constants;
use profiler_compiler::target::{Arch, ParameterPlace};

use super::entries::{Entries, Found, Position, Value};
use super::types::{lengths, plain};

/// The nesting of structs that is followed.
const MAX_DEPTH: u32 = 16;

/// Offsets in `pt_regs` of the registers by their numbers in DWARF on x86-64: rax, rdx, rcx, rbx,
/// rsi, rdi, rbp, rsp, r8 to r15.
const X86_64: [u32; 16] = [80, 96, 88, 40, 104, 112, 32, 152, 72, 64, 56, 48, 24, 16, 8, 0];

/// The numbers in DWARF of the registers with arguments: rdi, rsi, rdx, rcx, r8, r9 on x86-64
/// (System V ABI); x0 to x7 on arm64 (AAPCS64).
const X86_64_ARGUMENTS: &[u16] = &[5, 4, 1, 2, 8, 9];
const AARCH64_ARGUMENTS: &[u16] = &[0, 1, 2, 3, 4, 5, 6, 7];

/// Arguments that are floating-point numbers in registers.
const FLOAT_REGISTERS: usize = 8;

/// The size of a register.
const WORD_BYTES: u64 = 8;

/// The largest struct that is passed in registers.
const MAX_IN_REGISTERS_BYTES: u64 = 16;

/// How a value is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// In integer registers.
    Words(u8),
    /// In a register for floating-point numbers.
    Float,
    /// A struct in integer registers.
    StructWords(u8),
    /// Two numbers or pointers of 8 bytes, each passed as if it were alone: a slice of Rust.
    Pair,
    /// In memory of this size: the stack, or on arm64 for large structs, behind a pointer.
    Memory(u64),
    /// In registers, not all of them for integers; or a number in a way of its own.
    Mixed,
    /// Not at all.
    Nothing,
    /// In a way that depends on more than is known here.
    Unknown,
}

/// The offset in `pt_regs` of a register by its number in DWARF.
pub(super) fn register(arch: Arch, number: u16) -> Option<u32> {
    match arch {
        Arch::X86_64 => X86_64.get(usize::from(number)).copied(),
        Arch::Aarch64 => (number < 31).then_some(u32::from(number) * 8),
    }
}

/// Whether a register is one of those with arguments.
pub(super) fn is_argument(arch: Arch, number: u16) -> bool {
    arguments(arch).contains(&number)
}

fn arguments(arch: Arch) -> &'static [u16] {
    match arch {
        Arch::X86_64 => X86_64_ARGUMENTS,
        Arch::Aarch64 => AARCH64_ARGUMENTS,
    }
}

/// The distance in bytes from the stack pointer at the entry to the frame's address (CFA), where
/// the arguments on the stack begin: on x86 the return address is before them.
pub(super) fn frame_distance_bytes(arch: Arch) -> u32 {
    match arch {
        Arch::X86_64 => 8,
        Arch::Aarch64 => 0,
    }
}

/// How a type is passed; a missing type is `void`.
pub(super) fn class(entries: &Entries<'_, '_>, ty: Option<Position>) -> Class {
    let Some(start) = ty else { return Class::Nothing };
    let Some(found) = plain(entries, Some(start), true) else { return Class::Unknown };
    let size_bytes = found.number(constants::DW_AT_byte_size);
    match found.tag() {
        constants::DW_TAG_pointer_type | constants::DW_TAG_reference_type | constants::DW_TAG_rvalue_reference_type => {
            Class::Words(1)
        }
        constants::DW_TAG_enumeration_type if size_bytes.is_none_or(|size| size <= 8) => Class::Words(1),
        constants::DW_TAG_base_type => number(&found, size_bytes.unwrap_or(0)),
        constants::DW_TAG_structure_type | constants::DW_TAG_union_type | constants::DW_TAG_class_type => {
            composite(entries, &found, size_bytes)
        }
        _ => Class::Unknown,
    }
}

fn number(found: &Found<'_>, size_bytes: u64) -> Class {
    let Some(Value::Encoding(encoding)) = found.entry.attr_value(constants::DW_AT_encoding) else {
        return Class::Unknown;
    };
    match encoding {
        constants::DW_ATE_float if size_bytes <= 8 => Class::Float,
        constants::DW_ATE_boolean
        | constants::DW_ATE_signed
        | constants::DW_ATE_signed_char
        | constants::DW_ATE_unsigned
        | constants::DW_ATE_unsigned_char
        | constants::DW_ATE_UTF => match size_bytes {
            1..=8 => Class::Words(1),
            16 => Class::Words(2),
            _ => Class::Unknown,
        },
        // `long double` is on the stack; `__float128` has the same size and is in a register.
        _ if size_bytes <= MAX_IN_REGISTERS_BYTES => Class::Mixed,
        _ => Class::Unknown,
    }
}

fn composite<'data>(entries: &Entries<'data, '_>, found: &Found<'data>, size_bytes: Option<u64>) -> Class {
    if is_slice(entries, found, size_bytes) {
        return Class::Pair;
    }
    // The calling convention of C++ depends on the constructors of a class.
    let is_c = found.tag() != constants::DW_TAG_class_type && language_is_c(found);
    match size_bytes {
        Some(0) if is_c => Class::Nothing,
        Some(size) if is_c && size > MAX_IN_REGISTERS_BYTES => Class::Memory(size),
        Some(size) if is_c && is_of_integers(entries, found, size) => Class::StructWords(size.div_ceil(8) as u8),
        Some(_) if is_c => Class::Mixed,
        _ => Class::Unknown,
    }
}

/// Whether a struct is a reference to a slice or to text in Rust: `&[u32]`, `&str`.
fn is_slice<'data>(entries: &Entries<'data, '_>, found: &Found<'data>, size_bytes: Option<u64>) -> bool {
    let name = entries.own_text(found, constants::DW_AT_name).unwrap_or_default();
    if !name.starts_with('&') || size_bytes != Some(2 * WORD_BYTES) {
        return false;
    }
    let members = entries.children(found, &[constants::DW_TAG_member]);
    let names: Vec<_> = members.iter().filter_map(|member| entries.own_text(member, constants::DW_AT_name)).collect();
    let is_at = |(index, member): (u64, &Found<'data>)| {
        member.number(constants::DW_AT_data_member_location) == Some(index * WORD_BYTES)
            && class(entries, entries.target(member, constants::DW_AT_type)) == Class::Words(1)
    };
    names == ["data_ptr", "length"] && (0..).zip(&members).all(is_at)
}

/// Whether the unit is in C.
fn language_is_c(found: &Found<'_>) -> bool {
    let mut cursor = found.unit.entries();
    let Ok(Some(root)) = cursor.next_dfs() else { return false };
    let Some(Value::Language(language)) = root.attr_value(constants::DW_AT_language) else {
        return false;
    };
    matches!(
        language,
        constants::DW_LANG_C89
            | constants::DW_LANG_C
            | constants::DW_LANG_C99
            | constants::DW_LANG_C11
            | constants::DW_LANG_C17
    )
}

/// The first and the last byte of each integer or pointer in a struct of up to 16 bytes; `None` if
/// it has something else, or a member without its natural alignment.
fn integers<'data>(
    entries: &Entries<'data, '_>,
    found: &Found<'data>,
    (start, depth): (u64, u32),
) -> Option<Vec<(u64, u64)>> {
    let depth = depth.checked_sub(1)?;
    let mut places = Vec::new();
    for member in entries.children(found, &[constants::DW_TAG_member]) {
        let offset =
            member.entry.attr_value(constants::DW_AT_data_member_location).map_or(Some(0), |at| at.udata_value());
        let start = start.checked_add(offset?)?;
        let mut ty = plain(entries, entries.target(&member, constants::DW_AT_type), true)?;
        let mut count = 1_u64;
        while ty.tag() == constants::DW_TAG_array_type {
            count =
                lengths(entries, &ty).into_iter().try_fold(count, |count, length| count.checked_mul(length.into()))?;
            ty = plain(entries, entries.type_of(ty.at), true)?;
        }
        let size_bytes = ty.number(constants::DW_AT_byte_size).unwrap_or(8);
        let is_field = member.entry.has_attr(constants::DW_AT_bit_size);
        let end = start.checked_add(size_bytes.checked_mul(count)?)?;
        if is_field || end > MAX_IN_REGISTERS_BYTES || end == start {
            return None;
        }
        match ty.tag() {
            constants::DW_TAG_structure_type | constants::DW_TAG_union_type => {
                // The elements of an array are alike.
                places.extend(integers(entries, &ty, (start, depth))?);
                places.extend((count > 1).then_some((start, end - 1)));
            }
            _ if class(entries, Some(ty.at)) != Class::Words(1) || !start.is_multiple_of(size_bytes) => return None,
            _ => places.push((start, end - 1)),
        }
    }
    Some(places)
}

/// Whether a struct has only integers and pointers, in each of its words.
fn is_of_integers<'data>(entries: &Entries<'data, '_>, found: &Found<'data>, size_bytes: u64) -> bool {
    let Some(places) = integers(entries, found, (0, MAX_DEPTH)) else { return false };
    let is_used = |word: u64| places.iter().any(|(first, last)| first / 8 <= word && word <= last / 8);
    (0..size_bytes.div_ceil(8)).all(is_used)
}

/// Gives out places in the order of the parameters.
#[derive(Debug)]
pub(super) struct Places {
    arch: Arch,
    /// The number of integer registers in use; `None` if it is not known.
    words: Option<usize>,
    /// The number of bytes of the stack in use; `None` if it is not known.
    stack_bytes: Option<u64>,
    floats: usize,
}

impl Places {
    /// The places for a function with this result.
    pub(super) fn new(arch: Arch, result: Class) -> Places {
        // A large result is stored where an additional first argument says; on arm64 that is in a
        // register of its own.
        let words = match (result, arch) {
            (Class::Unknown, Arch::X86_64) => None,
            (Class::Memory(_), Arch::X86_64) => Some(1),
            _ => Some(0),
        };
        Places { arch, words, stack_bytes: Some(0), floats: 0 }
    }

    /// The place of the next parameter; why it cannot be read, after "it".
    pub(super) fn next(&mut self, class: Class) -> ParameterPlace {
        match class {
            Class::Words(1) => self.word(),
            Class::Words(count) | Class::StructWords(count) => {
                self.skip(usize::from(count));
                unreadable(class)
            }
            Class::Pair => {
                let places = vec![self.word(), self.word()];
                let unknown = places.iter().find(|place| matches!(place, ParameterPlace::Unreadable(_)));
                unknown.cloned().unwrap_or(ParameterPlace::Members(places))
            }
            Class::Float => {
                self.floats += 1;
                if self.floats > FLOAT_REGISTERS {
                    self.push(8);
                }
                unreadable(class)
            }
            Class::Memory(size_bytes) => {
                match self.arch {
                    // A pointer to a copy is passed.
                    Arch::Aarch64 => self.skip(1),
                    Arch::X86_64 => self.push(size_bytes),
                }
                // It may have an alignment that moves it.
                self.stack_bytes = if self.arch == Arch::X86_64 { None } else { self.stack_bytes };
                unreadable(class)
            }
            Class::Nothing => unreadable(class),
            Class::Mixed | Class::Unknown => {
                (self.words, self.stack_bytes) = (None, None);
                unreadable(class)
            }
        }
    }

    fn word(&mut self) -> ParameterPlace {
        let unknown = || ParameterPlace::Unreadable("follows a parameter whose place in the call is not known".into());
        let Some(words) = self.words else { return unknown() };
        if let Some(number) = arguments(self.arch).get(words) {
            self.words = Some(words + 1);
            return register(self.arch, *number).map_or_else(unknown, ParameterPlace::Register);
        }
        let Some(at) = self.stack_bytes.and_then(|at| u32::try_from(at).ok()) else { return unknown() };
        self.push(8);
        ParameterPlace::Stack(frame_distance_bytes(self.arch).saturating_add(at))
    }

    /// Takes registers for a value that is in all of them or on the stack.
    fn skip(&mut self, count: usize) {
        let Some(words) = self.words else { return };
        if words + count <= arguments(self.arch).len() {
            self.words = Some(words + count);
            return;
        }
        // On arm64 no later argument is in a register then; larger alignments are not known.
        self.stack_bytes = None;
        if self.arch == Arch::Aarch64 {
            self.words = None;
        }
    }

    fn push(&mut self, size_bytes: u64) {
        self.stack_bytes = self.stack_bytes.and_then(|at| at.checked_add(size_bytes.checked_next_multiple_of(8)?));
    }
}

/// Why a value of this class is not read.
pub(super) fn unreadable(class: Class) -> ParameterPlace {
    let why = match class {
        Class::Float => "is a floating-point number, which programs in the kernel cannot read",
        Class::StructWords(_) | Class::Pair | Class::Memory(_) | Class::Nothing => {
            "is a struct that is passed by value"
        }
        Class::Words(_) => "is larger than 8 bytes",
        Class::Mixed | Class::Unknown => "has a type whose place in a call is not known",
    };
    ParameterPlace::Unreadable(why.into())
}
