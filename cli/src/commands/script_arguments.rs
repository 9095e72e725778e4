//! Script arguments: everything after the script that is not an option of ours.
//!
//! In: the command line. Out: the part that clap parses, and the words that belong to the script.
//! Guarantee: an option of ours is recognised, with its value, anywhere before `--`. Before the
//! script every word is ours, so a misspelled option is reported.

use std::ffi::OsString;

use clap::{ArgAction, Command};

use super::args::ScriptWord;

/// Splits the arguments of a command that takes a script; those of other commands are unchanged.
pub(super) fn split(profiler: &Command, arguments: Vec<OsString>) -> (Vec<OsString>, Vec<ScriptWord>) {
    let name = arguments.get(1).and_then(|name| name.to_str()).unwrap_or_default();
    let takes_script = |command: &&Command| command.get_arguments().any(|argument| argument.get_id() == "words");
    let Some(command) = profiler.find_subcommand(name).filter(takes_script) else { return (arguments, Vec::new()) };
    let mut splitter = Splitter { command, own: Vec::new(), script_words: Vec::new(), has_script: false };
    let mut rest = arguments.into_iter();
    splitter.own.extend(rest.by_ref().take(2));
    while let Some(argument) = rest.next() {
        let wants_value = match argument.to_str() {
            Some("--") if splitter.has_script => {
                for word in rest.by_ref() {
                    splitter.keep(&word, true);
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
    (splitter.own, splitter.script_words)
}

struct Splitter<'a> {
    command: &'a Command,
    own: Vec<OsString>,
    script_words: Vec<ScriptWord>,
    has_script: bool,
}

impl Splitter<'_> {
    /// Assigns one argument; returns whether the next one is its value.
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
            self.keep(&text.into(), false);
            return false;
        }
        self.has_script |= text.starts_with("-e");
        self.own.push(text.into());
        is_known && wants_value
    }

    fn word(&mut self, word: OsString) -> bool {
        if self.has_script {
            self.keep(&word, false);
        } else {
            self.own.push(word);
            self.has_script = true;
        }
        false
    }

    fn keep(&mut self, word: &OsString, is_after_dashes: bool) {
        self.script_words.push(ScriptWord { text: word.to_string_lossy().into_owned(), is_after_dashes });
    }

    /// Whether `--name` or `--name=value` is an option of the command, and whether its value is the
    /// next argument.
    fn long(&self, text: &str) -> (bool, bool) {
        let (name, has_value) = text.split_once('=').map_or((text, false), |(name, _)| (name, true));
        // `--help` after a script refers to the script.
        if name == "help" && self.has_script {
            return (false, false);
        }
        let found = self.command.get_arguments().find(|argument| argument.get_long() == Some(name));
        let is_help = name == "help";
        (found.is_some() || is_help, found.is_some_and(|argument| takes_value(argument) && !has_value))
    }

    /// The same for `-x`, `-xvalue` and combined switches.
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
