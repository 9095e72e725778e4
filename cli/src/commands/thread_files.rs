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
use profiler_compiler::params::Value;
use profiler_model::types::Type;
use profiler_output::stacks::{Stacks, write_summary};
use profiler_runtime::params::Values;

use super::exit::{Failure, MISTAKE};
use super::streams;

/// The parameter by which recipes keep threads apart.
const KEEPS_APART: &str = "by_thread";

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
                Some((_, param)) => {
                    failure.help(format!("`--{}` puts the thread into the key", param.name.replace('_', "-")))
                }
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
