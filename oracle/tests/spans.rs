//! The semantics of spans, tested on the reference implementation: random sequences of starts,
//! marks and ends on a few keys, against a simple model.
//!
//! In: scripts whose stages are timers, run by the evaluator in any order. Out: the ledger and what
//! handlers saw.
//! Guarantee: the program as lowered and the optimized one agree with the model after every run.

use std::collections::BTreeMap;

use profiler_compiler::check::Options;
use profiler_compiler::ir;
use profiler_compiler::object::{Loss, Object, SpanCounter};
use profiler_compiler::source::Source;
use profiler_compiler::{CATALOGUE, compile, lower};
use profiler_oracle::evaluator::Machine as Evaluator;

#[path = "../../compiler/tests/support/fixture.rs"]
mod fixture;

/// The stages differ in their periods.
const STAGES: &str =
    "start interval:1s { kept = tid; } mark half interval:2s { passed = x.passed + 1 } end interval:3s";
const HANDLERS: &str =
    "x:start { @starts += 1; } x:half { @halves += 1; } x:end { @ends += 1; @passed += x.passed; @kept += x.kept; }";

/// An open entry of a key: whether the mark was passed, and how often.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    is_half: bool,
    passed: u64,
    /// The number of starts before it.
    serial: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restart {
    Replace,
    Keep,
    Nest,
}

/// The expected ledger, and the sums that handlers compute.
#[derive(Debug, Default)]
struct Model {
    open: BTreeMap<u64, Vec<Open>>,
    counters: [u64; SpanCounter::COUNT as usize],
    passed: u64,
    kept: u64,
    /// A hash of the evicted keys, in eviction order.
    evicted: u64,
}

impl Model {
    fn count(&mut self, counter: SpanCounter) {
        self.counters[counter as usize] += 1;
    }

    fn start(&mut self, key: u64, restart: Restart, limit: usize, evicts: bool) {
        let depth = self.open.get(&key).map_or(0, Vec::len);
        self.open.retain(|_, stack| !stack.is_empty());
        match (restart, depth) {
            (_, 0) if self.open.len() >= limit && evicts => self.evict(),
            (_, 0) if self.open.len() >= limit => return self.count(SpanCounter::DroppedFull),
            (Restart::Keep, 1..) => return self.count(SpanCounter::Kept),
            (Restart::Replace, 1..) => {
                self.count(SpanCounter::Replaced);
                self.open.remove(&key);
            }
            _ => {}
        }
        self.count(SpanCounter::Started);
        let serial = self.counters[SpanCounter::Started as usize];
        self.open.entry(key).or_default().push(Open { serial, ..Open::default() });
    }

    fn evict(&mut self) {
        let oldest = self.open.iter().min_by_key(|(_, stack)| stack.first().map(|open| open.serial));
        let key = oldest.map(|(key, _)| *key).expect("something is open");
        let stack = self.open.remove(&key).unwrap_or_default();
        self.count(SpanCounter::Evicted);
        self.passed += stack.iter().map(|open| open.passed).sum::<u64>();
        self.evicted = self.evicted.wrapping_mul(31).wrapping_add(key);
    }

    fn mark(&mut self, key: u64) {
        match self.open.get_mut(&key).and_then(|stack| stack.last_mut()) {
            None => self.count(SpanCounter::UnmatchedMarks),
            Some(open) => *open = Open { is_half: true, passed: open.passed + 1, ..*open },
        }
    }

    fn end(&mut self, key: u64) {
        match self.open.get_mut(&key).and_then(Vec::pop) {
            None => self.count(SpanCounter::Unmatched),
            Some(open) => {
                self.count(SpanCounter::Matched);
                self.passed += open.passed;
                self.kept += key;
            }
        }
    }
}

/// A VM with accessors for a scalar and for the ledger.
struct Run<'p> {
    machine: Evaluator<'p>,
    object: &'p Object,
}

impl Run<'_> {
    fn event(&mut self, program: usize, key: u64, cpu: u32) {
        let world = &mut self.machine.kernel.environment;
        (world.pid_tgid, world.cpu, world.task) = (key << 32 | key, cpu, 0xffff_8880_0000_0000 + key * 0x10000);
        let name = &self.object.programs[program].name;
        self.machine.run(name, &[0; 256]).unwrap_or_else(|error| panic!("{error}"));
    }

    fn word(&self, offset: u32) -> u64 {
        let at = offset as usize;
        u64::from_le_bytes(self.machine.bss()[at..at + 8].try_into().expect("eight bytes"))
    }

    fn counters(&self, stages: u32) -> Vec<u64> {
        let span = &self.object.spans[0];
        let of = |index: u32| {
            let at = |cpu: u32| span.counters_offset + cpu * span.stride_bytes + index * 8;
            (0..span.copies).fold(0u64, |sum, cpu| sum.wrapping_add(self.word(at(cpu))))
        };
        (0..SpanCounter::COUNT + stages).map(of).collect()
    }

    fn scalar(&self, name: &str) -> u64 {
        let map = self.object.maps.iter().find(|map| map.name == name).expect("the map");
        match map.storage {
            profiler_compiler::object::Storage::Global { offset_bytes, .. } => self.word(offset_bytes + 8),
            _ => panic!("{name} is a scalar"),
        }
    }
}

