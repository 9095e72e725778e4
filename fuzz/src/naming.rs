//! Fuzz targets for symbolization, from untrusted files to printed names.
//!
//! In: bytes of ELF files, perf maps, jitdumps and symbol names. Guarantee: what is kept of a file
//! is proportional to its size. Each name is bounded, and so are all names of a stack and of a
//! listing together, whatever they expand to.

use std::io::Cursor;
use std::path::Path;

use profiler_compiler::text::write_value;
use profiler_compiler::types::{Space, StackMode};
use profiler_compiler::value::{Location, Stack, SymbolName, Symbols, Value};
use profiler_runtime::host::demangle::{MAX_NAME_BYTES, readable};
use profiler_runtime::host::elf;
use profiler_runtime::symbols::counting::{Counting, Counts, MAX_LONG_BYTES, SHORT_BYTES};
use profiler_runtime::symbols::image::{Contents, Image, NamedAddress};
use profiler_runtime::symbols::jitdump::JitDump;
use profiler_runtime::symbols::lines::{Lines, Read};
use profiler_runtime::symbols::perf_map::PerfMap;

/// Number of addresses looked up in a file, the same as the frames of a stack.
const PLACES: usize = 127;
/// Enough stacks to reach the bound on all names.
const STACKS: usize = 64;

/// The symbols that a file has for its addresses.
struct Answers(Vec<Option<SymbolName>>);

impl Symbols for Answers {
    fn kernel(&self, _address: u64) -> Option<SymbolName> {
        None
    }

    fn user(&self, _pid: u32, address: u64) -> Option<SymbolName> {
        self.0.get(address as usize)?.clone()
    }

    fn username(&self, _uid: u32) -> Option<String> {
        None
    }

    fn boot_time_ns(&self) -> u64 {
        0
    }
}

fn named(found: &NamedAddress<'_>) -> SymbolName {
    let name = readable(&found.name);
    assert!(name.text.len() <= MAX_NAME_BYTES, "{} bytes", name.text.len());
    assert!(!name.is_cut || name.text.ends_with('…'));
    SymbolName { name: name.text, offset: found.offset, module: None }
}

/// Prints stacks of all addresses, as a run does.
fn show(found: &[Option<NamedAddress<'_>>]) {
    let counts = Counts::default();
    let answers = Answers(found.iter().map(|found| found.as_ref().map(named)).collect());
    let named = found.iter().flatten().count();
    let symbols = Counting::new(&answers, &counts);
    let frames: Vec<u64> = (0..PLACES as u64).collect();
    let stack = Value::Stack(Stack {
        space: Space::User,
        mode: StackMode::Bpftrace,
        pid: 1,
        frames: frames.clone(),
        interrupted: Vec::new(),
        end: None,
    });
    let mut text = Vec::new();
    let stacks = if named > 0 { STACKS } else { 1 };
    for _ in 0..stacks {
        write_value(&stack, &symbols, &mut text);
    }
    let most = MAX_LONG_BYTES as usize + stacks * PLACES * (SHORT_BYTES + 64);
    assert!(text.len() <= most, "{} bytes of text, {most} at most", text.len());
    assert!(symbols.locate_user(1, &frames).iter().filter(|it| matches!(it, Location::Symbol(..))).count() <= named);
}

/// An ELF file: its symbols, and the functions that can be probed.
pub fn naming(input: &[u8]) {
    let image = Image::parse(input);
    assert!(image.size_bytes() <= 8 * input.len() + 1024, "{} bytes of {}", image.size_bytes(), input.len());
    let (step, file) = (input.len() / PLACES + 1, Contents::Bytes(input.into()));
    let found: Vec<Option<NamedAddress<'_>>> =
        (0..PLACES).map(|place| image.find((place * step) as u64, &file)).collect();
    assert!(found.iter().flatten().all(|found| found.name.len() <= MAX_NAME_BYTES + 1));
    show(&found);
    let Ok(symbols) = elf::Symbols::parse(Path::new("x"), input) else { return };
    for pattern in ["f*", "*(int)"] {
        for functions in [symbols.functions(pattern), symbols.functions_by_source_name(pattern)].into_iter().flatten() {
            let bytes: usize = functions.iter().map(|function| function.name.len()).sum();
            assert!(functions.iter().all(|function| function.name.len() <= MAX_NAME_BYTES), "a long name");
            assert!(bytes <= elf::MAX_LISTED_BYTES + MAX_NAME_BYTES, "{bytes} bytes of names");
        }
    }
}

/// An ELF file with debug information: lines and inlined functions.
pub fn lines(input: &[u8]) {
    let Read::Lines(mut lines) = Lines::read(Cursor::new(input)) else { return };
    for address in (0..2 * PLACES as u64).map(|place| 0x200 + place) {
        let found = lines.find(address);
        let names = found.origin.inlined.iter().map(|inlined| &inlined.name);
        let sources = found.origin.inlined.iter().map(|inlined| &inlined.source).chain([&found.origin.source]);
        let files = sources.flatten().map(|source| &source.file);
        assert!(names.chain(files).all(|text| text.len() <= MAX_NAME_BYTES));
        assert!(found.origin.inlined.len() <= PLACES);
    }
}

/// One symbol name on each line.
pub fn symbol_names(input: &[u8]) {
    for line in input.split(|byte| *byte == b'\n') {
        let name = readable(line);
        assert!(name.text.len() <= MAX_NAME_BYTES, "{} bytes", name.text.len());
        assert!(name.is_cut || line.len() <= MAX_NAME_BYTES);
    }
}

/// The contents of a `/tmp/perf-PID.map`.
pub fn perf_map(input: &[u8]) {
    let map = PerfMap::parse(input.to_vec());
    assert!(map.size_bytes() <= 16 * input.len() + 1024);
    let places = [0, 0x10, 0x1000, 0x7fff_0000, u64::MAX];
    let find = |place: usize| map.find(places[place % places.len()].saturating_add(place as u64));
    show(&(0..2 * places.len()).map(find).collect::<Vec<_>>());
}

/// The contents of a `jit-PID.dump`, read in two parts.
pub fn jitdump(input: &[u8]) {
    let mut dump = JitDump::default();
    for length in [input.len() / 2, input.len()] {
        dump.read_on(Cursor::new(input), length as u64);
    }
    assert!(dump.size_bytes() <= 4 * input.len() + 1024, "{} bytes of {}", dump.size_bytes(), input.len());
    let places = [0, 0x10, 0x1000, 0x7fff_0000, u64::MAX];
    let find = |place: usize| dump.find(places[place % places.len()].saturating_add(place as u64));
    show(&(0..2 * places.len()).map(find).collect::<Vec<_>>());
}
