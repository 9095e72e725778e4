//! A writer for terminals that escapes control characters.
//!
//! In: bytes. Out: the same bytes, with control characters except tab and newline escaped (`\x1b`).
//! Guarantee: a character that is written in several parts is output whole.

use std::io::{self, Write};

use profiler_model::text::controls::escape_controls;

/// The writer.
pub struct Escaping<W: Write> {
    to: W,
    /// The incomplete character at the end of the last write.
    partial: Vec<u8>,
}

impl<W: Write> Escaping<W> {
    /// Writes to `to`.
    pub fn new(to: W) -> Escaping<W> {
        Escaping { to, partial: Vec::new() }
    }

    fn write_out(&mut self, keep: usize) -> io::Result<()> {
        let rest = self.partial.split_off(self.partial.len() - keep);
        let mut whole = std::mem::replace(&mut self.partial, rest);
        escape_controls(&mut whole, 0);
        self.to.write_all(&whole)
    }
}

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.partial.extend_from_slice(bytes);
        self.write_out(unfinished(&self.partial))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_out(0)?;
        self.to.flush()
    }
}

/// Number of bytes at the end that begin an incomplete character.
fn unfinished(bytes: &[u8]) -> usize {
    let most = bytes.len().min(3);
    let last = bytes[bytes.len() - most..].utf8_chunks().last();
    let rest = last.map_or(&[][..], |chunk| chunk.invalid());
    let length = |first: u8| match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 0,
    };
    let is_cut = bytes.ends_with(rest) && rest.first().is_some_and(|first| rest.len() < length(*first));
    if is_cut { rest.len() } else { 0 }
}

impl<W: Write> std::fmt::Debug for Escaping<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Escaping").field("partial", &self.partial).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_characters_are_put_together() {
        let text = "é€😀 \x1b[2J\u{9b}2J \n".as_bytes();
        let mut whole = text.to_vec();
        escape_controls(&mut whole, 0);
        for length in 1..text.len() {
            let mut out = Vec::new();
            let mut writer = Escaping::new(&mut out);
            text.chunks(length).for_each(|part| writer.write_all(part).expect("a vector"));
            writer.flush().expect("a vector");
            assert_eq!(out, whole, "in parts of {length}");
        }
        let mut out = Vec::new();
        let mut writer = Escaping::new(&mut out);
        writer.write_all(b"\xff\xe2\x80").and_then(|()| writer.flush()).expect("a vector");
        assert_eq!(out, b"\\xff\\xe2\\x80");
    }
}
