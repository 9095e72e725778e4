//! Kernel structs, unions and enums in C syntax.
//!
//! In: `struct NAME`, where the name may contain `*`. Out: one line per type; with `verbose` also
//! its members.
//! Guarantee: types are sorted by name, without duplicates; anonymous inner types are shown in
//! place, to a depth of 8.

use std::io::Write;

use profiler_compiler::btf::{Btf, BtfId, Kind};
use profiler_compiler::glob;
use profiler_compiler::target::{Target, TargetError};

use super::ListError;

/// Nesting limit of anonymous types; the kernel's own reach 5.
const MAX_DEPTH: usize = 8;

/// Prints the types that match a pattern that begins with a keyword; returns their number.
pub fn types(target: &dyn Target, pattern: &str, verbose: bool, out: &mut dyn Write) -> Result<usize, ListError> {
    let (keyword, name) = pattern.split_once(' ').unwrap_or(("struct", pattern));
    let btf = target.btf().ok_or_else(|| ListError::Target {
        kind: "types",
        error: TargetError::Refused("the kernel's types (/sys/kernel/btf/vmlinux) cannot be read".into()),
    })?;
    let kinds: &[Kind] = match keyword {
        "union" => &[Kind::Union],
        "enum" => &[Kind::Enum, Kind::Enum64],
        _ => &[Kind::Struct],
    };
    let mut found: Vec<(&str, BtfId)> = kinds
        .iter()
        .flat_map(|kind| btf.names(*kind))
        .filter(|(_, found)| glob::matches(name, found))
        .map(|(id, found)| (found, id))
        .collect();
    found.sort_unstable_by_key(|(name, _)| *name);
    found.dedup_by_key(|(name, _)| *name);
    for (name, id) in &found {
        if !verbose {
            writeln!(out, "vmlinux: {keyword} {name}")?;
            continue;
        }
        writeln!(out, "vmlinux: {keyword} {name} {{")?;
        body(btf, *id, 1, out)?;
        writeln!(out, "}};")?;
    }
    Ok(found.len())
}

/// Members or enumerators, one per line.
fn body(btf: &Btf, id: BtfId, depth: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let indent = "    ".repeat(depth);
    if matches!(btf.kind(id), Some(Kind::Enum | Kind::Enum64)) {
        for (name, value) in btf.enumerators(id) {
            writeln!(out, "{indent}{name} = {value},")?;
        }
        return Ok(());
    }
    for member in btf.members(id) {
        let ty = btf.strip(member.ty);
        let is_inner = btf.name(ty).is_none() && matches!(btf.kind(ty), Some(Kind::Struct | Kind::Union));
        if is_inner && depth < MAX_DEPTH {
            let keyword = if btf.kind(ty) == Some(Kind::Union) { "union" } else { "struct" };
            writeln!(out, "{indent}{keyword} {{")?;
            body(btf, ty, depth + 1, out)?;
            let name = if member.name.is_empty() { String::new() } else { format!(" {}", member.name) };
            writeln!(out, "{indent}}}{name};")?;
            continue;
        }
        let width = member.bitfield_width.map_or(String::new(), |bits| format!(" : {bits}"));
        writeln!(out, "{indent}{}{width};", declaration(&btf.describe(member.ty), member.name))?;
    }
    Ok(())
}

/// `char name[16]`, `struct file *file`: the type around its name.
fn declaration(ty: &str, name: &str) -> String {
    let (base, lengths) = ty.find('[').map_or((ty, ""), |at| ty.split_at(at));
    let gap = if base.ends_with('*') { "" } else { " " };
    format!("{base}{gap}{name}{lengths}")
}

#[cfg(test)]
mod tests {
    use super::{declaration, types};
    use profiler_runtime::host::Host;

    fn listing(pattern: &str, verbose: bool) -> Option<String> {
        let host = Host::new();
        if profiler_compiler::target::Target::btf(&host).is_none() {
            println!("SKIPPED: no BTF");
            return None;
        }
        let mut out = Vec::new();
        types(&host, pattern, verbose, &mut out).expect("it lists");
        Some(String::from_utf8(out).expect("text"))
    }

    #[test]
    fn a_struct_is_shown_with_its_members() {
        let Some(text) = listing("struct task_struct", true) else { return };
        assert!(text.starts_with("vmlinux: struct task_struct {\n") && text.ends_with("};\n"), "{text}");
        assert!(text.contains("\n    char comm[16];\n"), "{text}");
        assert!(text.contains("\n    struct mm_struct *mm;\n"), "{text}");
        assert!(text.contains(" : 1;\n"), "bit-fields: {text}");
    }

    #[test]
    fn names_alone_come_sorted() {
        let Some(text) = listing("struct task_str*", false) else { return };
        assert!(text.contains("vmlinux: struct task_struct\n"));
        assert!(text.lines().is_sorted());
    }

    #[test]
    fn an_enum_is_shown_with_its_values() {
        let Some(text) = listing("enum bpf_map_type", true) else { return };
        assert!(text.contains("\n    BPF_MAP_TYPE_HASH = 1,\n"), "{text}");
    }

    #[test]
    fn types_stand_around_names() {
        assert_eq!(declaration("char[2][16]", "x"), "char x[2][16]");
        assert_eq!(declaration("struct file *", "f"), "struct file *f");
        assert_eq!(declaration("int32", "n"), "int32 n");
    }
}
