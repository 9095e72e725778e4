//! A prompt program before compilation.
//!
//! In: its number, its text, and the file that it was loaded from. Out: a source with the modules
//! that it uses, and its command-line arguments.
//! Guarantee: imports and modules of a file are searched next to the file; those of typed text in
//! the current directory.

use std::path::Path;

use crate::repl::Loading;
use profiler_compiler::source::Source;

use super::super::args::{ScriptArguments, ScriptWord};
use super::super::exit::Failure;
use super::super::parameters;
use super::super::script::{Origin, edited, modules};

/// A prompt program.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub number: u32,
    /// The typed or loaded text.
    pub text: String,
    /// The file it was loaded from.
    pub file: Option<Loading>,
}

impl Program {
    /// The source with its modules and imports; `more` is appended to the text.
    pub(super) fn source(&self, more: &str) -> Result<Source, Failure> {
        let name = self.file.as_ref().map_or_else(|| format!("[{}]", self.number), |file| file.path.clone());
        edited(&name, &format!("{}{more}", self.text))
    }

    /// Its command-line arguments, sorted by the parameters that the script declares.
    pub(super) fn arguments(&self, source: &Source) -> Result<ScriptArguments, Failure> {
        let mut arguments = ScriptArguments::new(Origin::Inline(self.text.clone()));
        arguments.hands_over = true;
        let words = self.file.iter().flat_map(|file| &file.words);
        arguments.script_words = words.map(|word| ScriptWord { text: word.clone(), is_after_dashes: false }).collect();
        parameters::settle(&arguments, source)
    }
}

/// Reads a script, or a standard library module, without its modules and imports.
pub(super) fn read(path: &str) -> Result<String, Failure> {
    let read = Origin::File(path.to_owned()).load_alone();
    let source = read.map_err(|failure| match modules::nearest(path) {
        Some(near) => failure.help(format!("did you mean `{near}`?")),
        None if Path::new(path).exists() => failure,
        None => failure.help("Tab after `:load ` shows recipes and files"),
    });
    Ok(source?.text)
}

/// Splits `tracepoint:sched:sched_switch args.prev_pid` into a probe and the text after it.
pub(super) fn probe_ahead(words: &str) -> Option<(&str, &str)> {
    let (probe, rest) = words.trim_start().split_once(' ')?;
    let (kind, _) = probe.split_once(':')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (kind.chars().all(is_name) && !kind.is_empty()).then_some((probe, rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::probe_ahead;

    #[test]
    fn an_expression_may_have_a_probe_in_front() {
        assert_eq!(probe_ahead("t:sched:sched_switch args.a + 1"), Some(("t:sched:sched_switch", "args.a + 1")));
        for alone in ["curtask->mm", "pid ? 1 : 2", "a + b", "(x) y:z"] {
            assert_eq!(probe_ahead(alone), None, "{alone}");
        }
    }
}
