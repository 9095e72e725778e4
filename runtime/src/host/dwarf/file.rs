//! The file with a program's debug information: the program itself, or a separate file.
//!
//! In: a path. Out: the sections that describe functions and types, and the program's segments.
//! Guarantee: the sections are copied into our own memory, within the budget of this process, so a
//! file that changes meanwhile can give wrong answers but cannot crash us.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gimli::{Dwarf, DwarfSections, EndianSlice, LittleEndian, SectionId};
use object::elf::PF_X;
use object::read::ReadRef;
use object::{Architecture, CompressionFormat, Object as _, ObjectSection as _, ObjectSegment as _, SegmentFlags};
use profiler_compiler::target::Arch;

use super::super::bounded::{Bounded, Copied, open_regular};
use super::super::budget::{MAX_BYTES, Reserved};
use super::super::inflate::inflate;

/// The directory of separate debug files.
const DEBUG_DIRECTORY: &str = "/usr/lib/debug";

/// What a diagnostic says where there is none.
const INSTALL: &str = "install its debug symbols (Debian: the package's `-dbgsym`), or compile it with `-g`";
const INSTALL_LIBC: &str = "install the debug symbols of the C library (Debian: package `libc6-dbg`)";

/// The names of the C library's files begin like this.
const LIBC: [&str; 4] = ["libc.so.", "libm.so.", "ld-linux", "libpthread.so."];

/// A section's bytes.
pub(super) type Slice<'data> = EndianSlice<'data, LittleEndian>;

/// The sections of a file with debug information, and the segments of the program.
#[derive(Debug)]
pub(super) struct File {
    sections: DwarfSections<Vec<u8>>,
    segments: Vec<Segment>,
    frames: FrameSections,
    reserved: Reserved,
}

/// The sections that say where the frame of a function begins.
#[derive(Debug, Default)]
pub(super) struct FrameSections {
    /// `.eh_frame`, and its address.
    pub loaded: Vec<u8>,
    pub loaded_at: u64,
    /// `.debug_frame`.
    pub debug: Vec<u8>,
}

/// A loaded part of the program.
#[derive(Debug)]
struct Segment {
    address: u64,
    file_offset: u64,
    size_bytes: u64,
    is_code: bool,
}

/// What a program says about its separate debug file.
#[derive(Debug, Default)]
struct Links {
    build_id: Option<String>,
    /// The name in `.gnu_debuglink`.
    name: Option<String>,
}

impl File {
    /// Reads the program's own debug information, or that of its separate debug file.
    pub(super) fn find(path: &Path, arch: Arch) -> Result<File, String> {
        let (own, links) = with_file(path, |file, data| Ok((read(file, data, arch)?, links(file))))?;
        if own.has_functions() {
            return Ok(own);
        }
        let tried = separate_files(path, &links);
        for candidate in &tried {
            let other = with_file(candidate, |file, data| Ok((read(file, data, arch)?, self::links(file))));
            let Ok((other, of_other)) = other else { continue };
            // A debug file of another build describes other code.
            if of_other.build_id.is_some() && of_other.build_id == links.build_id && other.has_functions() {
                let mut other = other;
                other.reserved.add(own.reserved);
                let frames = FrameSections { debug: std::mem::take(&mut other.frames.debug), ..own.frames };
                return Ok(File { segments: own.segments, frames, ..other });
            }
        }
        let looked = tried.first().map_or_else(String::new, |first| format!(", nor is there {}", first.display()));
        let is_libc = |name: &str| LIBC.iter().any(|start| name.starts_with(start));
        let is_libc = path.file_name().and_then(|name| name.to_str()).is_some_and(is_libc);
        let install = if is_libc { INSTALL_LIBC } else { INSTALL };
        Err(format!("{} has no debug information{looked}: {install}", path.display()))
    }

    /// Reads the debug information in the bytes of a file.
    pub(super) fn parse(bytes: &[u8], arch: Arch) -> Result<File, String> {
        let file = object::File::parse(bytes).map_err(|error| format!("this is not an ELF file: {error}"))?;
        let own = read(&file, bytes, arch)?;
        if own.has_functions() { Ok(own) } else { Err(format!("the file has no debug information: {INSTALL}")) }
    }

    /// The sections, to be read.
    pub(super) fn dwarf(&self) -> Dwarf<Slice<'_>> {
        self.sections.borrow(|section| EndianSlice::new(section, LittleEndian))
    }

    /// The address of a place in the file.
    pub(super) fn address_of(&self, file_offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let within = file_offset.checked_sub(segment.file_offset).filter(|within| *within < segment.size_bytes)?;
            segment.address.checked_add(within)
        })
    }

    /// The place in the file of code at an address.
    pub(super) fn offset_of(&self, address: u64) -> Option<u64> {
        self.segments.iter().filter(|segment| segment.is_code).find_map(|segment| {
            let within = address.checked_sub(segment.address).filter(|within| *within < segment.size_bytes)?;
            segment.file_offset.checked_add(within)
        })
    }

    /// The sections that say where frames begin.
    pub(super) fn frames(&self) -> &FrameSections {
        &self.frames
    }

    fn has_functions(&self) -> bool {
        self.dwarf().units().next().is_ok_and(|unit| unit.is_some())
    }
}