fn program_of(object: &Object, period: &str) -> usize {
    let is = |program: &profiler_compiler::object::Program| program.probes.iter().any(|probe| probe.ends_with(period));
    object.programs.iter().position(is).expect("the stage's program")
}

/// Runs random events on the script and on the model.
fn compare(key: &str, clauses: &str, restart: Restart, limit: usize, seed: u64) {
    let evicts = clauses.contains("evict");
    let evicted = if evicts { "x:evict { @passed += x.passed; @evicted = @evicted * 31 + x.kept; }" } else { "" };
    let script = format!("span x by {key} {{ {STAGES} {clauses} }}\n{HANDLERS} {evicted}");
    let target = fixture::Machine::new(true);
    let source = Source::new("spans", &script);
    let stages = compile::stages(&source, &CATALOGUE, &target, &Options::default())
        .unwrap_or_else(|errors| panic!("{script}: {errors:?}"));
    let lowered = lower::lower_separately(&stages.typed, (&CATALOGUE, &target));
    let programs: [(&ir::Program, &str); 2] = [(&lowered.ir, "as lowered"), (&stages.ir, "optimised")];
    for (program, what) in programs {
        let mut run = Run { machine: Evaluator::new(program), object: &lowered.object };
        let mut model = Model::default();
        let [start, mark, end] =
            ["interval:1s", "interval:2s", "interval:3s"].map(|period| program_of(run.object, period));
        let mut random = seed;
        for step in 0..400 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (key, event, cpu) = ((random >> 33) % 4 + 1, (random >> 40) % 5, (random >> 50) as u32 % 2);
            run.machine.kernel.environment.boot_offset_ns += 10;
            match event {
                0 | 1 => {
                    run.event(start, key, cpu);
                    model.start(key, restart, limit, evicts);
                }
                2 => {
                    run.event(mark, key, cpu);
                    model.mark(key);
                }
                _ => {
                    run.event(end, key, cpu);
                    model.end(key);
                }
            }
            let found = run.counters(2);
            let words = format!("{what}, seed {seed}, step {step} of:\n{script}");
            assert_eq!(found[..SpanCounter::COUNT as usize], model.counters, "{words}");
            let open = || model.open.values().flatten();
            let in_stage = |is_half: bool| open().filter(|open| open.is_half == is_half).count() as u64;
            assert_eq!(found[SpanCounter::COUNT as usize..], [in_stage(false), in_stage(true)], "{words}");
        }
        let sums = [
            ("@starts", model.counters[0]),
            ("@ends", model.counters[1]),
            ("@passed", model.passed),
            ("@kept", model.kept),
        ];
        for (name, sum) in sums.into_iter().chain(evicts.then_some(("@evicted", model.evicted))) {
            assert_eq!(run.scalar(name), sum, "{name}, {what}, seed {seed}:\n{script}");
        }
    }
}

#[test]
fn every_order_of_events_leaves_the_ledger_of_the_model() {
    let number = "(n: (uint64)tid)";
    for seed in 0..12 {
        compare(number, "", Restart::Replace, 100, seed);
        compare(number, "restart keep", Restart::Keep, 100, seed);
        compare(number, "limit 2", Restart::Replace, 2, seed);
        compare(number, "limit 2 evict", Restart::Replace, 2, seed);
        compare(number, "limit 1 evict", Restart::Replace, 1, seed);
        compare(number, "restart keep limit 3 evict", Restart::Keep, 3, seed);
        // The same in task storage.
        compare("tid", "", Restart::Replace, 100, seed);
        compare("tid", "restart keep", Restart::Keep, 100, seed);
        compare("tid", "restart nest", Restart::Nest, 100, seed);
    }
}

#[test]
fn what_is_too_old_is_closed_by_the_sweep_and_by_nothing_else() {
    let script = "span x by (n: (uint64)tid) { start interval:1s { kept = tid } end interval:3s expire 1s }
        x:expire { @expired += 1; @kept += x.kept; @keys += x.n; }";
    let target = fixture::Machine::new(true);
    let source = Source::new("spans", script);
    let stages = compile::stages(&source, &CATALOGUE, &target, &Options::default()).expect("it compiles");
    let lowered = lower::lower_separately(&stages.typed, (&CATALOGUE, &target));
    for program in [&lowered.ir, &stages.ir] {
        let mut run = Run { machine: Evaluator::new(program), object: &lowered.object };
        let [start, end, sweep] =
            ["interval:1s", "interval:3s", "x:expire"].map(|period| program_of(run.object, period));
        for key in 1..=5 {
            run.event(start, key, 0);
        }
        run.event(end, 2, 1);
        run.event(sweep, 9, 0);
        assert_eq!(run.counters(0)[SpanCounter::Expired as usize], 0, "nothing is old yet");
        run.machine.kernel.environment.boot_offset_ns += 2_000_000_000;
        run.event(start, 6, 0);
        run.event(sweep, 9, 1);
        run.event(sweep, 9, 1);
        assert_eq!((run.scalar("@expired"), run.scalar("@kept"), run.scalar("@keys")), (4, 13, 13));
        run.event(end, 3, 0);
        run.event(end, 6, 0);
        let found = run.counters(0);
        let of = |counter: SpanCounter| found[counter as usize];
        assert_eq!((of(SpanCounter::Started), of(SpanCounter::Matched), of(SpanCounter::Expired)), (6, 2, 4));
        assert_eq!(of(SpanCounter::Unmatched), 1);
    }
}

