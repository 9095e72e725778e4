//! The mappings of a process as programs read them.
//!
//! In: regions of code, and the tables of their files. Out: the value of the process.
//! Guarantee: mappings are sorted by address; of too many, the largest are kept.

use profiler_model::unwind::{
    FILE_BYTES, FILE_MAPPINGS, MAPPINGS_OFFSET, MAX_MAPPINGS, Mapping, PROCESS_BYTES, START_STACK_OFFSET, Table,
    UNUSED, VERSION_OFFSET,
};

use profiler_model::value::FileId;

use super::sections::CodeSegment;
use super::segments::Part;
use crate::host::stat::{START_STACK, Stat};
use crate::symbols::regions::{Region, Regions};

/// What is known about a file.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub code: Vec<CodeSegment>,
    /// By address; the first starts at 0.
    pub parts: Vec<Part>,
    /// Whether the file was read when its last change was old enough for another one to have
    /// another time.
    pub is_settled: bool,
}

/// The program that a process runs: what a value of it follows from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Program<'a> {
    pub code: Vec<Region<'a>>,
    /// Start of its stack, which `exec` chooses at random; 0 if it is hidden.
    pub start_stack: u64,
}

impl<'a> Program<'a> {
    /// The program of a process with these regions.
    pub(super) fn of(pid: u32, regions: &Regions<'a>) -> Program<'a> {
        let start_stack = Stat::of(pid).and_then(|stat| stat.number(START_STACK)).unwrap_or(0);
        Program { code: code(regions), start_stack }
    }
}

/// The regions of code. The vsyscall page is left out: it lies above [`UNUSED`], and programs
/// search by the signs of differences.
///
/// Memory without a file is code as a whole where a part of it is: just-in-time compilers turn page
/// after page of a reserved range into code, and a stack has nothing but code addresses anyway.
fn code<'a>(regions: &Regions<'a>) -> Vec<Region<'a>> {
    let mut joined: Vec<Region<'a>> = Vec::new();
    for region in regions.iter().filter(|region| region.end <= UNUSED) {
        match joined.last_mut() {
            Some(last) if last.end == region.start && is_anonymous(last) && is_anonymous(region) => {
                last.end = region.end;
                last.is_code |= region.is_code;
            }
            _ => joined.push(*region),
        }
    }
    joined.retain(|region| region.is_code);
    joined
}

/// Whether it is memory without a file; the kernel shows the name that a process gave it.
fn is_anonymous(region: &Region<'_>) -> bool {
    region.file.inode == 0 && (region.path.is_empty() || region.path.starts_with("[anon:"))
}

/// A mapping of code without unwind information.
pub(super) fn bare(region: &Region<'_>) -> Mapping {
    Mapping { start: region.start, end: region.end, bias: 0, table: Table::NONE }
}

/// The mappings for a region of a file: one for each part of its rows.
pub(super) fn of_file(region: &Region<'_>, tables: &Tables) -> Vec<Mapping> {
    let size_bytes = region.end - region.start;
    let overlap =
        |segment: &&CodeSegment| segment.overlap_bytes(region.offset, region.offset.saturating_add(size_bytes));
    let segment = tables.code.iter().max_by_key(overlap).filter(|segment| overlap(segment) > 0);
    let Some(segment) = segment else { return vec![bare(region)] };
    let first = segment.address_at(region.offset);
    let bias = region.start.wrapping_sub(first);
    let last = first.saturating_add(size_bytes);
    let ends = tables.parts.iter().skip(1).map(|part| part.start).chain([u64::MAX]);
    let mapping = |(part, end): (&Part, u64)| {
        let (start, end) = (part.start.max(first), end.min(last));
        let at = |address: u64| address.wrapping_add(bias);
        (start < end).then(|| Mapping { start: at(start), end: at(end), bias, table: part.table })
    };
    tables.parts.iter().zip(ends).filter_map(mapping).collect()
}

