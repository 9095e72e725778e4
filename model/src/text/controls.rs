//! Escapes control characters.
//!
//! In: text that traced processes, files or symbol tables can influence. Out: the same text without
//! anything that a terminal would interpret, or that would begin another line.
//! Guarantee: the result contains only printable characters, and tabs and newlines where they are
//! kept; text without control characters is unchanged.

/// What is escaped in the text of traced programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Escapes {
    /// Nothing: every byte is kept.
    #[default]
    Nothing,
    /// What a terminal interprets.
    Controls,
    /// That, tabs and newlines: the text stays on its line, and in its column.
    Lines,
}

impl Escapes {
    /// Escapes `text` from byte `from` on.
    pub fn apply(self, text: &mut Vec<u8>, from: usize) {
        if self == Escapes::Nothing {
            return;
        }
        escape_controls(text, from);
        let Some(tail) = text.get(from..).filter(|_| self == Escapes::Lines) else { return };
        if tail.iter().any(|byte| matches!(byte, b'\n' | b'\t')) {
            let tail = text.split_off(from);
            for byte in tail {
                match byte {
                    b'\n' | b'\t' => escape(&[byte], text),
                    byte => text.push(byte),
                }
            }
        }
    }
}

/// Escapes, from byte `from` on, everything that a terminal interprets or that reorders text: C0
/// and C1 control characters, invalid UTF-8, and bidirectional formatting characters. Each of their
/// bytes becomes an escape such as `\x1b`; tabs and newlines are kept.
pub fn escape_controls(text: &mut Vec<u8>, from: usize) {
    let Some(tail) = text.get(from..) else { return };
    if tail.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return;
    }
    let mut safe = Vec::with_capacity(tail.len() + 16);
    for chunk in tail.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut bytes = [0; 4];
            let bytes = character.encode_utf8(&mut bytes).as_bytes();
            if is_harmless(character) {
                safe.extend_from_slice(bytes);
            } else {
                escape(bytes, &mut safe);
            }
        }
        escape(chunk.invalid(), &mut safe);
    }
    text.truncate(from);
    text.append(&mut safe);
}

/// Like [`escape_controls`], for a string.
pub fn escaped(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    escape_controls(&mut bytes, 0);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a terminal only displays the character (or it is a tab or newline).
pub fn is_harmless(character: char) -> bool {
    match character {
        '\n' | '\t' => true,
        // Bidirectional marks, embeddings, overrides and isolates.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        character => !character.is_control(),
    }
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.extend_from_slice(&[b'\\', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let mut text = b"ours \x1b[1m".to_vec();
        let from = text.len();
        text.extend_from_slice(b"\x1b]0;title\x07 \x9b2J \xc2\x9b2J caf\xc3\xa9\ta\r\n\x7f \xe2\x80\xae!\xff");
        escape_controls(&mut text, from);
        let expected = "ours \x1b[1m\\x1b]0;title\\x07 \\x9b2J \\xc2\\x9b2J café\ta\\x0d\n\\x7f \\xe2\\x80\\xae!\\xff";
        assert_eq!(String::from_utf8(text).expect("text"), expected);
        assert_eq!(escaped("plain\n"), "plain\n");
        // Every character that Unicode's algorithm for two directions obeys, and their neighbours.
        for (first, last) in [(0x61c, 0x61c), (0x200e, 0x200f), (0x202a, 0x202e), (0x2066, 0x2069)] {
            for number in first - 1..=last + 1 {
                let character = char::from_u32(number).expect("a character");
                assert_eq!(is_harmless(character), !(first..=last).contains(&number), "U+{number:04X}");
            }
        }
        escape_controls(&mut Vec::new(), 7);
        let of = |escapes: Escapes| {
            let mut text = b"a\n\tb\x1b ours\n\tname\x1b\r".to_vec();
            escapes.apply(&mut text, 11);
            String::from_utf8(text).expect("text")
        };
        assert_eq!(of(Escapes::Nothing), "a\n\tb\x1b ours\n\tname\x1b\r");
        assert_eq!(of(Escapes::Controls), "a\n\tb\x1b ours\n\tname\\x1b\\x0d");
        assert_eq!(of(Escapes::Lines), "a\n\tb\x1b ours\n\\x09name\\x1b\\x0d");
        for byte in 0..=255 {
            let mut text = vec![byte];
            escape_controls(&mut text, 0);
            assert!(text.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')), "{byte}: {text:?}");
        }
    }
}
