//! The parser on files: scripts that must parse, scripts with errors and their exact messages,
//! precedence, and damaged scripts.
//!
//! A file under `tests/diagnostics/syntax` ends with the diagnostics that its text must produce, as
//! lines that begin with `//!`.
//! `PROFILER_BLESS=1` rewrites them.

use profiler_compiler::ast::{ExprKind, Script, StmtKind};
use profiler_compiler::ast_print;
use profiler_compiler::diagnostic::Diagnostic;
use profiler_compiler::parse::parse;
use profiler_compiler::source::{Source, Span};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn files(directory: &str) -> Vec<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(directory);
    let mut found: Vec<PathBuf> = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    assert!(found.len() > 20, "too few files in {}", path.display());
    found
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}

fn place(source: &Source, span: Span) -> String {
    let (start, end) = (source.line_column(span.start), source.line_column(span.end));
    format!("{}:{}-{}:{}", start.0, start.1, end.0, end.1)
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

fn tree(text: &str) -> Script {
    let source = Source::new("test", text);
    parse(&source).unwrap_or_else(|problems| panic!("{text}\n{}", shown(&source, &problems)))
}

fn parses(text: impl Into<String>) -> bool {
    parse(&Source::new("test", text)).is_ok()
}

/// The printed tree of one expression.
fn expr_tree(expr: &str) -> String {
    ast_print::print(&tree(&format!("BEGIN {{ $r = {expr}; }}")))
}

#[test]
fn mistakes_get_their_exact_messages() {
    let bless = std::env::var_os("PROFILER_BLESS").is_some();
    let mut wrong = String::new();
    for path in files("diagnostics/syntax") {
        let whole = read(&path);
        let at = whole.find("//! ").unwrap_or(whole.len());
        let (text, expected) = whole.split_at(at);
        let source = Source::new("test", text);
        let problems = parse(&source).expect_err(&path.display().to_string());
        let found = shown(&source, &problems);
        if bless {
            std::fs::write(&path, format!("{text}{found}")).unwrap();
        } else if found != expected {
            let _ = writeln!(wrong, "{}\nexpected:\n{expected}found:\n{found}", path.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn no_message_speaks_of_the_grammar() {
    for path in files("diagnostics/syntax") {
        let source = Source::new("test", read(&path));
        let problems = parse(&source).expect_err("has a mistake");
        for problem in &problems {
            assert!((101..200).contains(&problem.code.0), "{}", path.display());
            let words = format!("{} {}", problem.message, problem.label);
            assert!(!words.contains("_stmt") && !words.contains("_op") && !words.contains("rule"), "{words}");
            assert!(!problem.message.ends_with('.'), "{words}");
        }
    }
}

#[test]
fn good_scripts_parse() {
    for path in files("scripts/core") {
        let source = Source::new("test", read(&path));
        match parse(&source) {
            Ok(script) => {
                assert!(!script.blocks.is_empty());
                check_spans(&source, &script);
            }
            Err(problems) => panic!("{}\n{}", path.display(), shown(&source, &problems)),
        }
    }
}

/// Asserts that the span of each statement and predicate is exact: no blank or semicolon at either
/// end.
fn check_spans(source: &Source, script: &Script) {
    for block in &script.blocks {
        assert!(source.slice(block.span).ends_with('}'), "{}", source.slice(block.span));
        let spans = block
            .body
            .iter()
            .map(|statement| statement.span)
            .chain(block.predicate.iter().map(|predicate| predicate.span));
        for span in spans {
            let text = source.slice(span);
            assert!(
                !text.is_empty() && text == text.trim() && !text.ends_with(';') && !text.ends_with("*/"),
                "{text:?}"
            );
        }
        for point in &block.points {
            assert!(source.slice(point.span).starts_with(&point.kind.text));
        }
    }
}

#[test]
fn operators_bind_as_documented() {
    let same = [
        ("1 || 2 && 3", "1 || (2 && 3)"),
        ("1 && 2 | 3", "1 && (2 | 3)"),
        ("1 | 2 ^ 3", "1 | (2 ^ 3)"),
        ("1 ^ 2 & 3", "1 ^ (2 & 3)"),
        ("1 & 2 == 3", "1 & (2 == 3)"),
        ("1 == 2 < 3", "1 == (2 < 3)"),
        ("1 != 2 >= 3", "1 != (2 >= 3)"),
        ("1 < 2 << 3", "1 < (2 << 3)"),
        ("1 << 2 + 3", "1 << (2 + 3)"),
        ("1 + 2 * 3", "1 + (2 * 3)"),
        ("1 * 2 + 3", "(1 * 2) + 3"),
        ("1 - 2 - 3", "(1 - 2) - 3"),
        ("8 / 4 % 3 * 2", "((8 / 4) % 3) * 2"),
        ("1 >> 2 << 3", "(1 >> 2) << 3"),
        ("1 || 2 || 3", "(1 || 2) || 3"),
        ("-$x * 2", "(-$x) * 2"),
        ("!$x == 1", "(!$x) == 1"),
        ("~$x & 1", "(~$x) & 1"),
        ("*$p.a", "*($p.a)"),
        ("&$x.a", "&($x.a)"),
        ("- - $x", "-(-$x)"),
        ("(uint64)$x + 1", "((uint64)$x) + 1"),
        ("(struct s *)$x->y", "(struct s *)($x->y)"),
        ("$x->y", "$x.y"),
        ("$x++ + ++$y", "($x++) + (++$y)"),
        ("$a - --$b", "$a - (--$b)"),
        ("$a---$b", "($a--) - $b"),
        ("1 ? 2 : 3 ? 4 : 5", "1 ? 2 : (3 ? 4 : 5)"),
        ("1 ? 2 ? 3 : 4 : 5", "1 ? (2 ? 3 : 4) : 5"),
        ("1 || 2 ? 3 : 4 || 5", "(1 || 2) ? 3 : (4 || 5)"),
        ("$a ?: $b + 1", "$a ?: ($b + 1)"),
        ("sizeof(uint64) * 2", "(sizeof(uint64)) * 2"),
        ("@x[1].a[2]", "((@x[1]).a)[2]"),
        ("1+2", "1 + 2"),
        ("$x/*c*/+1//d\n", "$x + 1"),
    ];
    for (short, long) in same {
        assert_eq!(expr_tree(short), expr_tree(long), "{short}");
    }
    assert_ne!(expr_tree("1 + 2 * 3"), expr_tree("(1 + 2) * 3"));
    assert_ne!(expr_tree("1 & 2 == 3"), expr_tree("(1 & 2) == 3"));
    assert_ne!(expr_tree("$x++"), expr_tree("++$x"));
}

#[test]
fn a_name_in_parentheses_is_a_cast_only_when_it_must_be() {
    let casts = [
        "(uint8)1",
        "(int)-1",
        "(string)$x",
        "(bool)$x",
        "(struct a)$x",
        "(enum a)$x",
        "(foo *)$x",
        "(foo *[4])$x",
        "(uint8[4])$x",
        "(foo[4])$x",
        "(unsigned long)$x",
        "(const char *)$x",
    ];
    for cast in casts {
        assert!(expr_tree(cast).contains("cast "), "{cast}");
    }
    for other in ["(pid)", "(pid) - 1", "(pid) * 2", "(pid * 2)", "(comm[0]) - 1", "(comm[0]) == 97", "(foo)"] {
        assert!(!expr_tree(other).contains("cast "), "{other}");
    }
}

#[test]
fn literals_have_their_values() {
    let values = [
        ("42", 42),
        ("0", 0),
        ("017", 15),
        ("0x2A", 42),
        ("1_000_000", 1_000_000),
        ("1e6", 1_000_000),
        ("10UL", 10),
        ("0x10ull", 16),
        ("7u", 7),
        ("18446744073709551615", u64::MAX),
        ("0xffff_ffff_ffff_ffff", u64::MAX),
        ("0e99", 0),
    ];
    for (text, value) in values {
        assert!(expr_tree(text).contains(&format!("int {value}\n")), "{text}");
    }
    let durations = [
        ("5ns", 5),
        ("5us", 5_000),
        ("5ms", 5_000_000),
        ("1s", 1_000_000_000),
        ("1m", 60_000_000_000),
        ("1h", 3_600_000_000_000),
        ("1d", 86_400_000_000_000_u64),
    ];
    for (text, value) in durations {
        assert!(expr_tree(text).contains(&format!("duration {value}ns\n")), "{text}");
    }
    let script = tree(r#"BEGIN { "a\n\t\r\"\\\033\x41\0z ä"; }"#);
    let StmtKind::Expr(value) = &script.blocks[0].body[0].kind else { panic!("an expression") };
    assert_eq!(value.kind, ExprKind::Str(b"a\n\t\r\"\\\x1bA\0z \xc3\xa4".to_vec()));
}

#[test]
fn probes_keep_their_parts() {
    let cases: [(&str, &[&str]); 16] = [
        ("BEGIN", &[]),
        ("tracepoint:syscalls:sys_enter_open*", &["syscalls", "sys_enter_open*"]),
        ("uprobe:/bin/ba*h:\"readline\"", &["/bin/ba*h", "readline"]),
        ("uprobe:\"/a b/c\":fn", &["/a b/c", "fn"]),
        ("uprobe:/usr/lib/*/libc.so.6:fn+0x10", &["/usr/lib/*/libc.so.6", "fn+0x10"]),
        ("uprobe:/usr/bin//x:cpp:\"Ns::fn(int, char)\"", &["/usr/bin//x", "cpp", "Ns::fn(int, char)"]),
        ("uprobe:lib/x.so:fn", &["lib/x.so", "fn"]),
        ("uprobe:./a.out:main", &["./a.out", "main"]),
        ("uprobe:$1:$2", &["$1", "$2"]),
        ("usdt:*:name", &["*", "name"]),
        ("interval:s:1", &["s", "1"]),
        ("interval:1s", &["1s"]),
        ("software:faults:", &["faults", ""]),
        ("uprobe:/bin/x@file.c:12:3", &["/bin/x@file.c", "12", "3"]),
        ("k*:vfs_*", &["vfs_*"]),
        ("uprobe:/opt/é/x:fn", &["/opt/é/x", "fn"]),
    ];
    for (probe, parts) in cases {
        for rest in [" { }", "{}", " /pid == 1/ { }", "\n/1/{}", ", END { }"] {
            let script = tree(&format!("{probe}{rest}"));
            let point = &script.blocks[0].points[0];
            let found: Vec<&str> = point.parts.iter().map(|part| part.text.as_str()).collect();
            assert_eq!(found, parts, "{probe}{rest}");
            assert_eq!(point.span, Span::new(0, probe.len()), "{probe}{rest}");
            assert_eq!(script.blocks[0].predicate.is_some(), rest.contains("1/"), "{probe}{rest}");
        }
    }
    let tight = tree("tracepoint:a:b/pid == 4 / 2/{ }");
    assert_eq!(tight.blocks[0].points[0].parts[1].text, "b");
    assert!(tight.blocks[0].predicate.is_some());
}

#[test]
fn the_inactive_side_of_a_condition_is_not_seen() {
    let guarded = "#ifndef BPFTRACE_HAVE_BTF\n#include <x.h>\nBEGIN { ' }\n#else\n#include <y.h>\nEND { }\n#endif\n";
    let script = tree(&format!("{guarded}#define N 5\nBEGIN {{ N }}"));
    assert_eq!(script.blocks.len(), 2);
    assert_eq!(script.blocks[0].points[0].kind.text, "END");
    assert_eq!(script.defines[0].name.text, "N");
}

#[test]
fn a_printed_tree_reads_well() {
    let script = tree(
        "config = { max_strlen = 64 }\n\
         named=kprobe:f,END /pid == 1/ { @x[1,\"a\"] += $1; if 1 { break } else if 2 { return } for $i : 0..5 { } }",
    );
    let expected = "\
script
  config max_strlen
    int 64
  probe named
    at kprobe:f
    at END
    when
      binary ==
        name pid
        int 1
    do
      assign +=
        map @x
          int 1
          string \"a\"
        argument $1
      if
        int 1
        then
          break
        else
          if
            int 2
            then
              return
      for $i in range
        int 0
        int 5
        do
";
    assert_eq!(ast_print::print(&script), expected);
}

#[test]
fn deep_and_long_scripts_get_an_answer() {
    let deep = |open: &str, close: &str, times: usize| {
        format!("BEGIN {{ $x = {}1{}; }}", open.repeat(times), close.repeat(times))
    };
    let pairs = [
        ("(", ")"),
        ("{1+", "}"),
        ("@a[", "]"),
        ("f(", ")"),
        ("(1,", ")"),
        ("- ", ""),
        ("(uint8)", ""),
        ("1?", ":2"),
        ("1?2:", ""),
        ("$y.a+", ""),
        ("!(", ")"),
        ("sizeof(", ")"),
    ];
    for (open, close) in pairs {
        assert!(parses(deep(open, close, 90)), "{open}");
        assert!(!parses(deep(open, close, 20_000)), "{open}");
    }
    assert!(parses(format!("BEGIN {{ {}{} }}", "if (1) {".repeat(120), "}".repeat(120))));
    assert!(parses(deep("(", ")", 126)));
    for mark in ["{", "(", "}", ")", "'", "\"\n", "/*", "#if\n", "a{]}"] {
        assert!(!parses(mark.repeat(20_000)), "{mark}");
    }
    assert!(!parses(format!("BEGIN {{ {}) }}", "[".repeat(30_000))));
    assert!(parses("BEGIN { $x = 1; }\n".repeat(8_000)));
    assert!(parses(format!("BEGIN {{ {} }}", "$x = $x + 1; ".repeat(8_000))));
    let large = parse(&Source::new("large", " ".repeat(5 << 20))).unwrap_err();
    assert_eq!(large[0].code.0, 102);
}

#[test]
fn a_small_stack_is_said_to_be_too_small() {
    let text = format!("BEGIN {{ $x = {}1{}; }}", "(".repeat(126), ")".repeat(126));
    let small = std::thread::Builder::new().stack_size(256 << 10).spawn(move || parse(&Source::new("deep", text)));
    let problems = small.unwrap().join().unwrap().unwrap_err();
    assert_eq!(problems.iter().map(|problem| problem.code.0).collect::<Vec<_>>(), [108]);
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

fn damage(random: &mut Random, corpus: &[String]) -> String {
    const SPLINTERS: [&str; 28] = [
        "{", "}", "(", ")", "[", "]", "\"", "'", "/", "/*", "*/", "//", ";", ",", "=", "==", "$", "@", "#", "?", ":",
        "\n", "..", "ä", "\\", "if", "1.5", "++",
    ];
    let mut text: Vec<char> = corpus[random.below(corpus.len())].chars().take(600).collect();
    for _ in 0..=random.below(4) {
        let at = random.below(text.len() + 1);
        match random.below(5) {
            0 => text.truncate(at),
            1 => drop(text.drain(at..(at + random.below(12)).min(text.len()))),
            2 => drop(text.splice(at..at, SPLINTERS[random.below(SPLINTERS.len())].chars())),
            3 => {
                let other: Vec<char> = corpus[random.below(corpus.len())].chars().collect();
                let from = random.below(other.len() + 1);
                let piece = &other[from..(from + random.below(80)).min(other.len())];
                drop(text.splice(at..at, piece.iter().copied()));
            }
            _ => {
                if let Some(place) = text.get_mut(at) {
                    *place = char::from(32 + random.below(95) as u8);
                }
            }
        }
    }
    text.into_iter().collect()
}

#[test]
fn damaged_scripts_get_an_answer_in_range() {
    let paths = [files("scripts/core"), files("diagnostics/syntax")].concat();
    let corpus: Vec<String> = paths.iter().map(|path| read(path)).collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..20_000 {
        let source = Source::new("damaged", damage(&mut random, &corpus));
        match parse(&source) {
            Ok(script) => {
                good += 1;
                assert!(ast_print::print(&script).starts_with("script\n"));
                check_spans(&source, &script);
            }
            Err(problems) => {
                bad += 1;
                assert!(!problems.is_empty());
                for problem in &problems {
                    for span in problem.related.iter().map(|(span, _)| *span).chain([problem.span]) {
                        assert!(span.start <= span.end, "{problem:?}\n{}", source.text);
                        let inside = source.text.get(span.start as usize..span.end as usize).is_some();
                        assert!(inside, "{problem:?}\n{}", source.text);
                    }
                }
            }
        }
    }
    assert!(good > 500 && bad > 5_000, "the damage is lopsided: {good} good, {bad} bad");
}
