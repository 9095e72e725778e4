//! Argument locations of a static probe.
//!
//! In: text such as `-4@%eax 8@-24(%rbp) 8@$5`: size, `@`, an operand in GNU assembler syntax. Out:
//! [`Argument`]s.
//! Guarantee: one [`Argument`] per argument in the text; an argument that cannot be parsed is
//! [`ArgumentLocation::Unknown`].

use crate::target::Arch;

/// An argument.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Argument {
    /// As written in the note.
    pub text: String,
    /// Its size in bytes: 1, 2, 4 or 8.
    pub size_bytes: u8,
    /// Whether it is signed (two's complement).
    pub signed: bool,
    pub place: ArgumentLocation,
}

/// The location of an argument.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ArgumentLocation {
    /// A constant in the note itself.
    Constant(i64),
    /// In a register.
    Register(Register),
    /// In the program's memory.
    Memory(Address),
    /// It is a floating-point number.
    Float,
    /// A location that is not understood.
    Unknown,
}

/// A part of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Register {
    /// Its offset in `pt_regs`.
    pub offset_bytes: u32,
    /// Its first bit within that register.
    pub first_bit: u8,
    /// Its size in bytes.
    pub size_bytes: u8,
}

/// `displacement + symbol + base + index * scale`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// The first register.
    pub base: Option<Register>,
    /// The second register and what it is multiplied by.
    pub index: Option<(Register, u8)>,
    /// A constant.
    pub displacement: i64,
    /// A variable of the program, whose address is not in the note.
    pub symbol: Option<String>,
}

impl Argument {
    /// Resolves the variable that the address names, given its distance from the probe's site.
    pub fn resolve(&mut self, distance: impl Fn(&str) -> Option<i64>) {
        let ArgumentLocation::Memory(address) = &mut self.place else { return };
        let Some(symbol) = address.symbol.take() else { return };
        match distance(&symbol) {
            Some(distance) => {
                address.base = Some(INSTRUCTION_POINTER);
                address.displacement = address.displacement.wrapping_add(distance);
            }
            None => self.place = ArgumentLocation::Unknown,
        }
    }
}

const INSTRUCTION_POINTER: Register = Register { offset_bytes: 128, first_bit: 0, size_bytes: 8 };

/// The 64-bit registers of x86: the names of the register and of its low 4, 2 and 1 bytes and its
/// second byte, and its offset in `pt_regs`.
const X86_64: [([&str; 5], u32); 16] = [
    (["rax", "eax", "ax", "al", "ah"], 80),
    (["rbx", "ebx", "bx", "bl", "bh"], 40),
    (["rcx", "ecx", "cx", "cl", "ch"], 88),
    (["rdx", "edx", "dx", "dl", "dh"], 96),
    (["rsi", "esi", "si", "sil", ""], 104),
    (["rdi", "edi", "di", "dil", ""], 112),
    (["rbp", "ebp", "bp", "bpl", ""], 32),
    (["rsp", "esp", "sp", "spl", ""], 152),
    (["r8", "r8d", "r8w", "r8b", ""], 72),
    (["r9", "r9d", "r9w", "r9b", ""], 64),
    (["r10", "r10d", "r10w", "r10b", ""], 56),
    (["r11", "r11d", "r11w", "r11b", ""], 48),
    (["r12", "r12d", "r12w", "r12b", ""], 24),
    (["r13", "r13d", "r13w", "r13b", ""], 16),
    (["r14", "r14d", "r14w", "r14b", ""], 8),
    (["r15", "r15d", "r15w", "r15b", ""], 0),
];

/// Parses the arguments of a probe.
pub fn arguments(text: &str, arch: Arch) -> Vec<Argument> {
    text.split_ascii_whitespace().map(|text| argument(text, arch)).collect()
}

