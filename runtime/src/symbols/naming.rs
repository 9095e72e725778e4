//! Resolves addresses to names through the mappings of a process.
//!
//! In: a process and addresses. Out: the location of each address.
//! Guarantee: only regular files are read, within limits; the cache is bounded; mappings are read
//! once per question, and debug information file by file for all questions that are asked together.
//! Blocking time is unbounded, because files can be on any file system, so this
//! runs in a process of its own (`reader/`).

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;

use profiler_model::value::{FileId, FilePosition, Location, Origin, Shortfalls, SymbolName};
use serde::{Deserialize, Serialize};

use super::files::{Files, ReadFile};
use super::generated::{Generated, GeneratedCode};
use super::image::NamedAddress;
use super::kept::KeptFiles;
use super::line_cache::FileKey;
use super::processes::FilePlace;
use super::regions::{Region, Regions};
use crate::host::bounded::open_regular;
use crate::host::debug_files::Program;
use crate::host::demangle::readable;
pub(crate) use crate::host::mapped::read_maps;
use crate::host::stat::{MEMORY_BYTES, START_STACK, Stat};
use crate::reader::{Channel, Work};

/// End of user addresses.
const END_OF_USER_MEMORY: u64 = 1 << 56;
/// The name of the mapping of the vDSO.
pub(crate) const VDSO: &str = "[vdso]";

/// A lookup request for a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Question {
    pub pid: u32,
    /// Whether the process is alive.
    pub is_alive: bool,
    pub addresses: Vec<u64>,
    /// Whether source lines and inlined functions are wanted.
    pub with_origins: bool,
    /// Where the addresses were in files, according to recorded mappings.
    pub recorded: Vec<RecordedFile>,
    /// What was recorded of a process that has ended.
    pub ended: Option<Ended>,
}

/// A file that a process has mapped, or had.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RecordedFile {
    /// Path of the file, as the process saw it, or `[vdso]`.
    pub path: Arc<str>,
    pub file: FileId,
    pub places: Places,
}

/// What was recorded of a process that has ended, besides its files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// Path and identity of its jitdump.
    pub dump: Option<(Arc<str>, FileId)>,
    /// When recording began, in seconds since 1970.
    pub began: i64,
    /// Who may own files about it, besides root.
    pub users: Vec<u32>,
}

/// The resolved locations, and what is missing.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// For each question, in order.
    pub locations: Vec<Vec<(u64, Location)>>,
    pub shortfalls: Shortfalls,
}

/// Addresses with their file offsets.
type Places = Vec<(u64, u64)>;

/// A location without its origin: the number of the question, the address, and the offset in the
/// file.
type Unfinished = (usize, u64, u64);

/// Files of which origins are still to be found, which stay open until then.
const MAX_UNFINISHED: usize = 256;

impl RecordedFile {
    /// The files of addresses whose places were recorded.
    pub(super) fn all(addresses: &[u64], places: Vec<Option<FilePlace>>) -> Vec<RecordedFile> {
        let mut files: BTreeMap<(Arc<str>, FileId), Places> = BTreeMap::new();
        for (address, place) in addresses.iter().zip(places) {
            if let Some(FilePlace { path, file, offset }) = place {
                files.entry((path, file)).or_default().push((*address, offset));
            }
        }
        files.into_iter().map(|((path, file), places)| RecordedFile { path, file, places }).collect()
    }
}

/// Symbols of all files read so far.
#[derive(Debug)]
pub(crate) struct Namer {
    files: Files,
    /// The files in which stacks were taken, if they are read here.
    kept: Option<Arc<KeptFiles>>,
    vdso: Option<ReadFile>,
    generated: Generated,
    /// Of the current question.
    with_origins: bool,
    /// Whose origins are still to be found, file by file.
    without_origins: HashMap<FileKey, (ReadFile, Vec<Unfinished>)>,
    /// The number of the current question.
    asked: usize,
    shortfalls: Shortfalls,
}

