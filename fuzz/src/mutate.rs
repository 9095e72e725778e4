//! Mutates known inputs.
//!
//! In: seeds, random numbers. Out: inputs that differ from a seed in a few pieces: tokens of
//! scripts, words of texts, bytes and 32-bit words of binary files. Guarantee: the same numbers
//! give the same input, of at most [`LIMIT_BYTES`].

/// Maximum size of an input: large enough to make quadratic time noticeable.
pub const LIMIT_BYTES: usize = 64 << 10;

/// Maximum size after an ordinary change.
const USUAL_BYTES: usize = 4 << 10;

/// One change in this many repeats a piece up to [`LIMIT_BYTES`].
const LONG_ONE_IN: usize = 150;

/// The structure of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Tokens of the language.
    Script,
    /// Lines of words.
    Text,
    /// Mostly 32-bit numbers.
    Words,
}

/// A random number generator (xorshift64*).
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.draw() >> 32) % (bound.max(1) as u64)) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }
}

/// Fragments that split or join other tokens.
const SPLINTERS: [&str; 64] = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "\"",
    "'",
    "/",
    "/*",
    "*/",
    "//",
    ";",
    ",",
    "=",
    "==",
    "$x",
    "@",
    "@x",
    "#",
    "?",
    ":",
    "\n",
    "..",
    "ä",
    "\\",
    "if",
    "1.5",
    "++",
    "&&",
    "->",
    ".",
    "*",
    "-",
    "!",
    "unroll",
    "while",
    "for",
    "let",
    "else",
    "return",
    "0",
    "-1",
    "18446744073709551615",
    "9223372036854775808",
    "0x",
    "1e3",
    "str",
    "count()",
    "hist",
    "printf",
    "sizeof",
    "(uint8)",
    "(struct task_struct *)",
    "args",
    "retval",
    "kstack",
    "curtask",
    "config = {",
    "#define x 1\n",
    "true",
    "\"%s\"",
    "\u{feff}",
    "\0",
];

/// Boundary values of integer types.
const EDGES: [u32; 12] = [0, 1, 2, 7, 8, 0xff, 0xffff, 0x0001_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_fff8, 0xffff_ffff];

/// A changed copy of one of the seeds.
pub fn changed(shape: Shape, numbers: &mut Numbers, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = numbers.pick(seeds).cloned().unwrap_or_default();
    let other = numbers.pick(seeds).map_or(&[][..], Vec::as_slice);
    for _ in 0..=numbers.below(4) {
        input = change(shape, numbers, &input, other);
    }
    input
}

/// One change of an input; pieces may be taken from `other`.
pub fn change(shape: Shape, numbers: &mut Numbers, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut pieces = pieces(shape, input);
    let lent = self::pieces(shape, other);
    let at = numbers.below(pieces.len() + 1).min(pieces.len());
    let end = (at + 1 + numbers.below(8)).min(pieces.len());
    let edge;
    let mut limit = USUAL_BYTES.max(input.len());
    match numbers.below(9) {
        0 => drop(pieces.drain(at..end)),
        1 => {
            let from = numbers.below(lent.len());
            let to = (from + 1 + numbers.below(20)).min(lent.len());
            drop(pieces.splice(at..at, lent[from.min(to)..to].iter().copied()));
        }
        2 => {
            let copy: Vec<&[u8]> = pieces[at..end].to_vec();
            let mut times = 1 + numbers.below(3);
            if numbers.below(LONG_ONE_IN / 9) == 0 {
                let bytes: usize = copy.iter().map(|piece| piece.len()).sum();
                times = (LIMIT_BYTES - input.len().min(LIMIT_BYTES)) / bytes.max(1);
                limit = LIMIT_BYTES;
            }
            drop(pieces.splice(at..at, std::iter::repeat_n(copy, times).flatten()));
        }
        3 if pieces.len() > 1 => {
            let (from, to) = (numbers.below(pieces.len()), numbers.below(pieces.len()));
            pieces.swap(from, to);
        }
        4 => pieces.truncate(at),
        5 if shape == Shape::Words => {
            edge = numbers.pick(&EDGES).copied().unwrap_or_default().to_le_bytes();
            if let Some(place) = pieces.get_mut(at) {
                *place = edge.get(..place.len()).unwrap_or(&edge);
            }
        }
        5 | 6 if shape != Shape::Words => {
            let splinter = numbers.pick(&SPLINTERS).copied().unwrap_or_default();
            let end = if numbers.below(2) == 0 { at } else { end.min(at + 1) };
            drop(pieces.splice(at..end, [splinter.as_bytes()]));
        }
        7 => {
            if let (Some(place), Some(piece)) = (pieces.get_mut(at), numbers.pick(&lent)) {
                *place = piece;
            }
        }
        _ => return flip(numbers, input),
    }
    let mut made = pieces.concat();
    made.truncate(limit);
    made
}

/// For libFuzzer: for every other seed, mutates the tokens of a script of `size` bytes in place and
/// returns the new size.
#[cfg(not(test))]
pub fn in_place(input: &mut [u8], size: usize, max_size: usize, seed: u32) -> Option<usize> {
    let mut numbers = Numbers::new(u64::from(seed));
    let old = input.get(..size)?.to_vec();
    if numbers.below(2) == 0 {
        return None;
    }
    let mut made = change(Shape::Script, &mut numbers, &old, &old);
    made.truncate(max_size);
    input.get_mut(..made.len())?.copy_from_slice(&made);
    Some(made.len())
}

/// Changes one byte.
fn flip(numbers: &mut Numbers, input: &[u8]) -> Vec<u8> {
    let mut made = input.to_vec();
    let at = numbers.below(made.len());
    if let Some(byte) = made.get_mut(at) {
        *byte = match numbers.below(3) {
            0 => *byte ^ (1 << numbers.below(8)),
            1 => byte.wrapping_add(1),
            _ => numbers.draw() as u8,
        };
    }
    made
}

/// Cuts an input into the pieces that mutations move.
fn pieces(shape: Shape, input: &[u8]) -> Vec<&[u8]> {
    match shape {
        Shape::Words => input.chunks(4).collect(),
        Shape::Script | Shape::Text => {
            input.chunk_by(|a, b| class(*a) == class(*b) && class(*a) != Class::Mark).collect()
        }
    }
}

#[derive(PartialEq, Eq)]
enum Class {
    Word,
    Blank,
    Mark,
}

fn class(byte: u8) -> Class {
    match byte {
        b' ' | b'\t' | b'\n' | b'\r' => Class::Blank,
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'@' | 0x80.. => Class::Word,
        _ => Class::Mark,
    }
}
