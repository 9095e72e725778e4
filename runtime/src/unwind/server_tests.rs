use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use profiler_model::unwind::{
    INDEX_FLAG, MAPPING_BYTES, MAPPINGS_OFFSET, MAX_MAPPINGS, Rule, SEGMENT_WORDS, SPECIAL, Table, VERSION_OFFSET,
    address_of, row, rule_of,
};

use profiler_model::value::FileId;

use super::*;
use crate::reader::Reader;
use crate::unwind::rows::rows;
use crate::unwind::sections::Sections;
use crate::unwind::segments::MAX_ROWS;
use crate::unwind::segments::tests::{Written, find, search};
use crate::unwind::used::Used;

/// The maps, in memory.
#[derive(Debug, Default)]
struct Recorded {
    segments: Written,
    processes: BTreeMap<u32, Vec<u8>>,
    files: BTreeMap<Vec<u8>, Vec<u8>>,
    pauses: BTreeMap<u32, u64>,
    /// Processes for which there is space; 0 for any number.
    limit: usize,
    cleared: usize,
}

impl Store for Recorded {
    fn write_segment(&mut self, number: u32, words: &[u64]) -> io::Result<()> {
        assert_eq!(words.len(), SEGMENT_WORDS);
        self.segments.insert(number, words.to_vec());
        Ok(())
    }

    fn write_file(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let before = self.files.insert(key.to_vec(), value.to_vec());
        assert_eq!(before, None, "it is never replaced");
        Ok(())
    }

    fn write_process(&mut self, pid: u32, value: &[u8]) -> io::Result<()> {
        if self.limit > 0 && self.processes.len() >= self.limit {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        self.processes.insert(pid, value.to_vec());
        let is_written = |table: Table| table.words == 0 || self.segments.contains_key(&table.segment);
        assert!(self.mappings(pid).iter().all(|(_, _, _, table)| is_written(*table)));
        Ok(())
    }

    fn pause(&mut self, (pid, _): (u32, u64), until_ns: u64) -> io::Result<()> {
        self.pauses.insert(pid, until_ns);
        Ok(())
    }

    fn prune(&mut self, exists: &dyn Fn(u32) -> bool) -> io::Result<()> {
        self.processes.retain(|pid, _| exists(*pid));
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.processes.clear();
        self.files.clear();
        self.cleared += 1;
        Ok(())
    }
}

impl Recorded {
    /// Start, end, bias and table of each mapping of a process, as programs read them.
    fn mappings(&self, pid: u32) -> Vec<(u64, u64, u64, Table)> {
        let value = self.processes.get(&pid).map_or(&[][..], |value| &value[MAPPINGS_OFFSET..]);
        let word = |bytes: &[u8], at: usize| u64::from_ne_bytes(*bytes[at * 8..].first_chunk().expect("a word"));
        let table = |word: u64| Table {
            segment: (word >> 32) as u16 as u32,
            first: (word & !INDEX_FLAG) as u16,
            words: (word >> 16) as u16,
            indexed: (word & INDEX_FLAG != 0).then_some((word >> 48) as u32),
        };
        let mapping = |bytes: &[u8]| (word(bytes, 0), word(bytes, 1), word(bytes, 2), table(word(bytes, 3)));
        value.chunks(MAPPING_BYTES).map(mapping).collect()
    }

