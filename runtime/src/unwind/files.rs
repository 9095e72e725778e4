//! The tables of files, read once.
//!
//! In: regions of code of processes. Out: their mappings.
//! Guarantee: a table is that of the mapped file itself, never of one that has its path now. A file
//! that the reader cannot read is code without unwind information.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use profiler_model::unwind::{FileVersion, Mapping, Table};
use profiler_model::value::FileId;

use super::cache::Cache;
use super::mappings::{self, Tables};
use super::reading::{Answer, FileKey, FileTable, MappedFile, MaybeRows, Question, TableReader, table};
use super::sections::CodeSegment;
use super::segments::{Part, Segments};
use crate::reader::{Asking, Reader};
use crate::symbols::naming::{VDSO, own_vdso};
use crate::symbols::regions::Region;

/// Limit of known files; above it they are read again.
const MAX_FILES: usize = 16 << 10;

/// After this time, another change of a file has another time: the kernel's clock for them has a
/// tick of at most 10 ms.
const SETTLED: Duration = Duration::from_millis(100);

/// The files known so far. The vDSO is one of them.
#[derive(Debug)]
pub(super) struct Files {
    known: HashMap<Option<FileKey>, Known>,
    /// Files that do not even open.
    stuck: HashSet<FileId>,
    segments: Segments,
    cache: Option<Cache>,
    reader: Asking<TableReader>,
    vdso: OnceCell<Rc<[u8]>>,
}

#[derive(Debug, Clone)]
enum Known {
    Placed(Rc<Tables>),
    /// There was no space for this many rows.
    LeftOut(usize),
}

/// A file whose tables processes can share.
pub(super) type SharedFile = (FileVersion, Rc<Tables>);

/// The mappings of a process.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    pub mappings: Vec<Mapping>,
    pub files: Vec<SharedFile>,
    /// False if there was no space for the table of a file; its mappings are missing.
    pub is_complete: bool,
}

impl Files {
    /// No file is known yet. Rows of large files are kept in a cache.
    pub(super) fn new(cache: Option<Cache>, reader: &Reader) -> Files {
        Files {
            known: HashMap::new(),
            stuck: HashSet::new(),
            segments: Segments::default(),
            cache,
            reader: Asking::new(reader, || TableReader::new(None)),
            vdso: OnceCell::new(),
        }
    }

    /// The mappings for the regions of a process. Their segments are to be written first.
    pub(super) fn map(&mut self, pid: u32, regions: &[Region<'_>]) -> Mapped {
        let mut mapped = Mapped { is_complete: true, ..Mapped::default() };
        let files: Vec<Region<'_>> =
            regions.iter().filter(|it| it.is_file() && !self.stuck.contains(&it.file)).copied().collect();
        let keys = self.open(pid, &files);
        let mut opened = files.iter().zip(keys).peekable();
        for region in regions {
            let key = opened.next_if(|(file, _)| file.start == region.start);
            let known = match key {
                Some((_, Some(key))) => self.of_file(key),
                None if region.path == VDSO => self.of_vdso(region),
                Some(_) | None => Known::bare(),
            };
            match known {
                Known::Placed(tables) => {
                    mapped.mappings.extend(mappings::of_file(region, &tables));
                    let vdso = (region.path == VDSO && tables.is_settled).then_some(FileVersion::VDSO);
                    mapped.files.extend(match key {
                        Some((_, key)) => key.and_then(|key| shared(region.file, key, tables)),
                        None => vdso.map(|version| (version, tables)),
                    });
                }
                Known::LeftOut(_) => mapped.is_complete = false,
            }
        }
        mapped
    }

    /// The segments to be written, which later calls do not change.
    pub(super) fn segments(&mut self) -> &mut Segments {
        &mut self.segments
    }

    /// How many files have a table.
    pub(super) fn count(&self) -> usize {
        let has_rows = |known: &&Known| matches!(known, Known::Placed(tables) if !tables.code.is_empty());
        self.known.values().filter(has_rows).count()
    }

    /// Forgets all files and all segments.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.segments.clear();
    }

