//! Recipes at the prompt, with the options that they have on the command line.
//!
//! In: a typed line that begins with a recipe. Out: what `profiler run` does with it.
//! Guarantee: SIGINT ends the recipe, not the prompt.

use profiler_compiler::CATALOGUE;
use profiler_runtime::child;
use profiler_runtime::sys::signal;

use super::super::args::{self, Command};
use super::super::exit::{Failure, MISTAKE, USAGE, words_of};
use super::super::run;
use super::super::script::modules;

/// Whether a word means a recipe: its name, that of another tool, or a path that is similar to one,
/// which gets the error of the command. Words of the language come first.
pub(super) fn is_meant(word: &str) -> bool {
    if let Some((shelf, name)) = word.split_once('/') {
        let is_shelf = modules::recipes().any(|(path, _)| path.split('/').next() == Some(shelf));
        return is_shelf && name.starts_with(char::is_alphabetic) && modules::nearest(word).is_some();
    }
    let is_of_language = CATALOGUE.builtin(word).is_some() || CATALOGUE.probe(word).is_some();
    !is_of_language && modules::named(word).is_some()
}

/// Runs a recipe until it ends or a signal ends it.
pub(super) fn run(line: &str) -> Result<(), Failure> {
    let words = child::split(line).map_err(|error| Failure::new(USAGE, error.to_string()))?;
    let words = ["profiler", "run"].map(String::from).into_iter().chain(words);
    match args::parse(words.map(Into::into)) {
        Ok(Command::Run(arguments)) => {
            let ran = signal::surviving(|| run::run(&arguments));
            ran.map_err(|error| Failure::new(MISTAKE, words_of(&error)))?.map(drop)
        }
        // No other command begins with `run`.
        Ok(_) => Ok(()),
        Err(notice) => {
            notice.print();
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_meant;

    #[test]
    fn recipes_are_told_from_words_and_divisions() {
        for meant in ["lock/latency", "lock/latncy", "futex", "opensnoop", "cpu/offcpu"] {
            assert!(is_meant(meant), "{meant}");
        }
        for other in ["cpu/2", "pid/cpu", "cpu/pid", "nsecs", "nsecs/1000", "latency", "lock/", "", "std/target"] {
            assert!(!is_meant(other), "{other}");
        }
    }
}
