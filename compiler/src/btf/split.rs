//! Joins the types of kernel modules with those of the kernel.
//!
//! In: the kernel's blob and the blobs of modules (`/sys/kernel/btf/MODULE`). Each module continues
//! the kernel's type ids and string offsets ("split BTF", Documentation/bpf/btf.rst). Out: one blob
//! in which each module's types and strings follow those of the previous module. Guarantee: the
//! kernel's type ids stay the same; a malformed module is rejected.

use std::ops::Range;

use super::blob::Blob;
use super::record::{Header, Kind, Record, Records, word};
use super::{Added, Btf, BtfId};

/// A module in a joined blob, and the range of its type ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Module {
    name: String,
    ids: Range<u32>,
}

/// How the type ids and string offsets of a module that are not the kernel's are shifted.
#[derive(Debug, Clone, Copy)]
struct Shift {
    first_id: u32,
    id_by: u32,
    first_string: u32,
    string_by: u32,
}

impl Shift {
    fn id(self, id: u32) -> Option<u32> {
        if id < self.first_id { Some(id) } else { id.checked_add(self.id_by) }
    }

    fn string(self, offset: u32) -> Option<u32> {
        if offset < self.first_string { Some(offset) } else { offset.checked_add(self.string_by) }
    }
}

impl Btf {
    /// The types of the kernel and of the modules, given by name. `None` when a module's bytes are
    /// malformed.
    pub fn joined(kernel: &Btf, modules: &[(String, Vec<u8>)]) -> Option<Btf> {
        let first_id = u32::try_from(kernel.blob.records().count()).ok()? + 1;
        let first_string = u32::try_from(kernel.blob.strings().len()).ok()?;
        let (mut types, mut strings) = (kernel.blob.types().to_vec(), kernel.blob.strings().to_vec());
        let mut known = Vec::with_capacity(modules.len());
        let mut next_id = first_id;
        for (name, bytes) in modules {
            let header = Header::parse(bytes)?;
            let string_by = u32::try_from(strings.len()).ok()? - first_string;
            let shift = Shift { first_id, id_by: next_id - first_id, first_string, string_by };
            let count = append(&mut types, bytes.get(header.types)?, shift)?;
            strings.extend_from_slice(bytes.get(header.strings)?);
            known.push(Module { name: name.clone(), ids: next_id..next_id.checked_add(count)? });
            next_id += count;
        }
        Some(Btf { blob: Blob::of(types, strings), added: Added::default(), modules: known })
    }

    /// Whether a type belongs to a module.
    pub(super) fn is_of_module(&self, id: BtfId) -> bool {
        self.modules.iter().any(|module| module.ids.contains(&id.0))
    }

    /// The function with that name in a module (`None`: in the kernel itself). A module that was
    /// not joined has no functions.
    pub fn find_function(&self, module: Option<&str>, name: &str) -> Option<BtfId> {
        if module.is_none() && self.modules.is_empty() {
            return self.find(Kind::Function, name);
        }
        self.functions_of(module).find(|(_, candidate)| *candidate == name).map(|(id, _)| id)
    }

    /// All functions of a module (`None`: of the kernel itself) in BTF, with their names.
    pub fn functions_of(&self, module: Option<&str>) -> impl Iterator<Item = (BtfId, &str)> {
        let ids = match module {
            None => 0..self.modules.first().map_or(u32::MAX, |first| first.ids.start),
            Some(name) => {
                self.modules.iter().find(|module| module.name == name).map_or(0..0, |module| module.ids.clone())
            }
        };
        self.functions().filter(move |(id, _)| ids.contains(&id.0))
    }
}

/// Appends the types of a module with shifted ids and returns their number. `None` when they are
/// malformed.
fn append(to: &mut Vec<u8>, types: &[u8], shift: Shift) -> Option<u32> {
    let mut records = Records::new(types);
    let mut count = 0;
    let mut at = records.position();
    while let Some((_, record)) = records.next() {
        let last = if refers(record.kind) { shift.id(record.size_or_type)? } else { record.size_or_type };
        let words = [shift.string(record.name_offset)?, word(types, at + 4)?, last];
        to.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        append_tail(to, &record, shift)?;
        count += 1;
        at = records.position();
    }
    (at == types.len()).then_some(count)
}

/// Whether the third word of a record is a type id.
fn refers(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Pointer
            | Kind::Typedef
            | Kind::Volatile
            | Kind::Const
            | Kind::Restrict
            | Kind::Function
            | Kind::FunctionProto
            | Kind::Variable
            | Kind::DeclTag
            | Kind::TypeTag
    )
}

