//! Reads every emitted object back with `aya_obj` and with an independent reader, and its
//! description from its stored form, and compares the results with the compiler's output.
//!
//! In: random scripts, and all scripts of the repository: tests, examples, the pages of the
//! specification. Out: the differences.
//! Guarantees: programs, maps, types, relocations, lines and descriptions are compared; nothing is
//! loaded.

mod reader;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use profiler_compiler::emit::bpf::Insn;
use profiler_compiler::emit::{self, EmittedFunction, Note};
use profiler_compiler::ir::{MapKind, Section};
use profiler_compiler::object::Object;
use profiler_compiler::source::Source;

use crate::executors::{Forms, forms};
use crate::generate::{fixed_script, script};
use crate::loads::scripts_in;
use crate::print::print;
use crate::range;
use reader::{Line, MapDefinition, Program, Read};

/// `BPF_PSEUDO_MAP_FD` and `BPF_PSEUDO_MAP_VALUE`: the source register of a wide load after
/// relocation.
const MAP_FD: u8 = 1;
const MAP_VALUE: u8 = 2;

/// The section of subprograms.
const SUBPROGRAMS: &str = ".text";

/// The expected contents of an object.
fn meant(forms: &Forms, text: &str) -> Read {
    let symbol = |note: &Option<Note>| match note {
        Some(Note::Map(map)) => Some(forms.optimised.maps[map.0 as usize].name.clone()),
        Some(Note::Data(Section::Rodata, _)) => Some(".rodata".to_string()),
        Some(Note::Data(Section::Bss, _)) => Some(".bss".to_string()),
        Some(Note::Function(_) | Note::Call(_)) => Some(SUBPROGRAMS.to_string()),
        Some(Note::Helper(_) | Note::Peek) | None => None,
    };
    // The section offset of each subprogram, which instructions that refer to it have as a
    // constant.
    let mut starts: Vec<i32> = Vec::new();
    let mut end = 0;
    for subprogram in &forms.subprograms {
        starts.push(end);
        end += subprogram.insns.len() as i32 * 8;
    }
    let placed = |insn: &Insn, note: &Option<Note>| match note {
        Some(Note::Function(id)) => Insn { imm: starts[id.0 as usize], ..*insn },
        Some(Note::Call(id)) => Insn { imm: starts[id.0 as usize] / 8 - 1, ..*insn },
        _ => *insn,
    };
    let program = |function: &EmittedFunction| Program {
        name: function.name.clone(),
        section: function.section.clone(),
        code: function
            .insns
            .iter()
            .zip(&function.notes)
            .flat_map(|(insn, note)| placed(insn, note).to_bytes())
            .collect(),
        relocations: (0..).zip(&function.notes).filter_map(|(at, note)| Some((at, symbol(note)?))).collect(),
        function: function.name.clone(),
        lines: lines(function, text),
    };
    // Sections are in the order of their first program.
    let mut programs: Vec<Program> = Vec::new();
    for function in forms.subprograms.iter().chain(&forms.functions) {
        let behind = programs.iter().rposition(|p| p.section == function.section).map_or(programs.len(), |at| at + 1);
        programs.insert(behind, program(function));
    }
    let maps = forms.optimised.maps.iter().map(|map| {
        let (key_bytes, value_bytes) = match map.kind {
            MapKind::RingBuf => (0, 0),
            _ => (map.key_size_bytes, map.value_size_bytes),
        };
        let (kind, flags) = (map.kind as u32, u32::from(map.no_prealloc));
        MapDefinition { name: map.name.clone(), kind, key_bytes, value_bytes, max_entries: map.max_entries, flags }
    });
    Read {
        programs,
        maps: maps.collect(),
        rodata: forms.optimised.rodata.clone(),
        bss_bytes: u64::from(forms.optimised.bss_size_bytes),
        license: b"GPL\0".to_vec(),
    }
}

