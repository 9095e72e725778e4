//! The notes of static probes, in the format of `<sys/sdt.h>`.
//!
//! In: the bytes of `.note.stapsdt`. Out: a [`Note`] per probe site.
//! Guarantee: notes of other owners are skipped; a truncated note ends the list.

/// The note of one probe site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Virtual address of the site at link time.
    pub address: u64,
    /// Virtual address of the section `.stapsdt.base` at link time. Its difference to the current
    /// address applies to all addresses in the note.
    pub base: u64,
    /// Virtual address of the semaphore, which is nonzero while a tracer uses the probe; 0 if there
    /// is none.
    pub semaphore: u64,
    /// The provider of the probe.
    pub provider: String,
    /// The name of the probe.
    pub name: String,
    /// Its arguments, as text for [`super::arguments`].
    pub arguments: String,
}

/// The owner of these notes.
const OWNER: &[u8] = b"stapsdt\0";

/// `_SDT_NOTE_TYPE`.
const TYPE: u32 = 3;

/// The notes of a section of a little-endian file with addresses of `address_bytes` bytes (4 or 8).
pub fn notes(section: &[u8], address_bytes: usize) -> Vec<Note> {
    let mut found = Vec::new();
    let mut rest = section;
    while let Some(entry) = entry(rest) {
        if entry.owner == OWNER && entry.kind == TYPE {
            found.extend(note(entry.content, address_bytes));
        }
        rest = entry.behind;
    }
    found
}

/// The first note of a section, and the rest of the section.
struct Entry<'a> {
    owner: &'a [u8],
    kind: u32,
    content: &'a [u8],
    behind: &'a [u8],
}

fn entry(bytes: &[u8]) -> Option<Entry<'_>> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (owner_bytes, content_bytes, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    let content_at = 12usize.checked_add(owner_bytes)?.checked_next_multiple_of(4)?;
    let content_end = content_at.checked_add(content_bytes)?;
    let owner = bytes.get(12..12 + owner_bytes)?;
    let content = bytes.get(content_at..content_end)?;
    // The last note may be unpadded.
    let behind = bytes.get(content_end.checked_next_multiple_of(4)?..).unwrap_or_default();
    Some(Entry { owner, kind, content, behind })
}

fn note(content: &[u8], address_bytes: usize) -> Option<Note> {
    let address = |index: usize| {
        let bytes = content.get(index * address_bytes..(index + 1) * address_bytes)?;
        Some(match address_bytes {
            4 => u64::from(u32::from_le_bytes(bytes.try_into().ok()?)),
            _ => u64::from_le_bytes(bytes.try_into().ok()?),
        })
    };
    let mut texts = content.get(3 * address_bytes..)?.split(|byte| *byte == 0);
    let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
    Some(Note {
        address: address(0)?,
        base: address(1)?,
        semaphore: address(2)?,
        provider: text()?,
        name: text()?,
        arguments: text()?,
    })
}

#[cfg(test)]
mod tests {
    use super::notes;

    fn bytes(owner: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((owner.len() as u32).to_le_bytes());
        bytes.extend((content.len() as u32).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        for part in [owner, content] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    fn content(addresses: [u64; 3], texts: &str) -> Vec<u8> {
        addresses.iter().flat_map(|a| a.to_le_bytes()).chain(texts.bytes()).collect()
    }

    #[test]
    fn every_note_of_the_right_owner_is_found() {
        let mut section = bytes(b"GNU\0", 3, b"something");
        section.extend(bytes(b"stapsdt\0", 3, &content([16, 32, 48], "app\0start\0-4@%eax 8@$1\0")));
        section.extend(bytes(b"stapsdt\0", 2, &content([1, 2, 3], "no\0no\0\0")));
        section.extend(bytes(b"stapsdt\0", 3, &content([64, 32, 0], "app\0end\0\0")));
        let found = notes(&section, 8);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].address, found[0].base, found[0].semaphore), (16, 32, 48));
        let texts = |n: usize| (found[n].provider.as_str(), found[n].name.as_str(), found[n].arguments.as_str());
        assert_eq!(texts(0), ("app", "start", "-4@%eax 8@$1"));
        assert_eq!(texts(1), ("app", "end", ""));
        // The padding of the last note may be missing.
        assert_eq!(notes(&section[..section.len() - 1], 8).len(), 2);
    }

    #[test]
    fn damaged_sections_give_what_is_whole() {
        let section = bytes(b"stapsdt\0", 3, &content([16, 32, 48], "app\0start\0-4@%eax\0"));
        for end in 0..section.len() - 4 {
            assert!(notes(&section[..end], 8).len() <= 1);
        }
        assert!(notes(&[0xff; 64], 8).is_empty() && notes(&bytes(b"stapsdt\0", 3, b"short"), 8).is_empty());
        assert!(notes(&[0; 64], 4).is_empty());
    }
}
