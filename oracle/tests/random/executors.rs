//! The executors: the IR evaluator, the bytecode interpreter, and the kernel.
//!
//! In: a script. Out: the state after running its programs in sequence. Guarantees: values, keys
//! and records are compared as bytes, padding included. The kernel runs all programs on one CPU;
//! which one is not compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use profiler_compiler::check::{self, Options};
use profiler_compiler::diagnostic::Diagnostic;
use profiler_compiler::emit::EmittedFunction;
use profiler_compiler::emit::bpf::Insn;
use profiler_compiler::ir::build::FunctionBuilder;
use profiler_compiler::ir::{self, Addr, Helper, MapId, Section, Size};
use profiler_compiler::object::{Loss, Object, Storage, ThreadMap, TimeSpan};
use profiler_compiler::source::{Source, Span};
use profiler_compiler::target::{Defined, Target as _};
use profiler_compiler::{CATALOGUE, emit, expand, lower, parse};
use profiler_oracle::evaluator::{Environment, Fault, Machine, Space};
use profiler_runtime::host::Host;
use profiler_runtime::load::{LoadOptions, Loaded, load};
use profiler_runtime::ring::{Origin, Rings};
use profiler_runtime::sys::bpf::{test_run, test_run_on};

use crate::interpreted::World;
use crate::sys::stay_on_this_cpu;

/// The running kernel and its machine.
pub static HOST: LazyLock<Host> = LazyLock::new(Host::new);

/// Words of a context: the most that a raw tracepoint has.
const CONTEXT_WORDS: usize = 12;

/// Each key (empty for a scalar) with the values of the CPUs that wrote one.
pub type Entries = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// A script at each stage of compilation.
pub struct Forms {
    pub lowered: ir::Program,
    pub optimised: ir::Program,
    pub functions: Vec<EmittedFunction>,
    pub subprograms: Vec<EmittedFunction>,
    pub object: Object,
}

/// Compiles a script and keeps what the executors need. Blocks share programs, as in the command,
/// unless `separate_programs`.
pub fn forms(text: &str, separate_programs: bool) -> Result<Forms, Vec<Diagnostic>> {
    let source = Source::new("random", text);
    let ast = expand::expand(parse::parse(&source)?)?;
    let options = Options { allow_unsafe: true, ..Options::default() };
    let (added, problems) = check::define(&ast, &*HOST);
    if !problems.is_empty() {
        return Err(problems);
    }
    let machine = Defined::new(&*HOST, added);
    let (typed, diagnostics) = check::check(&ast, &CATALOGUE, &machine, &options);
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(diagnostics);
    }
    if separate_programs {
        return code(&source, lower::lower_separately(&typed, (&CATALOGUE, &machine)));
    }
    // As in the compiler: blocks share a program unless it becomes too large.
    let shared = code(&source, lower::lower(&typed, (&CATALOGUE, &machine), &BTreeSet::new(), typed.windows.len()));
    shared.or_else(|_| code(&source, lower::lower_separately(&typed, (&CATALOGUE, &machine))))
}

/// The stages after lowering.
fn code(source: &Source, lowered: lower::Lowered) -> Result<Forms, Vec<Diagnostic>> {
    let lower::Lowered { ir: lowered, mut object } = lowered;
    emit::check_size(&lowered, emit::MAX_FUNCTION_INSTS)?;
    assert_eq!(ir::verify::verify(&lowered), Ok(()), "lowering made IR that does not hold");
    let mut optimised = lowered.clone();
    ir::optimise::optimise(&mut optimised);
    ir::joins::widen(&mut optimised);
    assert_eq!(ir::verify::verify(&optimised), Ok(()), "optimising made IR that does not hold");
    let emitted = emit::emit(&optimised, source)?;
    object.elf = emitted.elf;
    Ok(Forms { lowered, optimised, functions: emitted.functions, subprograms: emitted.subprograms, object })
}

/// The observable result of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// The maps of the script by name.
    pub maps: BTreeMap<String, Entries>,
    /// The records of the data ring buffer and of the control ring buffer, cut to their stated
    /// length.
    pub data: Vec<Vec<u8>>,
    pub control: Vec<Vec<u8>>,
    /// Losses by kind.
    pub losses: BTreeMap<String, u64>,
}

