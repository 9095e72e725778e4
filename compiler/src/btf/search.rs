//! Finding types by name.
//!
//! In: a name. Out: the first type that has it. Guarantee: a name that is nowhere in the strings section is refused without
//! looking at a type; otherwise types are compared by string offset, no string is read.

use super::record::{Kind, Record};
use super::{Btf, BtfId};

/// Bytes that are compared at once; the compiler turns the loop over them into vector instructions.
const BLOCK_SIZE_BYTES: usize = 64;

/// Most places of one name that are tried.
const MAX_COPIES_OF_NAME: usize = 4;

impl Btf {
    /// The first type of a kind with a name.
    pub fn find(&self, kind: Kind, name: &str) -> Option<BtfId> {
        if let Some(id) = self.added.find(kind, name) {
            return Some(id);
        }
        self.name_offsets(name)
            .find_map(|offset| self.first(|record| record.kind == kind && record.name_offset == offset))
    }

    /// The first type of which something holds, remembered as the one that is asked about next.
    fn first(&self, holds: impl Fn(&Record<'_>) -> bool) -> Option<BtfId> {
        let mut records = self.records();
        loop {
            let at = records.position();
            let (id, record) = records.next()?;
            if holds(&record) {
                self.remember(id, at);
                return Some(id);
            }
        }
    }

    /// The type that a user names: `struct x`, `union x`, `enum x`, or the name of a typedef or integer type.
    pub fn find_named(&self, text: &str) -> Option<BtfId> {
        let text = text.trim();
        match text.split_once(char::is_whitespace) {
            Some(("struct", name)) => self.find(Kind::Struct, name.trim_start()),
            Some(("union", name)) => self.find(Kind::Union, name.trim_start()),
            Some(("enum", name)) => {
                let name = name.trim_start();
                self.find(Kind::Enum, name).or_else(|| self.find(Kind::Enum64, name))
            }
            _ => self.find(Kind::Typedef, text).or_else(|| self.find(Kind::Int, text)),
        }
    }

    /// The first enumerator of any enum that has a name, with its value.
    pub fn find_enumerator(&self, name: &str) -> Option<(BtfId, i64)> {
        let value_in =
            |id| self.enumerators(id).find(|(candidate, _)| *candidate == name).map(|(_, value)| (id, value));
        if let Some(found) = self.added.ids().find_map(value_in) {
            return Some(found);
        }
        let id = self.name_offsets(name).find_map(|offset| {
            self.first(|record| match record.kind {
                Kind::Enum => record.entries::<2>().any(|[name, _]| name == offset),
                Kind::Enum64 => record.entries::<3>().any(|[name, ..]| name == offset),
                _ => false,
            })
        })?;
        value_in(id)
    }

    /// All functions of the kernel that BTF describes, with their names, in the order of the blob.
    pub fn functions(&self) -> impl Iterator<Item = (BtfId, &str)> {
        self.records()
            .filter(|(_, record)| record.kind == Kind::Function)
            .filter_map(|(id, record)| Some((id, self.string(record.name_offset)?)))
    }

    /// All types of a kind that have a name, in the order of the blob.
    pub fn names(&self, kind: Kind) -> impl Iterator<Item = (BtfId, &str)> {
        self.records()
            .filter(move |(_, record)| record.kind == kind && record.name_offset != 0)
            .filter_map(|(id, record)| Some((id, self.string(record.name_offset)?)))
    }

    /// Where a name is in the strings section: once in a kernel's blob, which holds each string once.
    fn name_offsets(&self, name: &str) -> impl Iterator<Item = u32> + use<'_> {
        let mut needle = Vec::with_capacity(name.len() + 2);
        if !name.is_empty() && !name.contains('\0') {
            needle.push(0);
            needle.extend_from_slice(name.as_bytes());
            needle.push(0);
        }
        let strings = self.strings();
        let mut next = 0;
        let positions = std::iter::from_fn(move || {
            let at = find_from(strings, &needle, next)?;
            next = at + 1;
            Some(next as u32)
        });
        // A string that is there more often is malformed: each takes a walk over the types.
        positions.take(MAX_COPIES_OF_NAME)
    }
}

/// The first position of a needle at or behind a place; a needle of less than three bytes is nowhere.
///
/// A block of positions is looked at closely only when one of them has the right first two bytes and the right last but one:
/// for `\0name\0` these are rare together.
fn find_from(haystack: &[u8], needle: &[u8], from: usize) -> Option<usize> {
    if needle.len() < 3 {
        return None;
    }
    let positions = (haystack.len() + 1).saturating_sub(needle.len());
    let mut start = from;
    while start < positions {
        let end = (start + BLOCK_SIZE_BYTES).min(positions);
        if end - start < BLOCK_SIZE_BYTES || block_may_match(haystack, needle, start) {
            let found = (start..end).find(|&at| haystack[at..].starts_with(needle));
            if found.is_some() {
                return found;
            }
        }
        start = end;
    }
    None
}

/// Whether one of the positions of a whole block agrees in three bytes.
#[inline]
fn block_may_match(haystack: &[u8], needle: &[u8], start: usize) -> bool {
    let late = needle.len() - 2;
    let block = |offset: usize| haystack.get(start + offset..).and_then(<[u8]>::first_chunk::<BLOCK_SIZE_BYTES>);
    let (Some(first), Some(second), Some(last)) = (block(0), block(1), block(late)) else {
        return true;
    };
    let mut any = 0_u8;
    for i in 0..BLOCK_SIZE_BYTES {
        any |= u8::from(first[i] == needle[0]) & u8::from(second[i] == needle[1]) & u8::from(last[i] == needle[late]);
    }
    any != 0
}

#[cfg(test)]
mod tests {
    use super::find_from;

    #[test]
    fn finds_what_a_plain_search_finds() {
        let mut state = 7_u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize
        };
        for _ in 0..400 {
            let haystack: Vec<u8> = (0..next() % 400).map(|_| (next() % 3) as u8).collect();
            let needle: Vec<u8> = (0..3 + next() % 4).map(|_| (next() % 3) as u8).collect();
            let expected: Vec<usize> =
                haystack.windows(needle.len()).enumerate().filter(|(_, w)| *w == needle).map(|(i, _)| i).collect();
            let mut next = 0;
            let found = std::iter::from_fn(|| {
                let at = find_from(&haystack, &needle, next)?;
                next = at + 1;
                Some(at)
            });
            assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }
}
