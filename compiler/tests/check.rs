//! Scripts with errors and the exact diagnostics of the checker, on the test target; damaged
//! scripts through the whole compiler; and a check that every code has a script and a page.
//!
//! A file under `tests/diagnostics/SUBJECT` ends with the diagnostics that its text must produce,
//! as lines that begin with `//!`.
//! A first line `// with: …` gives the command line: `no-btf`, `no-kprobes`, `no-fentry`, `old`
//! (Linux 5.15), `unsafe`, `child`, `process` (`-p`), `recipe`, `filter=PART` (probes whose
//! names contain it), or parameters. The text after a line `//# a/b` is the module of that name.
//! `PROFILER_BLESS=1` rewrites the diagnostics.

use profiler_compiler::CATALOGUE;
use profiler_compiler::check::{self, Dialect, MissingProbes, Options, ProbeFilter};
use profiler_compiler::compile;
use profiler_compiler::diagnostic::{Code, Diagnostic};
use profiler_compiler::ir::verify::verify;
use profiler_compiler::source::{Source, Span};
use profiler_compiler::target::Target;
use profiler_compiler::{expand, lower, parse, typed_print};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[path = "support/fixture.rs"]
mod fixture;

use fixture::Machine;

const SUBJECTS: [&str; 5] = ["names", "types", "probes", "limits", "gates"];

