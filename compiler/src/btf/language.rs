//! What the kernel's types are in the probe language, and what a user calls them.
//!
//! In: the number of a type. Out: a [`Type`] or words.
//! Guarantee: structs and enums stay numbers, so the result is small however large the type is.

use super::record::Kind;
use super::{Btf, BtfId, MAX_DEPTH};
use crate::types::{Int, Space, Type};

impl Btf {
    /// The type in the language, as kernel memory.
    ///
    /// An array of `char` is a string with the capacity of the array, so a `char *` stays a pointer to `int8`. Integers
    /// wider than 8 bytes are arrays of `uint64`. What no value can have (functions, floating-point numbers, numbers that
    /// are not in the blob) is [`Type::Unknown`].
    pub fn to_type(&self, id: BtfId) -> Type {
        self.to_type_within(id, MAX_DEPTH)
    }

    fn to_type_within(&self, id: BtfId, depth: u32) -> Type {
        let Some(depth) = depth.checked_sub(1) else { return Type::Unknown };
        let id = self.strip(id);
        match self.kind(id) {
            Some(Kind::Void) => Type::None,
            Some(Kind::Int) => self.int_type(id),
            Some(Kind::Pointer) => {
                let to = self.pointee(id).map_or(Type::None, |to| self.to_type_within(to, depth));
                let to = Box::new(if to == Type::Unknown { Type::None } else { to });
                Type::Pointer { to, space: Space::Kernel }
            }
            Some(Kind::Array) => self.array_type(id, depth),
            Some(Kind::Struct | Kind::Union | Kind::Forward) => Type::Struct { id, space: Space::Kernel },
            Some(Kind::Enum | Kind::Enum64) => {
                let signed = self.enum_signed(id).unwrap_or_default();
                register_int(self.size_bytes(id), signed).map_or(Type::Unknown, |int| Type::Enum { id, int })
            }
            Some(Kind::Variable) => {
                self.record(id).map_or(Type::Unknown, |record| self.to_type_within(record.target(), depth))
            }
            _ => Type::Unknown,
        }
    }

    fn int_type(&self, id: BtfId) -> Type {
        let Some(info) = self.int(id) else { return Type::Unknown };
        if info.is_bool && info.size_bytes == 1 {
            return Type::Bool;
        }
        match register_int(info.size_bytes, info.signed) {
            Some(int) => Type::Int(int),
            None => Type::Array { of: Box::new(Type::U64), len: info.size_bytes / 8 },
        }
    }

    fn array_type(&self, id: BtfId, depth: u32) -> Type {
        let Some((element, len)) = self.array(id) else { return Type::Unknown };
        // A flexible array (`char name[]`) has no room of its own to be a string in.
        if len > 0 && self.int(element).is_some_and(|int| int.is_char) {
            return Type::Str { capacity_bytes: len };
        }
        Type::Array { of: Box::new(self.to_type_within(element, depth)), len }
    }

    /// `struct task_struct`, `enum foo`, `uint32`, `pid_t`, `struct file *`, `char[16]`, as a user would write it.
    pub fn describe(&self, id: BtfId) -> String {
        self.describe_within(id, MAX_DEPTH)
    }

    fn describe_within(&self, id: BtfId, depth: u32) -> String {
        let Some(depth) = depth.checked_sub(1) else { return "unknown".into() };
        let name = self.name(id).unwrap_or("(anonymous)");
        let inner = |to: Option<BtfId>| to.map_or_else(|| "unknown".into(), |to| self.describe_within(to, depth));
        match self.kind(id) {
            Some(Kind::Void) => "void".into(),
            Some(Kind::Int) => match self.int_type(id) {
                _ if self.int(id).is_some_and(|int| int.is_char) => "char".into(),
                ty @ (Type::Bool | Type::Int(_)) => ty.describe(None),
                _ => name.into(),
            },
            Some(Kind::Struct) => format!("struct {name}"),
            Some(Kind::Union) => format!("union {name}"),
            Some(Kind::Forward) => match self.record(id) {
                Some(record) if record.flag => format!("union {name}"),
                _ => format!("struct {name}"),
            },
            Some(Kind::Enum | Kind::Enum64) => format!("enum {name}"),
            Some(Kind::Pointer) => {
                let to = inner(self.pointee(id));
                if to.ends_with('*') { format!("{to}*") } else { format!("{to} *") }
            }
            Some(Kind::Array) => match self.array(id) {
                Some((element, len)) => self.describe_array(element, len, depth),
                None => "unknown".into(),
            },
            Some(Kind::Const | Kind::Volatile | Kind::Restrict | Kind::TypeTag | Kind::Variable) => {
                inner(self.record(id).map(|record| record.target()))
            }
            Some(Kind::FunctionProto) => "function".into(),
            Some(Kind::Typedef | Kind::Function | Kind::Float | Kind::DataSection | Kind::DeclTag) => name.into(),
            None => "unknown".into(),
        }
    }

    /// C writes the length of the outer array first: an array of two `char[16]` is `char[2][16]`.
    fn describe_array(&self, element: BtfId, len: u32, depth: u32) -> String {
        let element = self.describe_within(element, depth);
        match element.split_once('[') {
            Some((base, lengths)) => format!("{base}[{len}][{lengths}"),
            None => format!("{element}[{len}]"),
        }
    }
}

/// An integer that fits a register.
fn register_int(size_bytes: u32, signed: bool) -> Option<Int> {
    matches!(size_bytes, 1 | 2 | 4 | 8).then_some(Int { size_bytes: size_bytes as u8, signed })
}