/// Runs a test on the script as lowered and as optimized.
fn each_way(script: &str, run: impl Fn(Run<'_>, &dyn Fn(&str) -> usize)) {
    let target = fixture::Machine::new(true);
    let source = Source::new("spans", script);
    let stages = compile::stages(&source, &CATALOGUE, &target, &Options::default())
        .unwrap_or_else(|errors| panic!("{script}: {errors:?}"));
    let lowered = lower::lower_separately(&stages.typed, (&CATALOGUE, &target));
    for program in [&lowered.ir, &stages.ir] {
        let object = &lowered.object;
        run(Run { machine: Evaluator::new(program), object }, &|probe| program_of(object, probe));
    }
}

#[test]
fn of_many_keys_the_oldest_alone_makes_room() {
    let script = "span x by (n: (uint64)tid) { start interval:1s end interval:3s limit 100 evict }
        x:evict { @evicted += 1; @order += x.n >= @next ? 0 : 1; @next = x.n + 1; @keys += x.n; }";
    each_way(script, |mut run, program| {
        let (start, end) = (program("interval:1s"), program("interval:3s"));
        let begin = |run: &mut Run<'_>, key: u64| {
            run.event(start, key, (key % 2) as u32);
            run.machine.kernel.environment.boot_offset_ns += 1_000;
        };
        (0..100).for_each(|key| begin(&mut run, key));
        assert_eq!(run.scalar("@evicted"), 0, "there is room");
        // A burst: all began at almost the same time.
        begin(&mut run, 100);
        assert_eq!((run.scalar("@evicted"), run.scalar("@keys")), (1, 0));
        // Entries that have ended or started again are skipped: 2 and 3 are gone, 4 is recent.
        run.event(end, 2, 0);
        run.event(end, 3, 1);
        begin(&mut run, 4);
        begin(&mut run, 101);
        begin(&mut run, 102);
        assert_eq!(run.scalar("@evicted"), 1, "two have ended");
        begin(&mut run, 103);
        begin(&mut run, 104);
        assert_eq!((run.scalar("@evicted"), run.scalar("@keys")), (3, 1 + 5));
        // Enough to fill several tables.
        (105..400).for_each(|key| begin(&mut run, key));
        let found = run.counters(0);
        let of = |counter: SpanCounter| found[counter as usize];
        assert_eq!((of(SpanCounter::Started), of(SpanCounter::Replaced)), (401, 1));
        assert_eq!((of(SpanCounter::Evicted), of(SpanCounter::DroppedFull)), (401 - 1 - 2 - 100, 0));
        // 4 is among the most recent of the first hundred, so it comes after 99 and 100.
        assert_eq!(run.scalar("@evicted"), 298);
        assert_eq!(run.scalar("@order"), 1);
    });
}

#[test]
fn a_run_without_scratch_memory_is_reported_and_takes_no_part_in_the_ledger() {
    let script = "span x by (n: (uint64)tid, s: str(0, 100)) { start uprobe:/bin/app:main { long = str(0, 200); } end interval:3s }
        x:start { @starts += 1; } x:end { @ends += 1; print(x.long); }";
    each_way(script, |mut run, program| {
        let (start, end) = (program("uprobe:/bin/app:main"), program("interval:3s"));
        let counter = |run: &Run<'_>, loss: &Loss| {
            let mut counters = run.object.ledger.iter().filter(|counter| counter.loss == *loss);
            counters.next().map_or(0, |counter| run.word(counter.offset_bytes))
        };
        let lost = Loss::Scratch { program: start };
        run.event(start, 1, 0);
        assert_eq!((run.scalar("@starts"), counter(&run, &lost)), (1, 0));
        // Programs that are preempted soon after their start hold their scratch frames; a CPU has
        // four.
        let before = run.counters(0);
        run.machine.step_limit = 25;
        for key in 6..10 {
            run.machine.kernel.environment.pid_tgid = key << 32 | key;
            let interrupted = run.machine.run(&run.object.programs[start].name, &[0; 256]);
            assert!(interrupted.is_err(), "it has not come to its end");
        }
        run.machine.step_limit = u64::MAX;
        for key in 2..5 {
            run.event(start, key, 0);
        }
        assert_eq!(counter(&run, &lost), 3);
        assert_eq!(run.counters(0), before, "what did not run is no start");
        run.event(start, 5, 1);
        run.event(end, 1, 0);
        run.event(end, 2, 0);
        let found = run.counters(0);
        let of = |counter: SpanCounter| found[counter as usize];
        assert_eq!((of(SpanCounter::Started), of(SpanCounter::Matched), of(SpanCounter::Unmatched)), (2, 1, 1));
    });
}
