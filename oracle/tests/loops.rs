//! Loops and the state they share, on all executors: the IR as lowered and as optimized in the
//! evaluator, the bytecode in the interpreter.
//!
//! In: scripts that store a number in `@r`. Out: that number, which each executor must produce.
//! Guarantee: no test here uses the kernel; `cli/tests/kernel` does.

use std::collections::BTreeMap;

use profiler_compiler::CATALOGUE;
use profiler_compiler::check::Options;
use profiler_compiler::compile::{self, Stages};
use profiler_compiler::ir::{Helper, Map, Program};
use profiler_compiler::object::{Object, Storage};
use profiler_compiler::source::Source;
use profiler_compiler::target::Target;
use profiler_compiler::{check, lower, parse};
use profiler_oracle::evaluator::Machine as Evaluator;
use profiler_oracle::interpreter::{self, Fault, Host, Memory};

#[path = "support/crowd.rs"]
mod crowd;
#[path = "../../compiler/tests/support/fixture.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod fixture;

/// Maps of the interpreter: each key with the addresses of key and value.
struct Maps<'a> {
    declared: &'a [Map],
    entries: BTreeMap<(u64, Vec<u8>), (u64, u64)>,
    cpus: u64,
}

impl Maps<'_> {
    fn map(&self, address: u64) -> &Map {
        &self.declared[(address - interpreter::map_address(profiler_compiler::ir::MapId(0))) as usize]
    }
}

impl Host for Maps<'_> {
    fn call(&mut self, number: u32, [r1, r2, r3, ..]: [u64; 5], memory: &mut Memory) -> Result<u64, Fault> {
        let is = |helper: Helper| number == helper as u32;
        if is(Helper::GetSmpProcessorId) {
            return Ok(0);
        }
        let (key_bytes, value_bytes) = {
            let map = self.map(r1);
            (map.key_size_bytes as usize, map.value_size_bytes as usize)
        };
        let key = (r1, memory.bytes(r2, key_bytes)?.to_vec());
        let found = self.entries.get(&key).copied();
        if is(Helper::MapLookupElem) {
            return Ok(found.map_or(0, |(_, value)| value));
        }
        if is(Helper::MapLookupPercpuElem) {
            // All other CPUs have a copy of zeros.
            return Ok(match (found, r3) {
                (Some((_, value)), 0) => value,
                (Some(_), cpu) if cpu < self.cpus => memory.add(vec![0; value_bytes]),
                _ => 0,
            });
        }
        if is(Helper::MapUpdateElem) {
            let value = memory.bytes(r3, value_bytes)?.to_vec();
            let places = (memory.add(key.1.clone()), memory.add(value));
            self.entries.insert(key, places);
            return Ok(0);
        }
        if is(Helper::MapDeleteElem) {
            return Ok(if self.entries.remove(&key).is_some() { 0 } else { -2_i64 as u64 });
        }
        Err(Fault::UnknownHelper { number })
    }

    fn entries(&mut self, map: u64, _: &mut Memory) -> Result<Vec<(u64, u64)>, Fault> {
        Ok(self.entries.iter().filter(|((of, _), _)| *of == map).map(|(_, places)| *places).collect())
    }
}

fn result(object: &Object, bss: &[u8]) -> i64 {
    let map = object.maps.iter().find(|map| map.name == "@r").expect("the script has @r");
    let Storage::Global { offset_bytes, .. } = map.storage else { panic!("@r has keys") };
    let at = offset_bytes as usize + 8;
    i64::from_le_bytes(bss[at..at + 8].try_into().expect("8 bytes"))
}

fn evaluated(program: &Program, object: &Object, cpus: u32) -> i64 {
    let mut machine = Evaluator::new(program);
    machine.step_limit = 50_000_000;
    machine.kernel.environment.cpus = cpus;
    machine.run("p0", &[0; 96]).unwrap_or_else(|error| panic!("{error}"));
    result(object, machine.bss())
}

/// Asserts the value that every executor must store in `@r`.
fn assert_result(script: &str, cpus: u32, expected: i64) {
    let source = Source::new("test", script);
    let target = crowd::Crowd { machine: fixture::Machine::new(true), cpus };
    let options = Options::default();
    let ast = parse::parse(&source).expect("parses");
    let (typed, diagnostics) = check::check(&ast, &CATALOGUE, &target as &dyn Target, &options);
    assert!(diagnostics.is_empty(), "{script}: {diagnostics:?}");
    let lowered = lower::lower_separately(&typed, (&CATALOGUE, &target));
    assert_eq!(evaluated(&lowered.ir, &lowered.object, cpus), expected, "as lowered: {script}");
    let stages = compile::stages(&source, &CATALOGUE, &target, &options).unwrap_or_else(|e| panic!("{e:?}"));
    let Stages { ir, emitted, object, .. } = stages;
    assert_eq!(evaluated(&ir, &object, cpus), expected, "optimised: {script}");
    let mut memory = Memory::new(vec![0; 96], ir.rodata.clone(), vec![0; ir.bss_size_bytes as usize]);
    let mut maps = Maps { declared: &ir.maps, entries: BTreeMap::new(), cpus: u64::from(cpus) };
    interpreter::run_with(&emitted.functions[0], &emitted.subprograms, &mut memory, &mut maps)
        .unwrap_or_else(|fault| panic!("{fault:?}: {script}"));
    assert_eq!(result(&object, memory.bss()), expected, "emitted: {script}");
}

