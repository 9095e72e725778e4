//! What a person typed at the prompt.
//!
//! In: a text of one or more lines. Out: an [`Input`], or what is wrong with it in words.
//! Guarantee: a text that [`is_complete`] is never waited for.

use std::time::Duration;

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    Nothing,
    /// Probes to attach.
    Program(String),
    /// An expression or statement, to be done once.
    Once(String),
    /// `@x`: print a map now, the words behind it as in a view.
    Map {
        /// With sigil.
        name: String,
        /// `show … sort … top …`, or nothing.
        view: String,
    },
    /// A word that begins with a colon.
    Command(Command),
}

/// A word that begins with a colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `:ps`: the programs, their probes, events and cost.
    Ps,
    /// `:stop N`, or `:stop all`.
    Stop(Which),
    /// `:clear @x`.
    Clear(String),
    /// `:save FILE`.
    Save(String),
    /// `:load FILE [--NAME VALUE]...`.
    Load(Loading),
    /// `:edit N [PROGRAM]`: without one, in the editor.
    Edit {
        /// Which program.
        number: u32,
        /// What it becomes.
        text: Option<String>,
    },
    /// `:watch @x 1s`: print a map again and again; `:watch off`.
    Watch(Option<(String, Duration)>),
    /// `:hist [N]`: what was typed before.
    History(usize),
    /// `:help [WORD]`.
    Help(Option<String>),
    /// `:probe PATTERN`.
    Probe(String),
    /// `:type EXPRESSION`.
    Type(String),
    /// `:dump STAGE [N]`.
    Dump {
        /// A stage of the compiler.
        stage: String,
        /// Which program; the last one without.
        number: Option<u32>,
    },
    /// `:quit`.
    Quit,
}

/// A script that is to be attached, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loading {
    /// A file, or a module of the standard library.
    pub path: String,
    /// Values of its parameters, as on a command line.
    pub words: Vec<String>,
}

/// Which programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// One.
    One(u32),
    /// All.
    All,
}

/// The words that begin with a colon, how they are written, and what they do.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("ps", ":ps", "the programs that run: probes, events, cost"),
    ("stop", ":stop N | all", "detach a program; its maps go with it"),
    ("clear", ":clear @x", "empty a map"),
    ("watch", ":watch @x 1s | off", "print a map again and again"),
    ("edit", ":edit N [PROGRAM]", "replace a program and keep its maps; without PROGRAM in $EDITOR"),
    ("save", ":save FILE", "write the programs that run to a script"),
    ("load", ":load FILE [--NAME VALUE]", "attach a script, or a recipe such as lock/futex"),
    ("probe", ":probe PATTERN", "what a probe is, what it gives, and what it costs here"),
    ("type", ":type [PROBE] EXPRESSION", "the type of an expression, within a probe"),
    ("dump", ":dump STAGE [N]", "what the compiler makes of a program: ast typed ir bpf elf verifier"),
    ("hist", ":hist [N]", "the last N things typed"),
    ("help", ":help [WORD]", "a word of the language, or these"),
    ("quit", ":quit", "detach everything and leave"),
];

/// How many lines `:hist` shows.
const HISTORY: usize = 20;

/// Whether a text is whole: no bracket, string or comment is open. Only `{` waits for more lines; what else is open is a slip.
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
    // A predicate, or attach points alone, promise a block.
    braces <= 0 && !text.trim_end().ends_with(',') && !promises_a_block(text)
}

/// The length of a string with its quotes; one that is not closed ends with its line.
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

/// Whether a text is a predicate that ends, with nothing behind it.
fn promises_a_block(text: &str) -> bool {
    let last = text.lines().last().unwrap_or_default().trim();
    !text.contains('{') && last.len() > 1 && last.ends_with('/') && last.contains(" /")
}

