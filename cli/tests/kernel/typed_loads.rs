//! Direct loads through BTF-typed pointers and through numbers, compared with reads by the helper.
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

/// A path from a task to an integer.
struct Path {
    text: String,
    /// The type with which the helper reads it; `None` for bit-fields, which have no address.
    read_as: Option<String>,
}

impl Path {
    fn behind(self, before: &str) -> Path {
        Path { text: format!("{before}{}", self.text), ..self }
    }
}

fn numbers(btf: &Btf, of: BtfId) -> Vec<Path> {
    let is_number = |ty: &Type| matches!(ty, Type::Int(_) | Type::Bool | Type::Enum { .. });
    let path = |(name, ty): (&str, Type)| {
        let is_bits = btf.find_member(of, name).is_some_and(|member| member.bitfield_width.is_some());
        let int = ty.as_int().filter(|_| !is_bits);
        let read_as = int.map(|int| format!("{}int{}", if int.signed { "" } else { "u" }, int.size_bytes * 8));
        Path { text: name.to_string(), read_as }
    };
    members(btf, of).filter(|(_, ty)| is_number(ty)).map(path).collect()
}

/// Paths from a task to integers, including those through its pointers and nested structs.
fn paths(btf: &Btf, task: BtfId) -> Vec<Path> {
    let mut found = numbers(btf, task);
    for (name, ty) in members(btf, task) {
        let (of, arrow) = match &ty {
            Type::Pointer { to, .. } => (to.as_ref(), "->"),
            other => (other, "."),
        };
        if let Type::Struct { id, .. } = of {
            let before = format!("{name}{arrow}");
            found.extend(numbers(btf, *id).into_iter().take(MOST_BEHIND).map(|inner| inner.behind(&before)));
        }
    }
    found
}

/// Compares a path from a typed pointer with the same path from a variable, and with what the
/// helper reads at its address. Values that change meanwhile are not reported.
fn comparison(typed: &str, path: &Path) -> String {
    let text = &path.text;
    let by_helper = path.read_as.as_ref().map_or_else(|| "$a".into(), |ty| format!("*({ty} *)(uint64)&$t->{text}"));
    format!(
        "$a = (int64)$t->{text}; $b = (int64){typed}->{text}; $c = (int64){by_helper}; \
         if (($a != $b || $a != $c) && $a == (int64)$t->{text}) {{ printf(\"%s\\n\", \"{text}\"); }}\n"
    )
}

fn blocks(probe: &str, typed: &str, paths: &[Path]) -> String {
    let block = |paths: &[Path]| {
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
    all.retain(|path| path.text != HELPERS_OWN);
    assert!(all.len() > 300, "only {} paths", all.len());
    nothing_differs(&(blocks("BEGIN", "curtask", &all) + "END { }\nBEGIN { exit(); }\n"));
    let some = [
        ("pid", Some("int32")),
        ("tgid", Some("int32")),
        ("real_parent->tgid", Some("int32")),
        ("mm->exe_file->f_inode->i_ino", Some("uint64")),
        ("cred->uid.val", Some("uint32")),
    ];
    let some = some.map(|(text, read_as)| Path { text: text.into(), read_as: read_as.map(str::to_owned) });
    nothing_differs(&blocks("iter:task", "ctx.task", &some));
}

/// Where a number does not point to memory, there is 0: in user space, in the hole between the two
/// halves of addresses, and at both ends.
#[test]
fn a_number_that_points_nowhere_reads_as_zero() {
    if skip() {
        return;
    }
    let read = |address: &str| {
        format!("$t = (struct task_struct *){address}; printf(\"%d %d\\n\", $t->pid, $t->real_parent->mm->total_vm);\n")
    };
    let addresses = ["0", "0x10", "0xdeadbeef", "0x7fffffffe000", "0x800000000000", "0xffffffffffffff00"];
    let script = format!("BEGIN {{ {} }}", addresses.map(read).concat());
    let ended = run(&["-q", "-e", &script]);
    assert_eq!((ended.code(), ended.stdout.trim()), (0, ["0 0"; 6].join("\n").as_str()), "{}", ended.stderr);
}
