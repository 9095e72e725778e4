//! What the command says about itself.
//!
//! In: a command or a word of the language. Out: text that teaches by example.
//! Guarantee: a word's text is the one in the catalogue; nothing about a word is written here.

use std::io::{Write, stdout};

use profiler_compiler::words::{Catalogue, Doc};

use super::exit::{Failure, OK, USAGE};
use profiler_compiler::CATALOGUE;

/// First line of everything.
pub const ABOUT: &str = "Ask a running Linux system a question, in a small language of probes";

/// Below the list of commands.
pub const OVERVIEW: &str = "\
Examples:
  profiler run -e 'BEGIN { printf(\"hello\\n\"); exit(); }'
  profiler run -e 'tracepoint:syscalls:sys_enter_* { @[comm] = count(); }' --duration 5s
  profiler run latency.prof -p 1234
  profiler check latency.prof
  profiler list 'tracepoint:sched:*'

A script makes itself a command with a first line of `#!/usr/bin/env profiler`.
`profiler help run` explains the options, `profiler help hist` a word of the language.

Exit codes:
  0  it went well            3  the machine refuses: privilege or kernel feature missing
  1  the script is wrong     4  something was lost, with --strict
  2  the command is wrong    5  doctor: no probe of the script fired
                             n  the script called exit(n)
";

/// Below the options of `run`.
pub const RUN: &str = "\
Examples:
  Which programs open which files
    profiler run -e 'tracepoint:syscalls:sys_enter_openat { printf(\"%s %s\\n\", comm, str(args.filename)); }'
  How large reads are, as a histogram, for five seconds
    profiler run -e 'tracepoint:syscalls:sys_exit_read { @bytes = hist(args.ret); }' --duration 5s
  Where a command spends its time, 99 times a second
    profiler run -e 'profile:hz:99 { @[ustack] = count(); }' -c 'make -j2'
  A script with parameters: one read as $1, others that it declares with `param`
    profiler run slow-reads.prof 10000
    profiler run slow-locks.prof --slow 5ms --pid 12,13
    profiler help slow-locks.prof
  What the compiler makes of a script: its instructions, with the script's lines
    profiler run -d bpf latency.prof

Control-C ends it in order: probes are detached, END blocks run, maps are printed. A second one stops at once.
Running needs root, or CAP_BPF and CAP_PERFMON.
";

/// Below the options of `check`.
pub const CHECK: &str = "\
Examples:
  profiler check latency.prof
  profiler check -e 'BEGIN { @x = cuont(); }'
  profiler check --json latency.prof | jq '.data.diagnostics[].code'

Says nothing and ends with 0 when the script is right. Loads nothing, and needs no privilege where the kernel's types are
readable (/sys/kernel/btf/vmlinux).
";

/// Below the options of `list`.
pub const LIST: &str = "\
Examples:
  profiler list                                   everything
  profiler list 'tracepoint:syscalls:*open*'      tracepoints by pattern
  profiler list -v tracepoint:sched:sched_switch  with the names and types of args
  profiler list 'uprobe:libc:*mutex*'             functions of a library or binary
  profiler list modules                           what scripts can `use`
";

/// Below the options of `build`.
pub const BUILD: &str = "\
Examples:
  profiler build latency.prof -o latency.bpf.o
  profiler run latency.bpf.o --slow 5ms
  bpftool prog loadall latency.bpf.o /sys/fs/bpf/latency
  llvm-objdump -S latency.bpf.o
";

/// Below the options of `doctor`.
pub const DOCTOR: &str = "\
Examples:
  What works on this machine, and what to use instead of what does not
    profiler doctor
    profiler doctor --json | jq '.data.probes[] | select(.state != \"works\")'
  Why a script shows nothing, or loses events
    profiler doctor latency.prof
    profiler doctor latency.prof -p 1234 --duration 10s
    profiler doctor lock/futex --pid 1234 --slow 1ms
    profiler doctor -e 'uprobe:libc:malloc { @ = count(); }' -c 'make -j2'

Without a script, each kind of probe is loaded, attached, made to fire by profiler itself, and its event received; maps
and helpers are created for a trial. With one, exactly what it needs is checked by using it; then it runs for a moment
without showing what it prints, and each probe is counted: fired (events that came to its block), past filter, runs (how
often the kernel ran its program: of a system call's tracepoint, once for any call), the mean time of a run, records
received and lost. Below stands what was found, and what to do about it. Nothing stays behind.

Ends with 0 when all is well, 3 when something needed is missing or refused, 4 when something was lost, 5 when no probe
fired or no filter let anything through; a script with a mistake ends with 1, as in `run`.
";

/// Below the options of `repl`.
pub const REPL: &str = "\
Examples:
  > tracepoint:syscalls:sys_enter_openat { @opens[comm] = count(); }
  [1] 1 probe
  > @opens
  > :stop 1

A program is attached at once and runs in the background. `:help` lists the words of the prompt, Tab completes with what
this kernel has, Control-D detaches everything and leaves. Lines also come from a pipe: profiler repl < session.
";

/// Below the options of `fmt`.
pub const FMT: &str = "\
Examples:
  profiler fmt latency.prof
  profiler fmt --check *.prof
  profiler fmt - < latency.prof

Files are changed in place; one with a mistake stays as it is. Ends with 1 when a file could not be read, has a mistake,
or, with --check, is not in canonical form.
";

/// Below the options of `lsp`.
pub const LSP: &str = "\
Editors start it; it speaks the language server protocol on standard input and output. Neovim:
  vim.lsp.config('profiler', { cmd = { 'profiler', 'lsp' }, filetypes = { 'profiler' } })
  vim.lsp.enable('profiler')
";

/// Below the options of `explain`.
pub const EXPLAIN: &str = "\
Examples:
  profiler explain E0203
  profiler explain W0903
";

/// Below the options of `completions`.
pub const COMPLETIONS: &str = "\
Examples:
  profiler completions bash > /etc/bash_completion.d/profiler
  profiler completions zsh > \"${fpath[1]}/_profiler\"
  profiler completions fish > ~/.config/fish/completions/profiler.fish
";

/// Below the options of `man`.
pub const MAN: &str = "\
Examples:
  profiler man | man -l -
  profiler man > /usr/local/share/man/man1/profiler.1
  profiler man run > /usr/local/share/man/man1/profiler-run.1
";

/// The pages of all diagnostics, by code.
const DIAGNOSTICS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/diagnostics.rs"));

/// Explains a diagnostic.
pub fn explain(code: &str) -> Result<u8, Failure> {
    let Some(text) = diagnostic(code) else {
        return Err(Failure::new(USAGE, format!("there is no diagnostic `{code}`"))
            .help("codes stand in brackets behind `error` and `warning`: E0203, W0903"));
    };
    print(&text)
}

/// The page of a diagnostic, without its marks.
fn diagnostic(code: &str) -> Option<String> {
    let code = code.to_ascii_uppercase();
    DIAGNOSTICS.iter().find(|(known, _)| *known == code).map(|(_, page)| plain(page))
}

/// The codes of all diagnostics with the titles of their pages.
pub fn codes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let title =
        |page: &'static str| page.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, title)| title);
    DIAGNOSTICS.iter().map(move |(code, page)| (*code, title(page)))
}

