//! Parses a line typed at the prompt.
//!
//! In: a text of one or more lines. Out: an [`Input`], or an error message.
//! Guarantee: the prompt never waits for more lines after a text that [`is_complete`].

use std::time::Duration;

use super::definitions;
use profiler_compiler::keywords::{self, Role};
use profiler_model::params::duration_ns;

/// The parsed input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// An empty line or a comment.
    Nothing,
    /// Probes to attach.
    Program(String),
    /// An expression or statement, to run once.
    Once(String),
    /// `@x`: print a map now, with optional view clauses after it.
    Map {
        /// With sigil.
        name: String,
        /// `show … sort … top …`, or empty.
        view: String,
    },
    /// A view of maps that are already there, to show now.
    View {
        /// The first of its maps.
        map: String,
        /// As it was typed.
        text: String,
    },
    /// A colon command.
    Command(Command),
}

/// A colon command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `:ps`: the programs, their probes, events and cost.
    Ps,
    /// `:stop N`, or `:stop all`.
    Stop(Which),
    /// `:views [N]`: show the views of all programs, or of one.
    Views(Option<u32>),
    /// `:clear @x`.
    Clear(String),
    /// `:save FILE`.
    Save(String),
    /// `:load FILE [--NAME VALUE]...`.
    Load(Loading),
    /// `:edit N [PROGRAM]`; without a text it opens the editor.
    Edit {
        /// Number of the program.
        number: u32,
        /// Its new text.
        text: Option<String>,
    },
    /// `:watch @x 1s`: print a map periodically; `:watch off`.
    Watch(Option<(String, Duration)>),
    /// `:history [N]`: lines typed before.
    History(usize),
    /// `:help [WORD]`.
    Help(Option<String>),
    /// `:probe PATTERN`.
    Probe(String),
    /// `:type EXPRESSION`.
    Type(String),
    /// `:dump STAGE [N]`.
    Dump {
        /// A compiler stage.
        stage: String,
        /// Number of the program; without one, the last program.
        number: Option<u32>,
    },
    /// `:quit`.
    Quit,
}

/// A script to attach, or an attached one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loading {
    /// A file, or a standard library module.
    pub path: String,
    /// Values of its parameters, as on a command line.
    pub words: Vec<String>,
}

/// A selection of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// One program, by number.
    One(u32),
    /// All programs.
    All,
}

/// The colon commands with their syntax and descriptions.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("ps", ":ps", "list running programs with probes, events and cost"),
    ("stop", ":stop N | all", "detach a program and free its maps"),
    ("views", ":views [N]", "show the views of all programs, or of one"),
    ("clear", ":clear @x", "clear a map"),
    ("watch", ":watch @x 1s | off", "print a map periodically"),
    ("edit", ":edit N [PROGRAM]", "replace a program and keep its maps; without PROGRAM, open $EDITOR"),
    ("save", ":save FILE", "save the running programs as a script"),
    ("load", ":load FILE [--NAME VALUE]", "attach a script or a recipe such as lock/futex"),
    ("probe", ":probe PATTERN", "describe a probe: stability, fields, measured cost"),
    ("type", ":type [PROBE] EXPRESSION", "print the type of an expression, in the context of PROBE"),
    ("dump", ":dump STAGE [N]", "print the output of a compiler stage: ast typed ir bpf elf verifier"),
    ("history", ":history [N]", "print the last N inputs [default: 20]"),
    ("help", ":help [WORD]", "list these commands, or explain a language word"),
    ("quit", ":quit", "detach everything and exit"),
];

/// Default number of lines that `:history` shows.
const HISTORY: usize = 20;