/// Reads what was typed.
pub fn read(text: &str) -> Result<Input, String> {
    let text = text.trim();
    if text.is_empty() || text.starts_with("//") {
        return Ok(Input::Nothing);
    }
    if let Some(rest) = text.strip_prefix(':') {
        return command(rest).map(Input::Command);
    }
    if let Some((name, view)) = map_alone(text) {
        return Ok(Input::Map { name: name.to_owned(), view: view.trim().to_owned() });
    }
    if text.contains('{') && !begins_a_statement(text) {
        return Ok(Input::Program(text.to_owned()));
    }
    Ok(Input::Once(text.trim_end_matches(';').to_owned()))
}

/// `@x`, or `@x` and words of a view.
fn map_alone(text: &str) -> Option<(&str, &str)> {
    let name_end = text
        .strip_prefix('@')?
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .map_or(text.len(), |end| end + 1);
    let (name, rest) = text.split_at(name_end);
    let view = rest.trim_start();
    let is_view = ["show ", "sort ", "top ", "where "].iter().any(|word| view.starts_with(word));
    (rest.trim_matches(';').trim().is_empty() || is_view).then_some((name, view.trim_matches(';')))
}

fn begins_a_statement(text: &str) -> bool {
    ["if", "for", "while", "unroll", "let", "$", "@", "{"].iter().any(|word| {
        text.strip_prefix(word).is_some_and(|rest| !word.ends_with(char::is_alphabetic) || rest.starts_with([' ', '(']))
    })
}

fn command(text: &str) -> Result<Command, String> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let needed = |what: &str| if rest.is_empty() { Err(format!(":{word} needs {what}")) } else { Ok(rest.to_owned()) };
    match word {
        "ps" => Ok(Command::Ps),
        "stop" if rest == "all" => Ok(Command::Stop(Which::All)),
        "stop" => number(word, rest).map(|number| Command::Stop(Which::One(number))),
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
        "hist" | "history" if rest.is_empty() => Ok(Command::History(HISTORY)),
        "hist" | "history" => number(word, rest).map(|count| Command::History(count as usize)),
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

/// A path, which may have blanks, and the options behind it.
fn loading(text: &str) -> Loading {
    let (path, options) = text.find(" --").map_or((text, ""), |at| text.split_at(at));
    let path = path.trim().to_owned();
    Loading { path, words: options.split_whitespace().map(str::to_owned).collect() }
}

fn unknown(word: &str) -> String {
    let near = profiler_compiler::similar::nearest(word, COMMANDS.iter().map(|(name, ..)| *name), 1);
    match near.first() {
        Some(near) => format!("there is no `:{word}`; did you mean `:{near}`?"),
        None => format!("there is no `:{word}`; `:help` lists what there is"),
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

/// `500ms`, `1s`, `2m`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: u64 = digits.parse().ok()?;
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1,
        "s" | "" => 1000,
        "m" => 60_000,
        _ => return None,
    };
    Some(Duration::from_millis(count.checked_mul(unit_ms)?)).filter(|time| !time.is_zero())
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
        assert_eq!(read("nsecs;"), Ok(Input::Once("nsecs".into())));
        assert_eq!(read("@x[1]"), Ok(Input::Once("@x[1]".into())));
        assert_eq!(read("if (1) { print(1) }"), Ok(Input::Once("if (1) { print(1) }".into())));
        assert_eq!(read("  "), Ok(Input::Nothing));
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
        assert_eq!(
            command(":load lock/futex --slow 1ms --pid=7"),
            loading("lock/futex", &["--slow", "1ms", "--pid=7"])
        );
        assert_eq!(command(":q"), Ok(Command::Quit));
        assert_eq!(command(":stpo 1"), Err("there is no `:stpo`; did you mean `:stop`?".into()));
        assert_eq!(command(":clear x"), Err(":clear needs a map: :clear @x".into()));
        assert_eq!(command(":watch @x soon"), Err(":watch needs a time such as 500ms or 1s, not `soon`".into()));
        assert_eq!(command(":stop"), Err(":stop needs the number of a program, as `:ps` shows it".into()));
    }
}