    /// Forgets all files. Segments in use stay.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Opens the files of regions. Where one of them does not open, only that one stays unknown.
    fn open(&mut self, pid: u32, regions: &[Region<'_>]) -> Vec<Option<FileKey>> {
        if regions.is_empty() {
            return Vec::new();
        }
        let mapped = regions.iter().map(MappedFile::of).collect();
        match self.reader.ask(Question::Mapped(pid, mapped)) {
            Some(Answer::Opened(keys)) if keys.len() == regions.len() => return keys,
            _ if regions.len() == 1 => drop(self.stuck.insert(regions[0].file)),
            _ => {}
        }
        let mut keys = Vec::new();
        for region in regions {
            let is_known = self.stuck.contains(&region.file);
            keys.push(if is_known { None } else { self.open(pid, &[*region]).pop().flatten() });
        }
        keys
    }

    /// The kernel maps the same into every process, except 32-bit ones.
    fn of_vdso(&mut self, region: &Region<'_>) -> Known {
        let bytes = Rc::clone(self.vdso.get_or_init(|| own_vdso().unwrap_or_default().into()));
        if bytes.len() as u64 != region.end - region.start {
            return Known::bare();
        }
        if let Some(known) = self.known_as(None) {
            return known;
        }
        let known = match table(&*bytes, None) {
            FileTable { code, rows: MaybeRows::Read(read) } => self.place(code, &read.rows, true),
            FileTable { rows: MaybeRows::Digest(_), .. } => Known::bare(),
        };
        self.known.insert(None, known.clone());
        known
    }

    /// What is known of a file, unless there is space now for what was left out, or it was read too
    /// early.
    fn known_as(&self, key: Option<FileKey>) -> Option<Known> {
        let known = self.known.get(&key)?;
        let is_late = match known {
            Known::LeftOut(rows) => self.segments.has_space_for(*rows),
            Known::Placed(tables) => !tables.is_settled && key.is_some_and(is_settled),
        };
        (!is_late).then(|| known.clone())
    }

    /// Reads a file before it is mapped; one that is not regular is left out.
    pub(super) fn read_ahead(&mut self, path: &Path) {
        if let Some(Answer::Opened(keys)) = self.reader.ask(Question::Ahead(path.to_owned())) {
            keys.into_iter().flatten().for_each(|key| drop(self.of_file(key)));
        }
    }

    /// A file that a process had mapped, by its path; `None` if there is another file now.
    pub(super) fn at_path(&mut self, file: FileId, path: &Path) -> Option<SharedFile> {
        if self.stuck.contains(&file) {
            return None;
        }
        let Some(Answer::Opened(keys)) = self.reader.ask(Question::Ahead(path.to_owned())) else {
            self.stuck.insert(file);
            return None;
        };
        let key = keys.into_iter().flatten().find(|(_, inode, ..)| *inode == file.inode)?;
        match self.of_file(key) {
            Known::Placed(tables) => shared(file, key, tables),
            Known::LeftOut(_) => None,
        }
    }

    /// A file that is open.
    fn of_file(&mut self, key: FileKey) -> Known {
        if let Some(known) = self.known_as(Some(key)) {
            return known;
        }
        if self.known.len() >= MAX_FILES {
            self.forget();
        }
        let is_settled = is_settled(key);
        let known = match self.reader.ask(Question::Table(key, self.cache.as_ref().map(Cache::secret))) {
            Some(Answer::Table(Some(FileTable { code, rows }))) => match self.rows(key, rows) {
                Some(rows) => self.place(code, &rows, is_settled),
                None => Known::bare(),
            },
            // Another process reads by now, which has not opened it.
            Some(_) => return Known::LeftOut(0),
            None => Known::bare(),
        };
        self.known.insert(Some(key), known.clone());
        known
    }

    /// The rows of a file that is open, from the cache if they are there; `None` if they cannot be
    /// read.
    fn rows(&mut self, key: FileKey, rows: MaybeRows) -> Option<Vec<u64>> {
        let digest = match rows {
            MaybeRows::Read(read) => return Some(read.rows),
            MaybeRows::Digest(digest) => digest,
        };
        if let Some(rows) = self.cache.as_ref().and_then(|cache| cache.read(digest)) {
            return Some(rows);
        }
        let Some(Answer::Rows(Some(read))) = self.reader.ask(Question::Rows(key)) else { return None };
        // The digest does not cover instructions. Only few and small files need them.
        if let Some(cache) = self.cache.as_ref().filter(|_| !read.depend_on_code) {
            // Without an entry, the next run reads the file.
            let _ = cache.write(digest, &read.rows);
        }
        Some(read.rows)
    }

    fn place(&mut self, code: Vec<CodeSegment>, rows: &[u64], is_settled: bool) -> Known {
        if code.is_empty() {
            return Known::without(is_settled);
        }
        match self.segments.place(rows) {
            Some(parts) => Known::Placed(Rc::new(Tables { code, parts, is_settled })),
            None => Known::LeftOut(rows.len()),
        }
    }
}

impl Known {
    /// Code whose unwind information cannot be read.
    fn bare() -> Known {
        Known::without(false)
    }

    /// Code without unwind information.
    fn without(is_settled: bool) -> Known {
        let parts = vec![Part { start: 0, table: Table::NONE }];
        Known::Placed(Rc::new(Tables { code: Vec::new(), parts, is_settled }))
    }
}

/// Whether the last change of a file is old enough for another one to have another time.
fn is_settled((.., (seconds, nanoseconds)): FileKey) -> bool {
    let since_epoch = u64::try_from(seconds).ok().zip(u32::try_from(nanoseconds).ok());
    let changed = since_epoch.and_then(|(seconds, part)| UNIX_EPOCH.checked_add(Duration::new(seconds, part)));
    changed.is_some_and(|changed| SystemTime::now().duration_since(changed).is_ok_and(|age| age >= SETTLED))
}

/// The tables of a mapped file, if they are certainly those of its version.
fn shared(FileId { device, inode }: FileId, (_, _, _, changed): FileKey, tables: Rc<Tables>) -> Option<SharedFile> {
    let device = ((device >> 32) as u32, device as u32);
    tables.is_settled.then_some((FileVersion { device, inode, changed }, tables))
}
