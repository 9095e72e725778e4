//! Help texts of the command.
//!
//! In: a command or a word of the language. Out: help with examples.
//! Guarantee: the text of a word comes from the catalogue; nothing about a word is written here.

use std::io::{Write, stdout};

use profiler_compiler::catalogue::{Catalogue, Doc};
use profiler_compiler::language::{LANGUAGE, language_word};

use super::exit::{Failure, OK, USAGE};
use super::script::modules;
use profiler_compiler::CATALOGUE;

/// First line of the main help.
pub(super) const ABOUT: &str = "Scriptable tracer for Linux: compiles probe scripts to eBPF and runs them";

/// Printed below the list of commands.
pub(super) const OVERVIEW: &str = "\
Examples:
  profiler run -e 'BEGIN { printf(\"hello\\n\"); exit(); }'
  profiler run -e 'tracepoint:syscalls:sys_enter_* { @[comm] = count(); }'
  profiler run latency.prof -p 1234,1235 --duration 5s
  profiler run latency.prof -p nginx
  profiler check latency.prof
  profiler list 'tracepoint:sched:*'

`profiler help run` lists the options of a command, `profiler help hist`
explains a language word, and `profiler help words` lists all language words.
A first line of `#!/usr/bin/env profiler` makes a script executable.

Exit codes:
  0  success
  1  invalid script
  2  invalid command line
  3  insufficient privilege or unsupported kernel
  4  data was lost (with --strict, or in doctor)
  5  no probe of the script fired, or no event passed a filter (doctor)
  n  the script called exit(n)
";

