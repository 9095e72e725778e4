//! Symbols of stripped programs that a distribution has compressed into them (`.gnu_debugdata`).
//!
//! In: an open file, and the place of this section. Out: the symbol that contains an address.
//! Guarantee: what is decompressed is bounded before it is read for good. A damaged or malicious
//! file yields wrong names or none. A file that its owner cuts off while it is read can end this
//! process, as it is mapped; one that is changed after the first pass can be larger than the limit.
//!
//! The section is an ELF file with a symbol table of the functions that the dynamic table lacks,
//! compressed by xz (<https://sourceware.org/gdb/current/onlinedocs/gdb.html/MiniDebugInfo.html>).

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use xz2::read::XzDecoder;
use xz2::stream::Stream;

use super::image::NamedAddress;
use crate::host::budget::Reserved;
use crate::host::debug_sections::Place;

/// Limits of the section, and of what it contains, in bytes. That of gdb itself, which has 40,000
/// functions, has 600 KB and 4 MB.
const MAX_PACKED_BYTES: u64 = 4 << 20;
const MAX_UNPACKED_BYTES: u64 = 32 << 20;
/// Limit of the decoder's memory. What distributions write takes 9 MB.
const MAX_DECODER_BYTES: u64 = 64 << 20;

/// The symbols of a file.
pub(super) struct PackedSymbols {
    symbolizer: Symbolizer,
    source: Source<'static>,
    /// The path of the source leads through its descriptor.
    _file: Arc<File>,
    reserved: Reserved,
}

impl PackedSymbols {
    /// The symbols of a file; `None` if they exceed a limit. Nothing is parsed yet.
    pub(super) fn new(file: File, place: Place) -> Option<PackedSymbols> {
        let size_bytes = unpacked_bytes(&file, place)?;
        // The symbols and their names are copied from what was decompressed, and sorted.
        let reserved = Reserved::new(usize::try_from(2 * size_bytes).ok()?)?;
        let file = Arc::new(file);
        let mut elf = Elf::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
        elf.debug_syms = false;
        let symbolizer = Symbolizer::builder()
            .enable_auto_reload(false)
            .enable_code_info(false)
            .enable_inlined_fns(false)
            .enable_demangling(false)
            .build();
        Some(PackedSymbols { symbolizer, source: Source::Elf(elf), _file: file, reserved })
    }

    /// The symbol at an address, as in the file's headers.
    pub(super) fn find(&self, address: u64) -> Option<NamedAddress<'static>> {
        let found = self.symbolizer.symbolize_single(&self.source, Input::VirtOffset(address)).ok()?;
        let Symbolized::Sym(symbol) = found else { return None };
        // Without a size, it would reach to the next symbol, whatever is between.
        let is_within = symbol.size.is_some() || symbol.offset == 0;
        let name = symbol.name.into_owned().into_bytes().into();
        is_within.then_some(NamedAddress { name, offset: symbol.offset as u64 })
    }

    /// Approximate memory use in bytes.
    pub(super) fn size_bytes(&self) -> usize {
        self.reserved.size_bytes()
    }
}

impl fmt::Debug for PackedSymbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedSymbols").field("source", &self.source).finish_non_exhaustive()
    }
}

/// The size of the contents of a section; `None` if they are damaged, or exceed a limit.
fn unpacked_bytes(file: &File, place: Place) -> Option<u64> {
    if place.unpacked_bytes.is_some() || place.size_bytes > MAX_PACKED_BYTES {
        return None;
    }
    let mut packed = vec![0; usize::try_from(place.size_bytes).ok()?];
    file.read_exact_at(&mut packed, place.offset).ok()?;
    let _reserved = Reserved::new(packed.len() + MAX_DECODER_BYTES as usize)?;
    let decoder = XzDecoder::new_stream(packed.as_slice(), Stream::new_stream_decoder(MAX_DECODER_BYTES, 0).ok()?);
    let size_bytes = io::copy(&mut decoder.take(MAX_UNPACKED_BYTES + 1), &mut io::sink()).ok()?;
    (size_bytes <= MAX_UNPACKED_BYTES).then_some(size_bytes)
}
