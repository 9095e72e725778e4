//! Regexes as tables that programs match with.
//!
//! In: a pattern with `*`. Out: [`Table`]. Guarantee: [`Table::matches`] says what [`crate::glob::matches`] says of every text without NULs.
//!
//! A set of places in the pattern is a word: bit `j` says that the first `j` characters are matched. A byte moves places on where it is the next
//! character, and leaves those that a `*` stands at. The end of a text is a NUL, the last character of a pattern that does not end with `*`.

/// Most characters that are no `*`: one bit is the beginning, one the end.
pub const MOST_CHARACTERS: usize = 62;

/// Longest room of a text that can be compared with a pattern, for the verifier follows each round of the loop.
pub const MOST_TEXT_BYTES: u32 = 4096;

/// Offset of the mask of places that a `*` stands at, in a parameter's bytes: behind the word that says `any`.
pub const STARS_OFFSET: u32 = 8;
/// Offset of the bit of the last place.
pub const LAST_OFFSET: u32 = 16;
/// Offset of the masks of bytes.
pub const MASKS_OFFSET: u32 = 24;
/// Bytes of all.
pub const SIZE_BYTES: u32 = MASKS_OFFSET + 256 * 8;

/// A pattern, ready to be matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The places that a `*` stands at.
    stars: u64,
    /// The place where all is matched.
    last: u64,
    /// For each byte the places that it leads to.
    masks: [u64; 256],
}

impl Table {
    /// The table of a pattern; nothing when it has more than [`MOST_CHARACTERS`].
    pub fn new(pattern: &str) -> Option<Table> {
        let (mut stars, mut masks, mut at) = (0_u64, [0_u64; 256], 0);
        for byte in pattern.bytes() {
            if byte == b'*' {
                stars |= 1 << at;
            } else {
                at += 1;
                if at > MOST_CHARACTERS {
                    return None;
                }
                masks[usize::from(byte)] |= 1 << at;
            }
        }
        if stars >> at & 1 == 0 {
            at += 1;
            masks[0] |= 1 << at;
            stars |= 1 << at;
        }
        Some(Table { stars, last: 1 << at, masks })
    }

    /// The bytes behind the word that says `any`.
    pub fn bytes(&self) -> Vec<u8> {
        [self.stars, self.last].iter().chain(&self.masks).flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Whether a text matches, as a program finds out.
    #[cfg(test)]
    fn matches(&self, text: &str) -> bool {
        let places = text
            .bytes()
            .chain([0, 0])
            .fold(1_u64, |places, byte| (places << 1 & self.masks[usize::from(byte)]) | (places & self.stars));
        places & self.last != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_CHARACTERS, Table};
    use crate::glob;

    #[test]
    fn tables_match_what_patterns_match() {
        let patterns = ["", "*", "a", "*a*", "a*", "*a", "a*b*c", "*ab*", "*aab", "a**b", "aa*aa", "*aba*bab*", "ü*"];
        // All texts of up to seven letters of two, and some others.
        let mut texts: Vec<String> = vec![String::new()];
        for length in 0..7 {
            let longer: Vec<String> = texts
                .iter()
                .filter(|text| text.len() == length)
                .flat_map(|t| [format!("{t}a"), format!("{t}b")])
                .collect();
            texts.extend(longer);
        }
        texts.extend(["c", "abc", "aXbYc", "abcc", "übel", "ü", "a b"].map(str::to_owned));
        for pattern in patterns {
            let table = Table::new(pattern).expect("short enough");
            for text in &texts {
                assert_eq!(table.matches(text), glob::matches(pattern, text), "{pattern:?} on {text:?}");
            }
        }
    }

    #[test]
    fn a_pattern_has_as_many_characters_as_there_are_places() {
        let longest = "x".repeat(MOST_CHARACTERS);
        for pattern in [longest.clone(), format!("*{longest}*"), format!("*{longest}")] {
            let table = Table::new(&pattern).expect("short enough");
            assert!(table.matches(&longest) && !table.matches(&longest[1..]), "{pattern}");
        }
        assert_eq!(Table::new(&format!("{longest}x")), None);
    }
}
