//! The memory mappings of a process, parsed from `/proc/PID/maps`.
//!
//! In: the text. Out: the mapping that contains an address. Guarantee: malformed lines are skipped.

use profiler_model::value::FileId;

/// One line of the file: one mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Region<'a> {
    pub start: u64,
    pub end: u64,
    /// Offset in the file of the start of the mapping.
    pub offset: u64,
    pub file: FileId,
    /// A path, a name in brackets, or empty.
    pub path: &'a str,
    pub is_code: bool,
}

/// All mappings, sorted by address.
#[derive(Debug)]
pub(crate) struct Regions<'a>(Vec<Region<'a>>);

impl<'a> Regions<'a> {
    /// Parses `/proc/PID/maps`.
    pub(crate) fn parse(maps: &'a str) -> Regions<'a> {
        let mut regions: Vec<Region<'a>> = maps.lines().filter_map(region).collect();
        regions.sort_by_key(|region| region.start);
        Regions(regions)
    }

    /// The regions by address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Region<'a>> {
        self.0.iter()
    }

    /// Index of the mapping whose code contains an address. A return address can lie directly after
    /// the calling code: a call that never returns may be the last instruction of a mapping.
    pub(crate) fn code_at(&self, address: u64) -> Option<usize> {
        self.holding(address).or_else(|| self.holding(address.checked_sub(1)?))
    }

    fn holding(&self, address: u64) -> Option<usize> {
        let at = self.0.partition_point(|region| region.start <= address).checked_sub(1)?;
        self.0.get(at).filter(|region| region.is_code && address < region.end).map(|_| at)
    }

    /// A mapping by its index.
    pub(crate) fn get(&self, number: usize) -> Region<'a> {
        self.0[number]
    }

    /// Start and length of the mapping with this name.
    pub(crate) fn named(&self, name: &str) -> Option<(u64, u64)> {
        self.0.iter().find(|region| region.path == name).map(|region| (region.start, region.end - region.start))
    }
}

impl<'a> Region<'a> {
    /// Whether it maps a file that can be opened.
    pub(crate) fn is_file(&self) -> bool {
        self.path.starts_with('/') && self.file.inode != 0
    }

    /// The path without the suffix that the kernel adds for deleted files.
    pub(crate) fn shown_path(&self) -> &'a str {
        self.path.strip_suffix(" (deleted)").unwrap_or(self.path)
    }

    /// The file offset of an address.
    pub(crate) fn offset_of(&self, address: u64) -> u64 {
        (address - self.start).saturating_add(self.offset)
    }
}

/// Parses `start-end rights offset device inode path`.
fn region(line: &str) -> Option<Region<'_>> {
    let mut fields = line.splitn(6, ' ');
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    let is_code = fields.next()?.contains('x');
    let offset = hex(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = hex(major)? << 32 | hex(minor)?;
    let file = FileId { device, inode: fields.next()?.parse().ok()? };
    let path = fields.next().unwrap_or_default().trim_start();
    (start < end).then_some(Region { start, end, offset, file, path, is_code })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_found() {
        let maps = "1000-2000 r-xp 00000300 08:01 12                 /bin/my shell (deleted)\n2000-3000 rw-p 0 08:01 12 /bin/my shell\n\
                    7000-8000 r-xp 00000000 00:00 0 [vdso]\n9000-a000 rwxp 00000000 00:00 0 \nnonsense\n9-8 r-xp 0 0 0\n";
        let regions = Regions::parse(maps);
        let path = |address| regions.code_at(address).map(|number| regions.get(number).shown_path());
        assert_eq!((path(0x0fff), path(0x1000), path(0x1fff)), (None, Some("/bin/my shell"), Some("/bin/my shell")));
        assert_eq!(path(0x2000), Some("/bin/my shell"), "right after the last call");
        assert_eq!((path(0x2001), path(0x7004), path(0x9004)), (None, Some("[vdso]"), Some("")));
        assert_eq!(regions.get(0).offset_of(0x1001), 0x301);
        assert_eq!(regions.named("[vdso]"), Some((0x7000, 0x1000)));
        assert!(Regions::parse("").iter().next().is_none() && regions.code_at(0).is_none());
    }
}