impl Namer {
    /// Nothing is read yet.
    pub(crate) fn new(kept: Option<Arc<KeptFiles>>) -> Namer {
        Namer {
            files: Files::new(),
            kept,
            vdso: None,
            generated: Generated::new(),
            with_origins: false,
            without_origins: HashMap::new(),
            asked: 0,
            shortfalls: Shortfalls::default(),
        }
    }

    /// Resolves the addresses of processes.
    fn locate_all(&mut self, questions: &[Question]) -> Answer {
        let mut located = Vec::new();
        for question in questions {
            self.asked = located.len();
            located.push(self.locate(question));
            if self.without_origins.len() > MAX_UNFINISHED {
                self.add_origins(&mut located);
            }
        }
        self.add_origins(&mut located);
        let of_question = |(question, mut located): (&Question, BTreeMap<u64, Location>)| {
            let location = |&address: &u64| (address, located.remove(&address).unwrap_or(Location::Unknown));
            question.addresses.iter().map(location).collect()
        };
        let locations = questions.iter().zip(located).map(of_question).collect();
        let (refused, large) = self.generated.take_counts();
        self.shortfalls.refused_maps += refused;
        self.shortfalls.large_files += self.files.take_large() + large;
        self.shortfalls.refused_files += self.files.take_refused();
        Answer { locations, shortfalls: std::mem::take(&mut self.shortfalls) }
    }

    /// Resolves the addresses of a process. Origins are still missing.
    fn locate(&mut self, question: &Question) -> BTreeMap<u64, Location> {
        self.with_origins = question.with_origins;
        self.generated.begin();
        let mut locations = BTreeMap::new();
        let (maps, is_whole) = if question.is_alive { current_maps(question.pid) } else { Default::default() };
        let regions = Regions::parse(&maps);
        let (mut mapped, mut left): (BTreeMap<usize, Vec<u64>>, Vec<u64>) = (BTreeMap::new(), Vec::new());
        for &address in &question.addresses {
            match regions.code_at(address) {
                Some(region) => mapped.entry(region).or_default().push(address),
                None => left.push(address),
            }
        }
        for (region, addresses) in mapped {
            self.in_region(question.pid, (&regions, region), &addresses, &mut locations);
        }
        let recorded = question.recorded.iter().enumerate();
        let recorded = recorded.flat_map(|(file, it)| it.places.iter().map(move |(at, offset)| (*at, (file, *offset))));
        let recorded: HashMap<u64, (usize, u64)> = recorded.collect();
        let mut files: BTreeMap<usize, Places> = BTreeMap::new();
        for &address in &left {
            match recorded.get(&address) {
                Some((file, offset)) => files.entry(*file).or_default().push((address, *offset)),
                // The current mappings are complete, unless the process ended meanwhile; for one
                // that has ended, only its files were recorded.
                None if self.ended_name(question, address, &mut locations) => {}
                None if is_whole || address >= END_OF_USER_MEMORY => {
                    locations.insert(address, Location::NoCode);
                }
                None => {}
            }
        }
        for (file, places) in files {
            let RecordedFile { path, file, .. } = &question.recorded[file];
            let kept = self.kept.as_ref().and_then(|kept| kept.get(*file));
            self.in_recorded_file((path, *file), kept, &places, &mut locations);
        }
        locations
    }

