//! Random scripts under bpftrace and under our drop-in of the same name.
//!
//! In: seeds. Out: both outputs, compared after sorting their lines.
//! Guarantee: the same seed gives the same script. A script contains nothing that differs between
//! runs, and nothing that 0.17 and 0.26 define differently: signed division, division by zero,
//! comparison of a signed with an unsigned number, the maximum of negative numbers.
//! `PROFILER_RANDOM=N` compares N scripts, `PROFILER_SEED=S` sets the first seed.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::differential::{AT_ONCE, Ours, answer, is_mute, theirs};

/// Scripts that are compared unless the environment says otherwise.
const USUAL: u64 = 100;

/// Statements of a script, at most.
const STATEMENTS: u64 = 12;

/// How often bpftrace is started if it fails without a message.
const TRIES: usize = 4;

/// A pseudo-random number generator (xorshift64*).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    /// An `int64`.
    fn signed(&mut self, depth: u32) -> String {
        if depth == 0 {
            return match self.below(4) {
                0 => self.below(1000).to_string(),
                1 => format!("(-{})", 1 + self.below(1000)),
                2 => self.pick(&["$a", "$b"]).into(),
                _ => self.pick(&["@n", "@m[1]", "@m[2]"]).into(),
            };
        }
        let d = depth - 1;
        match self.below(10) {
            0..=3 => {
                let op = self.pick(&["+", "-", "*", "&", "|", "^"]);
                format!("({} {op} {})", self.signed(d), self.signed(d))
            }
            4 => format!("({} << {})", self.signed(d), self.below(6)),
            5 => format!("(-{})", self.signed(d)),
            6 => format!("(~{})", self.signed(d)),
            7 => format!("({} ? {} : {})", self.condition(d), self.signed(d), self.signed(d)),
            8 => format!("(int64)(({})({}))", self.pick(&["int8", "int16", "int32", "int64"]), self.signed(d)),
            _ => self.signed(0),
        }
    }

    /// A `uint64`.
    fn unsigned(&mut self, depth: u32) -> String {
        if depth == 0 {
            return match self.below(3) {
                0 => format!("(uint64){}", self.below(100_000)),
                1 => "$u".into(),
                _ => self.pick(&["@u", "@v[1]", "@v[2]"]).into(),
            };
        }
        let d = depth - 1;
        match self.below(9) {
            0..=2 => {
                let op = self.pick(&["+", "*", "&", "|", "^"]);
                format!("({} {op} {})", self.unsigned(d), self.unsigned(d))
            }
            3 => format!("({} / (uint64){})", self.unsigned(d), 1 + self.below(50)),
            4 => format!("({} % (uint64){})", self.unsigned(d), 1 + self.below(50)),
            5 => format!("({} >> {})", self.unsigned(d), self.below(64)),
            6 => format!("({} ? {} : {})", self.condition(d), self.unsigned(d), self.unsigned(d)),
            7 => format!("(uint64)(({})({}))", self.pick(&["uint8", "uint16", "uint32", "uint64"]), self.signed(d)),
            _ => self.unsigned(0),
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        let op = self.pick(&["==", "!=", "<", "<=", ">", ">="]);
        let d = depth.saturating_sub(1);
        match self.below(if depth == 0 { 3 } else { 6 }) {
            0 => format!("({} {op} {})", self.signed(d), self.signed(d)),
            1 => format!("({} {op} {})", self.unsigned(d), self.unsigned(d)),
            2 => format!("({} {} {})", self.text(), self.pick(&["==", "!="]), self.text()),
            3 => format!("({} && {})", self.condition(d), self.condition(d)),
            4 => format!("({} || {})", self.condition(d), self.condition(d)),
            _ => format!("(!{})", self.condition(d)),
        }
    }

    fn text(&mut self) -> &'static str {
        self.pick(&["\"\"", "\"a\"", "\"abc\"", "\"abd\"", "$s", "@s"])
    }

    fn key(&mut self) -> String {
        (1 + self.below(4)).to_string()
    }

    /// Appends one statement; `number` is unique in the script.
    fn statement(&mut self, out: &mut String, number: u64, depth: u32) {
        let (signed, unsigned, key) = (self.signed(3), self.unsigned(3), self.key());
        let text = self.text();
        let _ = match self.below(if depth == 0 { 14 } else { 11 }) {
            0 => writeln!(out, "{} = {signed};", self.pick(&["$a", "$b", "@n"])),
            1 => writeln!(out, "{} = {unsigned};", self.pick(&["$u", "@u"])),
            2 => writeln!(out, "@m[{key}] {} {signed};", self.pick(&["=", "+=", "-=", "*=", "&=", "|=", "^="])),
            3 => writeln!(out, "@v[{key}] {} {unsigned};", self.pick(&["=", "+=", "*=", "|="])),
            4 => writeln!(out, "@m[{key}]{};", self.pick(&["++", "--"])),
            5 => writeln!(out, "printf(\"{number}: %d %u %x %s\\n\", {signed}, {unsigned}, {unsigned}, {text});"),
            6 => writeln!(out, "print(({number}, {signed}, {unsigned}, {text}));"),
            7 => self.aggregation(out, number),
            8 => writeln!(out, "@t{number}[{signed}, \"k{key}\"] = {unsigned};"),
            9 => writeln!(out, "delete(@m[{key}]);"),
            10 => writeln!(out, "printf(\"{number}: %d %8d|%-8d|\\n\", {}, {signed}, {signed});", self.condition(2)),
            11 => {
                let condition = self.condition(2);
                self.body(out, &format!("if ({condition})"), number);
                if self.below(2) == 0 {
                    self.body(out, "else", number + 10);
                }
                Ok(())
            }
            12 => {
                let times = 1 + self.below(4);
                self.body(out, &format!("unroll ({times})"), number);
                Ok(())
            }
            _ => {
                let times = 1 + self.below(5);
                let _ = write!(out, "$i{number} = 0; ");
                self.body(out, &format!("while ($i{number}++ < {times})"), number);
                Ok(())
            }
        };
    }

    fn body(&mut self, out: &mut String, head: &str, number: u64) {
        let _ = writeln!(out, "{head} {{");
        for inner in 0..=self.below(2) {
            self.statement(out, (number + inner) * 100 + inner, 1);
        }
        let _ = writeln!(out, "}}");
    }

    fn aggregation(&mut self, out: &mut String, number: u64) -> std::fmt::Result {
        let (signed, unsigned, key) = (self.signed(2), self.unsigned(2), self.key());
        let (name, value) = match self.below(7) {
            0 => ("c", "count()".into()),
            1 => ("s", format!("sum({signed})")),
            2 => ("i", format!("min({signed})")),
            3 => ("x", format!("max({unsigned} & 0xffff)")),
            4 => ("g", format!("avg({unsigned} & 0xffff)")),
            5 => ("h", format!("hist({unsigned} & 0xffff)")),
            _ => ("l", format!("lhist({unsigned} & 127, 0, 100, 10)")),
        };
        writeln!(out, "@{name}{number}[{key}] = {value};")
    }
}

