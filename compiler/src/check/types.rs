//! Relations between types, and types as written.
//!
//! In: two types, or a type's name. Out: the type that holds both, or the type of the name.
//! Guarantee: unifying never narrows.

use crate::ast::{Expr, ExprKind, TypeName, TypeSuffix, TypeTag};
use crate::btf::{Btf, Kind};
use crate::check::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::similar;
use crate::types::{Int, Space, Type};

/// Most bytes of one value.
pub const MAX_VALUE_BYTES: u32 = 16 << 10;

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
        (Type::Struct { id: known, .. }, Type::Struct { id, .. }) if known == id => Some(a.clone()),
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
        (Type::Array { of: a, len: m }, Type::Array { of: b, len: n }) if m == n => {
            unify(a, b).filter(|of| **a == *of).map(|of| Type::Array { of: Box::new(of), len: *m })
        }
        (Type::Record(a), Type::Record(b)) if a.len() == b.len() => {
            // The first one's order holds.
            let part = |(name, ty): &(String, Type)| {
                let (_, other) = b.iter().find(|(other, _)| other == name)?;
                Some((name.clone(), unify(ty, other)?))
            };
            a.iter().map(part).collect::<Option<Vec<_>>>().map(Type::Record)
        }
        (Type::Pointer { to: a, space }, Type::Pointer { to: b, .. }) => {
            let to = if **a == Type::None { b } else { a };
            let same = alike(a, b) || **a == Type::None || **b == Type::None;
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

/// Whether two types are the same but for whose memory is meant.
fn alike(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Struct { id: a, .. }, Type::Struct { id: b, .. }) => a == b,
        (Type::Pointer { to: a, .. }, Type::Pointer { to: b, .. }) => alike(a, b),
        (a, b) => a == b,
    }
}

/// The smallest type of a literal.
pub fn smallest_int(n: u64) -> Type {
    let size_bytes = match n {
        0..=0x7f => 1,
        0x80..=0x7fff => 2,
        0x8000..=0x7fff_ffff => 4,
        _ => 8,
    };
    Type::Int(Int { size_bytes, signed: i64::try_from(n).is_ok() })
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
            let sized = if index == 0 && name.tag == TypeTag::None { name.name.as_str() } else { "" };
            ty = match suffix {
                TypeSuffix::Pointer => Type::Pointer { to: Box::new(ty), space: self.seed.pointer_space },
                TypeSuffix::Array(len) if sized == "string" => Type::Str { capacity_bytes: *len },
                TypeSuffix::Array(len) if sized == "buffer" => Type::Buf { capacity_bytes: *len },
                TypeSuffix::Array(_) if sized == "inet" => Type::Inet,
                TypeSuffix::Array(len) => {
                    let size = u64::from(layout::of(&ty, self.env.target.btf_if_needed(&ty)).size_bytes);
                    if size * u64::from(*len) > u64::from(MAX_VALUE_BYTES) {
                        let message = format!(
                            "this type takes {} bytes, and the limit is {MAX_VALUE_BYTES}",
                            size * u64::from(*len)
                        );
                        self.error(Diagnostic::error(Code(375), name.span, message));
                        return None;
                    }
                    Type::Array { of: Box::new(ty), len: *len }
                }
            };
        }
        Some(ty)
    }

    /// The type of `typeof(…)`.
    fn type_of(&mut self, name: &TypeName) -> Option<Type> {
        if let Some(inner) = &name.inner {
            return self.type_named(inner);
        }
        let ty = match name.of.as_deref() {
            Some(Expr { kind: ExprKind::Type(given), .. }) => return self.type_named(given),
            Some(value) => self.type_or_value(value),
            None => Type::Unknown,
        };
        match ty {
            Type::Unknown => None,
            Type::None => {
                self.error(Diagnostic::error(Code(318), name.span, "this has no value, so it has no type"));
                None
            }
            ty => Some(ty),
        }
    }

    fn base_type(&mut self, name: &TypeName) -> Option<Type> {
        if name.name.is_empty() {
            return self.type_of(name);
        }
        if name.tag == TypeTag::None {
            match name.name.as_str() {
                "bool" => return Some(Type::Bool),
                "void" => return Some(Type::None),
                "string" => return Some(Type::Str { capacity_bytes: self.env.max_strlen }),
                "buffer" => return Some(Type::Buf { capacity_bytes: self.env.max_strlen }),
                "inet" => return Some(Type::Inet),
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

pub(super) fn find_type(btf: &Btf, name: &TypeName) -> Option<Type> {
    let kinds: &[Kind] = match name.tag {
        TypeTag::Struct => &[Kind::Struct, Kind::Forward],
        TypeTag::Union => &[Kind::Union, Kind::Forward],
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
