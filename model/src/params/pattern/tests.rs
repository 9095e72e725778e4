//! Tests of [`super`], and of the tables that programs match with.

use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::util::syntax;

use super::{Pattern, Table, TooLarge};
use crate::glob;
use crate::params::automaton::{ACCEPT_OFFSET, SIZE_BYTES, TRANSITIONS_BYTES};

fn table(regex: &str) -> Table {
    Pattern::regex(regex).expect("a regex").table().expect("small enough")
}

fn too_large(regex: &str) -> TooLarge {
    Pattern::regex(regex).expect("a regex").table().expect_err("too large")
}

/// A sequence of numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn one_of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.below(texts.len())]
    }

    /// A regex that nests at most `depth` operators.
    fn regex(&mut self, depth: usize) -> String {
        let atoms = [
            "a",
            "b",
            "ab",
            "c",
            ".",
            "[ab]",
            "[^a]",
            r"\w",
            r"\d",
            r"\s",
            r"\x80",
            "[[:upper:]]",
            "^",
            "$",
            r"\b",
            r"\B",
            "(?i:A)",
            "(?s:.)",
            "(?m:^)",
            "(?m:$)",
            "é",
            "(?i)b",
            "",
            r"\.",
            r"[\x80-\xff]",
        ];
        if depth == 0 || self.below(4) == 0 {
            return self.one_of(&atoms).into();
        }
        match self.below(5) {
            0 => format!("(?:{}|{})", self.regex(depth - 1), self.regex(depth - 1)),
            1 => {
                let times = self.one_of(&["*", "+", "?", "*?", "{2}", "{1,3}", "{2,}"]);
                format!("({}){times}", self.regex(depth - 1))
            }
            _ => format!("{}{}", self.regex(depth - 1), self.regex(depth - 1)),
        }
    }

    /// A text without NULs.
    fn text(&mut self) -> Vec<u8> {
        let letters = [b"a", b"b", b"c", b"A", b"1", b".", b" ", b"\n", b"_", b"\x80", b"\xc3", b"\xa9"];
        (0..self.below(12)).map(|_| letters[self.below(letters.len())][0]).collect()
    }
}

#[test]
fn tables_match_what_another_engine_finds() {
    let mut random = Random(7);
    let (mut pairs, mut matched) = (0, 0);
    for _ in 0..1500 {
        let regex = random.regex(4);
        // The oracle simulates the NFA of its own parser; it never builds a DFA.
        let oracle = PikeVM::builder()
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .thompson(regex_automata::nfa::thompson::Config::new().utf8(false))
            .build(&regex.replace('é', r"(?:\xC3\xA9)"))
            .expect("a regex");
        let mut cache = oracle.create_cache();
        let table = match Pattern::regex(&regex).expect("a regex").table() {
            Ok(table) => table,
            Err(TooLarge::Known { .. } | TooLarge::Unknown) => continue,
        };
        for _ in 0..20 {
            let text = random.text();
            let expected = oracle.is_match(&mut cache, &text);
            assert_eq!(table.matches(&text), expected, "{regex:?} on {:?}", text.escape_ascii().to_string());
            (pairs, matched) = (pairs + 1, matched + usize::from(expected));
        }
    }
    assert!(pairs > 25_000 && (pairs / 5..pairs * 4 / 5).contains(&matched), "{matched} of {pairs}");
}

#[test]
fn globs_match_whole_texts() {
    let patterns =
        ["", "*", "a", "*a*", "a*", "*a", "a*b*c", "*ab*", "*aab", "a**b", "aa*aa", "*aba*bab*", "ü*", "a.?"];
    let mut random = Random(3);
    let mut texts: Vec<String> =
        ["c", "abc", "aXbYc", "abcc", "übel", "ü", "a b", "a\nb", "a.?", ""].map(String::from).into();
    texts.extend((0..500).map(|_| (0..random.below(9)).map(|_| random.one_of(&["a", "b"])).collect()));
    for pattern in patterns {
        let table = Pattern::glob(pattern).table().expect("small enough");
        for text in &texts {
            assert_eq!(table.matches(text.as_bytes()), glob::matches(pattern, text), "{pattern:?} on {text:?}");
        }
    }
}

#[test]
fn a_regex_of_literals_and_wildcards_is_a_glob() {
    for (regex, expected) in [
        ("vfs", Some("*vfs*")),
        ("^vfs_.*read$", Some("vfs_*read")),
        (r"^a\.b", Some("a.b*")),
        ("", Some("*")),
        ("^$", Some("")),
        (".*", Some("*")),
        ("^ü(?s).*", Some("ü*")),
        ("^(?:ab)c$", Some("abc")),
        ("a|b", None),
        ("a+", None),
        ("a.b", None),
        (r"a\*", None),
        (r"\xff", None),
        ("a$b", None),
        ("(?i)a", None),
    ] {
        assert_eq!(Pattern::regex(regex).expect("a regex").as_glob().as_deref(), expected, "{regex}");
    }
}

#[test]
fn what_is_no_regex_is_reported_where_it_is() {
    let unicode = "it matches bytes, without the classes, ranges and letter cases of Unicode";
    for (regex, expected) in [
        ("a(b", "unclosed group (at character 2)"),
        ("ü)", "unopened group (at character 2)"),
        ("*", "repetition operator missing expression (at character 1)"),
        ("a[b-", "unclosed character class (at character 2)"),
        (r"\y", "unrecognized escape sequence (at character 1)"),
        ("(?=a)", "look-around, including look-ahead and look-behind, is not supported (at character 1)"),
        ("[äö]", unicode),
        ("[]ä]", unicode),
        (r"\pL", unicode),
        (r"(?u)\w", unicode),
        (r"(?u)\b", unicode),
    ] {
        assert_eq!(Pattern::regex(regex).err().as_deref(), Some(expected), "{regex}");
    }
}

#[test]
fn equivalent_patterns_have_one_table() {
    for (a, b) in [("a|b", "[ab]"), ("aa*", "a+"), ("(foo|foobar)", "foo"), ("^.*a", "(?-s)^.*a.*"), ("x*", "")] {
        assert_eq!(table(a), table(b), "{a} {b}");
    }
}

#[test]
fn tables_have_a_size_limit() {
    assert!(table("^x{2700}$").bytes().len() as u32 <= SIZE_BYTES - ACCEPT_OFFSET);
    assert_eq!(too_large("^x{4096}$"), TooLarge::Known { states: 4099, classes: 3 });
    let words = too_large("a[ab]{12}c").to_string();
    assert!(words.contains("states for ") && words.contains(&format!("{TRANSITIONS_BYTES} are the most")), "{words}");
    for regex in ["(a{1000}){1000}", "[ab]*a[ab]{40}", "(((a{100}){100}){100}){100}"] {
        assert_eq!(too_large(regex), TooLarge::Unknown, "{regex}");
    }
}