/// Whether a text is complete. An open `{` or block comment, a trailing comma, and a predicate
/// without a block wait for more lines; an open string or other bracket is an error.
pub fn is_complete(text: &str) -> bool {
    if text.trim_start().starts_with(':') && !text.trim_start().starts_with(":edit") {
        return true;
    }
    let (mut braces, mut rest) = (0_i32, text);
    while let Some(character) = rest.chars().next() {
        let skipped = match rest.as_bytes() {
            [b'"', ..] => Some(string_end(rest)),
            [b'/', b'*', ..] => match rest[2..].find("*/") {
                Some(end) => Some(end + 4),
                None => return false,
            },
            _ => None,
        };
        braces += i32::from(character == '{') - i32::from(character == '}');
        rest = &rest[skipped.unwrap_or(character.len_utf8())..];
    }
    // A predicate, or attach points alone, must be followed by a block.
    braces <= 0 && !text.trim_end().ends_with(',') && !promises_a_block(text)
}

/// The length of a string with its quotes; an unclosed string ends with its line.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '"' if !escaped => return at + 1,
            '\n' => return at,
            _ => escaped = character == '\\' && !escaped,
        }
    }
    text.len()
}

/// Whether a text ends with a complete predicate and has no block.
fn promises_a_block(text: &str) -> bool {
    let last = text.lines().last().unwrap_or_default().trim();
    !text.contains('{') && last.len() > 1 && last.ends_with('/') && last.contains(" /")
}

/// Parses the input.
pub fn read(text: &str) -> Result<Input, String> {
    let text = text.trim();
    if text.is_empty() || text.starts_with("//") {
        return Ok(Input::Nothing);
    }
    if let Some(rest) = text.strip_prefix(':') {
        return command(rest).map(Input::Command);
    }
    if let Some(command) = bare_word(text) {
        return Ok(Input::Command(command));
    }
    if let Some((name, view)) = map_alone(text) {
        return Ok(Input::Map { name: name.to_owned(), view: view.trim().to_owned() });
    }
    if let Some(map) = definitions::map_of_views(text) {
        return Ok(Input::View { map: map.to_owned(), text: text.to_owned() });
    }
    if text.contains('{') && !begins_a_statement(text) {
        return Ok(Input::Program(text.to_owned()));
    }
    Ok(Input::Once(text.trim_end_matches(';').to_owned()))
}

/// Words that users often type first without the colon: none of them is a builtin.
fn bare_word(text: &str) -> Option<Command> {
    let mut words = text.trim_end_matches(';').split_whitespace();
    let (first, second) = (words.next()?, words.next());
    match (first, second, words.next()) {
        ("help" | "?", word, None) => Some(Command::Help(word.map(str::to_owned))),
        ("quit" | "exit" | "q", None, None) => Some(Command::Quit),
        _ => None,
    }
}

/// Splits `@x`, or `@x` followed by view clauses.
fn map_alone(text: &str) -> Option<(&str, &str)> {
    let name_end = text
        .strip_prefix('@')?
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .map_or(text.len(), |end| end + 1);
    let (name, rest) = text.split_at(name_end);
    let view = rest.trim_start();
    let is_flame = view.trim_end_matches(';').trim_end() == "flame";
    let is_view = is_flame || ["show ", "sort ", "top ", "where ", "flame "].iter().any(|word| view.starts_with(word));
    (rest.trim_matches(';').trim().is_empty() || is_view).then_some((name, view.trim_matches(';')))
}

fn begins_a_statement(text: &str) -> bool {
    let word = text.split([' ', '(']).next().unwrap_or_default();
    text.starts_with(['$', '@', '{'])
        || word.len() < text.len() && matches!(keywords::role(word), Some(Role::Compound(_) | Role::Let))
}