    /// Resolves the addresses in one mapping of a live process.
    fn in_region(
        &mut self,
        pid: u32,
        (regions, number): (&Regions<'_>, usize),
        addresses: &[u64],
        into: &mut BTreeMap<u64, Location>,
    ) {
        let region = regions.get(number);
        let root = format!("/proc/{pid}/root");
        let program = Program { path: Path::new(region.shown_path()), root: Path::new(&root) };
        let read = if region.path == VDSO {
            Some(self.vdso())
        } else if region.is_file() {
            open_mapped(pid, region).map(|file| self.files.read(file, program))
        } else {
            None
        };
        for &address in addresses {
            let offset = region.offset_of(address);
            let found = read.as_ref().and_then(|read| self.in_file(read, (address, offset), region.shown_path()));
            // Some runtimes map generated code from files without a name.
            let found = found.or_else(|| self.generated_name(pid, regions, address).map(Location::named));
            let position = || position(read.as_ref(), offset);
            let file = || region.is_file().then(|| Location::Module(region.shown_path().to_owned(), position()));
            into.insert(address, found.or_else(file).unwrap_or(Location::Unknown));
        }
    }

    /// Resolves addresses in a file that a process had mapped. Unless it was kept, another file may
    /// have taken its path since, or the path may have been in another mount namespace.
    fn in_recorded_file(
        &mut self,
        (path, id): (&str, FileId),
        kept: Option<File>,
        places: &Places,
        into: &mut BTreeMap<u64, Location>,
    ) {
        let program = Program { path: Path::new(path), root: Path::new("/") };
        let read = if path == VDSO {
            Some(self.vdso())
        } else {
            let at_path = || open_regular(Path::new(path)).ok();
            let is_same = |file: &File| file.metadata().is_ok_and(|meta| meta.ino() == id.inode);
            let file = kept.or_else(|| at_path().filter(is_same));
            file.map(|file| self.files.read(file, program))
        };
        for (address, offset) in places {
            let found = read.as_ref().and_then(|read| self.in_file(read, (*address, *offset), path));
            let position = || position(read.as_ref(), *offset);
            into.insert(*address, found.unwrap_or_else(|| Location::Module(path.to_owned(), position())));
        }
    }

    /// The location of a file offset; `None` without a symbol.
    fn in_file(&mut self, read: &ReadFile, (address, offset): (u64, u64), module: &str) -> Option<Location> {
        let symbol = self.named(&read.symbol(offset)?, Some(module));
        if self.with_origins {
            let unfinished = self.without_origins.entry(read.key).or_insert_with(|| (read.clone(), Vec::new()));
            unfinished.1.push((self.asked, address, offset));
        }
        let position = Some(FilePosition { build_id: build_id(Some(read)), offset, function: None });
        Some(Location::Symbol(symbol, Origin { position, ..Origin::default() }))
    }

    /// Finds the lines and the inlined functions of what was located, file by file: the debug
    /// information of a file is parsed once for all these processes, and most of it is dropped
    /// before that of the next one.
    fn add_origins(&mut self, located: &mut [BTreeMap<u64, Location>]) {
        for (_, (read, unfinished)) in std::mem::take(&mut self.without_origins) {
            for (asked, address, offset) in unfinished {
                let location = located.get_mut(asked).and_then(|located| located.get_mut(&address));
                let Some(Location::Symbol(_, origin)) = location else { continue };
                let found = self.files.origin(&read, offset);
                self.shortfalls.cut_names += found.cut_names;
                *origin = Origin { position: origin.position.take(), ..found.origin };
            }
        }
    }

    /// The vDSO, which the kernel maps into every process: ours is identical.
    fn vdso(&mut self) -> ReadFile {
        self.vdso.get_or_insert_with(|| ReadFile::of_bytes(&own_vdso().unwrap_or_default())).clone()
    }

    /// The name of generated code.
    fn generated_name(&mut self, pid: u32, regions: &Regions<'_>, address: u64) -> Option<SymbolName> {
        let (symbol, is_cut) = symbol(&self.generated.find(pid, regions, address)?);
        self.shortfalls.cut_names += u64::from(is_cut);
        Some(symbol)
    }

    /// Resolves an address in code that a process generated which has ended; returns whether it
    /// has a name.
    fn ended_name(&mut self, question: &Question, address: u64, into: &mut BTreeMap<u64, Location>) -> bool {
        let Some(ended) = &question.ended else { return false };
        let Some(found) = self.generated.find_ended(question.pid, ended, address) else { return false };
        let (symbol, is_cut) = symbol(&found);
        self.shortfalls.cut_names += u64::from(is_cut);
        into.insert(address, Location::named(symbol));
        true
    }

    fn named(&mut self, found: &NamedAddress<'_>, module: Option<&str>) -> SymbolName {
        let name = readable(&found.name);
        self.shortfalls.cut_names += u64::from(name.is_cut);
        SymbolName { name: name.text, offset: found.offset, module: module.map(str::to_owned) }
    }
}

impl Work for Namer {
    type Question = Vec<Question>;
    type Answer = Answer;
    const CHANNEL: Channel = Channel::Names;