/// Printed below the options of `run`.
pub(super) const RUN: &str = "\
Examples:
  Files opened, by process
    profiler run -e 'tracepoint:syscalls:sys_enter_openat {
        printf(\"%s %s\\n\", comm, str(args.filename)); }'
  Histogram of read sizes, for 5 seconds
    profiler run --duration 5s \\
        -e 'tracepoint:syscalls:sys_exit_read { @bytes = hist(args.ret); }'
  CPU profile of a command, 99 samples per second on each CPU
    profiler run -e 'profile:hz:99 { @[ustack] = count(); }' -c 'gzip -k log'
  A script with parameters: a positional one ($1), and declared ones (`param`)
    profiler run slow-reads.prof 10000
    profiler run slow-locks.prof --slow 5ms --pid 12,13
    profiler help slow-locks.prof
  The BPF instructions of a script, with source lines
    profiler run -d bpf latency.prof

Control-C detaches the probes, runs END blocks and prints all maps; a second
Control-C stops at once. Needs root, or CAP_BPF and CAP_PERFMON.
";

/// Printed below the options of `check`.
pub(super) const CHECK: &str = "\
Examples:
  profiler check latency.prof
  profiler check -e 'BEGIN { @x = cuont(); }'
  profiler check --json latency.prof | jq '.data.diagnostics[].code'

Prints nothing and exits with 0 if the script is valid, with 1 if it is not, and
with 3 if a probe could not be looked up. Nothing is loaded into the kernel; no
privileges are needed if /sys/kernel/btf/vmlinux is readable.
";

/// Printed below the options of `list`.
pub(super) const LIST: &str = "\
Examples:
  profiler list                                   all probes, without functions
  profiler list 'tracepoint:syscalls:*open*'      tracepoints by pattern
  profiler list -v tracepoint:sched:sched_switch  a probe and its arguments
  profiler list 'uprobe:libc:*mutex*'             functions of a binary
  profiler list recipes                           recipes, with what they answer
  profiler list 'lock*'                           recipes and probes by pattern
  profiler list modules                           the whole standard library
";

/// Printed below the options of `cat`.
pub(super) const CAT: &str = "\
Examples:
  profiler cat lock/futex
  profiler cat futex > mine.prof
";

/// Printed below the options of `build`.
pub(super) const BUILD: &str = "\
Examples:
  profiler build latency.prof -o latency.bpf.o
  profiler run latency.bpf.o --slow 5ms
  bpftool prog loadall latency.bpf.o /sys/fs/bpf/latency
  llvm-objdump -S latency.bpf.o
";

/// Printed below the options of `doctor`.
pub(super) const DOCTOR: &str = "\
Examples:
  What this kernel supports, and alternatives to what it does not
    profiler doctor
    profiler doctor --json | jq '.data.probes[] | select(.state != \"works\")'
  Why a script shows nothing, or loses events
    profiler doctor latency.prof
    profiler doctor latency.prof -p 1234 --duration 10s
    profiler doctor lock/futex --pid 1234 --slow 1ms
    profiler doctor -e 'uprobe:libc:malloc { @ = count(); }' -c 'make -j2'

Finds out what this kernel and your privileges allow, or why a script shows
nothing.

Without a script, doctor loads, attaches and triggers a probe of every kind,
receives its event, creates maps and verifies helpers.

With a script, it checks each requirement of the script by using it, runs the
script for --duration without showing its output, and counts for each probe:
  fired        events that reached the block
  past filter  events that passed the filter
  runs         runs of the BPF program; that of a system call's tracepoint
               runs for every system call
  mean         mean time of a run
  received     records received
  lost         records lost
Findings and advice follow. Nothing stays loaded or attached.

Exit codes:
  0  no problem found
  1  invalid script
  2  invalid command line
  3  a requirement is missing or refused
  4  data was lost
  5  no probe fired, or no event passed a filter
";

/// Printed below the options of `repl`.
pub(super) const REPL: &str = "\
Examples:
  > tracepoint:syscalls:sys_enter_openat { @opens[comm] = count(); }
  [1] 1 probe
  > @opens
  > :stop 1

Programs are attached at once and run in the background. `:help` lists the
commands of the prompt, Tab completes probes, symbols and language words,
Control-D detaches everything and exits. Input can also come from a pipe:
profiler repl < session
";

/// Printed below the options of `fmt`.
pub(super) const FMT: &str = "\
Examples:
  profiler fmt latency.prof
  profiler fmt --check *.prof
  profiler fmt - < latency.prof

Files are rewritten in place; a script with a syntax error is left unchanged.
Exits with 1 if a file cannot be read or has a syntax error, or, with --check,
is not formatted.
";

/// Printed below the options of `flame`.
pub(super) const FLAME: &str = "\
Examples:
  profiler flame cpu.folded -o cpu.svg
  profiler flame cpu.folded --icicle
  profiler flame --busy wall.folded -o busy.svg
  profiler flame diff before.folded after.folded -o change.svg
";

/// Printed below the options of `lsp`.
pub(super) const LSP: &str = "\
Editors start this command; it implements the Language Server Protocol 3.17 with
diagnostics, completion, hover texts and formatting. Set-up for Neovim:
  vim.lsp.config('profiler',
    { cmd = { 'profiler', 'lsp' }, filetypes = { 'profiler' } })
  vim.lsp.enable('profiler')
";

/// Printed below the options of `explain`.
pub(super) const EXPLAIN: &str = "\
Examples:
  profiler explain E0203
  profiler explain W0903
";

/// Printed below the options of `completions`.
pub(super) const COMPLETIONS: &str = "\
Examples:
  profiler completions bash > /etc/bash_completion.d/profiler
  profiler completions zsh > \"${fpath[1]}/_profiler\"
  profiler completions fish > ~/.config/fish/completions/profiler.fish
";

/// Printed below the options of `man`.
pub(super) const MAN: &str = "\
Examples:
  profiler man | man -l -
  profiler man > /usr/local/share/man/man1/profiler.1
  profiler man run > /usr/local/share/man/man1/profiler-run.1
";

/// The pages of all diagnostics, by code.
const DIAGNOSTICS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/diagnostics.rs"));

/// Prints the page of a diagnostic.
pub(super) fn explain(code: &str) -> Result<u8, Failure> {
    let Some(text) = diagnostic(code) else {
        return Err(Failure::new(USAGE, format!("there is no diagnostic `{code}`"))
            .help("codes appear in brackets after `error` and `warning`: E0203, W0903"));
    };
    print(&text)
}

/// The page of a diagnostic as plain text.
fn diagnostic(code: &str) -> Option<String> {
    let code = code.to_ascii_uppercase();
    DIAGNOSTICS.iter().find(|(known, _)| *known == code).map(|(_, page)| plain(page))
}

/// The codes of all diagnostics with the titles of their pages.
pub(super) fn codes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let title =
        |page: &'static str| page.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, title)| title);
    DIAGNOSTICS.iter().map(move |(code, page)| (*code, title(page)))
}