impl Outcome {
    /// Describes the first difference between two outcomes.
    pub fn difference(&self, other: &Outcome) -> String {
        for (name, entries) in &self.maps {
            if other.maps.get(name) != Some(entries) {
                return format!("{name}\n  {entries:x?}\n  {:x?}", other.maps.get(name));
            }
        }
        for (ring, left, right) in [("data", &self.data, &other.data), ("control", &self.control, &other.control)] {
            if left != right {
                let at = left.iter().zip(right).position(|(a, b)| a != b).unwrap_or(left.len().min(right.len()));
                let (of, and) = (left.len(), right.len());
                return format!(
                    "record {at} ({of} and {and}) of {ring}\n  {:x?}\n  {:x?}",
                    left.get(at),
                    right.get(at)
                );
            }
        }
        format!("losses\n  {:?}\n  {:?}", self.losses, other.losses)
    }

    /// The number of refused updates.
    fn refused_updates(&self) -> u64 {
        self.losses.iter().filter(|(what, _)| what.starts_with("MapFull")).map(|(_, count)| count).sum()
    }
}

/// The part of a ring buffer record that was written.
fn written_part(record: &[u8]) -> Vec<u8> {
    let size = record.get(4..8).map_or(0, |size| u32::from_le_bytes([size[0], size[1], size[2], size[3]]));
    record[..record.len().min(size as usize)].to_vec()
}

/// The state that all executors are given, and the contexts of the script's programs.
#[derive(Debug, Clone)]
pub struct Setting {
    pub environment: Environment,
    /// A context for each BPF program.
    pub contexts: Vec<[u64; CONTEXT_WORDS]>,
    /// Number of bytes of the current task that programs can read; all are zero.
    pub task_bytes: usize,
    /// How often all programs run in sequence.
    pub rounds: u64,
}

impl Setting {
    /// The environment of this thread; the context words are random, from a seed.
    pub fn of_this_thread(object: &Object, seed: u64) -> Setting {
        let environment = Environment {
            cpus: HOST.possible_cpus(),
            uid_gid: 0,
            pid_tgid: pid_tgid(),
            comm: comm(),
            // Time advances, so that entries have an age as in the kernel.
            clock_step_ns: 1000,
            ..Environment::default()
        };
        let mut dice = crate::dice::Dice::new(seed ^ 0xc0);
        let mut word = || match dice.below(4) {
            0 => dice.pick(&[0, 1, u64::MAX, 1 << 63, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x8080]),
            1 => dice.below(256),
            _ => dice.draw(),
        };
        let contexts = programs(object).iter().map(|_| std::array::from_fn(|_| word())).collect();
        // Spans need several rounds to end what began, and windows need at least two.
        let rounds = if object.spans.is_empty() && object.generation_offset.is_none() { 1 } else { 3 };
        Setting { environment, contexts, task_bytes: 16 << 10, rounds }
    }
}

/// The names of the BPF programs; several blocks may run in one.
fn programs(object: &Object) -> Vec<&str> {
    let mut names: Vec<&str> = object.programs.iter().map(|block| block.runs_in.as_str()).collect();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    names
}

impl Setting {
    /// All programs with their contexts, in each round.
    fn runs<'a, T>(&'a self, programs: &'a [T]) -> impl Iterator<Item = (u64, &'a T, &'a [u64; CONTEXT_WORDS])> {
        let each = |round| programs.iter().zip(&self.contexts).map(move |(program, context)| (round, program, context));
        (0..self.rounds).flat_map(each)
    }
}

fn comm() -> [u8; 16] {
    let text = std::fs::read("/proc/thread-self/comm").unwrap_or_default();
    let mut comm = [0; 16];
    let name = text.strip_suffix(b"\n").unwrap_or(&text);
    comm[..name.len().min(15)].copy_from_slice(&name[..name.len().min(15)]);
    comm
}

