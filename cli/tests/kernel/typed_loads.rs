//! Direct loads through BTF-typed pointers, compared with reads by the helper.
//!
//! In: the kernel's own types: every integer in a task, and some behind each pointer in it. Out:
//! equal values.
//! Guarantee: the running kernel's verifier accepts every one of these loads.

use profiler_compiler::btf::{Btf, BtfId, Kind};
use profiler_compiler::target::Target as _;
use profiler_compiler::types::Type;
use profiler_runtime::host::Host;

use super::machine::{run, skip};

/// Number of integers compared behind each pointer.
const MOST_BEHIND: usize = 8;

/// A field that the helper changes while it reads.
const HELPERS_OWN: &str = "pagefault_disabled";

/// Comparisons in a block.
const MOST_IN_BLOCK: usize = 40;

/// The members of a struct, by name.
fn members(btf: &Btf, of: BtfId) -> impl Iterator<Item = (&str, Type)> {
    let names = btf.member_names(of).into_iter();
    names.filter_map(move |name| Some((name, btf.to_type(btf.find_member(of, name)?.ty))))
}

fn numbers(btf: &Btf, of: BtfId) -> Vec<String> {
    let is_number = |ty: &Type| matches!(ty, Type::Int(_) | Type::Bool | Type::Enum { .. });
    members(btf, of).filter(|(_, ty)| is_number(ty)).map(|(name, _)| name.to_string()).collect()
}

/// Paths from a task to integers, including those through its pointers and nested structs.
fn paths(btf: &Btf, task: BtfId) -> Vec<String> {
    let mut found = numbers(btf, task);
    for (name, ty) in members(btf, task) {
        let (of, arrow) = match &ty {
            Type::Pointer { to, .. } => (to.as_ref(), "->"),
            other => (other, "."),
        };
        if let Type::Struct { id, .. } = of {
            found.extend(numbers(btf, *id).into_iter().take(MOST_BEHIND).map(|inner| format!("{name}{arrow}{inner}")));
        }
    }
    found
}

/// Compares a path from a typed pointer with the same path from a variable. Values that change
/// meanwhile are not reported.
fn comparison(typed: &str, path: &str) -> String {
    format!(
        "$a = $t->{path}; $b = {typed}->{path}; if ($a != $b && $a == $t->{path}) {{ printf(\"%s\\n\", \"{path}\"); }}\n"
    )
}

fn blocks(probe: &str, typed: &str, paths: &[String]) -> String {
    let block = |paths: &[String]| {
        let all: String = paths.iter().map(|path| comparison(typed, path)).collect();
        format!("{probe} {{ $t = {typed};\n{all}}}\n")
    };
    paths.chunks(MOST_IN_BLOCK).map(block).collect()
}

fn nothing_differs(script: &str) {
    let ended = run(&["-q", "--strict", "-e", script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert_eq!(ended.stdout.trim(), "", "these differ");
}

#[test]
fn a_load_reads_what_the_helper_reads() {
    if skip() {
        return;
    }
    let host = Host::new();
    let Some((btf, task)) = host.btf().and_then(|btf| Some((btf, btf.find(Kind::Struct, "task_struct")?))) else {
        println!("SKIPPED: this kernel does not describe its types");
        return;
    };
    let mut all = paths(btf, task);
    all.retain(|path| path != HELPERS_OWN);
    assert!(all.len() > 300, "only {} paths", all.len());
    nothing_differs(&(blocks("BEGIN", "curtask", &all) + "END { }\nBEGIN { exit(); }\n"));
    let some: Vec<String> =
        ["pid", "tgid", "real_parent->tgid", "mm->exe_file->f_inode->i_ino", "cred->uid.val"].map(str::to_owned).into();
    nothing_differs(&blocks("iter:task", "ctx.task", &some));
}
