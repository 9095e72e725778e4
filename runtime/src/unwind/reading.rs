//! Reads the call-frame information of files.
//!
//! In: mappings of processes, or paths. Out: the identity of each file, the places of its code, and
//! its rows.
//! Guarantee: only regular files are read, within limits. Reading can block, because files can be
//! on any file system, so this runs in a process of its own (`reader/`).

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use object::read::ReadRef;
use profiler_model::value::FileId;
use serde::{Deserialize, Serialize};

use super::cache::{Digest, Secret, digest};
use super::rows::rows;
use super::sections::{CodeSegment, Sections};
use super::segments::MAX_ROWS;
use crate::host::bounded::{Bounded, InSteps, MAX_TABLE_BYTES, open_regular};
use crate::reader::{Channel, Work};
use crate::symbols::kept::KeptFiles;
use crate::symbols::naming::open_mapped;
use crate::symbols::regions::Region;

/// Identity and version of a file: device, inode, size, and time of the last change of the inode.
pub(super) type FileKey = (u64, u64, u64, (i64, i64));

/// What can be asked about files.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    /// To open what a process has mapped. The files stay open until the next such question.
    Mapped(u32, Vec<MappedFile>),
    /// To open a file that will be mapped.
    Ahead(PathBuf),
    /// The table of an open file. Rows of large files are left out if there is a secret for their
    /// digest.
    Table(FileKey, Option<Secret>),
    /// The rows of an open file.
    Rows(FileKey),
}

/// A mapping of a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MappedFile {
    start: u64,
    end: u64,
    file: FileId,
    path: String,
}

/// The answers, in the order of the questions.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The file of each mapping, or of the path; `None` where it cannot be opened.
    Opened(Vec<Option<FileKey>>),
    /// `None` if the file is not open.
    Table(Option<FileTable>),
    /// `None` if the file is not open.
    Rows(Option<FileRows>),
}

/// The table of a file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileTable {
    /// Empty if the file has no code that can be unwound.
    pub code: Vec<CodeSegment>,
    pub rows: MaybeRows,
}

/// The rows of a file, or how to find them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MaybeRows {
    Read(FileRows),
    /// They may be known by this digest.
    Digest(Digest),
}

/// The rows of a file; none if there are more than [`MAX_ROWS`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileRows {
    pub rows: Vec<u64>,
    /// Whether they depend on instructions, which no digest covers.
    pub depend_on_code: bool,
}

impl Default for MaybeRows {
    fn default() -> MaybeRows {
        MaybeRows::Read(FileRows::default())
    }
}

/// Reads files.
#[derive(Debug, Default)]
pub(crate) struct TableReader {
    /// Where files are kept for their names, if they are read here.
    kept: Option<Arc<KeptFiles>>,
    open: HashMap<FileKey, File>,
}

impl TableReader {
    /// No file is open.
    pub(crate) fn new(kept: Option<Arc<KeptFiles>>) -> TableReader {
        TableReader { kept, open: HashMap::new() }
    }

    fn mapped(&mut self, pid: u32, mapping: &MappedFile) -> Option<FileKey> {
        let file = open_mapped(pid, mapping.region())?;
        if let Some(kept) = &self.kept {
            kept.keep(mapping.file, &file);
        }
        self.keep_open(file)
    }

    fn keep_open(&mut self, file: File) -> Option<FileKey> {
        let key = key(&file.metadata().ok()?);
        self.open.insert(key, file);
        Some(key)
    }

    fn bytes(&self, key: FileKey) -> Option<Bounded<InSteps>> {
        let file = self.open.get(&key)?.try_clone().ok()?;
        Some(Bounded::new(InSteps(file), MAX_TABLE_BYTES))
    }
}

impl Work for TableReader {
    type Question = Question;
    type Answer = Answer;
    const CHANNEL: Channel = Channel::Tables;

    fn answer(&mut self, question: Question) -> Answer {
        match question {
            Question::Mapped(pid, mappings) => {
                self.open.clear();
                Answer::Opened(mappings.iter().map(|mapping| self.mapped(pid, mapping)).collect())
            }
            Question::Ahead(path) => {
                self.open.clear();
                let file = open_regular(&path).ok();
                Answer::Opened(vec![file.and_then(|file| self.keep_open(file))])
            }
            Question::Table(key, secret) => Answer::Table(self.bytes(key).map(|bytes| table(&bytes, secret))),
            Question::Rows(key) => Answer::Rows(self.bytes(key).map(|bytes| {
                let found = Sections::find(&bytes);
                found.map_or_else(FileRows::default, |sections| rows_of(&sections, &bytes))
            })),
        }
    }
}

impl MappedFile {
    /// The mapping of a region.
    pub(super) fn of(region: &Region<'_>) -> MappedFile {
        let Region { start, end, file, path, .. } = *region;
        MappedFile { start, end, file, path: path.to_owned() }
    }

    fn region(&self) -> Region<'_> {
        let MappedFile { start, end, file, ref path } = *self;
        Region { start, end, offset: 0, file, path, is_code: true }
    }
}

/// The table of a file.
pub(super) fn table<'data, Bytes: ReadRef<'data>>(data: Bytes, secret: Option<Secret>) -> FileTable {
    let Some(sections) = Sections::find(data) else { return FileTable::default() };
    let known = secret.and_then(|secret| digest(&secret, &sections)).map(MaybeRows::Digest);
    let rows = known.unwrap_or_else(|| MaybeRows::Read(rows_of(&sections, data)));
    FileTable { code: sections.code, rows }
}

fn rows_of<'data, Bytes: ReadRef<'data>>(sections: &Sections<'data>, data: Bytes) -> FileRows {
    let reads_code = Cell::new(false);
    let rows = rows(sections, &|address, size_bytes| {
        reads_code.set(true);
        sections.instructions(data, address, size_bytes)
    });
    let rows = if rows.len() > MAX_ROWS { Vec::new() } else { rows };
    FileRows { rows, depend_on_code: reads_code.get() }
}

fn key(meta: &Metadata) -> FileKey {
    (meta.dev(), meta.ino(), meta.len(), (meta.ctime(), meta.ctime_nsec()))
}
