//! End-to-end tests of the command line: exit codes, messages and closed pipes, with the built
//! binary.
//!
//! In: command lines that need no kernel. Out: exit codes and output.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn profiler(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_profiler")).args(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn help_and_version_go_to_standard_output() {
    for arguments in [&[][..], &["help"], &["--help"], &["help", "run"], &["run", "--help"], &["--version"]] {
        let output = profiler(arguments);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn licenses_name_every_library_that_is_linked_statically() {
    let output = profiler(&["--licenses"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for part in
        ["libbpf 1.", "libelf of elfutils", "zlib, the version", "rustc-demangle 0.", "Apache License", "GNU LESSER"]
    {
        assert!(text.contains(part), "{part}");
    }
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_wrong_command_line_ends_with_two_and_says_why() {
    for arguments in [&["frobnicate"][..], &["run"], &["run", "--frobnicate", "x"], &["help", "frobnicate"]] {
        let output = profiler(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).starts_with("error: "), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn files_that_are_no_script_end_with_one_and_a_code() {
    let directory = std::env::temp_dir().join(format!("profiler-command-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.join(name);
        std::fs::write(&path, bytes).expect("a file");
        path.display().to_string()
    };
    let cases = [
        (directory.join("missing.prof").display().to_string(), "E0001"),
        (directory.display().to_string(), "E0001"),
        (file("large", &vec![b'a'; 5 << 20]), "E0002"),
        (file("nul", b"BEGIN\0"), "E0003"),
        (file("latin1", b"// \xe9\nBEGIN { }"), "E0003"),
        (file("empty", b""), "E0004"),
        (env!("CARGO_BIN_EXE_profiler").to_string(), "E0003"),
        ("-".to_string(), "E0004"),
    ];
    for command in ["run", "check"] {
        for (path, code) in &cases {
            let output = profiler(&[command, path]);
            assert_eq!(output.status.code(), Some(1), "{path}");
            assert!(stderr(&output).starts_with(&format!("error[{code}]: ")), "{path}: {}", stderr(&output));
        }
    }
    std::fs::remove_dir_all(&directory).expect("the directory goes");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_profiler"))
        .args(["help", "run"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .expect("the binary runs");
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn standard_input_is_a_script_and_keeps_its_name() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_profiler"))
        .args(["check", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().expect("a pipe").write_all(b"BEGIN { \0 }").expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("error[E0003]: `stdin` is a binary file"), "{}", stderr(&output));
}

#[test]
fn every_diagnostic_has_its_page_in_the_binary() {
    let pages = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../spec/errors")).expect("the pages");
    let mut explained = 0;
    for page in pages.filter_map(Result::ok) {
        let name = page.file_name().into_string().expect("a name");
        let code = name.strip_suffix(".md").expect("a page");
        let output = profiler(&["explain", code]);
        assert!(output.stdout.starts_with(format!("{code}: ").as_bytes()), "{code}");
        explained += 1;
    }
    assert!(explained > 150, "{explained}");
    assert_eq!(profiler(&["explain", "E9999"]).status.code(), Some(2));
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let help = String::from_utf8(profiler(&["help"]).stdout).expect("text");
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() > 7, "{commands:?}");
    let manual = String::from_utf8(profiler(&["man"]).stdout).expect("text");
    for command in commands {
        assert!(manual.contains(&format!("profiler\\-{command}(1)")), "{command}: {manual}");
        let page = String::from_utf8(profiler(&["man", command]).stdout).expect("text");
        assert!(page.contains(&format!(".TH profiler-{command} 1")), "{command}: {page}");
        for shell in ["bash", "zsh", "fish"] {
            let completions = String::from_utf8(profiler(&["completions", shell]).stdout).expect("text");
            assert!(completions.contains(command), "{command}: {completions}");
        }
    }
}

/// The columns of a map's line of `check -v`. The sizes depend on the number of CPUs.
fn map_line(text: &str, map: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(map));
    line.unwrap_or_else(|| panic!("{map}: {text}"))
        .split("  ")
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn what_maps_take_is_shown_before_anything_is_loaded() {
    let script = r#"let @last = lruhash(1000);
        view "v" { of @windows  every 1s clear }
        BEGIN { @last[1] = 2; @plain["a"] = 1; @windows[1] = 1; @one = 5; }"#;
    let output = profiler(&["check", "-v", "-e", script]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(map_line(&text, "@last"), ["@last", "lruhash", "1000", "80 B", "78.1 KiB", "from the start"]);
    assert_eq!(map_line(&text, "@plain")[1..3], ["hash", "4096"]);
    assert_eq!(map_line(&text, "@windows")[1..3], ["hash, twice", "4096"]);
    assert_eq!(map_line(&text, "@one")[1..4], ["one value", "-", "64 B"]);
    assert!(text.contains("\ntogether: ") && text.contains(" from the start\n"), "{text}");
}

#[test]
fn what_spans_take_is_shown_beside_maps() {
    let stages = "start interval:1s { who = comm; } end interval:2s";
    let script = format!(
        "span nap by tid {{ {stages} }} span call by (n: rand) {{ {stages} limit 1000 }}
         span last by (n: rand) {{ {stages} limit 100 evict }} span deep by tid {{ {stages} restart nest limit 10 }}
         nap:end {{ print(nap.who); }} call:end {{ print(call.who); }} deep:end {{ @x = deep.elapsed; }}"
    );
    let output = profiler(&["check", "-v", "-e", &script]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for (span, columns) in [
        ("nap", ["one a thread", "-", "104 B", "-", "as threads come"]),
        ("call", ["hash", "1000", "96 B", "93.8 KiB", "from the start"]),
        ("last", ["hash that evicts", "100", "80 B", "7.81 KiB", "from the start"]),
        ("deep", ["hash of stacks", "10", "600 B", "5.86 KiB", "from the start"]),
    ] {
        let line = text.lines().find(|line| line.starts_with(&format!("span {span} "))).expect(span);
        let found: Vec<&str> = line.split("  ").map(str::trim).filter(|word| !word.is_empty()).skip(1).collect();
        assert_eq!(found, columns, "{text}");
        let ledger = text.lines().find(|line| line.starts_with(&format!("ledger of {span} "))).expect(span);
        assert!(ledger.contains("counters a CPU") && ledger.ends_with("from the start"), "{text}");
    }
}

#[test]
fn many_large_maps_are_not_all_allocated_beforehand() {
    let map = |n: u32| format!("BEGIN {{ @h{n}[1] = lhist(5, 0, 1000, 1); }}");
    let script = (0..50).map(map).collect::<Vec<_>>().join("\n");
    let text = stderr(&profiler(&["check", "-v", "-e", &script]));
    let bounded = format!("config = {{ max_map_memory_mb = 1 }} {script}");
    let all = stderr(&profiler(&["check", "-v", "-e", &bounded]));
    assert!(text.contains("as keys come") && text.contains(" when all are full\n"), "{text}");
    assert!(!all.contains("MiB  from the start"), "{all}");
    let refused = profiler(&["check", "-e", "let @x = lruhash(20000000); BEGIN { @x[1] = 1; }"]);
    assert!(stderr(&refused).starts_with("error[E0521]: ") && refused.status.code() == Some(1), "{}", stderr(&refused));
}

#[test]
fn recipes_are_listed_by_shelf_with_what_they_answer() {
    let text = |arguments: &[&str]| String::from_utf8(profiler(arguments).stdout).expect("text");
    let listed = text(&["list", "recipes"]);
    let stdlib = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../stdlib"));
    let entries = |path: &std::path::Path| -> Vec<String> {
        let names = std::fs::read_dir(path).expect("a directory").filter_map(Result::ok);
        names.map(|entry| entry.file_name().into_string().expect("a name")).collect()
    };
    let shelves: Vec<String> = entries(stdlib).into_iter().filter(|shelf| shelf != "std").collect();
    assert_eq!(listed.split("\n\n").count(), shelves.len(), "{listed}");
    let mut count = 0;
    for (shelf, file) in
        shelves.iter().flat_map(|shelf| entries(&stdlib.join(shelf)).into_iter().map(move |file| (shelf, file)))
    {
        let path = format!("{shelf}/{}", file.trim_end_matches(".prof"));
        let line = listed.lines().find_map(|line| line.strip_prefix(&path)?.strip_prefix(' '));
        assert!(line.is_some_and(|words| words.trim_end().ends_with(['.', '?'])), "{path}: {listed}");
        count += 1;
    }
    assert_eq!(listed.lines().filter(|line| !line.is_empty()).count(), count, "{listed}");
    assert!(text(&["list", "modules"]).contains("\nstd/target "), "modules include those that are only used");
    let verbose = text(&["list", "-v", "recipes"]);
    assert!(verbose.contains("\n    profiler lock/futex --pid "), "{verbose}");
    // What a recipe costs, or that it was not measured.
    for line in listed.lines().filter(|line| !line.is_empty()) {
        let (path, question) = line.split_once(' ').expect("a name and a question");
        let found = verbose.lines().find(|line| line.strip_prefix(path).is_some_and(|rest| rest.starts_with(' ')));
        let cost = found.and_then(|found| found.strip_prefix(path)?.strip_suffix(question.trim()));
        let cost = cost.unwrap_or_else(|| panic!("{path}: {verbose}")).trim();
        assert!(cost == "not measured" || cost.contains(" ns") && cost.ends_with(" %"), "{path}: {cost}");
    }
}

#[test]
fn processes_of_a_parameter_have_numbers_or_names() {
    let script = "param pid: pid = any \"these\"\nBEGIN { print(pid == $pid); }";
    let check = |processes: &str| profiler(&["check", "-e", script, "--pid", processes]);
    let mut process = Command::new("sleep").arg("60").spawn().expect("a process");
    let checked = ["sleep", "sleep,1", "1, 2", "any"].map(|processes| (processes, check(processes)));
    process.kill().expect("our own");
    process.wait().expect("our own");
    for (processes, output) in checked {
        assert_eq!(output.status.code(), Some(0), "{processes}: {}", stderr(&output));
    }
    let refused = stderr(&check("no-such-name"));
    let words = "error: `--pid` cannot be `no-such-name`: no process is named `no-such-name` now; ";
    assert!(refused.starts_with(words), "{refused}");
}

#[test]
fn a_program_without_its_option_is_told_which() {
    let refused = stderr(&profiler(&["BEGIN { exit(); }"]));
    assert!(refused.contains("write `profiler run -e 'BEGIN { exit(); }'`"), "{refused}");
}

#[test]
fn recipes_answer_to_the_names_of_other_tools() {
    let text = |arguments: &[&str]| String::from_utf8(profiler(arguments).stdout).expect("text");
    for (name, recipe) in [("opensnoop", "proc/opens"), ("runqlat", "sched/runq"), ("memleak", "mem/leaks")] {
        assert_eq!(text(&["help", name]), text(&["help", recipe]), "{name}");
        assert_eq!(text(&["list", name]), text(&["list", recipe]), "{name}");
        // With an argument that it refuses, it is the recipe that says so.
        let refused = stderr(&profiler(&[name, "--no-such"]));
        assert!(refused.contains("no-such") && !refused.contains("no command"), "{name}: {refused}");
    }
    assert!(text(&["list", "recipes", "-v"]).contains("\n    also called opensnoop\n"));
    assert!(text(&["completions", "bash"]).contains(" opensnoop "), "completion");
}

#[test]
fn words_and_recipes_are_found_by_name() {
    let text = |arguments: &[&str]| {
        let output = profiler(arguments);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let words = text(&["help", "words"]);
    for word in ["span", "view", "every", "hist", "tracepoint", "printf", "pid"] {
        assert!(words.lines().any(|line| line.split_whitespace().next() == Some(word)), "{word}: {words}");
    }
    assert!(text(&["help", "every"]).starts_with("every TIME [clear]: "));
    let recipe =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../stdlib/lock/futex.prof")).expect("it");
    assert_eq!(text(&["cat", "lock/futex"]), recipe);
    assert_eq!(text(&["cat", "futex"]), recipe);
    let listed = text(&["list", "lock*"]);
    assert!(listed.contains("\nlock/futex ") && listed.contains("\nlock/latency "), "{listed}");
    let help = text(&["help", "futex"]);
    // The whole comment at the start, and the options by their short names, also those of modules.
    assert!(
        help.contains(
            "\nfutex_wait() and futex_waitv(), which Wine uses, are not seen, nor are locks that wait in other\n"
        ),
        "{help}"
    );
    assert!(
        help.contains("\n--min ")
            && help.contains("\n--every ")
            && help.contains("\n--pid ")
            && !help.contains("--target"),
        "{help}"
    );
    assert!(text(&["help", "std/target"]).contains("\n--cgroup "));
    let missing = "error[E0005]: there is no recipe `futx`\n  = help: did you mean `lock/futex`?\n";
    let output = profiler(&["cat", "futx"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(2), missing));
    for (arguments, code) in [(&["quue-depth"][..], 2), (&["help", "quue-depth"], 2), (&["run", "pool/quue-depth"], 1)]
    {
        let output = profiler(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(stderr(&output).contains("`pool/queue-depth`?\n"), "{arguments:?}: {}", stderr(&output));
    }
    let several = stderr(&profiler(&["profile"]));
    assert!(several.ends_with("write `cpu/profile` or `wall/profile`\n"), "{several}");
    // What resembles a command is not taken for a recipe.
    assert!(!stderr(&profiler(&["buidl"])).contains("E0005"));
    // `profiler futex` runs the recipe, so the unknown option is one of the recipe.
    let run = profiler(&["futex", "--no-such-option"]);
    assert!(stderr(&run).contains("neither the command nor the script has an option"), "{}", stderr(&run));
}
