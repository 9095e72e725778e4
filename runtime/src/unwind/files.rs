//! The tables of files, read once.
//!
//! In: regions of code of processes. Out: their mappings.
//! Guarantee: a table is that of the mapped file itself, never of one that has its path now. Only
//! regular files are read, within limits. Reading can block, because files can be on any file
//! system.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use object::read::ReadRef;
use profiler_model::unwind::{Mapping, Table};
use profiler_model::value::KeepFiles;

use super::cache::Cache;
use super::mappings::{self, Tables};
use super::rows::rows;
use super::sections::Sections;
use super::segments::{MAX_ROWS, Part, Segments};
use crate::host::bounded::{Bounded, MAX_TABLE_BYTES};
use crate::symbols::naming::{VDSO, open_mapped, own_vdso};
use crate::symbols::regions::Region;

/// Limit of known files; above it they are read again.
const MAX_FILES: usize = 16 << 10;

/// Identity and version of a file: device, inode, size, and time of the last change.
type FileKey = (u64, u64, u64, (i64, i64));

/// The files known so far. The vDSO is one of them.
#[derive(Debug, Default)]
pub(super) struct Files {
    known: HashMap<Option<FileKey>, Known>,
    segments: Segments,
    cache: Option<Cache>,
    kept: Option<Arc<dyn KeepFiles>>,
    vdso: OnceCell<Rc<[u8]>>,
}

#[derive(Debug, Clone)]
enum Known {
    Placed(Rc<Tables>),
    /// There was no space for this many rows.
    LeftOut(usize),
}

/// The mappings of a process.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    pub mappings: Vec<Mapping>,
    /// False if there was no space for the table of a file; its mappings are missing.
    pub is_complete: bool,
}

impl Files {
    /// No file is known yet. Rows of large files are kept in a cache, the files themselves for
    /// those who need them later.
    pub(super) fn new(cache: Option<Cache>, kept: Option<Arc<dyn KeepFiles>>) -> Files {
        Files { cache, kept, ..Files::default() }
    }

    /// The mappings for the regions of a process. Their segments are to be written first.
    pub(super) fn map(&mut self, pid: u32, regions: &[Region<'_>]) -> Mapped {
        let mut mapped = Mapped { mappings: Vec::new(), is_complete: true };
        for region in regions {
            match self.known(pid, region) {
                Known::Placed(tables) => mapped.mappings.extend(mappings::of_file(region, &tables)),
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

    fn known(&mut self, pid: u32, region: &Region<'_>) -> Known {
        if region.path == VDSO {
            // The kernel maps the same into every process, except 32-bit ones.
            let bytes = Rc::clone(self.vdso.get_or_init(|| own_vdso().unwrap_or_default().into()));
            let is_same = bytes.len() as u64 == region.end - region.start;
            return if is_same { self.read(None, &*bytes) } else { Known::bare() };
        }
        let file = if region.is_file() { open_mapped(pid, *region) } else { None };
        if let (Some(kept), Some(file)) = (&self.kept, &file) {
            kept.keep(region.file, file);
        }
        match file.and_then(|file| Some((key(&file.metadata().ok()?), file))) {
            Some((key, file)) => self.read(Some(key), &Bounded::new(file, MAX_TABLE_BYTES)),
            None => Known::bare(),
        }
    }

    /// Reads a file before it is mapped; one that is not regular is left out.
    pub(super) fn read_ahead(&mut self, path: &Path) {
        let file = path.metadata().ok().filter(Metadata::is_file).and_then(|_| File::open(path).ok());
        if let Some((key, file)) = file.and_then(|file| Some((key(&file.metadata().ok()?), file))) {
            self.read(Some(key), &Bounded::new(file, MAX_TABLE_BYTES));
        }
    }

    fn read<'data, Bytes: ReadRef<'data>>(&mut self, key: Option<FileKey>, data: Bytes) -> Known {
        match self.known.get(&key) {
            Some(Known::LeftOut(rows)) if self.segments.has_space_for(*rows) => {}
            Some(known) => return known.clone(),
            None => {}
        }
        if self.known.len() >= MAX_FILES {
            self.forget();
        }
        let known = self.place(data);
        self.known.insert(key, known.clone());
        known
    }

    fn place<'data, Bytes: ReadRef<'data>>(&mut self, data: Bytes) -> Known {
        let Some(sections) = Sections::find(data) else { return Known::bare() };
        let rows = self.rows(&sections, data);
        let rows = if rows.len() > MAX_ROWS { &[] } else { rows.as_slice() };
        match self.segments.place(rows) {
            Some(parts) => Known::Placed(Rc::new(Tables { code: sections.code, parts })),
            None => Known::LeftOut(rows.len()),
        }
    }
}

impl Files {
    /// The rows of a file, from the cache if they are there.
    fn rows<'data, Bytes: ReadRef<'data>>(&self, sections: &Sections<'data>, data: Bytes) -> Vec<u64> {
        let entry = self.cache.as_ref().and_then(|cache| Some((cache, cache.digest(sections)?)));
        if let Some(rows) = entry.and_then(|(cache, digest)| cache.read(digest)) {
            return rows;
        }
        let reads_code = Cell::new(false);
        let rows = rows(sections, &|address, size_bytes| {
            reads_code.set(true);
            sections.instructions(data, address, size_bytes)
        });
        // The digest does not cover instructions. Only few and small files need them.
        if let Some((cache, digest)) = entry.filter(|_| !reads_code.get()) {
            // Without an entry, the next run reads the file.
            let _ = cache.write(digest, &rows);
        }
        rows
    }
}

impl Known {
    /// Code without unwind information.
    fn bare() -> Known {
        let parts = vec![Part { start: 0, table: Table::NONE }];
        Known::Placed(Rc::new(Tables { code: Vec::new(), parts }))
    }
}

fn key(meta: &Metadata) -> FileKey {
    (meta.dev(), meta.ino(), meta.len(), (meta.mtime(), meta.mtime_nsec()))
}
