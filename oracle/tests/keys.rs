//! Keys whose values fill less than the key's size, run by the evaluator.
//!
//! In: scripts. Out: the entries of their maps.
//! Guarantee: the evaluator rejects keys with uninitialized bytes, whatever the running kernel
//! does.

use profiler_compiler::CATALOGUE;
use profiler_compiler::check::{self, Options};
use profiler_compiler::ir::MapId;
use profiler_compiler::source::Source;
use profiler_compiler::{lower, parse};
use profiler_oracle::evaluator::Machine as Evaluator;

#[path = "../../compiler/tests/support/fixture.rs"]
mod fixture;

#[test]
fn what_is_behind_the_end_of_a_name_is_no_part_of_the_key() {
    for script in
        ["BEGIN { @[comm] = count(); }", "BEGIN { @[comm, 1] = count(); }", "BEGIN { $c = comm; @[$c] = count(); }"]
    {
        let target = fixture::Machine::new(true);
        let ast = parse::parse(&Source::new("keys", script)).expect("parses");
        let (typed, diagnostics) = check::check(&ast, &CATALOGUE, &target, &Options::default());
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let lowered = lower::lower_separately(&typed, (&CATALOGUE, &target));
        let mut machine = Evaluator::new(&lowered.ir);
        machine.kernel.environment.comm = *b"bash\0of no worth";
        let name = &lowered.object.programs[0].name;
        for _ in 0..2 {
            machine.run(name, &[0; 96]).unwrap_or_else(|error| panic!("{script}: {error}"));
        }
        let map = lowered.ir.maps.iter().position(|map| map.name == "at_").expect("the map");
        let keys: Vec<Vec<u8>> = machine.map_entries(MapId(map as u32)).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), 1, "{script}: {keys:?}");
        assert_eq!(keys[0][..16], *b"bash\0\0\0\0\0\0\0\0\0\0\0\0", "{script}");
    }
}
