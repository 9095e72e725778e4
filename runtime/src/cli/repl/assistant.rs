//! What the prompt does while a line is being typed: completion, hints, colours, whether it is whole.
//!
//! In: the text and the cursor. Out: answers for the line editor.
//! Guarantee: nothing is attached or read from outside for an answer but names of this machine.

use std::borrow::Cow;
use std::sync::Arc;

use profiler_compiler::CATALOGUE;
use profiler_compiler::words::{Aggregation, Function};
use profiler_runtime::complete::{Known, complete};
use profiler_runtime::host::Host;
use profiler_runtime::repl::input::{COMMANDS, is_complete};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Result};

use super::shell::Shell;

/// The line editor's assistant.
pub struct Assistant {
    shell: Arc<Shell>,
    host: Host,
    files: FilenameCompleter,
    has_colours: bool,
}

impl Assistant {
    /// Knows the maps of the shell's programs.
    pub fn new(shell: Arc<Shell>, has_colours: bool) -> Assistant {
        Assistant { shell, host: Host::new(), files: FilenameCompleter::new(), has_colours }
    }

    /// The words behind a colon, or a file behind those that take one.
    fn command(&self, line: &str, at: usize, context: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let typed = &line[..at];
        if typed.starts_with(":load ") || typed.starts_with(":save ") {
            return self.files.complete(line, at, context);
        }
        if let Some(pattern) = typed.strip_prefix(":probe ") {
            let start = typed.len() - pattern.len();
            let found = complete(pattern, pattern.len(), &self.host, Known::default());
            return Ok((start + found.start, pairs(found.candidates)));
        }
        if let Some((word, rest)) = typed.split_once(' ') {
            let maps = if matches!(word, ":clear" | ":watch") { self.shell.maps() } else { Vec::new() };
            let found = maps.into_iter().filter(|map| map.starts_with(rest));
            return Ok((at - rest.len(), found.map(|map| Pair { display: map.clone(), replacement: map }).collect()));
        }
        let known = COMMANDS.iter().filter(|(name, ..)| name.starts_with(&typed[1..]));
        let pair = |(name, usage, _): &(&str, &str, &str)| Pair {
            display: (*usage).to_owned(),
            replacement: format!(":{name} "),
        };
        Ok((0, known.map(pair).collect()))
    }
}

fn pairs(candidates: Vec<profiler_runtime::complete::Candidate>) -> Vec<Pair> {
    let width = candidates.iter().map(|found| found.text.chars().count()).max().unwrap_or(0);
    let shown = |text: &str, about: &str| match about {
        "" => text.to_owned(),
        about => format!("{text:<width$}  {about}"),
    };
    candidates
        .into_iter()
        .map(|found| Pair { display: shown(&found.text, &found.about), replacement: found.text })
        .collect()
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, context: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        if line.starts_with(':') && !line.starts_with(":edit") && !line.starts_with(":type") {
            return self.command(line, at, context);
        }
        // What is typed alone is an expression, unless it is the beginning of a probe.
        let maps = self.shell.maps();
        if line[..at].starts_with('@') && !line[..at].contains(' ') {
            let found = maps.iter().filter(|map| map.starts_with(&line[..at]));
            return Ok((0, found.map(|map| Pair { display: map.clone(), replacement: map.clone() }).collect()));
        }
        let found = complete(line, at, &self.host, Known { maps: &maps });
        if found.candidates.is_empty() && line[..at].starts_with(['u']) && line[..at].contains(":/") {
            return self.files.complete(line, at, context);
        }
        Ok((found.start, pairs(found.candidates)))
    }
}

impl Hinter for Assistant {
    type Hint = String;

    /// The rest of the signature of the function whose bracket was just opened.
    fn hint(&self, line: &str, at: usize, _: &Context<'_>) -> Option<String> {
        let typed = line.get(..at).filter(|_| at == line.len())?.strip_suffix('(')?;
        let start = typed.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |before| before + 1);
        let name = typed.get(start..)?;
        let function = CATALOGUE.function(name).map(Function::doc);
        let doc = function.or_else(|| CATALOGUE.aggregation(name).map(Aggregation::doc))?;
        Some(doc.signature.split_once('(')?.1.to_owned())
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        let whole = is_complete(context.input());
        Ok(if whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

const STRING: &str = "32";
const NAME: &str = "36";
const NUMBER: &str = "33";
const WORD: &str = "1";
const COMMENT: &str = "2";

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if self.has_colours { Cow::Owned(paint(line)) } else { Cow::Borrowed(line) }
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        if self.has_colours { Cow::Owned(format!("\x1b[{COMMENT}m{hint}\x1b[0m")) } else { Cow::Borrowed(hint) }
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        self.has_colours
    }
}

impl Helper for Assistant {}

/// A line in colours.
fn paint(line: &str) -> String {
    let mut painted = String::with_capacity(line.len() * 2);
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (length, colour) = token(rest, first);
        // The `s` of `interval:s:1` is no word.
        let colour = colour.filter(|colour| *colour != WORD || !line[..line.len() - rest.len()].ends_with(':'));
        let (token, after) = rest.split_at(length);
        match colour {
            Some(colour) => painted.extend(["\x1b[", colour, "m", token, "\x1b[0m"]),
            None => painted.push_str(token),
        }
        rest = after;
    }
    painted
}

/// The length and colour of the token at the beginning of a text.
fn token(rest: &str, first: char) -> (usize, Option<&'static str>) {
    let while_name = |from: usize| {
        let end = rest[from..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        end.map_or(rest.len(), |end| from + end)
    };
    match first {
        '"' => {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            (end.map_or(rest.len(), |end| end + 2), Some(STRING))
        }
        '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), Some(COMMENT)),
        '@' | '$' => (while_name(1), Some(NAME)),
        '0'..='9' => (while_name(1), Some(NUMBER)),
        _ if first.is_ascii_alphabetic() || first == '_' => {
            let length = while_name(1);
            let word = &rest[..length];
            let known = CATALOGUE.probe(word).is_some()
                || CATALOGUE.function(word).is_some()
                || CATALOGUE.aggregation(word).is_some()
                || CATALOGUE.builtin(word).is_some();
            (length, known.then_some(WORD))
        }
        _ => (first.len_utf8(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::paint;

    #[test]
    fn colours_leave_the_text_as_it_is() {
        let line = "kprobe:f /pid == 1/ { @x[comm] = count(); printf(\"a\\\"b %d\", $x); } // \u{e4}";
        let painted = paint(line);
        let mut plain = String::new();
        for (at, part) in painted.split('\x1b').enumerate() {
            plain.push_str(if at == 0 { part } else { part.split_once('m').expect("a colour ends").1 });
        }
        assert_eq!(plain, line);
        assert!(painted.contains("\x1b[36m@x\x1b[0m") && painted.contains("\x1b[1mcount\x1b[0m"), "{painted}");
    }
}