/// All words of the language with their summaries.
pub(super) fn topics() -> Vec<(String, String)> {
    let of_language = LANGUAGE.iter().map(|word| (word.name.to_owned(), word.summary.to_owned()));
    let list = ("words".to_owned(), "lists all language words, one per line".to_owned());
    let words = words(&CATALOGUE).map(|(_, name, doc)| (name.to_owned(), doc.summary()));
    words.chain(of_language).chain([list]).collect()
}

/// All words grouped by kind, one per line.
fn listing() -> String {
    let mut text = String::new();
    let mut section = |title: &str, lines: &[(&str, &str)]| {
        let width = lines.iter().map(|(form, _)| form.chars().count()).filter(|width| *width <= FORM_COLUMNS).max();
        let width = width.unwrap_or(0);
        text.extend([title, "\n"]);
        for (form, summary) in lines {
            text.extend([format!("  {form:<width$}  {summary}\n")]);
        }
        text.push('\n');
    };
    let language: Vec<(&str, &str)> = LANGUAGE.iter().map(|word| (word.name, word.summary)).collect();
    section("Language", &language);
    for (kind, title) in
        [("probe", "Probes"), ("aggregation", "Aggregations"), ("builtin", "Builtins"), ("function", "Functions")]
    {
        let of_kind = words(&CATALOGUE).filter(|(of, ..)| *of == kind);
        let lines: Vec<(&str, String)> = of_kind.map(|(_, name, doc)| (name, doc.summary())).collect();
        let lines: Vec<(&str, &str)> = lines.iter().map(|(name, summary)| (*name, summary.as_str())).collect();
        section(title, &lines);
    }
    text.push_str("`profiler help WORD` explains a word.\n");
    text
}

/// Longer forms extend beyond the column.
const FORM_COLUMNS: usize = 24;

fn print(text: &str) -> Result<u8, Failure> {
    stdout().lock().write_all(text.as_bytes()).map_err(|error| Failure::output("standard output", &error))?;
    Ok(OK)
}

/// Prints help for `topic`, or the overview.
pub(super) fn help(topic: Option<&str>) -> Result<u8, Failure> {
    match topic {
        None => print(&super::args::help_text(None).unwrap_or_default()),
        Some(topic) => print(&text(topic)?),
    }
}

/// The help for a command, a word or a code.
pub(super) fn text(topic: &str) -> Result<String, Failure> {
    if topic == "words" {
        return Ok(listing());
    }
    let text = command(topic).or_else(|| word(&CATALOGUE, topic)).or_else(|| diagnostic(topic));
    let text = match text {
        None => super::parameters::describe_topic(topic)?,
        text => text,
    };
    text.ok_or_else(|| {
        if modules::nearest(topic).is_some() {
            return modules::missing("command, no word, no script and no recipe", topic);
        }
        let failure = Failure::new(USAGE, format!("there is no command, no word, no script and no recipe `{topic}`"));
        match near(&CATALOGUE, topic) {
            Some(near) => failure.help(format!("similar topics: {near}")),
            None => failure.help("`profiler help` lists the commands, `profiler help words` the words of the language"),
        }
    })
}

/// The help of a command; a word of the same name is referred to.
fn command(topic: &str) -> Option<String> {
    let mut text = super::args::help_text(Some(topic))?;
    if let Some((kind, ..)) = words(&CATALOGUE).find(|(_, name, _)| *name == topic) {
        text.extend([format!("\nThe {kind} `{topic}(…)`: `profiler help '{topic}()'`\n")]);
    }
    Some(text)
}

/// All words with their kinds and pages.
fn words(catalogue: &Catalogue) -> impl Iterator<Item = (&'static str, &'static str, Doc)> {
    let builtins = catalogue.builtins.iter().map(|word| ("builtin", word.name(), word.doc()));
    let functions = catalogue.functions.iter().map(|word| ("function", word.name(), word.doc()));
    let aggregations = catalogue.aggregations.iter().map(|word| ("aggregation", word.name(), word.doc()));
    let probes = catalogue.probes.iter().map(|word| ("probe", word.name(), word.doc()));
    builtins.chain(functions).chain(aggregations).chain(probes)
}

