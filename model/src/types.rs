//! The types of the language.
//!
//! In: made by `check`. Out: read by `lower`, [`crate::layout`] and the renderers.
//! Guarantee: a type contains everything needed to store, compare, decode and print its values.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::statistics::Statistic;

/// The id of a type in a BTF blob. 0 is `void`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BtfId(pub u32);

impl BtfId {
    /// `void`.
    pub const VOID: BtfId = BtfId(0);
}

/// The structs, unions and enums that [`BtfId`]s refer to.
pub trait Records {
    /// Size of a struct or union in bytes.
    fn size_bytes(&self, id: BtfId) -> u32;
    /// The type as in C: `struct file`.
    fn describe(&self, id: BtfId) -> String;
}

/// No records: for types whose members are spelled out.
#[derive(Debug)]
pub struct NoRecords;

impl Records for NoRecords {
    fn size_bytes(&self, _id: BtfId) -> u32 {
        0
    }

    fn describe(&self, id: BtfId) -> String {
        format!("type #{}", id.0)
    }
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Type {
    /// Not known: not yet inferred, or an error type that prevents follow-up errors.
    Unknown,
    /// No value: a call used as a statement.
    None,
    /// `true` or `false`; 1 byte.
    Bool,
    /// An integer.
    Int(Int),
    /// A floating-point number of 4 or 8 bytes. Programs only copy it; it is decoded for printing.
    Float { size_bytes: u8 },
    /// A NUL-terminated string with a fixed capacity, NUL-padded wherever it is compared or hashed.
    Str {
        /// Capacity in bytes including the terminating NUL.
        capacity_bytes: u32,
    },
    /// Raw bytes with a length.
    Buf { capacity_bytes: u32 },
    /// An address.
    Pointer {
        /// The pointed-to type; [`Type::None`] for `void *`.
        to: Box<Type>,
        /// The address space that it points into.
        space: Space,
    },
    /// A struct or union described by the kernel's BTF or by the script.
    Struct {
        /// Its BTF type id.
        id: BtfId,
        /// The address space that its pointer members point into.
        space: Space,
    },
    /// A struct or union with its members spelled out, so that values can be decoded without BTF.
    /// Used only in objects.
    Members(Arc<Members>),
    /// An enum described by the kernel's BTF or by the script; stored as its integer.
    Enum {
        /// Its BTF type id.
        id: BtfId,
        /// Its underlying integer type.
        int: Int,
    },
    /// A fixed number of elements.
    Array {
        /// The element type.
        of: Box<Type>,
        /// The number of elements.
        len: u32,
    },
    /// `(a, b, …)`.
    Tuple(Vec<Type>),
    /// `(a = 1, b = 2, …)`: a tuple with named parts.
    Record(Vec<(String, Type)>),
    /// A stack trace.
    Stack(StackType),
    /// A kernel address, printed as a symbol.
    KernelSymbol,
    /// A user-space address, printed as a symbol.
    UserSymbol,
    /// An IPv4 or IPv6 address.
    Inet,
    /// A time, printed with a format.
    Timestamp,
    /// A user id, printed as a name.
    Username,
    /// The name of a probe.
    ProbeName,
    /// A hardware address.
    MacAddress,
    /// A cgroup id, printed as its path.
    CgroupPath,
    /// The key of a map entry of which a statistic is printed. The map is read when the record is
    /// printed.
    Statistic {
        /// Index of the map.
        map: usize,
        /// Which statistic.
        statistic: Statistic,
        /// Size of the key in bytes.
        key_bytes: u32,
    },
}

/// The members of a struct or union.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Members {
    /// Total size in bytes.
    pub size_bytes: u32,
    /// The members in order, including those of anonymous members.
    pub list: Vec<Member>,
}

/// A member of a struct or union.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    pub name: String,
    pub ty: Type,
    /// Byte offset; for a bit-field, that of the integer that contains it.
    pub offset_bytes: u32,
    /// For a bit-field: its first bit, from the least significant, and its width.
    pub bits: Option<(u8, u8)>,
}

/// An integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Int {
    /// 1, 2, 4 or 8.
    pub size_bytes: u8,
    /// Whether it is signed (two's complement).
    pub signed: bool,
}

/// The address space that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Space {
    /// Kernel memory.
    Kernel,
    /// Memory of the current process.
    User,
}

/// Capacity of a string that a probe's name is copied to; longer names are cut.
pub const PROBE_NAME_BYTES: u32 = 128;

/// The upper half of a symbol that is no address: the lower half is the index of a probe's name,
/// which is printed. No processor has such addresses.
pub const NAMED_SYMBOL: u64 = 0x8000_0000;

/// Default and maximum number of frames of a stack.
pub const MOST_FRAMES: u8 = 127;

/// How a stack is captured and printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StackType {
    /// `kstack` or `ustack`.
    pub space: Space,
    /// How it is printed.
    pub mode: StackMode,
    /// Maximum number of frames; 1..=127.
    pub limit: u8,
    /// How the callers are found.
    pub walk: Walk,
}

/// How the callers of a function are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Walk {
    /// By the kernel: for user code, by frame pointers.
    Kernel,
    /// By unwind tables of user code, and by frame pointers where there are none.
    Tables,
}

/// How a stack is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StackMode {
    /// `symbol+offset` lines.
    Bpftrace,
    /// `address symbol+offset (module)` lines.
    Perf,
    /// Addresses only.
    Raw,
    /// `build-id 0xoffset` lines: positions in files, from which another machine can resolve names.
    BuildId,
}

impl Int {
    /// `int64`.
    pub const I64: Int = Int { size_bytes: 8, signed: true };
    /// `uint64`.
    pub const U64: Int = Int { size_bytes: 8, signed: false };
    /// `int32`.
    pub const I32: Int = Int { size_bytes: 4, signed: true };
    /// `uint32`.
    pub const U32: Int = Int { size_bytes: 4, signed: false };

