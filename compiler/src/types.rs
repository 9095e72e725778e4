//! The types of the language.
//!
//! In: made by `check`. Out: read by `lower`, [`crate::layout`] and the renderers.
//! Guarantee: a type says everything that is needed to store, compare, decode and print its values.

use std::sync::Arc;

use crate::btf::BtfId;
use crate::statistics::Statistic;

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// Not known: not yet inferred, or the poison that stops a cascade of errors.
    Unknown,
    /// No value: a statement-like call.
    None,
    /// `true` or `false`; 1 byte.
    Bool,
    /// An integer.
    Int(Int),
    /// A NUL-terminated string in a fixed room; the room is NUL-padded wherever it is compared or hashed.
    Str {
        /// Room including the terminating NUL.
        capacity_bytes: u32,
    },
    /// Raw bytes with their length.
    Buf {
        /// Most bytes it can hold.
        capacity_bytes: u32,
    },
    /// An address.
    Pointer {
        /// What is there; `None` for `void *`.
        to: Box<Type>,
        /// Whose memory.
        space: Space,
    },
    /// A struct or union that the kernel's BTF or the script describes.
    Struct {
        /// Which.
        id: BtfId,
        /// Whose memory the pointers in it point into.
        space: Space,
    },
    /// The same with its members spelled out, so that values can be decoded without BTF; only objects have it.
    Members(Arc<Members>),
    /// An enum that the kernel's BTF or the script describes; stored as its integer.
    Enum {
        /// The enum.
        id: BtfId,
        /// Its integer.
        int: Int,
    },
    /// A fixed number of elements.
    Array {
        /// The element.
        of: Box<Type>,
        /// How many.
        len: u32,
    },
    /// `(a, b, …)`.
    Tuple(Vec<Type>),
    /// `(a = 1, b = 2, …)`: a tuple whose parts have names.
    Record(Vec<(String, Type)>),
    /// A stack trace.
    Stack(StackType),
    /// An address in the kernel, printed as a symbol.
    KernelSymbol,
    /// An address in a process, printed as a symbol.
    UserSymbol,
    /// An IPv4 or IPv6 address.
    Inet,
    /// A time to be printed with a format.
    Timestamp,
    /// A user id, printed as a name.
    Username,
    /// The name of a probe.
    ProbeName,
    /// A hardware address.
    MacAddress,
    /// The number of a cgroup, printed as its path.
    CgroupPath,
    /// The key of a map's entry of which a statistic is printed: the map is read when the record is.
    Statistic {
        /// The number of the map.
        map: usize,
        /// Which.
        statistic: Statistic,
        /// Bytes of the key.
        key_bytes: u32,
    },
}

/// What a struct or union is made of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Members {
    /// All of it.
    pub size_bytes: u32,
    /// In order; those of anonymous parts are among them.
    pub list: Vec<Member>,
}

/// A member of a struct or union.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Where it starts; for a bit-field, the integer that holds it.
    pub offset_bytes: u32,
    /// A bit-field's first bit from the least significant, and its width.
    pub bits: Option<(u8, u8)>,
}

/// An integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Int {
    /// 1, 2, 4 or 8.
    pub size_bytes: u8,
    /// Two's complement.
    pub signed: bool,
}

/// Whose memory an address points into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// The kernel's.
    Kernel,
    /// The current process's.
    User,
}

/// How a stack is taken and printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StackType {
    /// `kstack` or `ustack`.
    pub space: Space,
    /// How it is printed.
    pub mode: StackMode,
    /// Most frames; 1..=127.
    pub limit: u8,
}

/// How a stack is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StackMode {
    /// `symbol+offset` lines.
    Bpftrace,
    /// `address symbol+offset (module)` lines.
    Perf,
    /// Addresses only.
    Raw,
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

    /// Whether values of this type have addresses of processes that are shown as symbols.
    pub fn has_user_addresses(&self) -> bool {
        match self {
            Type::UserSymbol => true,
            Type::Stack(stack) => stack.space == Space::User,
            Type::Tuple(parts) => parts.iter().any(Type::has_user_addresses),
            Type::Record(parts) => parts.iter().any(|(_, ty)| ty.has_user_addresses()),
            _ => false,
        }
    }

    /// Whether a value fits a register: integers, booleans, enums and pointers.
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

    /// The type in the words of the language, for diagnostics; structs by number when no BTF is at hand.
    pub fn describe(&self, btf: Option<&crate::btf::Btf>) -> String {
        match self {
            Type::Unknown => "unknown".into(),
            Type::None => "no value".into(),
            Type::Bool => "bool".into(),
            Type::Int(int) => int.to_string(),
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
            Type::Stack(stack) => match stack.space {
                Space::Kernel => "kstack".into(),
                Space::User => "ustack".into(),
            },
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

impl std::fmt::Display for Int {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.signed { "int" } else { "uint" };
        write!(f, "{sign}{}", u32::from(self.size_bytes) * 8)
    }
}
