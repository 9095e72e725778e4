//! Resolves the types that a script names.
//!
//! In: a written type. Out: a [`Type`], or a diagnostic with the nearest name.
//! Guarantee: a type that exists here is found.

use crate::ast::{Expr, ExprKind, TypeName, TypeSuffix, TypeTag};
use crate::btf::Btf;
use crate::check::program_types::{self, Named, Searched};
use crate::check::types::{MAX_VALUE_BYTES, find_type};
use crate::check::{Body, expr, named_int};
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::similar;
use crate::types::Type;

impl Body<'_, '_> {
    /// Resolves a written type; reports unknown ones.
    pub fn type_named(&mut self, name: &TypeName) -> Option<Type> {
        let mut ty = base_type(self, name)?;
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
}

/// The type that `typeof(...)` denotes.
fn type_of(cx: &mut Body<'_, '_>, name: &TypeName) -> Option<Type> {
    if let Some(inner) = &name.inner {
        return cx.type_named(inner);
    }
    let ty = match name.of.as_deref() {
        Some(Expr { kind: ExprKind::Type(given), .. }) => return cx.type_named(given),
        Some(value) => expr::type_or_value(cx, value),
        None => Type::Unknown,
    };
    match ty {
        Type::Unknown => None,
        Type::None => {
            cx.error(Diagnostic::error(Code(318), name.span, "this has no value, so it has no type"));
            None
        }
        ty => Some(ty),
    }
}

fn base_type(cx: &mut Body<'_, '_>, name: &TypeName) -> Option<Type> {
    if name.name.is_empty() {
        return type_of(cx, name);
    }
    if name.tag == TypeTag::None && !is_defined(cx, name) {
        match name.name.as_str() {
            "bool" => return Some(Type::Bool),
            "void" => return Some(Type::None),
            "string" => return Some(Type::Str { capacity_bytes: cx.env.max_strlen }),
            "buffer" => return Some(Type::Buf { capacity_bytes: cx.env.max_strlen }),
            "inet" => return Some(Type::Inet),
            other => {
                if let Some(int) = named_int(other) {
                    return Some(Type::Int(int));
                }
            }
        }
    }
    match program_types::find(cx, name) {
        Named::Found(ty) => Some(ty),
        Named::Asked => None,
        Named::Missing(searched) => {
            unknown(cx, name, searched);
            None
        }
    }
}

/// Whether the script defines a type of this name, which may be that of one that exists anyway.
fn is_defined(cx: &Body<'_, '_>, name: &TypeName) -> bool {
    cx.env.typedefs.contains(&name.name)
}

/// Reports a type that neither the probed program nor the kernel has.
fn unknown(cx: &mut Body<'_, '_>, name: &TypeName, Searched { program, why }: Searched) {
    let diagnostic = match (cx.env.target.btf(), why, program) {
        (None, ..) => Diagnostic::error(Code(205), name.span, format!("type `{}` is not known", name.name))
            .help("kernel types need the kernel's BTF, and /sys/kernel/btf/vmlinux cannot be read here"),
        (Some(_), Some(why), _) => {
            let message = format!("type `{}` is not known, and this kernel has none of that name", name.name);
            Diagnostic::error(Code(205), name.span, message).help(why)
        }
        (Some(btf), None, program) => {
            let place = program.map_or_else(String::new, |path| format!(" in `{path}` or"));
            let message = format!("there is no type called `{}`{place} in this kernel", name.name);
            let help = other_type(btf, name).unwrap_or_else(|| {
                "kernel types come from its BTF: `bpftool btf dump file /sys/kernel/btf/vmlinux` lists them".into()
            });
            Diagnostic::error(Code(205), name.span, message).help(help)
        }
    };
    cx.error(diagnostic);
}

/// A suggestion for an unknown type: the same name with another tag, or a near integer type.
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
