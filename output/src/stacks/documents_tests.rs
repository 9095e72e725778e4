//! JSON files of stacks, checked by the rules of their formats.

use serde_json::Value as Document;

use super::tests::{map, stack, stacks};
use super::*;
use profiler_model::types::Space;

fn sampled() -> Stacks {
    let key = |name: &str| {
        Value::Tuple(vec![
            Value::Str(name.into()),
            Value::Int(7),
            stack(Space::User, &[0x10, 0x20], None),
            stack(Space::Kernel, &[1], None),
        ])
    };
    stacks(&[map("@", vec![(key("a\"\n"), 2_000_000), (key("b"), 3_000_000)])], Unit::Duration)
}

fn document(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Document {
    let mut out = Vec::new();
    write(&mut out).expect("memory");
    serde_json::from_slice(&out).expect("JSON")
}

/// The elements of a list, as numbers.
fn numbers(list: &Document) -> Vec<u64> {
    list.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number") as u64).collect()
}

#[test]
fn speedscope_gets_a_sampled_profile_for_each_first_key() {
    let recorded = Recorded { title: "script".into(), ..Recorded::default() };
    let file = document(|out| sampled().write_speedscope(&recorded, out));
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = file["shared"]["frames"].as_array().expect("frames");
    let profiles = file["profiles"].as_array().expect("profiles");
    assert_eq!(profiles.iter().map(|profile| &profile["name"]).collect::<Vec<_>>(), ["a\"\n", "b"]);
    for (profile, weight) in profiles.iter().zip([2_000_000, 3_000_000]) {
        assert_eq!((&profile["type"], &profile["unit"]), (&"sampled".into(), &"nanoseconds".into()));
        assert_eq!(numbers(&profile["weights"]), [weight]);
        assert_eq!((&profile["startValue"], &profile["endValue"]), (&0.into(), &weight.into()));
        let samples = profile["samples"].as_array().expect("samples");
        let names: Vec<_> = numbers(&samples[0]).iter().map(|index| &frames[*index as usize]["name"]).collect();
        assert_eq!(names, ["7", "outer", "inner_[i]", "leaf;a", "vfs_read_[k]"]);
        assert_eq!(samples.len(), 1);
    }
}

#[test]
fn the_firefox_profiler_gets_a_thread_for_each_first_key() {
    let file = document(|out| sampled().write_firefox(&Recorded::default(), out));
    assert_eq!(file["meta"]["preprocessedProfileVersion"], 47);
    let threads = file["threads"].as_array().expect("threads");
    for (thread, (name, weight)) in threads.iter().zip([("a\"\n", 2), ("b", 3)]) {
        assert_eq!(thread["name"], name);
        let samples = &thread["samples"];
        assert_eq!((numbers(&samples["weight"]), &samples["weightType"]), (vec![weight], &"tracing-ms".into()));
        for table in ["samples", "stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols", "markers"] {
            let columns = thread[table].as_object().expect("a table");
            let length = columns["length"].as_u64();
            let lists = columns.values().filter_map(Document::as_array);
            assert!(lists.map(|list| Some(list.len() as u64)).all(|rows| rows == length), "{table}");
        }
        let at = |table: &str, column: &str, row: &Document| {
            thread[table][column][row.as_u64().expect("an index") as usize].clone()
        };
        let mut names = Vec::new();
        let mut stack = samples["stack"][0].clone();
        while !stack.is_null() {
            let function = at("frameTable", "func", &at("stackTable", "frame", &stack));
            let name = at("funcTable", "name", &function);
            names.push(thread["stringArray"][name.as_u64().expect("an index") as usize].clone());
            stack = at("stackTable", "prefix", &stack);
        }
        assert_eq!(names, ["vfs_read", "leaf;a", "inner", "outer", "7"]);
    }
    assert_eq!(threads.len(), 2);
}
