//! What is known of a program of the prompt before it is compiled.
//!
//! In: its number, its text, and the file that it was loaded from. Out: a source with the modules that it uses, and what the command line would say of it.
//! Guarantee: what a file imports or uses is looked for beside the file, and what was typed in the current folder.

use std::path::Path;

use profiler_compiler::similar;
use profiler_compiler::source::Source;
use profiler_runtime::repl::Loading;

use super::super::args::{Behind, ScriptArguments};
use super::super::exit::Failure;
use super::super::parameters;
use super::super::script::{Origin, edited, modules};

/// A program of the prompt.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its number.
    pub number: u32,
    /// What was typed, or read.
    pub text: String,
    /// Where it was read.
    pub file: Option<Loading>,
}

impl Program {
    /// The source, with what it uses; `more` is put behind it.
    pub fn source(&self, more: &str) -> Result<Source, Failure> {
        let name = self.file.as_ref().map_or_else(|| format!("[{}]", self.number), |file| file.path.clone());
        edited(&name, &format!("{}{more}", self.text))
    }

    /// What a command line would say of it, once it is known what the script takes.
    pub fn arguments(&self, source: &Source) -> Result<ScriptArguments, Failure> {
        let mut arguments = ScriptArguments::new(Origin::Inline(self.text.clone()));
        let words = self.file.iter().flat_map(|file| &file.words);
        arguments.behind = words.map(|word| Behind { text: word.clone(), is_after_dashes: false }).collect();
        parameters::settle(&arguments, source)
    }
}

/// Reads a script, or a module of the standard library, without what it uses.
pub fn read(path: &str) -> Result<String, Failure> {
    let read = Origin::File(path.to_owned()).load_alone();
    let source = read.map_err(|failure| {
        let recipes = modules::standard().iter().map(|(path, _)| *path);
        match similar::nearest(path, recipes, 1).first() {
            Some(near) => failure.help(format!("did you mean `{near}`?")),
            None if Path::new(path).exists() => failure,
            None => failure.help("Tab behind `:load ` shows recipes and files"),
        }
    });
    Ok(source?.text)
}

/// `tracepoint:sched:sched_switch args.prev_pid`: a probe, and what is behind it.
pub fn probe_ahead(words: &str) -> Option<(&str, &str)> {
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