/// The value of a file, for processes that have none of their own: its mappings, with offsets in
/// the file in place of addresses. `None` if there are too many.
pub(super) fn file_value(tables: &Tables) -> Option<Vec<u8>> {
    let region = |start, end| {
        let file = FileId { device: 0, inode: 0 };
        Region { start, end, offset: start, file, path: "", is_code: true }
    };
    let of_segment = |segment: &CodeSegment| {
        let end = segment.file_offset.saturating_add(segment.size_bytes).min(UNUSED);
        of_file(&region(segment.file_offset, end), tables)
    };
    let mappings = match tables.code.as_slice() {
        // Any of it can be code without unwind information.
        [] => vec![bare(&region(0, UNUSED))],
        code => code.iter().flat_map(of_segment).collect(),
    };
    (mappings.len() <= FILE_MAPPINGS).then(|| with_mappings(Vec::new(), mappings, FILE_BYTES))
}

/// The value of a process, whose stack starts there. Its version is one that no other value has.
pub(super) fn value((identity, start_stack): (u64, u64), version: u64, mut mappings: Vec<Mapping>) -> Vec<u8> {
    if mappings.len() > MAX_MAPPINGS {
        mappings.sort_by_key(|mapping| std::cmp::Reverse(mapping.end - mapping.start));
        mappings.truncate(MAX_MAPPINGS);
    }
    let mut value = Vec::with_capacity(PROCESS_BYTES);
    value.extend(identity.to_ne_bytes());
    value.resize(VERSION_OFFSET, 0);
    value.extend(version.to_ne_bytes());
    value.resize(START_STACK_OFFSET, 0);
    value.extend(start_stack.to_ne_bytes());
    value.resize(MAPPINGS_OFFSET, 0);
    with_mappings(value, mappings, PROCESS_BYTES)
}

/// A value with mappings at its end, up to a size.
fn with_mappings(mut value: Vec<u8>, mut mappings: Vec<Mapping>, size_bytes: usize) -> Vec<u8> {
    mappings.sort_by_key(|mapping| mapping.start);
    for mapping in &mappings {
        value.extend(mapping.bytes());
    }
    let unused = Mapping { start: UNUSED, end: UNUSED, bias: 0, table: Table::NONE };
    while value.len() < size_bytes {
        value.extend(unused.bytes());
    }
    debug_assert_eq!(value.len(), size_bytes);
    value
}

#[cfg(test)]
mod tests {
    use profiler_model::unwind::MAPPING_BYTES;

    use super::*;

    const MAPS: &str = "\
55550000e000-555500012000 r-xp 00002000 08:01 12 /bin/a
7fff0000-7fff1000 r-xp 00000000 00:00 0 [vdso]
7fff1000-7fff2000 r--p 00000000 00:00 0 [vvar]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
";

    #[test]
    fn code_is_what_users_execute() {
        let regions = Regions::parse(MAPS);
        let paths: Vec<&str> = code(&regions).iter().map(|region| region.path).collect();
        assert_eq!(paths, ["[vdso]", "/bin/a"]);
    }

    #[test]
    fn anonymous_memory_is_code_where_a_part_of_it_is() {
        let maps = "1000-2000 rw-p 0 00:00 0\n2000-3000 ---p 0 00:00 0\n3000-4000 rwxp 0 00:00 0 [anon:v8]\n\
                    4000-5000 ---p 0 00:00 0\n5000-6000 r-xp 0 08:01 12 /bin/a\n6000-7000 rw-p 0 00:00 0\n\
                    8000-9000 r-xp 0 00:00 0\n9000-a000 rw-p 0 00:00 0 [heap]\n";
        let regions = Regions::parse(maps);
        let ranges: Vec<_> = code(&regions).iter().map(|region| (region.start, region.end)).collect();
        assert_eq!(ranges, [(0x1000, 0x5000), (0x5000, 0x6000), (0x8000, 0x9000)]);
    }

    fn tables(starts: &[u64]) -> Tables {
        let code = CodeSegment { address: 0x40_2340, file_offset: 0x2340, size_bytes: 0x3000 };
        let table = |number: usize| Table { segment: number as u32, first: 0, words: 9, indexed: None };
        let parts = starts.iter().enumerate().map(|(number, start)| Part { start: *start, table: table(number) });
        Tables { code: vec![code], parts: parts.collect(), is_settled: true }
    }

