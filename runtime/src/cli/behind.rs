//! Words behind the script that are no options of the command.
//!
//! In: the command line. Out: the command's own part of it, for clap, and the rest: what the script itself may take.
//! Guarantee: an option of the command is its own wherever it stands before `--`, with its value; before the script everything is the
//! command's, so that a slip there is found.

use std::ffi::OsString;

use clap::{ArgAction, Command};

use super::args::Behind;

/// Takes apart the arguments of a command that takes a script; those of others stay whole.
pub fn split(profiler: &Command, arguments: Vec<OsString>) -> (Vec<OsString>, Vec<Behind>) {
    let name = arguments.get(1).and_then(|name| name.to_str()).unwrap_or_default();
    let takes_script = |command: &&Command| command.get_arguments().any(|argument| argument.get_id() == "words");
    let Some(command) = profiler.find_subcommand(name).filter(takes_script) else { return (arguments, Vec::new()) };
    let mut splitter = Splitter { command, own: Vec::new(), behind: Vec::new(), has_script: false };
    let mut rest = arguments.into_iter();
    splitter.own.extend(rest.by_ref().take(2));
    while let Some(argument) = rest.next() {
        let wants_value = match argument.to_str() {
            Some("--") if splitter.has_script => {
                for word in rest.by_ref() {
                    splitter.behind(&word, true);
                }
                false
            }
            Some(text) => splitter.take(text),
            None => splitter.word(argument),
        };
        if wants_value {
            splitter.own.extend(rest.next());
        }
    }
    (splitter.own, splitter.behind)
}

struct Splitter<'a> {
    command: &'a Command,
    own: Vec<OsString>,
    behind: Vec<Behind>,
    has_script: bool,
}

impl Splitter<'_> {
    /// Sorts one argument; whether the next one is its value.
    fn take(&mut self, text: &str) -> bool {
        let is_option = text.len() > 1 && text.starts_with('-') && text.parse::<f64>().is_err();
        if !is_option {
            return self.word(text.into());
        }
        let (is_known, wants_value) = match text.strip_prefix("--") {
            Some(long) => self.long(long),
            None => self.short(&text[1..]),
        };
        if !is_known && self.has_script {
            self.behind(&text.into(), false);
            return false;
        }
        self.has_script |= text.starts_with("-e");
        self.own.push(text.into());
        is_known && wants_value
    }

    fn word(&mut self, word: OsString) -> bool {
        if self.has_script {
            self.behind(&word, false);
        } else {
            self.own.push(word);
            self.has_script = true;
        }
        false
    }

    fn behind(&mut self, word: &OsString, is_after_dashes: bool) {
        self.behind.push(Behind { text: word.to_string_lossy().into_owned(), is_after_dashes });
    }

    /// Whether `--name` or `--name=value` is the command's own, and whether its value is the next argument.
    fn long(&self, text: &str) -> (bool, bool) {
        let (name, has_value) = text.split_once('=').map_or((text, false), |(name, _)| (name, true));
        // `--help` behind a script is about the script.
        if name == "help" && self.has_script {
            return (false, false);
        }
        let found = self.command.get_arguments().find(|argument| argument.get_long() == Some(name));
        let is_help = name == "help";
        (found.is_some() || is_help, found.is_some_and(|argument| takes_value(argument) && !has_value))
    }

    /// The same of `-x`, `-xvalue` and of several switches in one.
    fn short(&self, text: &str) -> (bool, bool) {
        for (at, letter) in text.char_indices() {
            if letter == 'h' {
                continue;
            }
            let Some(found) = self.command.get_arguments().find(|argument| argument.get_short() == Some(letter)) else {
                return (false, false);
            };
            if takes_value(found) {
                return (true, at + letter.len_utf8() == text.len());
            }
        }
        (true, false)
    }
}

fn takes_value(argument: &clap::Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
}
