//! Test cases as data: a script, a command line, and the expected results.
//!
//! In: text in this form, with any number of cases. Only the script is required.
//! ```text
//! === name
//! run: -c 'WORKLOAD getppid 10'     options, with quotes as in a shell
//! behind: --slow 5ms                script arguments: what follows the script
//! exit: 4                           default 0
//! script:
//! BEGIN { … }
//! results:                          the lines of `-o FILE`, in order; empty lines do not count
//! stderr:                           each line is contained in one of standard error, in order; an
//!                                   empty line alone accepts whatever is there
//! ```
//! `*` matches anything within a line. `WORKLOAD` is replaced by the path of that program.
//! Out: the failures, as text.

use profiler_compiler::glob::matches;

use super::machine::{self, Directory, PROFILER};

#[derive(Debug, Default)]
struct Case {
    name: String,
    run: String,
    behind: String,
    exit: i32,
    script: String,
    results: Option<Vec<String>>,
    stderr: Option<Vec<String>>,
}

/// Runs all cases of a text.
pub fn run(text: &str) -> Vec<String> {
    let text = text.replace("WORKLOAD", machine::workload());
    parse(&text).iter().flat_map(run_case).collect()
}

fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut section = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("=== ") {
            cases.push(Case { name: name.into(), ..Case::default() });
            section = "";
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        match line {
            "script:" | "results:" | "stderr:" => section = line,
            _ if section == "script:" => case.script.extend([line, "\n"]),
            _ if section.is_empty() => case.option(line),
            _ => {
                let lines = if section == "results:" { &mut case.results } else { &mut case.stderr };
                lines.get_or_insert_default().extend((!line.is_empty()).then(|| line.to_string()));
            }
        }
    }
    assert!(!cases.is_empty() && cases.iter().all(|case| !case.script.is_empty()), "a case without a script");
    cases
}

impl Case {
    fn option(&mut self, line: &str) {
        match line.split_once(": ") {
            Some(("run", options)) => self.run = options.into(),
            Some(("behind", words)) => self.behind = words.into(),
            Some(("exit", code)) => self.exit = code.parse().expect("an exit code"),
            _ => panic!("{}: `{line}` is no option of a case", self.name),
        }
    }
}

fn run_case(case: &Case) -> Vec<String> {
    let directory = Directory::new("cases");
    let (script, output) = (directory.file("script.prof", case.script.trim_end()), directory.path("results"));
    // The shell splits the options.
    let line = format!("exec '{PROFILER}' run -q -o '{output}' {} '{script}' {}", case.run, case.behind);
    let ended = machine::Running::start(std::process::Command::new("sh").args(["-c", &line])).end();
    let results = std::fs::read_to_string(&output).unwrap_or_default();
    let mut faults = Vec::new();
    if ended.code() != case.exit {
        faults.push(format!("exit code {} instead of {}", ended.code(), case.exit));
    }
    if let Some(expected) = &case.results {
        let lines: Vec<&str> = results.lines().filter(|line| !line.is_empty()).collect();
        let same = lines.len() == expected.len() && lines.iter().zip(expected).all(|(line, form)| matches(form, line));
        if !same {
            faults.push(format!("expected:\n{}", expected.join("\n")));
        }
    }
    let mut said = ended.stderr.lines();
    for form in case.stderr.iter().flatten() {
        if !said.any(|line| matches(&format!("*{form}*"), line)) {
            faults.push(format!("not in standard error: {form}"));
        }
    }
    // Without a `stderr` section, a successful run must print nothing there.
    if case.stderr.is_none() && !ended.stderr.is_empty() {
        faults.push("standard error is not empty".into());
    }
    faults.extend(
        ["panicked", "libbpf:", "pest"].iter().filter(|w| ended.stderr.contains(**w)).map(|w| format!("`{w}`")),
    );
    if !faults.is_empty() {
        faults.insert(0, format!("--- {}", case.name));
        faults.push(format!("results:\n{results}standard error:\n{}", ended.stderr));
    }
    faults
}
