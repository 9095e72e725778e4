//! What is known of a program of the prompt before it is compiled.
//!
//! In: its number, its text, and the file that it was loaded from. Out: a source with the modules that it uses, and what the command line would say of it.
//! Guarantee: what a file imports or uses is looked for beside the file, and what was typed in the current folder.

use profiler_compiler::source::Source;
use profiler_runtime::repl::Loading;

use super::super::args::{Behind, ScriptArguments};
use super::super::exit::Failure;
use super::super::parameters;
use super::super::script::{Origin, edited};

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
    Ok(Origin::File(path.to_owned()).load_alone()?.text)
}