/// The catalogue pages of the words with this name; a page shared by two words appears once.
fn word(catalogue: &Catalogue, topic: &str) -> Option<String> {
    let name = topic.trim_end_matches(['(', ')']);
    let mut pages: Vec<&str> = Vec::new();
    for (_, _, doc) in words(catalogue).filter(|(_, word, _)| *word == name) {
        if !pages.contains(&doc.page) {
            pages.push(doc.page);
        }
    }
    let mut text: Vec<String> = pages.into_iter().map(plain).collect();
    if let Some(word) = language_word(name) {
        text.push(format!("{}: {}\n\n{}", word.form, word.summary, plain(word.page())));
    }
    (!text.is_empty()).then(|| text.join("\n"))
}

/// A page as plain text: headings without markers, blocks indented, outputs labelled.
fn plain(page: &str) -> String {
    let (mut text, mut inside) = (String::new(), false);
    for line in page.lines() {
        if let Some(info) = line.strip_prefix("```") {
            inside = !inside;
            match info.split_once(' ').unwrap_or((info, "")) {
                ("prof", options) if !options.is_empty() => text.extend(["With ", options, ":\n"]),
                ("output" | "output-like", _) => text.push_str("prints\n"),
                ("error", _) => text.push_str("is refused with\n"),
                _ => {}
            }
            continue;
        }
        let is_heading = !inside && line.starts_with('#');
        let line = if is_heading { line.trim_start_matches('#').trim_start() } else { line };
        text.push_str(if inside && !line.is_empty() { "    " } else { "" });
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn near(catalogue: &Catalogue, topic: &str) -> Option<String> {
    let start: String = topic.chars().take(2).collect();
    let of_language = LANGUAGE.iter().map(|word| word.name);
    let known = words(catalogue).map(|(_, name, _)| name).chain(of_language);
    let mut names: Vec<&str> = known.filter(|name| name.starts_with(&start)).collect();
    names.dedup();
    (!names.is_empty() && start.len() > 1).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::{near, word};
    use profiler_compiler::CATALOGUE;

    #[test]
    fn a_word_is_explained_by_its_own_text() {
        let text = word(&CATALOGUE, "pid").expect("a page");
        assert!(text.starts_with("pid, pid(init)\n\nProcess id.\n\n- Type: ") && !text.contains("```"), "{text}");
        let both = word(&CATALOGUE, "kstack").expect("a page");
        assert_eq!(both.matches("The kernel stack.").count(), 1, "{both}");
        assert_eq!(word(&CATALOGUE, "pid()"), word(&CATALOGUE, "pid"));
        for name in
            ["span", "view", "param", "state", "use", "macro", "for", "let", "map", "types", "args", "every", "top"]
        {
            let text = word(&CATALOGUE, name).unwrap_or_else(|| panic!("no help for {name}"));
            assert!(text.contains(name) && !text.contains("```"), "{name}: {text}");
        }
        assert!(word(&CATALOGUE, "uprobe").is_some_and(|text| text.starts_with("uprobe:BINARY:FUNCTION")));
        assert_eq!(word(&CATALOGUE, "nope"), None);
    }

    #[test]
    fn a_command_refers_to_the_function_of_its_name() {
        let text = super::text("flame").expect("help");
        assert!(text.starts_with("Draws flame graphs") && text.contains("profiler help 'flame()'"), "{text}");
        for topic in ["flame()", "flame("] {
            assert_eq!(super::text(topic).expect("help"), word(&CATALOGUE, "flame").expect("a page"));
        }
        assert!(!super::text("run").expect("help").contains("profiler help 'run()'"));
    }

    #[test]
    fn every_word_is_listed_and_explained() {
        let listed = super::text("words").expect("a list");
        for (name, _) in super::topics() {
            assert!(
                name == "words" || listed.lines().any(|line| line.split_whitespace().next() == Some(&name)),
                "{name}"
            );
            assert!(super::text(&name).is_ok(), "{name}");
        }
    }

    #[test]
    fn words_that_begin_alike_are_offered() {
        assert_eq!(near(&CATALOGUE, "pidd").as_deref(), Some("pid"));
        assert_eq!(near(&CATALOGUE, "x"), None);
    }

    #[test]
    fn every_command_has_examples() {
        for command in ["run", "check", "list", "build"] {
            let text = crate::commands::args::help_text(Some(command)).expect("help");
            assert!(text.contains("Examples:\n"), "{command}");
        }
        assert!(crate::commands::args::help_text(None).expect("help").contains("Exit codes:"));
    }
}