fn command(text: &str) -> Result<Command, String> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let needed = |what: &str| if rest.is_empty() { Err(format!(":{word} needs {what}")) } else { Ok(rest.to_owned()) };
    match word {
        "ps" => Ok(Command::Ps),
        "stop" if rest == "all" => Ok(Command::Stop(Which::All)),
        "stop" => number(word, rest).map(|number| Command::Stop(Which::One(number))),
        "views" if rest.is_empty() => Ok(Command::Views(None)),
        "views" => number(word, rest).map(|number| Command::Views(Some(number))),
        "clear" => map_name(word, rest).map(Command::Clear),
        "save" => needed("a file").map(Command::Save),
        "load" => needed("a script, or a recipe such as lock/futex").map(|rest| Command::Load(loading(&rest))),
        "edit" => {
            let (which, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let text = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
            Ok(Command::Edit { number: number(word, which)?, text })
        }
        "watch" if rest == "off" => Ok(Command::Watch(None)),
        "watch" => {
            let (map, period) = rest.split_once(char::is_whitespace).unwrap_or((rest, "1s"));
            let wrong = || format!(":watch needs a time such as 500ms or 1s, not `{period}`");
            Ok(Command::Watch(Some((map_name(word, map)?, duration(period.trim()).ok_or_else(wrong)?))))
        }
        "history" if rest.is_empty() => Ok(Command::History(HISTORY)),
        "history" => number(word, rest).map(|count| Command::History(count as usize)),
        "help" | "h" | "?" => Ok(Command::Help(Some(rest.to_owned()).filter(|word| !word.is_empty()))),
        "probe" => needed("a pattern: :probe tracepoint:sched:*").map(Command::Probe),
        "type" => needed("an expression: :type curtask->comm").map(Command::Type),
        "dump" => {
            let stage = needed("a stage: ast typed ir bpf elf verifier")?;
            let (stage, which) = stage.split_once(char::is_whitespace).unwrap_or((&stage, ""));
            let number = if which.is_empty() { None } else { Some(number(word, which.trim())?) };
            Ok(Command::Dump { stage: stage.to_owned(), number })
        }
        "quit" | "q" | "exit" => Ok(Command::Quit),
        _ => Err(unknown(word)),
    }
}

/// Splits a path, which may contain blanks, from the options after it.
fn loading(text: &str) -> Loading {
    let (path, options) = text.find(" --").map_or((text, ""), |at| text.split_at(at));
    let path = path.trim().to_owned();
    Loading { path, words: options.split_whitespace().map(str::to_owned).collect() }
}

fn unknown(word: &str) -> String {
    let near = profiler_compiler::similar::nearest(word, COMMANDS.iter().map(|(name, ..)| *name), 1);
    match near.first() {
        Some(near) => format!("there is no `:{word}`; did you mean `:{near}`?"),
        None => format!("there is no `:{word}`; `:help` lists the commands"),
    }
}

fn number(word: &str, text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!(":{word} needs the number of a program, as `:ps` shows it"))
}

fn map_name(word: &str, text: &str) -> Result<String, String> {
    let is_name = |rest: &str| rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match text.strip_prefix('@') {
        Some(rest) if is_name(rest) => Ok(text.to_owned()),
        _ => Err(format!(":{word} needs a map: :{word} @x")),
    }
}

/// Parses a duration that is not zero.
fn duration(text: &str) -> Option<Duration> {
    let ns = duration_ns(text).and_then(|ns| u64::try_from(ns).ok())?;
    Some(Duration::from_nanos(ns)).filter(|time| !time.is_zero())
}

#[cfg(test)]
mod tests {
    use super::{Command, Input, Loading, Which, is_complete, read};
    use std::time::Duration;

    #[test]
    fn an_open_brace_waits_for_more() {
        for whole in [
            "BEGIN { }",
            "",
            "@x",
            ":help {",
            "BEGIN { printf(\"{\"); }",
            "printf(\"a",
            "kprobe:f",
            "1 / 2",
            "/* { */ @x",
        ] {
            assert!(is_complete(whole), "{whole}");
        }
        for open in ["BEGIN {", "BEGIN { if (1) { }", "kprobe:a,", "kprobe:f / pid == 1 /", "/* a", ":edit 1 BEGIN {"] {
            assert!(!is_complete(open), "{open}");
        }
    }