/// Opens an ELF file and reads from it.
fn with_file<T>(
    path: &Path,
    read: impl for<'a> FnOnce(
        &object::File<'a, &'a Bounded<std::fs::File>>,
        &'a Bounded<std::fs::File>,
    ) -> Result<T, String>,
) -> Result<T, String> {
    let failed = |error: String| format!("the debug information of {} cannot be read: {error}", path.display());
    let file = open_regular(path).map_err(|error| failed(error.to_string()))?;
    let bounded = Bounded::new(file, MAX_BYTES as u64);
    let file = object::File::parse(&bounded).map_err(|error| failed(error.to_string()))?;
    read(&file, &bounded).map_err(failed)
}

fn read<'data, Bytes: ReadRef<'data> + Copied>(
    file: &object::File<'data, Bytes>,
    data: Bytes,
    arch: Arch,
) -> Result<File, String> {
    let wanted = match arch {
        Arch::X86_64 => Architecture::X86_64,
        Arch::Aarch64 => Architecture::Aarch64,
    };
    // A 32-bit program has another calling convention.
    if file.architecture() != wanted || !file.is_64() || !file.is_little_endian() {
        return Err("it is not a 64-bit program for this processor".into());
    }
    let mut reserved = Reserved::default();
    let sections = DwarfSections::load(|id| section(file, data, id, &mut reserved))?;
    let frames = FrameSections {
        loaded: section(file, data, SectionId::EhFrame, &mut reserved)?,
        loaded_at: file.section_by_name(SectionId::EhFrame.name()).map_or(0, |section| section.address()),
        debug: section(file, data, SectionId::DebugFrame, &mut reserved)?,
    };
    let segments = file.segments().map(|segment| {
        let (file_offset, size_bytes) = segment.file_range();
        let is_code = matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & PF_X != 0);
        Segment { address: segment.address(), file_offset, size_bytes, is_code }
    });
    Ok(File { sections, segments: segments.collect(), frames, reserved })
}

/// A section's bytes; empty if it is missing or not needed.
fn section<'data, Bytes: ReadRef<'data> + Copied>(
    file: &object::File<'data, Bytes>,
    data: Bytes,
    id: SectionId,
    reserved: &mut Reserved,
) -> Result<Vec<u8>, String> {
    if matches!(id, SectionId::DebugMacinfo | SectionId::DebugMacro | SectionId::DebugNames | SectionId::DebugAranges) {
        return Ok(Vec::new());
    }
    let Some(section) = file.section_by_name(id.name()) else { return Ok(Vec::new()) };
    // Headers remain in the program when its sections are moved to a separate file, and vice versa.
    let Ok(range) = section.compressed_file_range() else { return Ok(Vec::new()) };
    let reserve = |reserved: &mut Reserved, size_bytes: u64| {
        let size_bytes = usize::try_from(size_bytes).ok().filter(|size_bytes| reserved.grow(*size_bytes));
        size_bytes.ok_or_else(|| format!("it takes more than the memory for files, which is {} MiB", MAX_BYTES >> 20))
    };
    let size_bytes = reserve(reserved, range.uncompressed_size)?;
    let copied = |size_bytes| data.copied(range.offset, size_bytes).unwrap_or_default();
    match range.format {
        CompressionFormat::None => Ok(copied(range.uncompressed_size)),
        CompressionFormat::Zlib => {
            let mut packed = Reserved::default();
            reserve(&mut packed, range.compressed_size)?;
            let contents = inflate(&copied(range.compressed_size), size_bytes);
            contents.ok_or_else(|| format!("the section {} is damaged", id.name()))
        }
        _ => Err("it is compressed, and not by zlib; `objcopy --decompress-debug-sections` makes it readable".into()),
    }
}

fn links<'data, Bytes: ReadRef<'data>>(file: &object::File<'data, Bytes>) -> Links {
    let build_id = file.build_id().ok().flatten().map(hexadecimal);
    let name = file.gnu_debuglink().ok().flatten().and_then(|(name, _)| std::str::from_utf8(name).ok());
    Links { build_id, name: name.map(str::to_owned) }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Where the separate debug file of a program may be, best first: those places that gdb tries.
fn separate_files(path: &Path, links: &Links) -> Vec<PathBuf> {
    let mut tried = Vec::new();
    if let Some((first, rest)) = links.build_id.as_ref().and_then(|id| id.split_at_checked(2)) {
        tried.push(PathBuf::from(format!("{DEBUG_DIRECTORY}/.build-id/{first}/{rest}.debug")));
    }
    // The name is one of a file, not a path that leads elsewhere.
    let name = links.name.as_ref().filter(|name| !name.is_empty() && !name.contains('/') && *name != "..");
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let (Some(name), Some(directory)) = (name, real.parent()) {
        tried.push(directory.join(name));
        tried.push(directory.join(".debug").join(name));
        let directory = directory.strip_prefix("/").unwrap_or(directory);
        tried.push(Path::new(DEBUG_DIRECTORY).join(directory).join(name));
    }
    tried.retain(|candidate| *candidate != real);
    tried
}

#[cfg(test)]
impl File {
    /// Treats offsets in the file as addresses.
    pub(super) fn map_all(&mut self) {
        self.segments = vec![Segment { address: 0, file_offset: 0, size_bytes: u64::MAX, is_code: true }];
    }
}