fn argument(text: &str, arch: Arch) -> Argument {
    let (size, operand) = text.split_once('@').unwrap_or(("8", text));
    let (size, is_float) = size.strip_suffix('f').map_or((size, false), |size| (size, true));
    let (size, signed) = size.strip_prefix('-').map_or((size, false), |size| (size, true));
    let size_bytes = size.parse().ok().filter(|size| matches!(size, 1 | 2 | 4 | 8));
    let place = match (size_bytes, arch) {
        (Some(_), _) if is_float => ArgumentLocation::Float,
        (Some(_), Arch::X86_64) => x86_64(operand).unwrap_or(ArgumentLocation::Unknown),
        _ => ArgumentLocation::Unknown,
    };
    Argument { text: text.to_owned(), size_bytes: size_bytes.unwrap_or(8), signed, place }
}

/// Parses an operand in AT&T syntax.
fn x86_64(operand: &str) -> Option<ArgumentLocation> {
    if let Some(number) = operand.strip_prefix('$') {
        return constant(number).map(ArgumentLocation::Constant);
    }
    if operand.starts_with('%') {
        return register(operand).map(ArgumentLocation::Register);
    }
    let (displacement, registers) = match operand.strip_suffix(')') {
        Some(inner) => inner.split_once('(')?,
        None => (operand, ""),
    };
    let (displacement, symbol) = sum(displacement)?;
    let mut parts = registers.split(',').map(str::trim);
    let base = parts.next().unwrap_or_default();
    let index = parts.next().map(register);
    let scale = parts.next().map_or(Some(1), |scale| scale.parse().ok().filter(|s| matches!(s, 1 | 2 | 4 | 8)))?;
    if parts.next().is_some() {
        return None;
    }
    let index = match index {
        Some(index) => Some((index?, scale)),
        None => None,
    };
    // Relative to the instruction: only the distance to a symbol is known, not the address that the
    // assembler used.
    let base = match (base, &symbol) {
        ("%rip", Some(_)) => None,
        ("%rip", None) => return None,
        (base, _) => {
            if base.is_empty() {
                None
            } else {
                Some(register(base)?)
            }
        }
    };
    let is_somewhere = base.is_some() || index.is_some() || symbol.is_some();
    let is_clear = symbol.is_none() || base.is_none();
    (is_somewhere && is_clear).then_some(ArgumentLocation::Memory(Address { base, index, displacement, symbol }))
}

fn register(text: &str) -> Option<Register> {
    let name = text.strip_prefix('%')?;
    X86_64.iter().find_map(|(names, offset_bytes)| {
        let which = names.iter().position(|n| *n == name && !n.is_empty())?;
        let (size_bytes, first_bit) = [(8, 0), (4, 0), (2, 0), (1, 0), (1, 8)][which];
        Some(Register { offset_bytes: *offset_bytes, first_bit, size_bytes })
    })
}

/// Parses a sum of numbers and at most one symbol: `-8`, `global+4`, `16+global`.
fn sum(text: &str) -> Option<(i64, Option<String>)> {
    let (mut total, mut symbol) = (0i64, None);
    let mut rest = text;
    while !rest.is_empty() {
        let (negative, term) = match rest.as_bytes()[0] {
            b'-' => (true, &rest[1..]),
            b'+' => (false, &rest[1..]),
            _ => (false, rest),
        };
        let end = term.find(['+', '-']).unwrap_or(term.len());
        let (term, behind) = term.split_at(end);
        match constant(term) {
            Some(number) => total = if negative { total.wrapping_sub(number) } else { total.wrapping_add(number) },
            None if is_symbol(term) && !negative && symbol.is_none() => symbol = Some(term.to_owned()),
            None => return None,
        }
        rest = behind;
    }
    Some((total, symbol))
}

fn is_symbol(text: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
    text.chars().all(is_name) && text.starts_with(|c: char| is_name(c) && !c.is_ascii_digit())
}