    #[test]
    fn programs_maps_and_statements_are_told_apart() {
        let program = "kprobe:f / pid == 1 / { @[comm] = count(); }";
        assert_eq!(read(program), Ok(Input::Program(program.into())));
        assert_eq!(read(" @x "), Ok(Input::Map { name: "@x".into(), view: String::new() }));
        assert_eq!(read("@"), Ok(Input::Map { name: "@".into(), view: String::new() }));
        assert_eq!(read("@x sort p99 top 5"), Ok(Input::Map { name: "@x".into(), view: "sort p99 top 5".into() }));
        for view in ["flame", "flame  top 5", "top 5 flame"] {
            assert_eq!(read(&format!("@x {view};")), Ok(Input::Map { name: "@x".into(), view: view.into() }));
        }
        let view = "view \"calls\" { of @calls, @ns show comm }";
        assert_eq!(read(view), Ok(Input::View { map: "@calls".into(), text: view.into() }));
        let with_probe = format!("{program} view \"x\" {{ of @ }}");
        assert_eq!(read(&with_probe), Ok(Input::Program(with_probe.clone())));
        assert_eq!(read("nsecs;"), Ok(Input::Once("nsecs".into())));
        assert_eq!(read("@x[1]"), Ok(Input::Once("@x[1]".into())));
        assert_eq!(read("if (1) { print(1) }"), Ok(Input::Once("if (1) { print(1) }".into())));
        assert_eq!(read("  "), Ok(Input::Nothing));
        for (text, command) in [
            ("help", Command::Help(None)),
            ("?", Command::Help(None)),
            ("help span", Command::Help(Some("span".into()))),
            ("quit", Command::Quit),
            ("exit;", Command::Quit),
        ] {
            assert_eq!(read(text), Ok(Input::Command(command)), "{text}");
        }
        assert_eq!(read("exit()"), Ok(Input::Once("exit()".into())));
    }

    #[test]
    fn commands_are_read_and_slips_are_named() {
        let command = |text: &str| {
            read(text).map(|input| match input {
                Input::Command(command) => command,
                other => panic!("{text}: {other:?}"),
            })
        };
        assert_eq!(command(":ps"), Ok(Command::Ps));
        assert_eq!(command(":stop 3"), Ok(Command::Stop(Which::One(3))));
        assert_eq!(command(":stop all"), Ok(Command::Stop(Which::All)));
        assert_eq!(command(":watch @x 500ms"), Ok(Command::Watch(Some(("@x".into(), Duration::from_millis(500))))));
        assert_eq!(command(":watch off"), Ok(Command::Watch(None)));
        assert_eq!(command(":edit 2"), Ok(Command::Edit { number: 2, text: None }));
        assert_eq!(command(":edit 2 BEGIN { }"), Ok(Command::Edit { number: 2, text: Some("BEGIN { }".into()) }));
        assert_eq!(command(":dump ir 1"), Ok(Command::Dump { stage: "ir".into(), number: Some(1) }));
        let loading = |path: &str, words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            Ok(Command::Load(Loading { path: path.into(), words }))
        };
        assert_eq!(command(":load my file.prof"), loading("my file.prof", &[]));
        assert_eq!(command(":load lock/futex --min 1ms --pid=7"), loading("lock/futex", &["--min", "1ms", "--pid=7"]));
        assert_eq!(command(":q"), Ok(Command::Quit));
        assert_eq!(command(":stpo 1"), Err("there is no `:stpo`; did you mean `:stop`?".into()));
        assert_eq!(command(":clear x"), Err(":clear needs a map: :clear @x".into()));
        assert_eq!(command(":watch @x soon"), Err(":watch needs a time such as 500ms or 1s, not `soon`".into()));
        assert_eq!(command(":stop"), Err(":stop needs the number of a program, as `:ps` shows it".into()));
    }
}
