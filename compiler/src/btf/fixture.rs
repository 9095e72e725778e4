//! Builds small BTF blobs for tests.
//!
//! In: types, added in order. Out: the bytes of a blob. Guarantee: the layout follows the kernel's
//! format documentation.

use super::{Btf, BtfId};

/// A blob under construction.
pub(crate) struct BlobBuilder {
    types: Vec<u8>,
    pub(super) strings: Vec<u8>,
    pub(super) count: u32,
    /// The offset of the first string: 0, or for a module the size of the kernel's strings.
    pub(super) first_string: u32,
}

impl BlobBuilder {
    /// An empty blob.
    pub(crate) fn new() -> Self {
        BlobBuilder { types: Vec::new(), strings: vec![0], count: 0, first_string: 0 }
    }

    /// Adds a string and returns its offset.
    pub(crate) fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.first_string + self.strings.len() as u32;
        self.strings.extend_from_slice(text.as_bytes());
        self.strings.push(0);
        at
    }

    /// Adds a type with its tail; `kind` is the number in the format.
    pub(crate) fn add(&mut self, name: &str, kind: u32, info: u32, size_or_type: u32, tail: &[u32]) -> BtfId {
        let name = self.string(name);
        for word in [name, (kind << 24) | info, size_or_type].iter().chain(tail) {
            self.types.extend_from_slice(&word.to_le_bytes());
        }
        self.count += 1;
        BtfId(self.count)
    }

    /// Adds an integer; `encoding` is 1 for signed, 4 for `bool`.
    pub(crate) fn int(&mut self, name: &str, size_bytes: u32, encoding: u32) -> BtfId {
        self.add(name, 1, 0, size_bytes, &[(encoding << 24) | (size_bytes * 8)])
    }

    /// Adds a pointer.
    pub(crate) fn pointer(&mut self, to: BtfId) -> BtfId {
        self.add("", 2, 0, to.0, &[])
    }

    /// Adds an array.
    pub(crate) fn array(&mut self, of: BtfId, len: u32) -> BtfId {
        self.add("", 3, 0, 0, &[of.0, of.0, len])
    }

    /// Adds a struct (kind 4) or union (kind 5); members are name, type and bit offset.
    pub(crate) fn record(&mut self, kind: u32, name: &str, size: u32, members: &[(&str, BtfId, u32)]) -> BtfId {
        let tail: Vec<u32> = members.iter().flat_map(|(n, ty, offset)| [self.string(n), ty.0, *offset]).collect();
        self.add(name, kind, members.len() as u32, size, &tail)
    }

    /// Adds a function prototype.
    pub(crate) fn proto(&mut self, ret: BtfId, params: &[(&str, BtfId)]) -> BtfId {
        let tail: Vec<u32> = params.iter().flat_map(|(name, ty)| [self.string(name), ty.0]).collect();
        self.add("", 13, params.len() as u32, ret.0, &tail)
    }

    /// The finished bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types, types, strings] {
            bytes.extend_from_slice(&u32::to_le_bytes(word));
        }
        bytes.extend_from_slice(&self.types);
        bytes.extend_from_slice(&self.strings);
        bytes
    }

    /// The finished blob, opened.
    pub(crate) fn open(&self) -> Btf {
        Btf::new(Box::new(self.bytes())).expect("the header is right")
    }
}

/// A small kernel with types of most kinds.
pub(crate) fn small_kernel() -> BlobBuilder {
    let mut blob = BlobBuilder::new();
    let int = blob.int("int", 4, 1);
    let char_ty = blob.int("char", 1, 0);
    let bool_ty = blob.int("_Bool", 1, 4);
    let u64_ty = blob.int("long unsigned int", 8, 0);
    let pid_t = blob.add("pid_t", 8, 0, int.0, &[]);
    let comm = blob.array(char_ty, 16);
    let anonymous = blob.record(5, "", 8, &[("start", u64_ty, 0), ("stop", u64_ty, 0)]);
    let task = blob.record(
        4,
        "task_struct",
        48,
        &[("pid", pid_t, 0), ("idle", bool_ty, 32), ("comm", comm, 64), ("", anonymous, 192)],
    );
    let constant = blob.add("", 10, 0, task.0, &[]);
    let task_pointer = blob.pointer(constant);
    let flags_tail = [blob.string("low"), int.0, 3 << 24, blob.string("high"), int.0, (5 << 24) | 3];
    blob.add("flags", 4, (1 << 31) | 2, 4, &flags_tail);
    let enum_tail = [blob.string("RED"), 1, blob.string("BLUE"), u32::MAX];
    blob.add("colour", 6, (1 << 31) | 2, 4, &enum_tail);
    let enum64_tail = [blob.string("HUGE"), 1, 1];
    blob.add("size", 19, 1, 8, &enum64_tail);
    let data = blob.pointer(BtfId::VOID);
    let proto = blob.proto(BtfId::VOID, &[("", data), ("", task_pointer), ("", task_pointer)]);
    let proto_pointer = blob.pointer(proto);
    blob.add("btf_trace_sched_switch", 8, 0, proto_pointer.0, &[]);
    let named = blob.proto(BtfId::VOID, &[("__data", data), ("prev", task_pointer), ("next", task_pointer)]);
    blob.add("__traceiter_sched_switch", 12, 0, named.0, &[]);
    let wake = blob.proto(int, &[("task", task_pointer), ("", BtfId::VOID)]);
    blob.add("wake_up", 12, 1, wake.0, &[]);
    blob
}