/// This thread's pid and tgid in the initial pid namespace.
pub fn pid_tgid() -> u64 {
    let ask = || {
        let mut b = FunctionBuilder::new("who", "raw_tp/sys_enter", Span::default());
        let who = b.call(Helper::GetCurrentPidTgid, &[]);
        let at = b.data_addr(Section::Bss, 0);
        b.store(Addr::reg(at, 0), who, Size::B8);
        b.ret(0);
        let program = ir::Program { functions: vec![b.finish()], bss_size_bytes: 8, ..ir::Program::default() };
        let emitted = emit::emit(&program, &Source::new("who", "")).unwrap_or_else(|errors| panic!("{errors:?}"));
        let loaded = load(&emitted.elf, LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        test_run(loaded.program("who").expect("it is there")).expect("runs");
        loaded.globals().bss_u64(0).expect("inside of .bss")
    };
    thread_local!(static WHO: std::cell::OnceCell<u64> = const { std::cell::OnceCell::new() });
    WHO.with(|who| *who.get_or_init(ask))
}

fn bytes_of(context: &[u64; CONTEXT_WORDS]) -> Vec<u8> {
    context.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Runs the evaluator. An error is a fault of the program, with its location.
pub fn evaluated(program: &ir::Program, object: &Object, setting: &Setting) -> Result<Outcome, (Fault, String)> {
    let mut machine = Machine::new(program);
    machine.kernel.environment = setting.environment.clone();
    if setting.task_bytes > 0 {
        machine.add_memory(Space::Kernel, setting.environment.task, vec![0; setting.task_bytes]);
    }
    for (round, name, context) in setting.runs(&programs(object)) {
        // A program that called `exit` has closed the gate for later programs.
        machine.bss_mut()[object.gate_offset as usize..object.gate_offset as usize + 8].fill(0);
        if let Some(at) = object.generation_offset {
            machine.bss_mut()[at as usize..at as usize + 8].copy_from_slice(&(round % 2).to_le_bytes());
        }
        let result = machine.run(name, &bytes_of(context));
        result.map_err(|error| (error.fault.clone(), error.to_string()))?;
    }
    let id = |name: &str| {
        MapId(program.maps.iter().position(|map| map.name == *name).expect("the map is in the program") as u32)
    };
    let records = |ring: &Option<String>| -> Vec<Vec<u8>> {
        let records = ring.as_ref().map_or(Vec::new(), |ring| machine.ring_records(id(ring)));
        records.iter().map(|record| written_part(record)).collect()
    };
    Ok(outcome(
        object,
        (records(&object.data_ring), records(&object.control_ring)),
        |at, size| machine.bss()[at..at + size].to_vec(),
        |name, _| machine.map_entries(id(name)).into_iter().map(|(key, values)| (key, written(values))).collect(),
    ))
}

/// Runs the interpreter; `tamper` may change instructions first.
pub fn interpreted(forms: &Forms, setting: &Setting, tamper: fn(&mut Insn)) -> Result<Outcome, String> {
    let mut world = World::new(&forms.optimised, setting.environment.clone(), setting.task_bytes);
    for (round, name, context) in setting.runs(&programs(&forms.object)) {
        world.set_word(forms.object.gate_offset, 0);
        if let Some(at) = forms.object.generation_offset {
            world.set_word(at, round % 2);
        }
        let mut function = forms.functions.iter().find(|it| it.name == *name).ok_or("no such function")?.clone();
        function.insns.iter_mut().for_each(tamper);
        world
            .run(&function, &forms.subprograms, bytes_of(context))
            .map_err(|fault| format!("{}: {fault:?}", function.name))?;
    }
    let records = |ring: &Option<String>| -> Vec<Vec<u8>> {
        let records = ring.as_ref().map_or(Vec::new(), |ring| world.records(ring));
        records.iter().map(|record| written_part(record)).collect()
    };
    let object = &forms.object;
    Ok(outcome(
        object,
        (records(&object.data_ring), records(&object.control_ring)),
        |at, size| world.bss()[at..at + size].to_vec(),
        |name, _| world.entries(name).into_iter().map(|(key, value)| (key, written(vec![value]))).collect(),
    ))
}

/// Loads an object; the kernel's message if it refuses.
pub fn loaded(object: &Object) -> Result<Loaded, String> {
    load(&object.elf, LoadOptions::default()).map_err(|error| error.to_string())
}

/// Runs the programs in the kernel, all on one CPU.
pub fn run_by_kernel(object: &Object, setting: &Setting) -> Result<Outcome, String> {
    // Each CPU has its own values of an aggregation: rounds on two CPUs would leave two values
    // where the evaluator has one.
    stay_on_this_cpu();
    let loaded = loaded(object)?;
    for (round, name, context) in setting.runs(&programs(object)) {
        assert!(loaded.globals().set_bss_u64(object.gate_offset, 0), "inside of .bss");
        if let Some(at) = object.generation_offset {
            assert!(loaded.globals().set_bss_u64(at, round % 2), "inside of .bss");
        }
        let program = loaded.program(name).ok_or("no program")?;
        test_run_on(program, context).map_err(|error| error.to_string())?;
    }
    let most = object.events.iter().map(|event| event.max_size_bytes).max().unwrap_or(0);
    let ring = |name: &Option<String>| {
        name.as_ref().map(|name| loaded.ring(name, most)).transpose().map_err(|error| error.to_string())
    };
    let (mut data, mut control) = (Vec::new(), Vec::new());
    let drained = Rings::new(ring(&object.data_ring)?, ring(&object.control_ring)?).drain(&mut |origin, record| {
        let records = if origin == Origin::Data { &mut data } else { &mut control };
        records.push(written_part(record));
    });
    if !drained.complete {
        return Err("a record was left unfinished".into());
    }
    Ok(outcome(
        object,
        (data, control),
        |at, size| loaded.globals().bss_bytes(at as u32, size as u32).expect("inside of .bss"),
        |name, size| {
            let threads = object.maps.iter().find_map(|map| match &map.storage {
                Storage::Threads(threads) if threads.map == name => Some(threads),
                _ => None,
            });
            let found = match threads {
                Some(threads) => thread_values(&loaded, threads),
                None => entries(&loaded, name, size),
            };
            found.unwrap_or_else(|error| panic!("{name}: {error}"))
        },
    ))
}

/// The threads' values in the kernel.
fn thread_values(loaded: &Loaded, threads: &ThreadMap) -> std::io::Result<Entries> {
    let values = profiler_runtime::threads::values(threads, loaded)?;
    Ok(values.into_iter().map(|(thread, value)| (thread.to_ne_bytes().to_vec(), vec![value])).collect())
}

/// The same entries without the parts that identify a thread, which differ between executors.
fn of_threads(found: Entries, threads: &ThreadMap) -> Entries {
    let size = threads.value_size_bytes as usize;
    let values = found.into_values().flatten().map(|value| value[..size].to_vec());
    let values: Vec<Vec<u8>> = values.collect();
    if values.is_empty() { Entries::new() } else { Entries::from([(Vec::new(), values)]) }
}

/// Collects the outcome from `.bss` and the maps.
fn outcome(
    object: &Object,
    (data, control): (Vec<Vec<u8>>, Vec<Vec<u8>>),
    bss: impl Fn(usize, usize) -> Vec<u8>,
    map: impl Fn(&str, usize) -> Entries,
) -> Outcome {
    let contents = |storage: &Storage| match storage {
        Storage::Global { .. } => copies(storage, &bss),
        Storage::Map { map: name, value_size_bytes, .. } => map(name, *value_size_bytes as usize),
        Storage::Threads(threads) => of_threads(map(&threads.map, threads.value_size_bytes as usize), threads),
    };
    let word = |at: u32| bss(at as usize, 8).iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let of_maps = object.maps.iter().map(|map| (map.name.clone(), contents(&map.storage)));
    let alternates =
        object.maps.iter().filter_map(|map| Some((format!("{}, next", map.name), &map.alternate.as_ref()?.storage)));
    let of_alternates = alternates.map(|(name, storage)| (name, contents(storage)));
    let of_span = |span: &TimeSpan| (format!("span {}", span.name), ledger(span, word, &map));
    let maps = of_maps.chain(of_alternates).chain(object.spans.iter().map(of_span)).collect();
    let losses = object.ledger.iter().map(|counter| (loss(&counter.loss), word(counter.offset_bytes))).collect();
    let control = control.into_iter().map(|record| without_time(object, record)).collect();
    Outcome { maps, data, control, losses }
}

/// A record that ends windows, without its time: the executors' clocks differ.
fn without_time(object: &Object, mut record: Vec<u8>) -> Vec<u8> {
    let number = record.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize);
    if number.and_then(|number| object.events.get(number)).is_some_and(|event| event.word.as_str() == "turn") {
        let at = record.len() - 8;
        record[at..].fill(0);
    }
    record
}

/// The counters of a span, summed over the CPUs, and the number of keys in its map. Its values are
/// times and are not compared.
fn ledger(span: &TimeSpan, word: impl Fn(u32) -> u64, map: impl Fn(&str, usize) -> Entries) -> Entries {
    let counters = (0..span.stride_bytes / 8).map(|counter| {
        let copies = 0..span.copies;
        copies
            .fold(0u64, |sum, cpu| sum.wrapping_add(word(span.counters_offset + cpu * span.stride_bytes + counter * 8)))
    });
    let keys = span.map.as_ref().map_or(0, |name| map(name, span.value_size_bytes as usize).len() as u64);
    let bytes = counters.chain([keys]).flat_map(u64::to_le_bytes).collect();
    Entries::from([(Vec::new(), vec![bytes])])
}

fn loss(loss: &Loss) -> String {
    format!("{loss:?}")
}

/// The copies of a scalar that were written.
fn copies(storage: &Storage, read: impl Fn(usize, usize) -> Vec<u8>) -> Entries {
    let Storage::Global { offset_bytes, stride_bytes, copies, value_size_bytes } = storage else { unreachable!() };
    let mut values = Vec::new();
    for copy in 0..*copies {
        let at = (offset_bytes + copy * stride_bytes) as usize;
        if read(at, 8) != [0; 8] {
            values.push(read(at + 8, *value_size_bytes as usize));
        }
    }
    if values.is_empty() { Entries::new() } else { Entries::from([(Vec::new(), values)]) }
}

/// The values that are not all zero: which CPU ran the program is not compared.
pub fn written(mut values: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    values.retain(|value| value.iter().any(|byte| *byte != 0));
    values
}

/// The entries of a map in the kernel.
pub fn entries(loaded: &Loaded, name: &str, value_size: usize) -> std::io::Result<Entries> {
    let map = loaded.map(name).ok_or(std::io::ErrorKind::NotFound)?;
    let mut entries = Entries::new();
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

/// The result of comparing the executors on a script.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Agree,
    /// The kernel refused updates although the map is not full, and reported it: its allocator for
    /// on-demand per-CPU values can be out of memory for a moment.
    Lost,
    /// More paths than the verifier follows: a limit that the command explains, not a bug.
    TooLarge,
    /// The executor that differs from the IR as lowered, and the difference.
    Disagree(&'static str, String),
}

/// Runs a script on all executors and compares the outcomes; `tamper` may change the interpreter's
/// instructions first.
pub fn compare(forms: &Forms, seed: u64, tamper: fn(&mut Insn)) -> Verdict {
    let setting = Setting::of_this_thread(&forms.object, seed);
    let expected = match evaluated(&forms.lowered, &forms.object, &setting) {
        Ok(outcome) => outcome,
        Err((_, words)) => return Verdict::Disagree("the IR as lowered", words),
    };
    let optimised = evaluated(&forms.optimised, &forms.object, &setting).map_err(|(_, words)| words);
    let bytecode = interpreted(forms, &setting, tamper);
    for (who, outcome) in [("the optimised IR", optimised), ("the interpreter", bytecode)] {
        match outcome {
            Ok(outcome) if outcome == expected => {}
            Ok(outcome) => return Verdict::Disagree(who, expected.difference(&outcome)),
            Err(words) => return Verdict::Disagree(who, words),
        }
    }
    match run_by_kernel(&forms.object, &setting) {
        Ok(outcome) if outcome == expected => Verdict::Agree,
        Ok(outcome) if outcome.refused_updates() > expected.refused_updates() => Verdict::Lost,
        Ok(outcome) => Verdict::Disagree("the kernel", expected.difference(&outcome)),
        Err(words) if words.contains("BPF program is too large") => Verdict::TooLarge,
        Err(words) => Verdict::Disagree("the kernel's loading or running", words),
    }
}