    /// The bias of the mapping at an address, and the row for the address.
    fn at(&self, pid: u32, address: u64) -> Option<(u64, Option<u64>)> {
        let mappings = self.mappings(pid);
        let starts: Vec<u64> = mappings.iter().map(|mapping| mapping.0).collect();
        let (start, end, bias, table) = *mappings.get(search(&starts, MAX_MAPPINGS, address))?;
        let is_inside = (start..end).contains(&address);
        is_inside.then(|| (bias, find(&self.segments, table, address.wrapping_sub(bias))))
    }
}

fn new(store: Recorded) -> Server<Recorded> {
    Server::new(store, Files::new(None, &Reader::here()), Arc::default())
}

fn own() -> u32 {
    std::process::id()
}

/// An address in the code of this program.
fn own_code() -> u64 {
    own as *const () as u64
}

#[test]
fn this_process_gets_the_rows_of_its_files() {
    let mut server = new(Recorded::default());
    server.serve(own(), 7).expect("no error");
    let value = &server.store.processes[&own()];
    assert_eq!(value[..8], 7_u64.to_ne_bytes());
    let bytes = std::fs::read(std::env::current_exe().expect("a path")).expect("readable");
    let rows = rows(&Sections::find(bytes.as_slice()).expect("an ELF file"), &|_, _| None);
    for address in (0..200).map(|step| own_code() + step * 97) {
        let (bias, found) = server.store.at(own(), address).expect("it is mapped");
        let expected = rows[..rows.partition_point(|row| address_of(*row) <= address - bias)].last();
        assert_eq!(found, expected.copied(), "{address:#x}");
    }
    let used = Used::of(&server.written);
    assert!(used.files >= 2 && used.processes == 1, "{used:?}");
    assert_eq!(used.size_bytes, server.store.segments.len() as u64 * 8192 + value.len() as u64);
    let library = libc::getppid as *const () as u64;
    let (_, found) = server.store.at(own(), library).expect("it is mapped");
    assert_eq!(found.map(rule_of), Some(Rule::FromRsp { words: 1, rbp: 0 }.code()), "at a call");
}

#[test]
fn files_are_shared_once_by_their_version() {
    let mut server = new(Recorded::default());
    server.serve(own(), 7).expect("no error");
    let path = std::env::current_exe().expect("a path");
    let meta = std::fs::metadata(&path).expect("readable");
    let maps = read_maps(own()).expect("readable");
    let regions = Regions::parse(&maps);
    let region = regions.get(regions.code_at(own_code()).expect("it is mapped"));
    let device = ((region.file.device >> 32) as u32, region.file.device as u32);
    let version = |changed| FileVersion { device, inode: meta.ino(), changed }.bytes().to_vec();
    let key = version((meta.ctime(), meta.ctime_nsec()));
    assert!(server.store.files.contains_key(&key) && server.store.files.len() >= 2, "{:?}", server.store.files.keys());
    // Another program of the same files.
    server.serve(own(), 8).expect("no error");
    server.restart().expect("no error");
    assert!(server.store.files.is_empty());
    server.serve(own(), 9).expect("no error");
    assert!(server.store.files.contains_key(&key));
}

#[test]
fn a_repeated_request_is_answered_with_a_pause() {
    let mut server = new(Recorded::default());
    server.serve(own(), 7).expect("no error");
    assert!(server.store.pauses.is_empty());
    let before = monotonic_ns();
    let version = |server: &Server<Recorded>| server.store.processes[&own()][VERSION_OFFSET..][..8].to_vec();
    let first = version(&server);
    server.serve(own(), 8).expect("no error");
    assert!(first != [0; 8] && first != version(&server));
    server.store.processes.clear();
    server.serve(own(), 8).expect("no error");
    assert!(server.store.processes.is_empty(), "nothing is new");
    assert!(server.store.pauses[&own()] >= before + 100_000_000);
    // No process has this number.
    server.serve(u32::MAX >> 1, 1).expect("no error");
    assert!(server.store.processes.is_empty());
}

#[test]
fn tables_that_do_not_fit_replace_all_others_but_not_always() {
    let mut server = new(Recorded::default());
    let no_rows: Vec<u64> = (0..MAX_ROWS as u64).map(|address| row(address, SPECIAL)).collect();
    let fill = |server: &mut Server<Recorded>| {
        server.files.forget();
        while server.files.segments().place(&no_rows).is_some() {}
        while server.files.segments().place(&no_rows[..SEGMENT_WORDS]).is_some() {}
        server.files.segments().take();
    };
    fill(&mut server);
    server.serve(own(), 7).expect("no error");
    assert_eq!(server.store.cleared, 1);
    assert!(server.store.at(own(), own_code()).is_some_and(|(_, row)| row.is_some()));
    fill(&mut server);
    server.serve(own(), 8).expect("no error");
    assert_eq!((server.store.cleared, server.store.at(own(), own_code())), (1, None));
    // Later there may be space.
    server.files.segments().clear();
    server.serve(own(), 8).expect("no error");
    assert!(server.store.at(own(), own_code()).is_some() && server.store.pauses.contains_key(&own()));
}

#[test]
fn ended_processes_are_removed_when_there_are_too_many() {
    let mut server = new(Recorded { limit: 1, ..Recorded::default() });
    server.store.processes.insert(u32::MAX >> 1, Vec::new());
    server.serve(own(), 7).expect("no error");
    assert_eq!(server.store.processes.keys().copied().collect::<Vec<_>>(), [own()]);
}

#[test]
fn a_file_is_known_by_more_than_its_path() {
    // Both are this program: by its path and by its mapping.
    let meta = std::env::current_exe().and_then(std::fs::metadata).expect("readable");
    let maps = read_maps(own()).expect("readable");
    let regions = Regions::parse(&maps);
    let region = regions.get(regions.code_at(own_code()).expect("it is mapped"));
    assert_eq!(region.file.inode, meta.ino());
    let replaced = Region { file: FileId { inode: region.file.inode + 1, ..region.file }, start: 1, ..region };
    let mut files = Files::new(None, &Reader::here());
    let mapped = files.map(own(), &[region, replaced]);
    let tables: Vec<bool> = mapped.mappings.iter().map(|mapping| mapping.table == Table::NONE).collect();
    assert_eq!((mapped.is_complete, tables), (true, vec![false, true]));
}
