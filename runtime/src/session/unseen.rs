//! Why a table may have no rows: its functions are probed in a file that the chosen processes do
//! not run.
//!
//! In: the object and the values of its parameters. Out: sentences, one per file.
//! Guarantee: a process that may not be inspected, or that has ended, is assumed to run the file.

use std::collections::BTreeMap;
use std::path::Path;

use profiler_model::object::{Attach, Object};
use profiler_model::params::Value;

use crate::host;

/// The files with probes that none of their processes runs, each with what is run instead.
pub(super) fn sentences<'a>(object: &'a Object, value: &dyn Fn(usize) -> Option<&'a Value>) -> Vec<String> {
    let mut files: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for program in &object.programs {
        let Attach::Uprobe { path, scope, .. } = &program.attach else { continue };
        if files.contains_key(path.as_str()) {
            continue;
        }
        let pids: Vec<u32> = scope.resolve(value).into_iter().flatten().collect();
        let others: Vec<_> = pids.iter().map_while(|pid| host::other_code(*pid, Path::new(path))).collect();
        let is_unseen = !pids.is_empty() && others.len() == pids.len();
        let similar = others.into_iter().find_map(|other| other.similar);
        files.insert(path, is_unseen.then(|| sentence(path, &pids, similar.as_deref())));
    }
    files.into_values().flatten().collect()
}

fn sentence(path: &str, pids: &[u32], other: Option<&Path>) -> String {
    let numbers: Vec<String> = pids.iter().map(ToString::to_string).collect();
    let who = match pids {
        [pid] => format!("process {pid} does not run code of {path}, whose functions are probed"),
        _ => format!("none of the processes {} runs code of {path}, whose functions are probed", numbers.join(", ")),
    };
    match other {
        Some(other) => format!("{who}; it runs {}: probe that file", other.display()),
        None => format!("{who}; it may be linked statically: probe its own file, /proc/{}/exe", numbers[0]),
    }
}
