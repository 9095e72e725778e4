//! The commands of README.md and of the manual, run as written.
//!
//! In: blocks that begin with `# `. Out: each command succeeds, unless an error is shown, and
//! prints lines similar to those shown. All commands of a page run in one directory.
//! Guarantee: headings are compared word by word; of rows with numbers, how they begin and the
//! number of columns.

#[path = "pages/mod.rs"]
mod pages;
#[path = "patience/mod.rs"]
mod patience;
#[path = "workload/mod.rs"]
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pages::{blocks, pages, spec};

const README: &str = include_str!("../../README.md");

/// Number of lines that GitHub shows without much scrolling.
const MAX_LINES: usize = 120;

/// The commands of a page, each with the output shown below it.
fn examples(page: &str) -> Vec<(String, Vec<&str>)> {
    let blocks = blocks(page).into_iter().filter(|block| block.info.is_empty());
    let texts = blocks.map(|block| &page[block.text]).filter(|text| text.starts_with("# "));
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for text in texts {
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(first) = line.strip_prefix("# ") else {
                let (_, shown) = found.last_mut().expect("a block begins with a command");
                shown.extend((!line.is_empty()).then_some(line));
                continue;
            };
            let mut command = first.to_owned();
            let is_open = |command: &str| {
                let has_document = command.contains("<<'END'");
                if has_document { !command.ends_with("\nEND") } else { command.matches('\'').count() % 2 == 1 }
            };
            while is_open(&command) {
                command = format!("{command}\n{}", lines.next().expect("the command ends"));
            }
            found.push((command, Vec::new()));
        }
    }
    found
}

/// The part of a line that does not change from run to run.
fn shape(line: &str) -> String {
    if !line.contains(|c: char| c.is_ascii_digit()) {
        return line.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    let begin: String = line.chars().take_while(|c| !c.is_ascii_alphanumeric() && *c != '/').collect();
    match line.split_once(['|', ':']) {
        Some(_) => format!("{begin}…"),
        None => format!("{begin}… {} columns", line.split("  ").filter(|column| !column.is_empty()).count()),
    }
}

/// A directory for the files that the commands of a page write; removed when dropped.
struct Workplace(PathBuf);

impl Workplace {
    fn new() -> Workplace {
        let directory = std::env::temp_dir().join(format!("profiler-transcripts-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        Workplace(directory)
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn commands_print_what_is_shown() {
    let binary = Path::new(env!("CARGO_BIN_EXE_profiler"));
    let allowed = Command::new(binary).args(["-q", "-e", "BEGIN { exit(); }"]).output().expect("it runs");
    if !allowed.status.success() {
        println!("SKIPPED: this machine runs no kernel programs");
        return;
    }
    let directories =
        [binary, Path::new(workload::workload())].map(|file| file.parent().expect("a directory").display());
    let path = format!("{}:{}:{}", directories[0], directories[1], std::env::var("PATH").expect("PATH"));
    let mut all = BTreeMap::from([(PathBuf::from("README.md"), README.to_owned())]);
    pages(&spec(), &mut all);
    let mut count = 0;
    for (name, page) in &all {
        let workplace = Workplace::new();
        for (command, shown) in examples(page) {
            count += 1;
            let command = command.replace("--duration 5s", "--duration 1s").replace(
                "contend 4 400 1000",
                // It has to run until `-p` has found it.
                &format!("contend 4 {:.0} 1000", 800.0 * patience::slowness() * f64::from(patience::patience())),
            );
            let mut shell = Command::new("bash");
            shell.args(["-c", &command]).env("PATH", &path).current_dir(&workplace.0);
            let ended = shell.output().expect("it runs");
            let (out, notes) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
            let name = name.display();
            let shows_error = shown.iter().any(|line| line.starts_with("error"));
            assert!(ended.status.success() != shows_error, "{name}: {command}\n{out}{notes}");
            let printed: BTreeSet<String> = out.lines().chain(notes.lines()).map(shape).collect();
            for line in shown {
                let is_printed = printed.contains(&shape(line));
                assert!(is_printed, "{name}: {command}\nprints nothing like `{line}`:\n{out}{notes}");
            }
        }
    }
    assert!(count >= 25, "{count} commands");
}

#[test]
fn the_readme_is_short() {
    assert!(README.lines().count() <= MAX_LINES, "{} lines", README.lines().count());
}