    /// Truncates a constant to the size of this type and sign-extends it if the type is signed.
    pub fn truncate(self, n: i64) -> i64 {
        match (self.size_bytes, self.signed) {
            (1, true) => i64::from(n as i8),
            (1, false) => i64::from(n as u8),
            (2, true) => i64::from(n as i16),
            (2, false) => i64::from(n as u16),
            (4, true) => i64::from(n as i32),
            (4, false) => i64::from(n as u32),
            _ => n,
        }
    }
}

impl Type {
    /// `int64`.
    pub const I64: Type = Type::Int(Int::I64);
    /// `uint64`.
    pub const U64: Type = Type::Int(Int::U64);
    /// `int32`.
    pub const I32: Type = Type::Int(Int::I32);
    /// `uint32`.
    pub const U32: Type = Type::Int(Int::U32);

    /// Whether values of this type contain addresses of user processes that are printed as symbols.
    pub fn has_user_addresses(&self) -> bool {
        match self {
            Type::UserSymbol => true,
            Type::Stack(stack) => stack.space == Space::User,
            Type::Tuple(parts) => parts.iter().any(Type::has_user_addresses),
            Type::Record(parts) => parts.iter().any(|(_, ty)| ty.has_user_addresses()),
            _ => false,
        }
    }

    /// Whether values of this type contain stacks.
    pub fn has_stacks(&self) -> bool {
        match self {
            Type::Stack(_) => true,
            Type::Tuple(parts) => parts.iter().any(Type::has_stacks),
            Type::Record(parts) => parts.iter().any(|(_, ty)| ty.has_stacks()),
            _ => false,
        }
    }

    /// Whether a value fits in a register: integers, booleans, enums and pointers.
    pub fn is_scalar(&self) -> bool {
        matches!(self, Type::Bool | Type::Int(_) | Type::Pointer { .. } | Type::Enum { .. })
    }

    /// The integer that a scalar is stored as; pointers are unsigned 64 bits.
    pub fn as_int(&self) -> Option<Int> {
        match self {
            Type::Bool => Some(Int { size_bytes: 1, signed: false }),
            Type::Int(int) | Type::Enum { int, .. } => Some(*int),
            Type::Pointer { .. } => Some(Int::U64),
            _ => None,
        }
    }

    /// The types of the parts of a tuple or record.
    pub fn parts(&self) -> Option<Vec<&Type>> {
        match self {
            Type::Tuple(parts) => Some(parts.iter().collect()),
            Type::Record(parts) => Some(parts.iter().map(|(_, ty)| ty).collect()),
            _ => None,
        }
    }

    /// The type in the language's syntax, for diagnostics. Without BTF, structs are shown by id.
    pub fn describe<R: Records>(&self, btf: Option<&R>) -> String {
        match self {
            Type::Unknown => "unknown".into(),
            Type::None => "no value".into(),
            Type::Bool => "bool".into(),
            Type::Int(int) => int.to_string(),
            Type::Float { size_bytes } => if *size_bytes == 4 { "float" } else { "double" }.into(),
            Type::Str { capacity_bytes } => format!("string[{capacity_bytes}]"),
            Type::Buf { capacity_bytes } => format!("buffer[{capacity_bytes}]"),
            Type::Pointer { to, .. } => match to.as_ref() {
                Type::None => "void *".into(),
                to => format!("{} *", to.describe(btf)),
            },
            Type::Members(_) => "struct".into(),
            Type::Struct { id, .. } => btf.map_or_else(|| format!("struct #{}", id.0), |b| b.describe(*id)),
            Type::Enum { id, .. } => btf.map_or_else(|| format!("enum #{}", id.0), |b| b.describe(*id)),
            Type::Array { of, len } => format!("{}[{len}]", of.describe(btf)),
            Type::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|p| p.describe(btf)).collect();
                format!("({})", parts.join(", "))
            }
            Type::Record(parts) => {
                let parts: Vec<String> =
                    parts.iter().map(|(name, ty)| format!("{name} = {}", ty.describe(btf))).collect();
                format!("({})", parts.join(", "))
            }
            Type::Stack(stack) => stack.to_string(),
            Type::KernelSymbol => "ksym".into(),
            Type::UserSymbol => "usym".into(),
            Type::Inet => "inet".into(),
            Type::Timestamp => "timestamp".into(),
            Type::Username => "username".into(),
            Type::ProbeName => "probe name".into(),
            Type::MacAddress => "hardware address".into(),
            Type::CgroupPath => "cgroup path".into(),
            Type::Statistic { statistic, .. } => statistic.to_string(),
        }
    }
}

impl std::fmt::Display for StackType {
    /// As written in a script: `kstack`, `ustack(perf, 6)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.space == Space::Kernel { "kstack" } else { "ustack" })?;
        let walk = (self.space == Space::User && self.walk == Walk::Kernel).then(|| "fp".to_owned());
        let mode = match self.mode {
            StackMode::Bpftrace => None,
            StackMode::Perf => Some("perf".to_owned()),
            StackMode::Raw => Some("raw".to_owned()),
            StackMode::BuildId => Some("build_id".to_owned()),
        };
        let limit = (self.limit != MOST_FRAMES).then(|| self.limit.to_string());
        let args: Vec<String> = [walk, mode, limit].into_iter().flatten().collect();
        if args.is_empty() { Ok(()) } else { write!(f, "({})", args.join(", ")) }
    }
}

impl std::fmt::Display for Int {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.signed { "int" } else { "uint" };
        write!(f, "{sign}{}", u32::from(self.size_bytes) * 8)
    }
}
