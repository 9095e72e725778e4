//! The executors agree: the IR as lowered, the IR optimised, and the kernel leave the same maps behind.
//!
//! In: random scripts of one `BEGIN` that read nothing of the world but what the evaluator is told. Out: a verdict.
//! Guarantee: bytes are compared, so that padding counts.

use std::collections::BTreeMap;

use profiler_compiler::check::{self, Options};
use profiler_compiler::diagnostic::Diagnostic;
use profiler_compiler::ir::eval::{EvalError, Machine};
use profiler_compiler::ir::{self, MapId};
use profiler_compiler::object::{Loss, Object, Storage};
use profiler_compiler::source::Source;
use profiler_compiler::target::Target as _;
use profiler_compiler::{CATALOGUE, emit, lower, parse};
use profiler_runtime::load::{LoadOptions, Loaded, load};
use profiler_runtime::sys::bpf::test_run;

use crate::loads::HOST;
use crate::scripts::fixed_script;
use crate::{can_load, keep, range};

/// The contents of a script's maps by name: each key (empty for a scalar) with the values of the CPUs that wrote one.
pub type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<Vec<u8>>>>;

/// A script in all its forms.
pub struct Forms {
    pub lowered: ir::Program,
    pub optimised: ir::Program,
    pub object: Object,
}

/// Compiles and keeps what the executors need.
pub fn forms(text: &str) -> Result<Forms, Vec<Diagnostic>> {
    let source = Source::new("random", text);
    let ast = parse::parse(&source)?;
    let options = Options { allow_unsafe: true, ..Options::default() };
    let (typed, diagnostics) = check::check(&ast, &CATALOGUE, &*HOST, &options);
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(diagnostics);
    }
    let lower::Lowered { ir: lowered, mut object } = lower::lower(&typed, &*HOST);
    assert_eq!(ir::verify::verify(&lowered), Ok(()), "lowering made IR that does not hold");
    let mut optimised = lowered.clone();
    ir::optimise::optimise(&mut optimised);
    assert_eq!(ir::verify::verify(&optimised), Ok(()), "optimising made IR that does not hold");
    object.elf = emit::emit(&optimised, &source)?.elf;
    Ok(Forms { lowered, optimised, object })
}

/// What the evaluator leaves in the maps.
pub fn evaluated(program: &ir::Program, object: &Object) -> Result<Contents, EvalError> {
    let mut machine = Machine::new(program);
    machine.environment.cpus = HOST.possible_cpus();
    machine.environment.uid_gid = 0;
    machine.environment.comm = comm();
    machine.run(&object.programs[0].name, &[0; 96])?;
    let mut contents = Contents::new();
    for map in &object.maps {
        let entries = match &map.storage {
            Storage::Global { .. } => copies(&map.storage, |at, size| machine.bss()[at..at + size].to_vec()),
            Storage::Map { map: name, .. } => {
                let id = program.maps.iter().position(|m| m.name == *name).expect("the map is in the program");
                let entries = machine.map_entries(MapId(id as u32));
                entries.into_iter().map(|(key, values)| (key, written(values))).collect()
            }
        };
        contents.insert(map.name.clone(), entries);
    }
    Ok(contents)
}

/// What a run in the kernel came to.
pub enum Ran {
    /// It left this in the maps.
    Left(Contents),
    /// It counted updates that the kernel refused although the map has room. Seen now and then with large per-CPU values
    /// that are allocated on demand; the kernel's error number is not known yet.
    Lost,
}

/// What the kernel leaves in the maps.
pub fn run_by_kernel(object: &Object) -> Result<Ran, String> {
    let loaded = load(&object.elf, LoadOptions::default()).map_err(|error| error.to_string())?;
    let program = loaded.program(&object.programs[0].name).ok_or("no program")?;
    test_run(program).map_err(|error| error.to_string())?;
    let refused = object.ledger.iter().filter(|counter| matches!(counter.loss, Loss::MapFull { .. }));
    let lost: u64 = refused.filter_map(|counter| loaded.globals().bss_u64(counter.offset_bytes)).sum();
    if lost > 0 {
        return Ok(Ran::Lost);
    }
    let mut contents = Contents::new();
    for map in &object.maps {
        let entries = match &map.storage {
            Storage::Global { .. } => copies(&map.storage, |at, size| {
                loaded.globals().bss_bytes(at as u32, size as u32).expect("inside of .bss")
            }),
            Storage::Map { map: name, value_size_bytes, .. } => {
                entries(&loaded, name, *value_size_bytes as usize).map_err(|error| error.to_string())?
            }
        };
        contents.insert(map.name.clone(), entries);
    }
    Ok(Ran::Left(contents))
}