    /// Start, end and bias of each mapping in the value of a file.
    fn of_value(tables: &Tables) -> Option<Vec<(u64, u64, u64)>> {
        let value = file_value(tables)?;
        let (words, rest) = value.as_chunks::<8>();
        assert!(words.len() == 4 * FILE_MAPPINGS && rest.is_empty());
        let words: Vec<u64> = words.iter().copied().map(u64::from_ne_bytes).collect();
        let used = words.chunks(4).filter(|mapping| mapping[0] != UNUSED);
        Some(used.map(|mapping| (mapping[0], mapping[1], mapping[2])).collect())
    }

    #[test]
    fn a_file_has_mappings_by_offset() {
        let one = tables(&[0]);
        let bias = 0x2340_u64.wrapping_sub(0x40_2340);
        assert_eq!(of_value(&one), Some(vec![(0x2340, 0x5340, bias)]));
        let parts = tables(&[0, 0x40_3000]);
        assert_eq!(of_value(&parts), Some(vec![(0x2340, 0x3000, bias), (0x3000, 0x5340, bias)]));
        let earlier = CodeSegment { address: 0x1000, file_offset: 0x1000, size_bytes: 0x1000 };
        let two = Tables { code: vec![one.code[0], earlier], ..one };
        assert_eq!(of_value(&two), Some(vec![(0x1000, 0x2000, 0), (0x2340, 0x5340, bias)]));
        let none = Tables { code: Vec::new(), ..tables(&[0]) };
        assert_eq!(of_value(&none), Some(vec![(0, UNUSED, 0)]));
        let starts: Vec<u64> = (0..=FILE_MAPPINGS as u64).map(|part| 0x40_2340 + part).collect();
        assert_eq!(of_value(&tables(&starts)), None);
    }

    #[test]
    fn addresses_in_the_file_follow_from_the_segment() {
        let regions = Regions::parse(MAPS);
        let region = regions.get(2);
        assert_eq!(region.path, "/bin/a");
        let found = of_file(&region, &tables(&[0]));
        let expected = Mapping {
            start: region.start,
            end: region.end,
            bias: region.start - 0x40_2000,
            table: tables(&[0]).parts[0].table,
        };
        assert_eq!(found, [expected]);
        // Another mapping of the file, which is not code in it.
        let elsewhere = Region { offset: 0x9000, ..region };
        assert_eq!(of_file(&elsewhere, &tables(&[0])), [bare(&elsewhere)]);
    }

    #[test]
    fn each_part_of_the_rows_is_a_mapping() {
        let regions = Regions::parse(MAPS);
        let (region, tables) = (regions.get(2), tables(&[0, 0x40_1000, 0x40_3123, 0x40_9000]));
        let found = of_file(&region, &tables);
        let middle = region.start + 0x1123;
        let seen: Vec<_> = found.iter().map(|mapping| (mapping.start, mapping.end, mapping.table)).collect();
        let expected = [(region.start, middle, tables.parts[1].table), (middle, region.end, tables.parts[2].table)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_value_is_sorted_and_has_the_largest_mappings() {
        let size = |index: u64| if index == 5 { 1 } else { 0x10 };
        let mapping = |index| Mapping {
            start: 0x9000 - index * 0x10,
            end: 0x9000 - index * 0x10 + size(index),
            bias: 0,
            table: Table::NONE,
        };
        let word = |value: &[u8], at: usize| u64::from_ne_bytes(*value[at..].first_chunk().expect("8 bytes"));
        let all = value((7, 8), 9, (0..=MAX_MAPPINGS as u64).map(mapping).collect());
        let starts: Vec<u64> = all[MAPPINGS_OFFSET..].chunks(MAPPING_BYTES).map(|mapping| word(mapping, 0)).collect();
        assert_eq!([0, VERSION_OFFSET, START_STACK_OFFSET].map(|offset| word(&all, offset)), [7, 9, 8]);
        assert!(all.len() == PROCESS_BYTES && starts.is_sorted());
        assert!(!starts.contains(&mapping(5).start) && starts.contains(&mapping(256).start));
        let few = value((7, 8), 9, vec![mapping(1)]);
        assert_eq!(word(&few, MAPPINGS_OFFSET), mapping(1).start);
        assert!(few[MAPPINGS_OFFSET + MAPPING_BYTES..].chunks(MAPPING_BYTES).all(|rest| word(rest, 0) == UNUSED));
    }
}
