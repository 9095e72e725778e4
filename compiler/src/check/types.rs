//! Relations between types, and types as written.
//!
//! In: two types, or a type's name. Out: the type that holds both, or the type of the name.
//! Guarantee: unifying never narrows.

use crate::ast::{TypeName, TypeSuffix, TypeTag};
use crate::btf::{Btf, Kind};
use crate::check::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::similar;
use crate::types::{Int, Space, Type};

/// The narrowest integer type that holds the values of both; mixed signs with 8 unsigned bytes give `int64`.
pub fn widest(a: Int, b: Int) -> Int {
    if a.signed == b.signed {
        return Int { size_bytes: a.size_bytes.max(b.size_bytes), signed: a.signed };
    }
    let unsigned = if a.signed { b.size_bytes } else { a.size_bytes };
    let signed = if a.signed { a.size_bytes } else { b.size_bytes };
    Int { size_bytes: signed.max((unsigned * 2).min(8)), signed: true }
}

/// The type that holds values of both, when there is one.
pub fn unify(a: &Type, b: &Type) -> Option<Type> {
    match (a, b) {
        (Type::Unknown, other) | (other, Type::Unknown) => Some(other.clone()),
        (a, b) if a == b => Some(a.clone()),
        (Type::Int(a), Type::Int(b)) => Some(Type::Int(widest(*a, *b))),
        (Type::Int(int), Type::Bool | Type::Enum { .. }) | (Type::Bool | Type::Enum { .. }, Type::Int(int)) => {
            Some(Type::Int(*int))
        }
        (Type::Enum { int: a, .. }, Type::Enum { int: b, .. }) => Some(Type::Int(widest(*a, *b))),
        (Type::Str { capacity_bytes: a }, Type::Str { capacity_bytes: b }) => {
            Some(Type::Str { capacity_bytes: *a.max(b) })
        }
        (Type::Buf { capacity_bytes: a }, Type::Buf { capacity_bytes: b }) => {
            Some(Type::Buf { capacity_bytes: *a.max(b) })
        }
        (Type::Pointer { to: a, space }, Type::Pointer { to: b, .. }) => {
            let to = if **a == Type::None { b } else { a };
            let same = a == b || **a == Type::None || **b == Type::None;
            same.then(|| Type::Pointer { to: to.clone(), space: *space })
        }
        // A number beside a pointer is an address. The pointer stays what it is: were the result a number, the numbers of
        // further uses would change its sign, and a next pointer would change it back.
        (pointer @ Type::Pointer { .. }, Type::Int(_)) | (Type::Int(_), pointer @ Type::Pointer { .. }) => {
            Some(pointer.clone())
        }
        (Type::Tuple(a), Type::Tuple(b)) if a.len() == b.len() => {
            a.iter().zip(b).map(|(a, b)| unify(a, b)).collect::<Option<Vec<_>>>().map(Type::Tuple)
        }
        _ => None,
    }
}

/// The integer type of a C or bpftrace name.
pub fn named_int(name: &str) -> Option<Int> {
    let (size_bytes, signed) = match name {
        "int8" | "int8_t" | "s8" | "char" | "i8" => (1, true),
        "int16" | "int16_t" | "s16" | "short" | "i16" => (2, true),
        "int32" | "int32_t" | "s32" | "int" | "i32" => (4, true),
        "int64" | "int64_t" | "s64" | "long" | "long long" | "ssize_t" | "i64" => (8, true),
        "uint8" | "uint8_t" | "u8" | "unsigned char" => (1, false),
        "uint16" | "uint16_t" | "u16" | "unsigned short" => (2, false),
        "uint32" | "uint32_t" | "u32" | "unsigned int" | "unsigned" => (4, false),
        "uint64" | "uint64_t" | "u64" | "unsigned long" | "unsigned long long" | "size_t" | "uintptr_t" => (8, false),
        _ => return None,
    };
    Some(Int { size_bytes, signed })
}

impl Body<'_, '_> {
    /// The type that a name means; reports unknown ones.
    pub fn type_named(&mut self, name: &TypeName) -> Option<Type> {
        let mut ty = self.base_type(name)?;
        for (index, suffix) in name.suffixes.iter().enumerate() {
            ty = match suffix {
                TypeSuffix::Pointer => Type::Pointer { to: Box::new(ty), space: self.seed.pointer_space },
                TypeSuffix::Array(len) if index == 0 && name.name == "string" => Type::Str { capacity_bytes: *len },
                TypeSuffix::Array(len) => Type::Array { of: Box::new(ty), len: *len },
            };
        }
        Some(ty)
    }

    fn base_type(&mut self, name: &TypeName) -> Option<Type> {
        if name.tag == TypeTag::None {
            match name.name.as_str() {
                "bool" => return Some(Type::Bool),
                "void" => return Some(Type::None),
                "string" => return Some(Type::Str { capacity_bytes: self.env.max_strlen }),
                other => {
                    if let Some(int) = named_int(other) {
                        return Some(Type::Int(int));
                    }
                }
            }
        }
        let Some(btf) = self.env.target.btf() else {
            self.error(
                Diagnostic::error(Code(205), name.span, format!("type `{}` is not known", name.name))
                    .help("kernel types need the kernel's BTF, and /sys/kernel/btf/vmlinux cannot be read here"),
            );
            return None;
        };
        let found = find_type(btf, name);
        if found.is_none() {
            let message = format!("there is no type called `{}` in this kernel", name.name);
            let help = other_type(btf, name).unwrap_or_else(|| {
                "kernel types come from its BTF: `bpftool btf dump file /sys/kernel/btf/vmlinux` lists them".into()
            });
            self.error(Diagnostic::error(Code(205), name.span, message).help(help));
        }
        found
    }
}

/// What may have been meant by an unknown type: the same name with another tag, or a near integer type.
fn other_type(btf: &Btf, name: &TypeName) -> Option<String> {
    let tags = [("struct", TypeTag::Struct), ("union", TypeTag::Union), ("enum", TypeTag::Enum)];
    let is = |tag: TypeTag| find_type(btf, &TypeName { tag, ..name.clone() }).is_some();
    if let Some((word, _)) = tags.into_iter().find(|(_, tag)| *tag != name.tag && is(*tag)) {
        return Some(format!("write `{word} {}`", name.name));
    }
    let integers = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "string"];
    let near = similar::nearest(&name.name, integers, 1);
    (name.tag == TypeTag::None).then(|| near.first().map(|near| format!("did you mean `{near}`?")))?
}

fn find_type(btf: &Btf, name: &TypeName) -> Option<Type> {
    let kinds: &[Kind] = match name.tag {
        TypeTag::Struct => &[Kind::Struct],
        TypeTag::Union => &[Kind::Union],
        TypeTag::Enum => &[Kind::Enum, Kind::Enum64],
        TypeTag::None => &[Kind::Typedef, Kind::Struct, Kind::Union, Kind::Enum],
    };
    kinds.iter().find_map(|kind| btf.find(*kind, &name.name)).map(|id| btf.to_type(id))
}

/// The space of addresses behind a pointer type, or the given one.
pub fn space_of(ty: &Type, default: Space) -> Space {
    match ty {
        Type::Pointer { space, .. } => *space,
        _ => default,
    }
}