fn comm() -> [u8; 16] {
    let text = std::fs::read("/proc/thread-self/comm").unwrap_or_default();
    let mut comm = [0; 16];
    let name = text.strip_suffix(b"\n").unwrap_or(&text);
    comm[..name.len().min(15)].copy_from_slice(&name[..name.len().min(15)]);
    comm
}

/// A scalar's copies that were written.
fn copies(storage: &Storage, read: impl Fn(usize, usize) -> Vec<u8>) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    let Storage::Global { offset_bytes, stride_bytes, copies, value_size_bytes } = storage else { unreachable!() };
    let mut values = Vec::new();
    for copy in 0..*copies {
        let at = (offset_bytes + copy * stride_bytes) as usize;
        if read(at, 8) != [0; 8] {
            values.push(read(at + 8, *value_size_bytes as usize));
        }
    }
    if values.is_empty() { BTreeMap::new() } else { BTreeMap::from([(Vec::new(), values)]) }
}

/// The values that are not all zero: which CPU ran the program is not compared.
pub fn written(mut values: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    values.retain(|value| value.iter().any(|byte| *byte != 0));
    values
}

pub fn entries(loaded: &Loaded, name: &str, value_size: usize) -> std::io::Result<BTreeMap<Vec<u8>, Vec<Vec<u8>>>> {
    let map = loaded.map(name).ok_or(std::io::ErrorKind::NotFound)?;
    let mut entries = BTreeMap::new();
    let mut at = map.next_key(None)?;
    while let Some(key) = at {
        let value = map.lookup(&key)?.unwrap_or_default();
        let stride = value_size.next_multiple_of(8).min(value.len());
        let values = value.chunks_exact(stride.max(1)).map(|value| value[..value_size.min(stride)].to_vec()).collect();
        at = map.next_key(Some(&key))?;
        entries.insert(key, written(values));
    }
    Ok(entries)
}

/// What comparing the executors of a script came to.
enum Verdict {
    Agree,
    /// The kernel refused updates, and said so.
    Lost,
    Disagree(String),
}

fn compare(forms: &Forms) -> Verdict {
    let lowered = match evaluated(&forms.lowered, &forms.object) {
        Ok(contents) => contents,
        Err(error) => return Verdict::Disagree(format!("the IR as lowered: {error}")),
    };
    match evaluated(&forms.optimised, &forms.object) {
        Ok(contents) if contents == lowered => {}
        Ok(contents) => {
            return Verdict::Disagree(format!("optimising changes the meaning: {}", difference(&lowered, &contents)));
        }
        Err(error) => return Verdict::Disagree(format!("the optimised IR: {error}")),
    }
    match run_by_kernel(&forms.object) {
        Ok(Ran::Left(contents)) if contents == lowered => Verdict::Agree,
        Ok(Ran::Left(contents)) => {
            Verdict::Disagree(format!("the kernel differs: {}", difference(&lowered, &contents)))
        }
        Ok(Ran::Lost) => Verdict::Lost,
        Err(words) => Verdict::Disagree(format!("the kernel: {words}")),
    }
}

fn difference(left: &Contents, right: &Contents) -> String {
    let differing = left.iter().find(|(name, entries)| right.get(*name) != Some(entries));
    differing.map_or(String::new(), |(name, entries)| format!("{name}\n  {entries:x?}\n  {:x?}", right.get(name)))
}

#[test]
fn executors_agree_on_random_scripts() {
    if !can_load() {
        return;
    }
    let (mut agreed, mut declined, mut lost, mut wrong) = (0u64, 0u64, 0u64, Vec::new());
    for seed in range(200) {
        let text = fixed_script(seed);
        keep(&format!("fixed-{seed}.prof"), &text);
        match forms(&text) {
            Err(_) => declined += 1,
            Ok(forms) => match compare(&forms) {
                Verdict::Agree => agreed += 1,
                Verdict::Lost => {
                    lost += 1;
                    println!("seed {seed}: the kernel refused updates of maps that have room; not compared");
                }
                Verdict::Disagree(words) => wrong.push(format!("seed {seed}: {words}")),
            },
        }
    }
    println!("{agreed} scripts agree, {declined} declined, {lost} lost updates, {} disagree", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(lost * 20 <= agreed, "{lost} scripts lost updates: that is more than now and then");
    assert!(agreed > declined * 4, "only {agreed} scripts compile: the generator is off");
}