/// The instructions of a function at which the source line changes.
fn lines(function: &EmittedFunction, text: &str) -> Vec<Line> {
    let starts: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let mut lines: Vec<Line> = Vec::new();
    for (insn, span) in (0..).zip(&function.spans) {
        let at = (span.start as usize).min(text.len());
        let number = starts.iter().filter(|start| **start <= at).count();
        if lines.last().is_none_or(|last| last.number as usize != number) {
            let line = &text[starts[number - 1]..];
            let column = (line[..at - starts[number - 1]].chars().count() as u32 + 1).min(0x3ff);
            let line = line.split('\n').next().unwrap_or_default();
            let line = line.strip_suffix('\r').unwrap_or(line).replace('\0', "");
            lines.push(Line { insn, file: "random".into(), text: line, number: number as u32, column });
        }
    }
    lines
}

/// The first difference between what `aya_obj` reads and what is expected.
fn differs_for_aya(elf: &[u8], meant: &Read) -> Option<String> {
    let mut object = match aya_obj::Object::parse(elf) {
        Ok(object) => object,
        Err(error) => return Some(format!("it does not parse: {error}")),
    };
    // aya-obj treats subprograms as functions, not as programs.
    let programs = || meant.programs.iter().filter(|program| program.section != SUBPROGRAMS);
    if object.programs.len() != programs().count() || object.license.as_bytes_with_nul() != meant.license {
        return Some("programs or licence differ".into());
    }
    for map in &meant.maps {
        let Some(read) = object.maps.get(&map.name) else { return Some(format!("no map {}", map.name)) };
        let numbers = [read.map_type(), read.key_size(), read.value_size(), read.max_entries(), read.map_flags()];
        if numbers != [map.kind, map.key_bytes, map.value_bytes, map.max_entries, map.flags] {
            return Some(format!("{map:?} has {numbers:?}"));
        }
    }
    for (section, size_bytes) in [(".rodata", meant.rodata.len() as u64), (".bss", meant.bss_bytes)] {
        if object.maps.get(section).map_or(0, |map| u64::from(map.value_size())) != size_bytes {
            return Some(format!("{section} has another size"));
        }
    }
    // Relocating shows how it interprets the relocations: each map gets its own descriptor.
    let maps: BTreeMap<String, aya_obj::Map> = object.maps.clone().into_iter().collect();
    let descriptor = |name: &str| 1000 + maps.keys().position(|known| known == name).unwrap_or_default() as i32;
    let with_descriptors = maps.iter().map(|(name, map)| (name.as_str(), descriptor(name), map));
    let code: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    if let Err(error) = object.relocate_maps(with_descriptors, &code) {
        return Some(format!("it does not relocate: {error}"));
    }
    programs().find_map(|program| {
        let read = object.functions.get(&object.programs.get(&program.name)?.function_key())?;
        let insns: Vec<Insn> = read.instructions.iter().map(Insn::from).collect();
        let expected = relocated(program, &descriptor);
        if insns != expected {
            return Some(format!("{} has other instructions or relocations", program.name));
        }
        let lines: Vec<(u32, u32)> = read.line_info.line_info.iter().map(|l| (l.insn_off, l.line_col)).collect();
        let start = lines.first().map_or(0, |line| line.0);
        let lines: Vec<(u32, u32)> = lines.iter().map(|(insn, place)| (insn - start, *place)).collect();
        let expected: Vec<(u32, u32)> = program.lines.iter().map(|l| (l.insn, l.number << 10 | l.column)).collect();
        (lines != expected || read.func_info.func_info.len() != 1)
            .then(|| format!("{}: lines {lines:?} instead of {expected:?}", program.name))
    })
}

