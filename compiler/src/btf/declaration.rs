//! Declarations in C, as `bpftool btf dump … format c` and bpftrace print them.
//!
//! In: a type and a name. Out: the declaration, with the type's parts around the name.
//! Guarantee: qualifiers are kept. Anonymous structs, unions and enums are spelled out by the
//! caller.

use super::{Btf, BtfId, Kind};

/// Nesting limit of pointers, arrays and parameters; the kernel's own types reach 8.
const MAX_DEPTH: usize = 32;

impl Btf {
    /// The declaration of `name` in C; an empty name gives the type alone. `spelled` returns the
    /// text of an anonymous struct, union or enum.
    pub fn declaration(&self, id: BtfId, name: &str, spelled: &dyn Fn(BtfId) -> String) -> String {
        around(self, id, name.to_owned(), spelled, MAX_DEPTH)
    }

    fn target(&self, id: BtfId) -> Option<BtfId> {
        self.record(id).map(|record| record.target())
    }
}

/// The type around a declarator: `*f` of a `struct file` is `struct file *f`.
fn around(btf: &Btf, id: BtfId, inner: String, spelled: &dyn Fn(BtfId) -> String, depth: usize) -> String {
    let Some(depth) = depth.checked_sub(1) else { return format!("… {inner}") };
    let next = |to: BtfId, inner: String| around(btf, to, inner, spelled, depth);
    match btf.kind(id) {
        Some(Kind::Pointer) => match btf.pointee(id) {
            Some(to) if btf.kind(without_qualifiers(btf, to)) == Some(Kind::Array) => next(to, format!("(*{inner})")),
            Some(to) => next(to, format!("*{inner}")),
            None => after("void", &format!("*{inner}")),
        },
        Some(Kind::Array) => match btf.array(id) {
            Some((element, len)) => next(element, format!("{inner}[{len}]")),
            None => after("void", &inner),
        },
        Some(Kind::FunctionProto) => function(btf, id, &inner, spelled, depth),
        Some(Kind::Const) => qualified(btf, id, "const", inner, &next),
        Some(Kind::Volatile) => qualified(btf, id, "volatile", inner, &next),
        Some(Kind::Restrict) => qualified(btf, id, "restrict", inner, &next),
        Some(Kind::TypeTag) => match btf.target(id) {
            Some(to) => next(to, inner),
            None => after("void", &inner),
        },
        _ => after(&base(btf, id, spelled), &inner),
    }
}

/// A qualifier comes before the name of a type, and after the `*` of a pointer.
fn qualified(btf: &Btf, id: BtfId, word: &str, inner: String, next: &dyn Fn(BtfId, String) -> String) -> String {
    let Some(to) = btf.target(id) else { return after(&format!("{word} void"), &inner) };
    match btf.kind(without_qualifiers(btf, to)) {
        Some(Kind::Pointer) => next(to, after(&format!(" {word}"), &inner)),
        // The elements have the qualifier.
        Some(Kind::Array | Kind::FunctionProto) => next(to, inner),
        _ => format!("{word} {}", next(to, inner)),
    }
}

fn function(btf: &Btf, id: BtfId, inner: &str, spelled: &dyn Fn(BtfId) -> String, depth: usize) -> String {
    let Some(proto) = btf.func_proto(id) else { return after("void", inner) };
    let mut parameters: Vec<String> =
        proto.params.iter().map(|of| around(btf, of.ty, of.name.to_owned(), spelled, depth)).collect();
    if proto.variadic {
        parameters.push("...".into());
    }
    if parameters.is_empty() {
        parameters.push("void".into());
    }
    around(btf, proto.ret, format!(" ({inner})({})", parameters.join(", ")), spelled, depth)
}

/// A type's name, or the text of one without a name.
fn base(btf: &Btf, id: BtfId, spelled: &dyn Fn(BtfId) -> String) -> String {
    let keyword = match btf.kind(id) {
        Some(Kind::Struct) => "struct ",
        Some(Kind::Union) => "union ",
        Some(Kind::Enum | Kind::Enum64) => "enum ",
        Some(Kind::Forward) if btf.record(id).is_some_and(|record| record.flag) => "union ",
        Some(Kind::Forward) => "struct ",
        Some(Kind::Void) | None => return "void".into(),
        _ => "",
    };
    match btf.name(id) {
        Some(name) => format!("{keyword}{name}"),
        None => spelled(id),
    }
}

/// Text after the name of a type, separated from it if it needs to be.
fn after(base: &str, inner: &str) -> String {
    let gap = if inner.is_empty() || inner.starts_with(' ') { "" } else { " " };
    format!("{base}{gap}{inner}")
}

fn without_qualifiers(btf: &Btf, mut id: BtfId) -> BtfId {
    while let Some(Kind::Const | Kind::Volatile | Kind::Restrict | Kind::TypeTag) = btf.kind(id)
        && let Some(to) = btf.target(id)
    {
        id = to;
    }
    id
}
