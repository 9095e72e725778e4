//! Shell completions, sourced by the shells themselves.
//!
//! In: the output of `profiler completions`, and a partial command line. Out: the completions that
//! the shell would offer.

use std::path::{Path, PathBuf};
use std::process::Command;

const PROFILER: &str = env!("CARGO_BIN_EXE_profiler");

/// Creates a directory with the completions of a shell and two scripts.
fn directory(shell: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("profiler-shells-{shell}-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("local")).expect("a directory");
    std::fs::write(directory.join("lonely script.prof"), "").expect("a file");
    let written = Command::new(PROFILER).args(["completions", shell]).output().expect("it runs");
    assert!(written.status.success() && written.stderr.is_empty());
    std::fs::write(directory.join("completions"), written.stdout).expect("a file");
    directory
}

fn has(shell: &str) -> bool {
    let has = Command::new(shell).arg("--version").output().is_ok_and(|output| output.status.success());
    if !has {
        println!("SKIPPED: {shell} is not installed");
    }
    has
}

fn lines(directory: &Path, shell: &str, script: &str) -> Vec<String> {
    let output = Command::new(shell)
        .args(["-c", script])
        .current_dir(directory)
        .env("HOME", directory)
        .output()
        .expect("it runs");
    assert!(output.stderr.is_empty(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| line.split('\t').next().unwrap_or_default().to_owned())
        .collect()
}

/// Typed words, and some of the completions offered for them.
const OFFERED: &[(&[&str], &[&str])] = &[
    (&["run", "lo"], &["local", "lock/futex", "lock/latency", "lonely script.prof"]),
    (&["run", "-q", "lock/f"], &["lock/futex"]),
    (&["check", "proc/"], &["proc/exits"]),
    (&["doctor", "lock/"], &["lock/futex", "lock/latency"]),
    (&["help", "his"], &["hist"]),
    (&["help", "lock/l"], &["lock/latency"]),
    (&["help", "che"], &["check"]),
    (&["explain", "E020"], &["E0203"]),
    (&["man", "comp"], &["completions"]),
    (&["cat", "lock/"], &["lock/futex", "lock/latency"]),
    (&["list", "re"], &["recipes"]),
    (&["chec"], &["check"]),
];

#[test]
fn bash_offers_recipes_files_words_and_codes() {
    if !has("bash") {
        return;
    }
    let directory = directory("bash");
    let offered = |words: &[&str]| {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let script = format!(
            "source ./completions\nCOMP_WORDS=(profiler {}) COMP_CWORD={}\n_profiler_words profiler \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\ncomplete -p profiler > /dev/null",
            quoted.join(" "),
            words.len()
        );
        lines(&directory, "bash", &script)
    };
    for (typed, wanted) in OFFERED {
        let found = offered(typed);
        assert!(wanted.iter().all(|word| found.iter().any(|other| other == word)), "{typed:?}: {found:?}");
        let last = typed.last().expect("a word");
        assert!(found.iter().all(|word| word.starts_with(last)), "{typed:?}: {found:?}");
    }
    assert!(offered(&["run", "--dur"]).contains(&"--duration".to_owned()));
    assert_eq!(offered(&["run", "-f", "js"]), ["json"]);
    assert_eq!(offered(&["explain", "e020"]), offered(&["explain", "E020"]), "codes are typed in small letters too");
    assert_eq!(offered(&["run", "-o", "lonely"]), ["lonely script.prof"]);
    std::fs::remove_dir_all(directory).expect("our own");
}

#[test]
fn fish_offers_the_same() {
    if !has("fish") {
        return;
    }
    let directory = directory("fish");
    for (typed, wanted) in OFFERED {
        let script = format!("source ./completions; complete -C 'profiler {}'", typed.join(" "));
        let found: Vec<String> =
            lines(&directory, "fish", &script).iter().map(|word| word.trim_end_matches('/').to_owned()).collect();
        assert!(
            wanted.iter().all(|word| found.iter().any(|other| other.replace('\\', "") == *word)),
            "{typed:?}: {found:?}"
        );
    }
    std::fs::remove_dir_all(directory).expect("our own");
}

#[test]
fn zsh_reads_its_completions() {
    if !has("zsh") {
        return;
    }
    let directory = directory("zsh");
    // The shell's completion system defines how these functions are called. These stubs only print
    // what would be offered.
    let script = "
        autoload -U compinit; compinit -u -D
        _describe() { local array=$4; print -l ${(P)array} }
        _files() { print -l files }
        source ./completions
        for function in scripts recipes listings topics codes commands_alone; do _profiler_$function; done
        whence -w _profiler";
    let found = lines(&directory, "zsh", script);
    for wanted in ["hist:a histogram", "lock/futex:", "recipes:", "files", "E0203:", "check:", "_profiler: function"] {
        assert!(found.iter().any(|line| line.starts_with(wanted)), "{wanted}: {found:?}");
    }
    let text = std::fs::read_to_string(directory.join("completions")).expect("a file");
    assert_eq!(text.matches(":_profiler_scripts'").count(), 4, "run, check, build and doctor");
    assert!(
        text.lines().all(|line| !line.starts_with('\'') || line.ends_with('\\')),
        "a description has two lines: {text}"
    );
    for function in ["topics", "codes", "recipes", "listings"] {
        assert!(text.contains(&format!(":_profiler_{function}'")), "{function}: {text}");
    }
    std::fs::remove_dir_all(directory).expect("our own");
}
