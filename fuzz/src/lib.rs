//! Fuzz targets for code that must never fail on any input: every reader of text or of files, and
//! the whole compiler.
//!
//! In: any bytes. Out: nothing. Guarantee: an entry point panics only if the code that it calls has
//! a bug. It does no I/O and does not depend on the machine, so the same bytes give the same result
//! everywhere.
//!
//! libFuzzer calls these functions through `fuzz_targets/`. `cli/tests/fuzz` includes this file and
//! calls them on the corpus and on mutations of it. A new entry point needs a line in [`ENTRIES`],
//! a target that calls it, and a directory of seeds.

pub mod compiler;
#[path = "../../compiler/tests/support/fixture.rs"]
mod fixture;
pub mod mutate;
pub mod naming;
pub mod objects;
pub mod readers;
pub mod records;

use mutate::Shape;

/// An entry point.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Name of its target and of its directory in `corpus/`.
    pub name: &'static str,
    /// The structure of its inputs.
    pub shape: Shape,
    /// Runs it on an input.
    pub run: fn(&[u8]),
}

/// All entry points, sorted by name.
pub const ENTRIES: &[Entry] = &[
    Entry { name: "btf", shape: Shape::Words, run: readers::btf },
    Entry { name: "compile", shape: Shape::Script, run: compiler::compile },
    Entry { name: "dwarf", shape: Shape::Words, run: readers::dwarf },
    Entry { name: "elf_listing", shape: Shape::Words, run: readers::elf_listing },
    Entry { name: "elf_symbols", shape: Shape::Words, run: readers::elf_symbols },
    Entry { name: "format", shape: Shape::Text, run: records::format },
    Entry { name: "glob", shape: Shape::Text, run: readers::glob },
    Entry { name: "jitdump", shape: Shape::Words, run: naming::jitdump },
    Entry { name: "kallsyms", shape: Shape::Text, run: readers::kallsyms },
    Entry { name: "library_cache", shape: Shape::Words, run: readers::library_cache },
    Entry { name: "lines", shape: Shape::Words, run: naming::lines },
    Entry { name: "naming", shape: Shape::Words, run: naming::naming },
    Entry { name: "object", shape: Shape::Text, run: objects::object },
    Entry { name: "parse", shape: Shape::Script, run: compiler::parse },
    Entry { name: "passwd", shape: Shape::Text, run: readers::passwd },
    Entry { name: "perf_map", shape: Shape::Text, run: naming::perf_map },
    Entry { name: "process_maps", shape: Shape::Text, run: readers::process_maps },
    Entry { name: "records", shape: Shape::Words, run: records::records },
    Entry { name: "strftime", shape: Shape::Text, run: records::strftime },
    Entry { name: "symbol_names", shape: Shape::Text, run: naming::symbol_names },
    Entry { name: "tracepoint_format", shape: Shape::Text, run: readers::tracepoint_format },
    Entry { name: "usdt", shape: Shape::Words, run: readers::usdt },
    Entry { name: "values", shape: Shape::Words, run: records::values },
    Entry { name: "verifier_log", shape: Shape::Text, run: readers::verifier_log },
];
