//! Kernel structs, unions and enums in C syntax.
//!
//! In: `struct NAME`, where the name may contain `*`. Out: one line per type; with `verbose` also
//! its members, as bpftrace prints them, but without padding and attributes.
//! Guarantee: types are sorted by name, without duplicates; anonymous inner types are shown in
//! place, to a depth of 8.

use std::io::Write;

use profiler_compiler::btf::{Btf, BtfId, Kind, Member};
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
        if verbose {
            writeln!(out, "vmlinux: {keyword} {name} {{\n{}}};", body(btf, *id, 1))?;
        } else {
            writeln!(out, "{keyword} {name}")?;
        }
    }
    Ok(found.len())
}

/// Members or enumerators, one per line.
fn body(btf: &Btf, id: BtfId, depth: usize) -> String {
    let indent = "\t".repeat(depth);
    if matches!(btf.kind(id), Some(Kind::Enum | Kind::Enum64)) {
        let line = |(name, value)| format!("{indent}{name} = {value},\n");
        return btf.enumerators(id).map(line).collect::<Vec<String>>().concat();
    }
    let spelled = |inner: BtfId| {
        let keyword = match btf.kind(inner) {
            Some(Kind::Union) => "union",
            Some(Kind::Enum | Kind::Enum64) => "enum",
            _ => "struct",
        };
        let members = if depth < MAX_DEPTH { body(btf, inner, depth + 1) } else { format!("{indent}\t…\n") };
        if members.is_empty() { format!("{keyword} {{}}") } else { format!("{keyword} {{\n{members}{indent}}}") }
    };
    let line = |member: Member<'_>| {
        let width = member.bitfield_width.map_or(String::new(), |bits| format!(": {bits}"));
        format!("{indent}{}{width};\n", btf.declaration(member.ty, member.name, &spelled))
    };
    btf.members(id).map(line).collect::<Vec<String>>().concat()
}

#[cfg(test)]
mod tests {
    use super::types;
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
        assert!(text.contains("\n\tchar comm[16];\n"), "{text}");
        assert!(text.contains("\n\tstruct mm_struct *mm;\n"), "{text}");
        assert!(text.contains(": 1;\n"), "bit-fields: {text}");
    }

    #[test]
    fn names_alone_come_sorted() {
        let Some(text) = listing("struct task_str*", false) else { return };
        assert!(text.contains("struct task_struct\n"));
        assert!(text.lines().is_sorted());
    }

    #[test]
    fn an_enum_is_shown_with_its_values() {
        let Some(text) = listing("enum bpf_map_type", true) else { return };
        assert!(text.contains("\n\tBPF_MAP_TYPE_HASH = 1,\n"), "{text}");
    }

    #[test]
    fn declarations_are_those_of_c() {
        let Some(text) = listing("struct file_operations", true) else { return };
        assert!(text.contains("\tssize_t (*read)(struct file *, char *, size_t, loff_t *);\n"), "{text}");
        assert!(text.contains("\tstruct module *owner;\n"), "{text}");
        let Some(text) = listing("struct dentry", true) else { return };
        assert!(text.contains("\tconst struct dentry_operations *d_op;\n"), "{text}");
    }
}
