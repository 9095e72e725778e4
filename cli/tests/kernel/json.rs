//! JSON output, parsed by `serde_json`, which keeps one of several members with the same name, as
//! most parsers do.
//!
//! In: every example and recipe, and scripts with keys that print the same. Out: no member is lost,
//! and the counts add up.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::machine::{Directory, Ended, PROFILER, Running, copy, profiler, run_beside, skip, tracer_beside, workload};

/// The number of object members in a parsed document.
fn members_read(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(members_read).sum(),
        Value::Object(members) => members.len() + members.values().map(members_read).sum::<usize>(),
        _ => 0,
    }
}

/// The number of members in the text: the colons outside of strings.
fn members_written(line: &str) -> usize {
    let (mut colons, mut in_string, mut escaped) = (0, false, false);
    for byte in line.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b':' if !in_string => colons += 1,
            _ => {}
        }
    }
    colons
}

/// The JSON documents of a run. Fails if the parser lost a member. Output lines of the traced
/// command are skipped.
fn documents(ended: &Ended, what: &str) -> Vec<Value> {
    assert_eq!(ended.code(), 0, "{what}: {}", ended.stderr);
    let lines = ended.stdout.lines().filter(|line| line.starts_with("{\"type\""));
    let read = lines.map(|line| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{what}: {error}: {line}"));
        assert_eq!(members_read(&value), members_written(line), "{what}: a reader loses members of {line}");
        value
    });
    read.collect()
}

/// The sum of a keyed map's values, and its number of entries.
fn total(documents: &[Value], name: &str) -> (u64, usize) {
    let data = documents.iter().map(|document| &document["data"][name]).find(|data| !data.is_null());
    let values: Vec<u64> = match data.unwrap_or_else(|| panic!("{name}: {documents:?}")) {
        Value::Array(rows) => rows.iter().filter_map(|row| row["value"].as_u64()).collect(),
        Value::Object(entries) => entries.values().filter_map(Value::as_u64).collect(),
        _ => Vec::new(),
    };
    (values.iter().sum(), values.len())
}

/// `profiler run` under bpftrace's name, not yet started.
fn bpftrace_command(directory: &Directory, arguments: &[&str]) -> Command {
    let link = directory.path("bpftrace");
    if !Path::new(&link).exists() {
        symlink(PROFILER, &link).expect("a link");
    }
    let mut command = Command::new(link);
    command.args(arguments);
    command
}

/// Runs the same command to its end.
fn bpftrace(directory: &Directory, arguments: &[&str]) -> Ended {
    Running::start(&mut bpftrace_command(directory, arguments)).end()
}

#[test]
fn a_reader_loses_nothing_of_any_example() {
    if skip() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let directory = Directory::new("examples");
    // Only the tool writes to the pipe: lines longer than PIPE_BUF can be interleaved with other
    // writers.
    let load = format!("sh -c '{} files 20 > /dev/null'", workload());
    let mut examples: Vec<_> = std::fs::read_dir(root.join("examples"))
        .expect("examples")
        .filter_map(|entry| Some(entry.ok()?.path().display().to_string()))
        .filter(|path| Path::new(path).extension().is_some_and(|extension| extension == "prof"))
        .collect();
    examples.sort();
    assert!(examples.len() >= 7, "{examples:?}");
    for example in &examples {
        let ended = Running::start(&mut profiler(&["-f", "json", example, "-c", &load])).end();
        assert!(!documents(&ended, example).is_empty(), "{example}");
        let ended = bpftrace(&directory, &["-f", "json", "-c", &load, example]);
        assert!(!documents(&ended, example).is_empty(), "{example}");
    }
}

/// Keys that print the same, counted 15, 12 and 4 times. `@bytes` has strings that are not UTF-8.
const ALIKE: &str = r#"BEGIN {
    for $i : 0..3 { @strings["a b"] = count(); }
    for $i : 0..5 { @strings["ab"] = count(); @tuples["a,b", "c"] = count(); }
    for $i : 0..7 { @tuples["a", "b,c"] = count(); @strings["(ab)"] = count(); }
    for $i : 0..2 { @bytes["\xff\xfe"] = count(); @bytes["\xfe\xfe"] = count(); }
    exit();
}"#;

#[test]
fn keys_that_print_alike_add_up() {
    if skip() {
        return;
    }
    let directory = Directory::new("alike");
    let script = directory.file("alike.bt", ALIKE);
    let ours = documents(&Running::start(&mut profiler(&["-f", "json", &script])).end(), "ours");
    let theirs = documents(&bpftrace(&directory, &["-f", "json", &script]), "bpftrace's");
    for documents in [ours, theirs] {
        assert_eq!(total(&documents, "@strings"), (15, 3), "{documents:?}");
        assert_eq!(total(&documents, "@tuples"), (12, 2), "{documents:?}");
        assert_eq!(total(&documents, "@bytes"), (4, 2), "{documents:?}");
    }
}

#[test]
fn addresses_of_several_processes_add_up() {
    if skip() {
        return;
    }
    // A private copy, so that the calls of no other test are counted.
    let directory = Directory::new("addresses");
    let program = directory.path("program");
    copy(workload(), &program);
    let script = format!(
        "uprobe:{program}:workload_step {{ @symbols[usym(reg(\"ip\"))] = count(); @stacks[ustack(2)] = count(); }}"
    );
    let script = directory.file("addresses.bt", &script);
    // `-c` would limit the probes to one process.
    let load = format!("for i in 1 2 3; do {program} functions 20; done");
    let ours = documents(&run_beside(&["-f", "json", &script], &load), "ours");
    let theirs = documents(&tracer_beside(bpftrace_command(&directory, &["-f", "json", &script]), &load), "bpftrace's");
    // Fails by chance below 1e-6: two of the processes have the same of 2^28 random addresses.
    assert_eq!(total(&theirs, "@symbols"), (60, 3), "{theirs:?}");
    // A stack that is taken before the process's files are read ends early.
    let (sum, entries) = total(&theirs, "@stacks");
    assert!(sum == 60 && entries >= 3, "{theirs:?}");
    for map in ["@symbols", "@stacks"] {
        assert_eq!(total(&ours, map).0, 60, "{map}: {ours:?}");
    }
    let keys = |documents: &[Value]| documents.iter().find_map(|d| d["data"]["@symbols"].as_array().cloned());
    let named = keys(&ours).expect("rows");
    assert!(named.iter().all(|row| row["key"][0]["name"] == "workload_step"), "{named:?}");
}