/// A program's instructions after map relocation.
fn relocated(program: &Program, descriptor: &dyn Fn(&str) -> i32) -> Vec<Insn> {
    let insn = |bytes: &[u8]| Insn {
        code: bytes[0],
        dst: bytes[1] & 15,
        src: bytes[1] >> 4,
        off: i16::from_le_bytes([bytes[2], bytes[3]]),
        imm: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
    };
    let mut insns: Vec<Insn> = program.code.chunks_exact(8).map(insn).collect();
    // Subprograms are not reached through maps; they are relocated later.
    for (at, to) in program.relocations.iter().filter(|(_, to)| to != SUBPROGRAMS) {
        let at = *at as usize;
        let is_data = to.starts_with('.');
        if is_data {
            insns[at + 1].imm = insns[at].imm;
        }
        insns[at].imm = descriptor(to);
        insns[at].src = if is_data { MAP_VALUE } else { MAP_FD };
    }
    insns
}

/// Reads a script's object back; `false` if the script does not compile.
fn read_back(what: &str, text: &str) -> bool {
    let Ok(forms) = forms(text, false) else { return false };
    let meant = meant(&forms, text);
    let read = reader::read(&forms.object.elf);
    assert_eq!(read, meant, "{what}: our reader");
    let differs = differs_for_aya(&for_aya(&forms, text), &meant);
    assert_eq!(differs, None, "{what}: aya_obj");
    assert_described(what, &forms.object);
    true
}

/// The description of an object reads back equal.
fn assert_described(what: &str, object: &Object) {
    let mut again = Object::from_json(&object.to_json()).unwrap_or_else(|| panic!("{what}: the description"));
    again.elf.clone_from(&object.elf);
    // Ids of functions differ from kernel to kernel.
    again.loaded_for.clone_from(&object.loaded_for);
    assert_eq!(again, *object, "{what}: the description");
}

/// The object with sections that aya-obj 0.3 knows: multi links were added later.
fn for_aya(forms: &Forms, text: &str) -> Vec<u8> {
    let mut program = forms.optimised.clone();
    for function in &mut program.functions {
        function.section = function.section.replace(".multi", "");
    }
    emit::emit(&program, &Source::new("random", text)).expect("emits as before").elf
}

#[test]
fn objects_of_random_scripts_are_read_back() {
    let seeds = range(40);
    let mut read = 0;
    for seed in seeds.clone() {
        read += u64::from(read_back(&format!("seed {seed}"), &print(&fixed_script(seed))));
        read += u64::from(read_back(&format!("seed {seed}"), &print(&script(seed))));
    }
    println!("{read} objects");
    assert!(read >= (seeds.end - seeds.start) / 2 * 3);
}

/// The scripts in the pages of a directory, named by page and number.
fn scripts_in_pages(directory: &Path, found: &mut Vec<(String, String)>) {
    let entries = std::fs::read_dir(directory).expect("the directory of pages");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            scripts_in_pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let page = std::fs::read_to_string(&path).expect("a page");
            let blocks =
                page.split("\n```prof").skip(1).filter_map(|rest| rest.split_once('\n')?.1.split("\n```").next());
            found.extend((1..).zip(blocks).map(|(n, block)| (format!("{} {n}", path.display()), format!("{block}\n"))));
        }
    }
}

#[test]
fn objects_of_the_scripts_of_the_repository_are_read_back() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if !root.join("spec").is_dir() {
        println!("SKIPPED: the pages of the specification are not here");
        return;
    }
    let mut scripts = Vec::new();
    scripts_in_pages(&root.join("spec"), &mut scripts);
    for directory in ["tests/scripts/core", "tests/scripts/loads", "tests/diagnostics", "examples"] {
        let read = |path: PathBuf| (path.display().to_string(), std::fs::read(path).expect("reads"));
        let texts = scripts_in(directory).into_iter().map(read);
        scripts.extend(texts.filter_map(|(name, bytes)| Some((name, String::from_utf8(bytes).ok()?))));
    }
    let read = scripts.iter().filter(|(what, text)| read_back(what, text)).count();
    println!("{read} objects of {} scripts; the others do not compile here", scripts.len());
    assert!(read * 3 > scripts.len(), "only {read} of {} scripts compile", scripts.len());
}