#[test]
fn all_executors_agree_on_loops() {
    for (script, expected) in [
        ("BEGIN { $s = 0; for $i : 0..101 { $s += $i; } @r = $s; }", 5050),
        ("BEGIN { for $i : -3..3 { @r += $i * $i; } for $i : 3..-3 { @r = 0; } }", 19),
        ("BEGIN { $n = 3; for $i : $n - 3..$n { $n++; @r += $i; } }", 3),
        ("BEGIN { for $i : 0..5 { for $j : $i..5 { if ($j == 2) { continue; } if ($i == 3) { break; } @r++; } } }", 10),
        ("BEGIN { for $i : 0..4 { for $j : 0..4 { if ($i == 1 && $j == 2) { return; } @r++; } } @r = 100; }", 6),
        (
            "BEGIN { $n = 0; while ($n < 10) { $n++; if ($n == 3) { continue; } if ($n == 7) { break; } @r += $n; } }",
            18,
        ),
        ("BEGIN { while (1) { while (1) { @r++; if (@r == 5) { return; } break; } } }", 5),
        ("BEGIN { $s = \"no\"; for $i : 0..3 { if ($s == \"yes\") { @r++; } if ($i == 1) { $s = \"yes\"; } } }", 1),
        ("BEGIN { for $i : 0..3 { let $n; $n += $i; @r += $n; for $j : 0..2 { $n++; } } }", 3),
        ("BEGIN { unroll (5) { @r++; if (@r == 2) { continue; } if (@r >= 3) { break; } } }", 3),
        ("BEGIN { $x = { $s = 0; for $i : 0..4 { $s += $i; } $s * 2 }; @r = $x; }", 12),
        (
            "BEGIN { $f = 0; for $i : 0..9 { if ($f == 0) { $f = 1; } else if ($f == 1) { $f = 2; } else { $f = 0; @r++; } } }",
            3,
        ),
    ] {
        assert_result(script, 4, expected);
    }
}

#[test]
fn all_executors_agree_on_walks_over_maps() {
    for (script, expected) in [
        ("BEGIN { for $i : 0..10 { @m[$i] = $i * 2; } for ($kv : @m) { @r += $kv.0 * $kv.1; } }", 570),
        (
            "BEGIN { for $i : 0..10 { @m[$i] = 1; } for ($kv : @m) { @r += $kv.1; delete(@m, $kv.0); } for ($kv : @m) { @r = 0; } }",
            10,
        ),
        (
            "BEGIN { @m[1, \"x\"] = 5; @m[2, \"y\"] = 6; for ($kv : @m) { if ($kv.0.1 == \"y\") { @r = $kv.0.0 * $kv.1; } } }",
            12,
        ),
        ("BEGIN { @a[1] = 1; @a[2] = 2; @b[3] = 3; for ($x : @a) { for ($y : @b) { @r += $x.1 * $y.1; } } }", 9),
        ("BEGIN { @m[1] = (2, 3); @m[4] = (5, 6); for ($kv : @m) { @c[$kv.0] = $kv.1; } @r = @c[1].1 * @c[4].1; }", 18),
    ] {
        assert_result(script, 4, expected);
    }
}

/// Up to 8 CPUs are read one by one, more in a loop; both must give the same result.
#[test]
fn all_executors_agree_on_aggregations_read_in_a_program() {
    for cpus in [1, 2, 8, 9, 64] {
        for (script, expected) in [
            ("BEGIN { @c = count(); @c = count(); @r = @c * 10; }", 20),
            (
                "BEGIN { @s = sum(-5); @s = sum(2); @lo = min(-7); @lo = min(4); @hi = max(-2); @r = @s * 100 + @lo * 10 + @hi; }",
                -372,
            ),
            ("BEGIN { @a = avg(-3); @a = avg(-8); @r = @a; }", -5),
            ("BEGIN { for $i : 0..10 { @k[$i % 3] = count(); } @r = @k[0] * 100 + @k[1] * 10 + @k[2] + @k[3]; }", 433),
            ("BEGIN { for $i : 0..10 { @k[$i % 3] = max($i); } for ($kv : @k) { @r += $kv.1 * ($kv.0 + 1); } }", 47),
        ] {
            assert_result(script, cpus, expected);
        }
    }
}
