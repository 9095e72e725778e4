//! Converts kernel types to types of the probe language and to text for users.
//!
//! In: a type id. Out: a [`Type`] or text.
//! Guarantee: structs and enums stay ids, so the result is small however large the type is.

use super::record::Kind;
use super::{Btf, BtfId, MAX_DEPTH};
use crate::types::{Int, Space, Type};

impl Btf {
    /// The type in the probe language, as kernel memory.
    ///
    /// An array of `char` is a string with the capacity of the array; a `char *` stays a pointer to
    /// `int8`. Integers wider than 8 bytes are arrays of `uint64`. Types without values in the
    /// language (functions, floating-point numbers, ids that are not in the blob) are
    /// [`Type::Unknown`].
    pub fn to_type(&self, id: BtfId) -> Type {
        Conversion::new(self).to_type(id)
    }

    /// The type as a user would write it: `struct task_struct`, `enum foo`, `uint32`, `pid_t`,
    /// `struct file *`, `char[16]`.
    pub fn describe(&self, id: BtfId) -> String {
        Conversion::new(self).describe(id)
    }
}

/// As [`Btf::describe`], with the names that integers have in C: `int`, `unsigned long`.
pub fn describe_in_c(btf: &Btf, id: BtfId) -> String {
    Conversion { in_c: true, ..Conversion::new(btf) }.describe(id)
}

/// Follows a type to those that it refers to, at most `levels` deep.
#[derive(Clone, Copy)]
struct Conversion<'a> {
    btf: &'a Btf,
    levels: u32,
    /// Whether integers keep their names.
    in_c: bool,
}

impl<'a> Conversion<'a> {
    fn new(btf: &'a Btf) -> Conversion<'a> {
        Conversion { btf, levels: MAX_DEPTH, in_c: false }
    }

    /// The same for the types that this one refers to.
    fn inner(self) -> Option<Conversion<'a>> {
        Some(Conversion { levels: self.levels.checked_sub(1)?, ..self })
    }

    fn to_type(self, id: BtfId) -> Type {
        let Some(inner) = self.inner() else { return Type::Unknown };
        let id = self.btf.strip(id);
        match self.btf.kind(id) {
            Some(Kind::Void) => Type::None,
            Some(Kind::Int) => self.int_type(id),
            Some(Kind::Pointer) => {
                let to = self.btf.pointee(id).map_or(Type::None, |to| inner.to_type(to));
                let to = Box::new(if to == Type::Unknown { Type::None } else { to });
                Type::Pointer { to, space: Space::Kernel }
            }
            Some(Kind::Array) => inner.array_type(id),
            Some(Kind::Struct | Kind::Union | Kind::Forward) => Type::Struct { id, space: Space::Kernel },
            Some(Kind::Enum | Kind::Enum64) => {
                let signed = self.btf.enum_signed(id).unwrap_or_default();
                register_int(self.btf.size_bytes(id), signed).map_or(Type::Unknown, |int| Type::Enum { id, int })
            }
            Some(Kind::Float) => match self.btf.size_bytes(id) {
                size_bytes @ (4 | 8) => Type::Float { size_bytes: size_bytes as u8 },
                _ => Type::Unknown,
            },
            Some(Kind::Variable) => self.btf.record(id).map_or(Type::Unknown, |record| inner.to_type(record.target())),
            _ => Type::Unknown,
        }
    }

    fn int_type(self, id: BtfId) -> Type {
        let Some(info) = self.btf.int(id) else { return Type::Unknown };
        if info.is_bool && info.size_bytes == 1 {
            return Type::Bool;
        }
        match register_int(info.size_bytes, info.signed) {
            Some(int) => Type::Int(int),
            None => Type::Array { of: Box::new(Type::U64), len: info.size_bytes / 8 },
        }
    }

    fn array_type(self, id: BtfId) -> Type {
        let Some((element, len)) = self.btf.array(id) else { return Type::Unknown };
        // A flexible array (`char name[]`) has no capacity of its own, so it is not a string.
        if len > 0 && self.btf.int(element).is_some_and(|int| int.is_char) {
            return Type::Str { capacity_bytes: len };
        }
        Type::Array { of: Box::new(self.to_type(element)), len }
    }

    fn describe(self, id: BtfId) -> String {
        let Some(within) = self.inner() else { return "unknown".into() };
        let name = self.btf.name(id).unwrap_or("(anonymous)");
        let inner = |to: Option<BtfId>| to.map_or_else(|| "unknown".into(), |to| within.describe(to));
        match self.btf.kind(id) {
            Some(Kind::Void) => "void".into(),
            Some(Kind::Int) => match self.int_type(id) {
                _ if self.in_c && self.btf.name(id).is_some() => name.into(),
                _ if self.btf.int(id).is_some_and(|int| int.is_char) => "char".into(),
                ty @ (Type::Bool | Type::Int(_)) => ty.describe(Some(self.btf)),
                _ => name.into(),
            },
            Some(Kind::Struct) => format!("struct {name}"),
            Some(Kind::Union) => format!("union {name}"),
            Some(Kind::Forward) => match self.btf.record(id) {
                Some(record) if record.flag => format!("union {name}"),
                _ => format!("struct {name}"),
            },
            Some(Kind::Enum | Kind::Enum64) => format!("enum {name}"),
            Some(Kind::Pointer) => {
                let to = inner(self.btf.pointee(id));
                if to.ends_with('*') { format!("{to}*") } else { format!("{to} *") }
            }
            Some(Kind::Array) => match self.btf.array(id) {
                Some((element, len)) => within.describe_array(element, len),
                None => "unknown".into(),
            },
            Some(Kind::Const | Kind::Volatile | Kind::Restrict | Kind::TypeTag | Kind::Variable) => {
                inner(self.btf.record(id).map(|record| record.target()))
            }
            Some(Kind::FunctionProto) => "function".into(),
            Some(Kind::Typedef | Kind::Function | Kind::Float | Kind::DataSection | Kind::DeclTag) => name.into(),
            None => "unknown".into(),
        }
    }

    /// C puts the length of the outer array first: an array of two `char[16]` is `char[2][16]`.
    fn describe_array(self, element: BtfId, len: u32) -> String {
        let element = self.describe(element);
        match element.split_once('[') {
            Some((base, lengths)) => format!("{base}[{len}][{lengths}"),
            None => format!("{element}[{len}]"),
        }
    }
}

/// The integer type of that size, if it fits a register.
fn register_int(size_bytes: u32, signed: bool) -> Option<Int> {
    matches!(size_bytes, 1 | 2 | 4 | 8).then_some(Int { size_bytes: size_bytes as u8, signed })
}