/// Parses a decimal or hexadecimal number; 64 bits, two's complement.
fn constant(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?,
        None => digits.parse::<u64>().ok()?,
    };
    let value = value.cast_signed();
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::{Address, Argument, ArgumentLocation, Register, arguments};
    use crate::target::Arch;

    fn one(text: &str) -> Argument {
        let found = arguments(text, Arch::X86_64);
        assert_eq!(found.len(), 1, "{text}");
        found.into_iter().next().expect("one")
    }

    fn register(offset_bytes: u32, first_bit: u8, size_bytes: u8) -> Register {
        Register { offset_bytes, first_bit, size_bytes }
    }

    #[test]
    fn sizes_signs_and_registers() {
        for (text, size_bytes, signed, register) in [
            ("-4@%eax", 4, true, register(80, 0, 4)),
            ("8@%rax", 8, false, register(80, 0, 8)),
            ("1@%ah", 1, false, register(80, 8, 1)),
            ("-1@%sil", 1, true, register(104, 0, 1)),
            ("2@%r8w", 2, false, register(72, 0, 2)),
            ("4@%r15d", 4, false, register(0, 0, 4)),
            ("1@%r10b", 1, false, register(56, 0, 1)),
            ("%rsp", 8, false, register(152, 0, 8)),
        ] {
            let found = one(text);
            assert_eq!(
                (found.size_bytes, found.signed, found.place),
                (size_bytes, signed, ArgumentLocation::Register(register))
            );
        }
    }

    #[test]
    fn constants() {
        for (text, value) in [("8@$5", 5), ("-8@$-5", -5), ("4@$0x10", 16), ("8@$18446744073709551615", -1)] {
            assert_eq!(one(text).place, ArgumentLocation::Constant(value), "{text}");
        }
    }

    #[test]
    fn addresses() {
        let (rbp, rax, rdx) = (register(32, 0, 8), register(80, 0, 8), register(96, 0, 8));
        for (text, base, index, displacement, symbol) in [
            ("-4@-20(%rbp)", Some(rbp), None, -20, None),
            ("8@(%rax)", Some(rax), None, 0, None),
            ("8@(%rax,%rdx,8)", Some(rax), Some((rdx, 8)), 0, None),
            ("8@0x10(%rax,%rdx)", Some(rax), Some((rdx, 1)), 16, None),
            ("8@4(,%rdx,4)", None, Some((rdx, 4)), 4, None),
            ("-2@global+4(%rip)", None, None, 4, Some("global")),
            ("-2@4+global(%rip)", None, None, 4, Some("global")),
            ("8@_ZN1a1bE.0", None, None, 0, Some("_ZN1a1bE.0")),
            ("4@array(,%rax,4)", None, Some((rax, 4)), 0, Some("array")),
        ] {
            let address = Address { base, index, displacement, symbol: symbol.map(str::to_owned) };
            assert_eq!(one(text).place, ArgumentLocation::Memory(address), "{text}");
        }
    }

    #[test]
    fn variables_are_resolved_or_unknown() {
        let mut found = one("4@global+4(%rip)");
        found.resolve(|name| (name == "global").then_some(0x1000));
        let ArgumentLocation::Memory(address) = &found.place else { panic!("{found:?}") };
        assert_eq!((address.displacement, address.base.map(|b| b.offset_bytes)), (0x1004, Some(128)));
        let mut lost = one("4@global+4(%rip)");
        lost.resolve(|_| None);
        assert_eq!(lost.place, ArgumentLocation::Unknown);
    }

    #[test]
    fn what_is_not_understood_says_so() {
        assert_eq!(one("8f@%xmm0").place, ArgumentLocation::Float);
        assert_eq!(one("-8f@8(%rsp)").place, ArgumentLocation::Float);
        for text in [
            "3@%eax",
            "8@",
            "8@%xmm0",
            "8@%fs:8(%rax)",
            "8@4(%rip)",
            "8@(%rax,%rdx,3)",
            "8@a+b(%rip)",
            "8@x(%rbp)",
            "@",
            "8@-x(%rip)",
            "8@$x",
            "8@(%rax,%rdx,1,1)",
            "8@()",
            "8@(,,)",
            "8@5",
            "8@$--5",
            "8@-",
            "8@é(",
        ] {
            assert_eq!(one(text).place, ArgumentLocation::Unknown, "{text}");
        }
        assert!(arguments("", Arch::X86_64).is_empty());
        assert_eq!(arguments("8@%rax  -4@$1", Arch::X86_64).len(), 2);
        assert_eq!(arguments("8@x0", Arch::Aarch64)[0].place, ArgumentLocation::Unknown);
    }
}
