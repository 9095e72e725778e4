//! The stacks of each thread as files in a directory (`--per-thread`).
//!
//! In: a directory, an object, the stacks of a run. Out: for each thread folded lines, a flame
//! graph and an analysis; a summary of all threads. Only their owner can read them.
//! Guarantee: a directory that cannot be made, or a script whose stacks have no threads, is
//! reported before anything runs. The files of all threads add up to the whole.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use profiler_compiler::object::Object;
use profiler_compiler::params::{Type as ParamType, Value};
use profiler_model::types::Type;
use profiler_output::stacks::{Stacks, write_summary};
use profiler_runtime::params::Values;

use super::args::{ScriptArguments, ScriptWord};
use super::engine::Taken;
use super::exit::{Failure, MISTAKE};
use super::streams;

/// The parameter by which recipes keep threads apart.
const KEEPS_APART: &str = "by_thread";

/// The arguments of a script whose stacks are to be kept apart by thread: with the switch that
/// recipes have for it, unless it is given.
pub(super) fn keeping_apart(script: &ScriptArguments, taken: &Taken) -> ScriptArguments {
    let mut script = script.clone();
    let option = KEEPS_APART.replace('_', "-");
    let is_switch = |word: &ScriptWord| {
        let name = word.text.strip_prefix("--").map(|text| text.split('=').next().unwrap_or(text));
        name.is_some_and(|name| name == option || name == KEEPS_APART)
    };
    let has_switch = taken.params.iter().any(|param| param.name == KEEPS_APART && param.ty == ParamType::Bool);
    if has_switch && !script.script_words.iter().any(is_switch) {
        script.script_words.insert(0, ScriptWord { text: format!("--{option}=true"), is_after_dashes: false });
    }
    script
}

/// The directory.
pub(super) struct ThreadFiles {
    directory: PathBuf,
}

impl ThreadFiles {
    /// Makes the directory if it is not there.
    pub(super) fn open(path: &str, object: &Object, values: &Values) -> Result<ThreadFiles, Failure> {
        let has_stacks = |key: &Option<Type>| key.as_ref().is_some_and(Type::has_stacks);
        let mut with_stacks = object.maps.iter().filter(|map| !map.is_state() && has_stacks(&map.key));
        let has_threads = with_stacks.any(|map| map.thread.is_some());
        let is_off = |index: usize| values.get(index) == Some(&Value::Number(0));
        let switch =
            object.params.iter().enumerate().find(|(index, param)| param.name == KEEPS_APART && is_off(*index));
        if !has_threads || switch.is_some() {
            let failure = Failure::new(MISTAKE, "the stacks of this script are not kept apart by thread".to_owned());
            return Err(match switch {
                Some((_, param)) => failure.help(format!("leave `--{}=false` out", param.name.replace('_', "-"))),
                None => failure.help("put `tid` into the key, as in `@[tid, comm, ustack] = count()`"),
            });
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| Failure::output(&format!("`{path}`"), &error))?;
        Ok(ThreadFiles { directory: path.into() })
    }

    /// Writes the files.
    pub(super) fn write(&self, stacks: &Stacks, title: &str) -> Result<(), Failure> {
        let threads = stacks.by_thread();
        for thread in &threads {
            let name = thread.file_name();
            let folded = thread.folded();
            self.file(&format!("{name}.folded"), |out| folded.write_lines(out))?;
            self.file(&format!("{name}.svg"), |out| folded.write_flame_graph(&format!("{name}: {title}"), out))?;
            self.file(&format!("{name}.txt"), |out| thread.write_analysis(title, out))?;
        }
        self.file("summary.txt", |out| write_summary(&threads, title, out))
    }

    fn file(&self, name: &str, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let path = self.directory.join(name).display().to_string();
        streams::write_file(&path, streams::result_file(&path)?, write)
    }
}