    fn answer(&mut self, questions: Vec<Question>) -> Answer {
        self.locate_all(&questions)
    }
}

/// The name of generated code, and whether it was truncated.
fn symbol(code: &GeneratedCode<'_>) -> (SymbolName, bool) {
    let name = readable(&code.name.name);
    (SymbolName { name: name.text, offset: code.name.offset, module: Some(code.path.to_owned()) }, name.is_cut)
}

/// The position of code without a symbol.
fn position(read: Option<&ReadFile>, offset: u64) -> FilePosition {
    let function = read.and_then(|read| read.known.image.function_at(offset));
    FilePosition { build_id: build_id(read), offset, function }
}

fn build_id(read: Option<&ReadFile>) -> Option<Arc<str>> {
    read?.known.build_id.clone()
}

/// Opens the mapped file itself, even if it was deleted or is in another mount namespace; without
/// that privilege, opens its path.
pub(crate) fn open_mapped(pid: u32, region: Region<'_>) -> Option<File> {
    let exact = format!("/proc/{pid}/map_files/{:x}-{:x}", region.start, region.end);
    open_regular(Path::new(&exact)).ok().or_else(|| {
        let file = open_regular(Path::new(&format!("/proc/{pid}/root{}", region.path))).ok()?;
        file.metadata().is_ok_and(|meta| meta.ino() == region.file.inode).then_some(file)
    })
}

/// The mappings of a process, and whether these are all: the kernel ends the text without an error
/// where the process ends, or executes another program, while it is read.
fn current_maps(pid: u32) -> (String, bool) {
    whole_text(|| read_maps(pid), || start_stack(pid))
}

/// A text that belongs to a program, and whether the program was the same before and after reading.
fn whole_text(read: impl FnOnce() -> Option<String>, program: impl Fn() -> Option<u64>) -> (String, bool) {
    let before = program();
    let text = read().unwrap_or_default();
    let is_whole = !text.is_empty() && before.is_some() && before == program();
    (text, is_whole)
}

/// Start of the stack of the program that a process runs, which `exec` chooses at random; `None` if
/// the process has ended.
fn start_stack(pid: u32) -> Option<u64> {
    let stat = Stat::of(pid)?;
    stat.number(MEMORY_BYTES).filter(|bytes| *bytes > 0)?;
    stat.number(START_STACK)
}

/// The bytes of the vDSO of this process.
pub(crate) fn own_vdso() -> Option<Vec<u8>> {
    let maps = read_maps(std::process::id())?;
    let (start, length) = Regions::parse(&maps).named(VDSO)?;
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn mappings_are_all_if_their_program_still_runs() {
        let (text, is_whole) = current_maps(std::process::id());
        assert!(is_whole && text.contains(VDSO));
        assert_eq!(current_maps(1 << 30), (String::new(), false));
        let ends = Cell::new(Some(5));
        let cut = |later| {
            ends.set(Some(5));
            let read = || {
                ends.set(later);
                Some("1000-2000 r-xp 0 08:01 12 /bin/a\n2000-30".to_owned())
            };
            whole_text(read, || ends.get()).1
        };
        assert_eq!([cut(Some(5)), cut(None), cut(Some(6))], [true, false, false]);
    }
}