/// Codes that no script here produces: a script of 4 MiB (tested with the parser), settings in the
/// environment (tested with the command), states that the parser refuses, and an ELF writer that
/// cannot fail.
const UNREACHABLE: [Code; 4] = [Code(102), Code(212), Code(316), Code(512)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(directory: &str) -> Vec<PathBuf> {
    let path = root().join(directory);
    let mut found: Vec<PathBuf> = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    assert!(!found.is_empty(), "no files in {}", path.display());
    found
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}

fn golden_files() -> Vec<PathBuf> {
    SUBJECTS.iter().flat_map(|subject| files(&format!("tests/diagnostics/{subject}"))).collect()
}

/// The target and the options that a script's first line asks for.
fn surroundings(text: &str) -> (Machine, Options) {
    let words: Vec<&str> =
        text.lines().next().and_then(|line| line.strip_prefix("// with: ")).unwrap_or("").split_whitespace().collect();
    let has = |word: &str| words.contains(&word);
    let known = ["no-btf", "no-kprobes", "no-fentry", "old", "unsafe", "child", "process", "bt", "recipe"];
    let filter = words.iter().find_map(|word| word.strip_prefix("filter=")).map(str::to_owned);
    let is_parameter = |w: &&&str| !known.contains(*w) && !w.starts_with("filter=");
    let (named, positional): (Vec<&str>, Vec<&str>) =
        words.iter().filter(is_parameter).partition(|word| word.starts_with("--"));
    let named = named.iter().map(|word| match word.trim_start_matches('-').split_once('=') {
        Some((name, value)) => (name.to_string(), Some(value.to_string())),
        None => (word.trim_start_matches('-').to_string(), None),
    });
    let options = Options {
        pids: if has("process") { vec![100] } else { Vec::new() },
        child_pid: has("child").then_some(100),
        positional: positional.iter().map(ToString::to_string).collect(),
        named: named.collect(),
        allow_unsafe: has("unsafe"),
        probe_filter: filter.map(|part| ProbeFilter::new(move |name| name.contains(&part))),
        missing_in_programs: match () {
            () if has("recipe") => MissingProbes::IgnoreBeside,
            () if has("bt") => MissingProbes::Warn,
            () => MissingProbes::Error,
        },
        dialect: if has("bt") { Dialect::Bpftrace } else { Dialect::Own },
        ..Options::default()
    };
    let mut machine = Machine::new(!has("no-btf"));
    if has("no-kprobes") {
        machine.probing.kprobe = Err("it was built without kprobes".into());
    }
    if has("no-fentry") {
        machine.probing.fentry = Err("it refuses programs at function entry".into());
    }
    if has("old") {
        machine.kernel = (5, 15);
    }
    (machine, options)
}

/// All diagnostics of a script, including the warnings of a valid one.
fn diagnostics(source: &Source) -> Vec<Diagnostic> {
    let (machine, options) = surroundings(&source.text);
    match compile::compile(source, &CATALOGUE, &machine, &options) {
        Ok(compiled) => compiled.warnings,
        Err(problems) => problems,
    }
}

/// The script of a file with the modules after it.
fn source_of(text: &str) -> Source {
    let mut parts = text.split("//# ");
    let is_bt = text.lines().next().is_some_and(|line| line.starts_with("// with: ") && line.contains(" bt"));
    let name = if is_bt { "test.bt" } else { "test.prof" };
    let mut source = Source::new(name, parts.next().unwrap_or(""));
    for (path, text) in parts.filter_map(|part| part.split_once('\n')) {
        source.append_module(format!("{path}.prof"), text, path);
    }
    source
}

fn place(source: &Source, span: Span) -> String {
    let (start, end) = (source.line_column(span.start), source.line_column(span.end));
    let file = match source.file_at(span.start).0 {
        "test.prof" | "test.bt" => String::new(),
        file => format!("{file}:"),
    };
    format!("{file}{}:{}-{}:{}", start.0, start.1, end.0, end.1)
}

fn shown(source: &Source, problems: &[Diagnostic]) -> String {
    let mut out = String::new();
    for problem in problems {
        let _ = writeln!(out, "//! {} {} {}", problem.code, place(source, problem.span), problem.message);
        if !problem.label.is_empty() {
            let _ = writeln!(out, "//!   label: {}", problem.label);
        }
        for (span, words) in &problem.related {
            let _ = writeln!(out, "//!   also: {} {words}", place(source, *span));
        }
        if let Some(help) = &problem.help {
            let _ = writeln!(out, "//!   help: {help}");
        }
    }
    out
}

#[test]
fn mistakes_get_their_exact_messages() {
    let bless = std::env::var_os("PROFILER_BLESS").is_some();
    let mut wrong = String::new();
    for path in golden_files() {
        let whole = read(&path);
        let (text, expected) = whole.split_at(whole.find("//! ").unwrap_or(whole.len()));
        let source = source_of(text);
        let found = shown(&source, &diagnostics(&source));
        assert!(!found.is_empty(), "{} has no mistake", path.display());
        if bless {
            std::fs::write(&path, format!("{text}{found}")).unwrap();
        } else if found != expected {
            let _ = writeln!(wrong, "{}\nexpected:\n{expected}found:\n{found}", path.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// All diagnostic codes in the sources of a directory.
fn codes_in(directory: &Path, found: &mut BTreeSet<Code>) {
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            codes_in(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = read(&path);
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            // The parser creates its diagnostics with a separate function.
            let own = if path.ends_with("parse/errors.rs") { " error(" } else { "Code(" };
            for after in text.split(own).skip(1) {
                let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
                found.extend(digits.parse().map(Code));
            }
        }
    }
}

#[test]
fn every_code_has_a_script_that_causes_it() {
    let mut codes = BTreeSet::new();
    codes_in(&root().join("compiler/src"), &mut codes);
    assert!(codes.len() > 100, "only {} codes were found", codes.len());
    let golden: Vec<String> =
        golden_files().into_iter().chain(files("tests/diagnostics/syntax")).map(|p| read(&p)).collect();
    let caused = |code: &Code| golden.iter().any(|text| text.contains(&format!("//! {code} ")));
    let missing: Vec<String> =
        codes.iter().filter(|c| !caused(c) && !UNREACHABLE.contains(c)).map(ToString::to_string).collect();
    assert!(missing.is_empty(), "no script under tests/diagnostics causes {}", missing.join(", "));
}

#[test]
fn every_code_has_its_page_and_every_page_its_code() {
    let mut codes = BTreeSet::new();
    codes_in(&root().join("compiler/src"), &mut codes);
    codes_in(&root().join("runtime/src"), &mut codes);
    codes_in(&root().join("cli/src"), &mut codes);
    let wanted: BTreeSet<String> = codes.iter().map(|code| format!("{code}.md")).collect();
    let pages: BTreeSet<String> =
        files("spec/errors").iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(wanted.difference(&pages).collect::<Vec<_>>(), Vec::<&String>::new(), "codes without a page");
    assert_eq!(pages.difference(&wanted).collect::<Vec<_>>(), Vec::<&String>::new(), "pages without a code");
    for path in files("spec/errors") {
        let code = path.file_stem().unwrap().to_string_lossy().into_owned();
        let page = read(&path);
        assert!(page.starts_with(&format!("# {code}: ")) && page.contains("```"), "{code}: a heading and an example");
    }
}

#[test]
fn messages_are_written_for_people() {
    for path in golden_files() {
        let source = source_of(&read(&path));
        for problem in diagnostics(&source) {
            let words = format!("{}; {}; {}", problem.message, problem.label, problem.help.as_deref().unwrap_or(""));
            assert!(!problem.message.ends_with('.'), "{words}");
            for slip in [" a int", " a enum", " a inet", "unknown", "Unknown", "Some(", "::", "  ", "0 are "] {
                assert!(!words.contains(slip), "{}: {words}", path.display());
            }
        }
    }
}

#[test]
fn a_typed_program_prints_as_a_tree() {
    let text =
        "tracepoint:syscalls:sys_exit_read /args.ret > 0/ { $n = args.ret; $n++; @b[comm, pid] = hist($n); @s += 1; }";
    let script = parse::parse(&Source::new("test", text)).unwrap();
    let machine = Machine::new(true);
    let (typed, problems) = check::check(&script, &CATALOGUE, &machine, &Options::default());
    assert_eq!(problems, []);
    let expected = "\
map @b[(string[16], uint32)]: hist(0) of signed values
map @s: int64
program raw_tp/sys_exit (rawtracepoint context)
  at tracepoint:syscalls:sys_exit_read
  var $n: int64
  when
    >: bool
      context argument 1: int64
      0: int64
  do
    assign $n
      context argument 1: int64
    step $n by 1, after reading: int64
    aggregate @b
      key
        tuple: (string[16], uint32)
          comm: string[16]
          pid: uint32
      $n: int64
    update += @s
      1: int64
";
    assert_eq!(typed_print::print(&typed, machine.btf()), expected);
}

#[test]
fn all_mistakes_are_reported_together() {
    let text =
        "BEGIN { $x = nope1; @a = nope2(); printf(\"%d\\n\", nope3); }\nEND { print($y); @a = \"s\" + 1; str(); }\n";
    let source = Source::new("test", text);
    let codes: Vec<u16> = diagnostics(&source).iter().map(|problem| problem.code.0).collect();
    assert_eq!(codes, [201, 203, 201, 202, 303, 320]);
}

/// A small deterministic generator, so that failures are reproducible.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// Splits a script into tokens, roughly.
fn tokens(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for c in text.chars() {
        let joins = c.is_alphanumeric() || c == '_';
        match found.last_mut() {
            Some(last) if joins && last.chars().all(|c| c.is_alphanumeric() || "_$@".contains(c)) => last.push(c),
            _ => found.push(c.to_string()),
        }
    }
    found
}

/// A script with some of its tokens replaced by others, so that most results still parse and few
/// still type-check.
fn damage(random: &mut Random, corpus: &[Vec<String>], words: &[String]) -> String {
    let mut script = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(3) {
        let at = random.below(script.len());
        match random.below(6) {
            0 => drop(script.remove(at)),
            1 => script.insert(at, words[random.below(words.len())].clone()),
            2 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len());
                let piece = other[from..(from + random.below(30)).min(other.len())].to_vec();
                drop(script.splice(at..at, piece));
            }
            _ => {
                // Replacing a word by a word keeps the shape of the tree.
                let is_word = |t: &String| t.chars().last().is_some_and(char::is_alphanumeric);
                let places: Vec<usize> = (0..script.len()).filter(|i| is_word(&script[*i])).collect();
                let word = words[random.below(words.len())].clone();
                if let Some(place) = places.get(random.below(places.len())) {
                    script[*place] = word;
                }
            }
        }
        if script.is_empty() {
            break;
        }
    }
    script.concat()
}

fn check_answer(source: &Source, machine: &Machine, options: &Options) -> bool {
    match compile::stages(source, &CATALOGUE, machine, options) {
        Ok(stages) => {
            // The stages themselves verify in debug builds only.
            let lowered = lower::lower_separately(&stages.typed, (&CATALOGUE, machine));
            assert_eq!(verify(&lowered.ir), Ok(()), "{}", source.text);
            assert_eq!(verify(&stages.ir), Ok(()), "{}", source.text);
            assert!(!stages.emitted.elf.is_empty());
            true
        }
        Err(problems) => {
            assert!(problems.iter().any(Diagnostic::is_error), "{}", source.text);
            for problem in &problems {
                for span in problem.related.iter().map(|(span, _)| *span).chain([problem.span]) {
                    let inside = source.text.get(span.start as usize..span.end as usize).is_some();
                    assert!(inside && span.start <= span.end, "{problem:?}\n{}", source.text);
                }
            }
            false
        }
    }
}

#[test]
fn damaged_scripts_get_code_or_an_answer_in_range() {
    let paths: Vec<PathBuf> =
        files("tests/scripts/core").into_iter().chain(files("examples")).chain(golden_files()).collect();
    let scripts = paths.iter().filter(|path| path.extension().is_some_and(|e| e == "prof")).map(|path| read(path));
    let scripts: Vec<String> = scripts.filter(|text| text.len() < 2_000).collect();
    let corpus: Vec<Vec<String>> = scripts.iter().map(|text| tokens(text)).collect();
    let words: Vec<String> = corpus.iter().flatten().filter(|token| !token.trim().is_empty()).cloned().collect();
    let (machine, options) =
        (Machine::new(true), Options { positional: vec!["7".into(), "x".into()], ..Options::default() });
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut good, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let source = Source::new("damaged", damage(&mut random, &corpus, &words));
        if parse::parse(&source).and_then(expand::expand).is_err() {
            continue;
        }
        if check_answer(&source, &machine, &options) { good += 1 } else { refused += 1 }
    }
    assert!(good > 1_000 && refused > 3_000, "the damage is lopsided: {good} good, {refused} refused");
}

#[test]
fn types_that_grow_without_end_are_refused() {
    for script in [
        "BEGIN { @a = (@a, 1); }",
        "BEGIN { @a = (@a, @a, @a, @a, @a, @a); }",
        "BEGIN { @a = (@b, @b); @b = (@a, @a); }",
        "BEGIN { @[@] = (@[@], @[@], @[@], @[@]); }",
        "BEGIN { $x = (1, 1); $x = ($x, $x); @y[@y[@y[0]]] = (@y[1], @y[1]); }",
    ] {
        let source = Source::new("test", script);
        let (_, problems) = check::check(
            &parse::parse(&source).and_then(expand::expand).unwrap(),
            &CATALOGUE,
            &Machine::new(true),
            &Options::default(),
        );
        assert!(problems.iter().any(Diagnostic::is_error), "{script}");
    }
}

#[test]
fn similar_names_are_searched_for_diagnostics_only() {
    let checked = |text: &str| {
        let script = parse::parse(&Source::new("test", text)).and_then(expand::expand).unwrap();
        let machine = Machine::new(true);
        let (_, problems) = check::check(&script, &CATALOGUE, &machine, &Options::default());
        (problems.len(), machine.searches.get())
    };
    // Both ways to write it, of either of which one half is missing.
    for kind in ["kprobe", "kretprobe", "fentry", "fexit", "fn"] {
        let missing_first = format!("{kind}:vfs_reed {{}} rawtracepoint:sched_switch unless {kind}:vfs_reed {{}}");
        assert_eq!(checked(&missing_first), (0, 0), "{missing_first}");
        let missing_last = format!("{kind}:vfs_read {{}} {kind}:vfs_reed unless {kind}:vfs_read {{}}");
        assert_eq!(checked(&missing_last), (0, 0), "{missing_last}");
        assert_eq!(checked(&format!("{kind}:vfs_reed {{}}")), (1, 1), "{kind}");
    }
}
