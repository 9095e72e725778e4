//! Random IR programs do in the kernel what the evaluator predicts.
//!
//! In: `profiler_oracle::random`. Out: the program's result, `.bss` and maps, compared.
//! Guarantee: the kernel chooses the CPU, so its result must equal one of the evaluator's results
//! for all CPUs.

use std::collections::BTreeMap;

use profiler_compiler::emit::emit;
use profiler_compiler::ir::{Map, MapId, MapKind, Program, optimise};
use profiler_compiler::source::Source;
use profiler_compiler::target::Target as _;
use profiler_oracle::evaluator::Machine;
use profiler_oracle::random;
use profiler_runtime::load::{LoadOptions, Loaded, load};
use profiler_runtime::sys::bpf::test_run;

use crate::executors::{HOST, entries, pid_tgid, written};
use crate::{can_load, range};

/// The observable result of a run.
#[derive(Debug, PartialEq)]
struct Outcome {
    result: i64,
    bss: Vec<u8>,
    maps: BTreeMap<String, BTreeMap<Vec<u8>, Vec<Vec<u8>>>>,
}

fn emitted(program: &Program) -> Loaded {
    let emitted = emit(program, &Source::new("random", "")).unwrap_or_else(|errors| panic!("{errors:?}"));
    load(&emitted.elf, LoadOptions::default()).unwrap_or_else(|error| panic!("{error:?}"))
}

/// The maps whose contents are read back; ring buffers are not.
fn kept(program: &Program) -> impl Iterator<Item = (MapId, &Map)> {
    let maps = program.maps.iter().enumerate();
    maps.filter(|(_, map)| map.kind != MapKind::RingBuf).map(|(index, map)| (MapId(index as u32), map))
}

fn evaluate(program: &Program, cpu: u32, who: u64) -> Outcome {
    let mut machine = Machine::new(program);
    machine.kernel.environment.cpus = HOST.possible_cpus();
    machine.kernel.environment.cpu = cpu;
    machine.kernel.environment.pid_tgid = who;
    machine.kernel.environment.uid_gid = 0;
    let result = machine.run(random::FUNCTION, &[0; 96]).unwrap_or_else(|error| panic!("{error}"));
    let contents = |id| machine.map_entries(id).into_iter().map(|(key, values)| (key, written(values))).collect();
    let maps = kept(program).map(|(id, map)| (map.name.clone(), without_empty(map, contents(id)))).collect();
    Outcome { result, bss: machine.bss().to_vec(), maps }
}

fn run_by_kernel(program: &Program) -> Outcome {
    let loaded = emitted(program);
    let result = test_run(loaded.program(random::FUNCTION).expect("it is there")).expect("runs");
    let contents = |map: &Map| entries(&loaded, &map.name, map.value_size_bytes as usize).expect("reads");
    let maps = kept(program).map(|(_, map)| (map.name.clone(), without_empty(map, contents(map)))).collect();
    let bss = loaded.globals().bss_bytes(0, program.bss_size_bytes).expect("inside of .bss");
    Outcome { result: i64::from(result as i32), bss, maps }
}

/// The elements of an array exist even if they were never written.
fn without_empty(map: &Map, mut entries: BTreeMap<Vec<u8>, Vec<Vec<u8>>>) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    if map.kind == MapKind::Array {
        entries.retain(|_, values| !values.is_empty());
    }
    entries
}

#[test]
fn the_kernel_does_what_the_ir_says() {
    if !can_load() {
        return;
    }
    let who = pid_tgid();
    let seeds = range(200);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let program = random::program(seed);
        let mut optimised = program.clone();
        optimise::optimise(&mut optimised);
        let expected: Vec<Outcome> = (0..HOST.possible_cpus()).map(|cpu| evaluate(&program, cpu, who)).collect();
        for (form, program) in [("as made", &program), ("optimised", &optimised)] {
            let actual = run_by_kernel(program);
            assert!(expected.contains(&actual), "seed {seed}, {form}:\n{actual:x?}\n{:x?}", expected[0]);
        }
    }
    println!("{count} programs");
}
