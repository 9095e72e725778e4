//! An object is read and prepared without the compiler.

use profiler_compiler::object::{Attach, Object};
use profiler_compiler::params::Value;
use profiler_compiler::source::Source;

use super::super::args::ScriptArguments;
use super::super::engine;
use super::super::exit::Failure;
use super::super::script::Origin;
use super::record::{self, Record};
use super::{Built, complete};

const SCRIPT: &str = "param least: int = 7 \"a number\" in 0..1000
    param every: duration = 1h \"how often\"
    BEGIN { @least = $least; }
    interval:$every { exit(); }";

/// An object of [`SCRIPT`] in which `text` replaces the script.
fn built(text: &str) -> Built {
    let source = Source::new("a.prof", SCRIPT);
    let script = ScriptArguments::new(Origin::File("a.prof".into()));
    let prebuilt = engine::prebuild(&source, &script).expect("it compiles");
    let described = prebuilt.object.to_json();
    let file = complete(prebuilt, &source, &script).expect("it is described");
    let (header, record, object) = record::read(&file).expect("an object");
    assert_eq!(object.to_json(), described);
    let object = Object { elf: file, ..object };
    let files = Record::files_of(&Source::new("a.prof", text));
    let record = Record { files, ..record };
    Built { path: "a.o".into(), header, source: record.source(), record, object }
}

fn given(named: &[(&str, &str)]) -> ScriptArguments {
    let named = named.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect();
    ScriptArguments { named, ..ScriptArguments::new(Origin::File("a.o".into())) }
}

#[test]
fn a_script_that_no_longer_compiles_is_not_asked() {
    let object = || built(&SCRIPT.replace("BEGIN", "NO SCRIPT"));
    let (loaded, values) = object().prepare(&given(&[("least", "9")]), None).expect("other data");
    assert_eq!(values.get(0), Some(&Value::Number(9)));
    assert!(loaded.programs.iter().any(|program| program.attach == Attach::Begin));
    let refused = object().prepare(&given(&[("least", "1001")]), None).expect_err("out of range");
    assert!(refused.render(false).starts_with("error[E0358]: "), "{}", refused.render(false));
    assert!(object().describe().contains("--least    int       7"), "{}", object().describe());
    // What is attached depends on this one.
    let other = object().prepare(&given(&[("every", "1s")]), None).expect_err("it does not compile");
    assert!(matches!(other, Failure::Script { .. }), "{other:?}");
}

#[test]
fn other_values_in_clauses_change_what_is_attached() {
    let object = built(SCRIPT);
    let period = |object: &Object| {
        object.programs.iter().find_map(|program| match program.attach {
            Attach::Timer { period_ns } => Some(period_ns),
            _ => None,
        })
    };
    assert_eq!(period(&object.object), Some(3_600_000_000_000));
    let (loaded, _) = object.prepare(&given(&[("every", "2s")]), None).expect("the same programs");
    assert_eq!(period(&loaded), Some(2_000_000_000));
}