fn append_tail(to: &mut Vec<u8>, record: &Record<'_>, shift: Shift) -> Option<()> {
    let mut put = |word: u32| to.extend(word.to_le_bytes());
    match record.kind {
        Kind::Array => {
            for [of, index, len] in record.entries::<3>() {
                [shift.id(of)?, shift.id(index)?, len].into_iter().for_each(&mut put);
            }
        }
        Kind::Struct | Kind::Union => {
            for [name, ty, offset] in record.entries::<3>() {
                [shift.string(name)?, shift.id(ty)?, offset].into_iter().for_each(&mut put);
            }
        }
        Kind::Enum => {
            for [name, value] in record.entries::<2>() {
                [shift.string(name)?, value].into_iter().for_each(&mut put);
            }
        }
        Kind::Enum64 => {
            for [name, low, high] in record.entries::<3>() {
                [shift.string(name)?, low, high].into_iter().for_each(&mut put);
            }
        }
        Kind::FunctionProto => {
            for [name, ty] in record.entries::<2>() {
                [shift.string(name)?, shift.id(ty)?].into_iter().for_each(&mut put);
            }
        }
        Kind::DataSection => {
            for [ty, offset, size] in record.entries::<3>() {
                [shift.id(ty)?, offset, size].into_iter().for_each(&mut put);
            }
        }
        _ => to.extend_from_slice(record.tail),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use crate::btf::fixture::{BlobBuilder, small_kernel};
    use crate::btf::{Btf, BtfId, Kind};

    /// A module's blob: a struct with a pointer to itself, and a function that takes a pointer to
    /// it and to the kernel's `task_struct`.
    fn module(struct_name: &str, function: &str) -> Vec<u8> {
        let kernel = small_kernel();
        let opened = kernel.open();
        let task = opened.find(Kind::Struct, "task_struct").expect("it has one");
        let int = opened.find(Kind::Int, "int").expect("it has one");
        let mut blob = BlobBuilder::new();
        blob.first_string = kernel.strings.len() as u32;
        blob.count = kernel.count;
        blob.strings.clear();
        let own = BtfId(blob.count + 2);
        let pointer = blob.pointer(own);
        let made = blob.record(4, struct_name, 16, &[("owner", pointer, 0), ("length", int, 64)]);
        assert_eq!(made, own);
        let task_pointer = blob.pointer(task);
        let proto = blob.proto(int, &[("of", pointer), ("task", task_pointer)]);
        blob.add(function, 12, 1, proto.0, &[]);
        blob.bytes()
    }

    #[test]
    fn modules_follow_the_kernel_and_each_other() {
        let kernel = small_kernel().open();
        let modules = [("disk".to_string(), module("sector", "read")), ("net".to_string(), module("packet", "read"))];
        let joined = Btf::joined(&kernel, &modules).expect("both are well-formed");
        for (module, name) in [("disk", "sector"), ("net", "packet")] {
            let id = joined.find_function(Some(module), "read").expect("each has one");
            let proto = joined.func_proto(id).expect("it has parameters");
            let described: Vec<String> =
                proto.params.iter().map(|param| format!("{} {}", joined.describe(param.ty), param.name)).collect();
            assert_eq!(described, [format!("struct {name} * of"), "struct task_struct * task".to_string()]);
            let of = joined.find(Kind::Struct, name).expect("its own struct");
            let owner = joined.find_member(of, "owner").expect("its member");
            assert_eq!(joined.describe(owner.ty), format!("struct {name} *"));
        }
        assert_eq!(joined.find_function(None, "read"), None);
        assert_eq!(joined.find_function(None, "wake_up"), kernel.find(Kind::Function, "wake_up"));
        assert_eq!(joined.find_function(Some("sound"), "read"), None);
        assert_eq!(joined.functions_of(Some("net")).count(), 1);
    }

    #[test]
    fn a_module_that_is_cut_off_is_refused() {
        let kernel = small_kernel().open();
        let whole = module("sector", "read");
        let types = u32::from_le_bytes([whole[12], whole[13], whole[14], whole[15]]);
        for length in 0..whole.len() {
            assert!(Btf::joined(&kernel, &[("disk".to_string(), whole[..length].to_vec())]).is_none(), "{length}");
        }
        // A types section that ends within a record.
        let mut short = whole;
        short[12..16].copy_from_slice(&(types - 4).to_le_bytes());
        assert!(Btf::joined(&kernel, &[("disk".to_string(), short)]).is_none());
    }
}