/// The script for a seed, in the language that 0.17 and 0.26 share.
fn script(seed: u64) -> String {
    let mut dice = Dice::new(seed);
    let mut text = String::from("BEGIN {\n");
    text.push_str("$a = (int64)7; $b = (int64)-3; $u = (uint64)9; $s = \"abc\"; @s = \"abd\";\n");
    text.push_str("@n = (int64)-40; @u = (uint64)500; @m[1] = (int64)1; @m[2] = (int64)-2;\n");
    text.push_str("@v[1] = (uint64)1; @v[2] = (uint64)65535;\n");
    for number in 1..=4 + dice.below(STATEMENTS - 4) {
        dice.statement(&mut text, number, 0);
    }
    text + "exit();\n}\n"
}

fn run(tool: &Path, script: &str) -> Output {
    Command::new(tool).args(["-e", script]).stdin(Stdio::null()).output().expect("it runs")
}

fn run_theirs(tool: &Path, script: &str) -> Output {
    let tries = (1..TRIES).map(|_| run(tool, script)).find(|output| !is_mute(output));
    tries.unwrap_or_else(|| run(tool, script))
}

/// The lines of an answer, sorted.
fn sorted(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = answer(output).lines().map(String::from).collect();
    lines.sort_unstable();
    lines
}

/// The lines of each that the other does not have.
fn difference(expected: &[String], found: &[String]) -> String {
    let only = |of: &[String], other: &[String]| {
        of.iter().filter(|line| !other.contains(line)).fold(String::new(), |all, line| all + line + "\n")
    };
    format!("only bpftrace:\n{}only ours:\n{}", only(expected, found), only(found, expected))
}

fn seeds() -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("PROFILER_SEED").unwrap_or(1);
    first..first + number("PROFILER_RANDOM").unwrap_or(USUAL)
}

#[test]
fn random_scripts_are_answered_as_bpftrace_answers_them() {
    let Some(theirs) = theirs() else { return };
    let ours = Ours::new();
    let seeds = seeds();
    let (next, failures) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    let (refused, lines) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    let text = script(seed);
                    let (expected, found) = (run_theirs(&theirs, &text), run(&ours.path(), &text));
                    if !expected.status.success() && !found.status.success() {
                        refused.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let (expected, found) = (sorted(&expected), sorted(&found));
                    lines.fetch_add(expected.len() as u64, Ordering::Relaxed);
                    if expected != found {
                        let words = format!("seed {seed}:\n{text}{}", difference(&expected, &found));
                        failures.lock().expect("no test panics with it").push(words);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no test panics with it");
    let (all, refused, lines) = (seeds.end - seeds.start, refused.into_inner(), lines.into_inner());
    println!("{all} scripts, {lines} lines, {refused} refused by both, {} differ", failures.len());
    assert!(failures.is_empty(), "{} of {all}:\n{}", failures.len(), failures.join("\n"));
    assert!(refused * 20 <= all, "both refuse {refused} of {all}: the generator is off");
    assert!(lines >= 10 * all, "{lines} lines of {all} scripts: they print too little");
}

#[test]
fn a_line_that_only_one_prints_is_a_difference() {
    let lines = |text: &[&str]| text.iter().map(|line| (*line).to_string()).collect::<Vec<_>>();
    let words = difference(&lines(&["1: 4", "@a: 1"]), &lines(&["1: 5", "@a: 1"]));
    assert_eq!(words, "only bpftrace:\n1: 4\nonly ours:\n1: 5\n");
}
