//! `--flame` and `--folded`: the stacks of a run as files.
//!
//! In: names of files, an object, and the output of a run. Out: the files, which only their owner
//! can read.
//! Guarantee: a file that cannot be written, or a script without stacks, is reported before
//! anything runs.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Instant;

use profiler_compiler::object::Object;
use profiler_model::output::Output;
use profiler_model::types::Type;
use profiler_output::stacks::{Folded, WithStacks};

use super::args::StackFiles;
use super::exit::{Failure, MISTAKE};
use super::streams;

/// The opened files.
pub(super) struct Opened {
    flame: Option<(String, File)>,
    folded: Option<(String, File)>,
}

/// Opens the files for the stacks of a script.
pub(super) fn open(files: &StackFiles, object: &Object) -> Result<Opened, Failure> {
    let has_stacks = object.maps.iter().any(|map| !map.is_state() && map.key.as_ref().is_some_and(Type::has_stacks));
    if *files != StackFiles::default() && !has_stacks {
        return Err(Failure::new(MISTAKE, "no map of this script has stacks in its keys".to_owned())
            .help("count them, as in `profile:hz:99 { @[ustack] = count(); }`"));
    }
    let open =
        |path: &Option<String>| path.as_ref().map(|path| Ok((path.clone(), streams::result_file(path)?))).transpose();
    Ok(Opened { flame: open(&files.flame)?, folded: open(&files.folded)? })
}

impl Opened {
    /// Runs with an output that keeps the stacks, and writes the files.
    pub(super) fn around<T>(
        self,
        mut output: Box<dyn Output>,
        script: &str,
        run: impl FnOnce(&mut dyn Output) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.flame.is_none() && self.folded.is_none() {
            return run(output.as_mut());
        }
        let started = Instant::now();
        let mut output = WithStacks::new(output);
        let result = run(&mut output)?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let title = format!("{script} on {}, {:.1} s", host.trim(), started.elapsed().as_secs_f64());
        self.write(&output.into_stacks(), &title)?;
        Ok(result)
    }

    fn write(self, stacks: &Folded, title: &str) -> Result<(), Failure> {
        if stacks.is_empty() {
            for (path, _) in [&self.folded, &self.flame].into_iter().flatten() {
                // A closed standard error has no reader.
                let _ = writeln!(io::stderr(), "note: no stacks were counted, so `{path}` is empty");
            }
            return Ok(());
        }
        if let Some((path, file)) = self.folded {
            written(&path, file, |out| stacks.write_lines(out))?;
        }
        if let Some((path, file)) = self.flame {
            written(&path, file, |out| stacks.write_flame_graph(title, out))?;
        }
        Ok(())
    }
}

fn written(path: &str, file: File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(file);
    write(&mut out).and_then(|()| out.flush()).map_err(|error| Failure::output(&format!("`{path}`"), &error))
}
