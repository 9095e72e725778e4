//! What must never fail, whatever bytes it gets: every reader of text or of files, and the compiler as a whole.
//!
//! In: any bytes. Out: nothing. Guarantee: an entry point panics only when something is wrong with what it calls; it does no
//! I/O and knows nothing of the machine, so that the same bytes do the same everywhere.
//!
//! libFuzzer calls these through `fuzz_targets/`; `runtime/tests/fuzz` includes this file and calls them on the corpus and on
//! mutations of it. A new entry point is a line in [`ENTRIES`], a target that calls it, and a folder of seeds.

mod cli;
pub mod compiler;
#[path = "../../compiler/tests/support/fixture.rs"]
mod fixture;
pub mod mutate;
pub mod readers;
pub mod records;

use mutate::Shape;

/// An entry point.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Name of its target and of its folder in `corpus/`.
    pub name: &'static str,
    /// What its inputs are made of.
    pub shape: Shape,
    /// Takes an input.
    pub run: fn(&[u8]),
}

/// All entry points, sorted by name.
pub const ENTRIES: &[Entry] = &[
    Entry { name: "btf", shape: Shape::Words, run: readers::btf },
    Entry { name: "compile", shape: Shape::Script, run: compiler::compile },
    Entry { name: "elf_listing", shape: Shape::Words, run: readers::elf_listing },
    Entry { name: "elf_symbols", shape: Shape::Words, run: readers::elf_symbols },
    Entry { name: "format", shape: Shape::Text, run: records::format },
    Entry { name: "glob", shape: Shape::Text, run: readers::glob },
    Entry { name: "kallsyms", shape: Shape::Text, run: readers::kallsyms },
    Entry { name: "library_cache", shape: Shape::Words, run: readers::library_cache },
    Entry { name: "parse", shape: Shape::Script, run: compiler::parse },
    Entry { name: "passwd", shape: Shape::Text, run: readers::passwd },
    Entry { name: "process_maps", shape: Shape::Text, run: readers::process_maps },
    Entry { name: "records", shape: Shape::Words, run: records::records },
    Entry { name: "strftime", shape: Shape::Text, run: records::strftime },
    Entry { name: "tracepoint_format", shape: Shape::Text, run: readers::tracepoint_format },
    Entry { name: "usdt", shape: Shape::Words, run: readers::usdt },
    Entry { name: "values", shape: Shape::Words, run: records::values },
    Entry { name: "verifier_log", shape: Shape::Text, run: readers::verifier_log },
];