/// All words of the language with what they are.
pub fn topics() -> Vec<(String, String)> {
    words(&CATALOGUE).map(|(_, name, doc)| (name.to_owned(), doc.summary.to_owned())).collect()
}

fn print(text: &str) -> Result<u8, Failure> {
    stdout().lock().write_all(text.as_bytes()).map_err(|error| Failure::output("standard output", &error))?;
    Ok(OK)
}

/// Explains `topic`, or everything in short.
pub fn help(topic: Option<&str>) -> Result<u8, Failure> {
    match topic {
        None => print(&super::args::help_text(None).unwrap_or_default()),
        Some(topic) => print(&text(topic)?),
    }
}

/// The help of a command, a word or a code.
pub fn text(topic: &str) -> Result<String, Failure> {
    let text = super::args::help_text(Some(topic)).or_else(|| word(&CATALOGUE, topic)).or_else(|| diagnostic(topic));
    let text = match text {
        None => super::parameters::describe_topic(topic)?,
        text => text,
    };
    text.ok_or_else(|| {
        let failure = Failure::new(USAGE, format!("there is no command, no word, no script and no module `{topic}`"));
        match near(&CATALOGUE, topic) {
            Some(near) => failure.help(format!("these come close: {near}")),
            None => failure.help("`profiler help` lists the commands"),
        }
    })
}

/// All words with their kinds and texts.
fn words(catalogue: &Catalogue) -> impl Iterator<Item = (&'static str, &'static str, Doc)> {
    let builtins = catalogue.builtins.iter().map(|word| ("builtin", word.name(), word.doc()));
    let functions = catalogue.functions.iter().map(|word| ("function", word.name(), word.doc()));
    let aggregations = catalogue.aggregations.iter().map(|word| ("aggregation", word.name(), word.doc()));
    let probes = catalogue.probes.iter().map(|word| ("probe", word.name(), word.doc()));
    builtins.chain(functions).chain(aggregations).chain(probes)
}

/// The spec pages of the words with this name; a page that two words share comes once.
fn word(catalogue: &Catalogue, topic: &str) -> Option<String> {
    let name = topic.trim_end_matches("()");
    let mut pages: Vec<&str> = Vec::new();
    for (_, _, doc) in words(catalogue).filter(|(_, word, _)| *word == name) {
        if !pages.contains(&doc.page) {
            pages.push(doc.page);
        }
    }
    let text: Vec<String> = pages.into_iter().map(plain).collect();
    (!text.is_empty()).then(|| text.join("\n"))
}

/// A page without its marks: headings bare, blocks indented, outputs announced.
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
        let line = if inside { line } else { line.strip_prefix("# ").unwrap_or(line) };
        text.push_str(if inside && !line.is_empty() { "    " } else { "" });
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn near(catalogue: &Catalogue, topic: &str) -> Option<String> {
    let start: String = topic.chars().take(2).collect();
    let names: Vec<&str> = words(catalogue).map(|(_, name, _)| name).filter(|name| name.starts_with(&start)).collect();
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
        assert_eq!(both.matches("The stack of the kernel.").count(), 1, "{both}");
        assert_eq!(word(&CATALOGUE, "pid()"), word(&CATALOGUE, "pid"));
        assert!(word(&CATALOGUE, "uprobe").is_some_and(|text| text.starts_with("uprobe:BINARY:FUNCTION")));
        assert_eq!(word(&CATALOGUE, "nope"), None);
    }

    #[test]
    fn words_that_begin_alike_are_offered() {
        assert_eq!(near(&CATALOGUE, "pidd").as_deref(), Some("pid"));
        assert_eq!(near(&CATALOGUE, "x"), None);
    }

    #[test]
    fn every_command_has_examples() {
        for command in ["run", "check", "list", "build"] {
            let text = crate::cli::args::help_text(Some(command)).expect("help");
            assert!(text.contains("Examples:\n"), "{command}");
        }
        assert!(crate::cli::args::help_text(None).expect("help").contains("Exit codes:"));
    }
}
