//! Parses the processes of `-p`.
//!
//! In: process ids and names, separated by commas. Out: process ids.
//! Guarantee: a name stands for all processes that currently have it, except our own; a name that
//! no process has is rejected. Whether a process id exists is checked by the command.

use std::fs;

use profiler_compiler::similar;

/// Longest process name, `TASK_COMM_LEN` minus its NUL: the kernel truncates longer ones.
const LONGEST_NAME: usize = 15;

/// Limit of processes: each needs a link per program.
const MOST: usize = 512;

/// A set of processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Processes {
    /// Process ids, sorted and without duplicates.
    pub pids: Vec<u32>,
    /// The given names, each with its process ids.
    pub named: Vec<(String, Vec<u32>)>,
}

impl Processes {
    /// One process.
    pub(super) fn one(pid: u32) -> Processes {
        Processes { pids: vec![pid], named: Vec::new() }
    }

    /// Parses `12`, `12,13`, `nginx`, `nginx,13`.
    pub(super) fn read(text: &str) -> Result<Processes, String> {
        Processes::read_among(text, &running)
    }

    fn read_among(text: &str, running: &dyn Fn() -> Vec<(u32, String)>) -> Result<Processes, String> {
        let mut found = Processes::default();
        for part in text.split(',').map(str::trim) {
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if is_number {
                let pid = part.parse().ok().filter(|pid| (1..=i32::MAX as u32).contains(pid));
                found.pids.push(pid.ok_or_else(|| format!("{part} is not in 1..={}", i32::MAX))?);
                continue;
            }
            if part.is_empty() {
                return Err("write numbers or names of processes, with commas between them: 12, 12,13, nginx".into());
            }
            let pids = with_name(part, &running())?;
            found.pids.extend(&pids);
            found.named.push((part.to_owned(), pids));
        }
        found.pids.sort_unstable();
        found.pids.dedup();
        match found.pids.len() {
            count if count > MOST => Err(format!("these are {count} processes, and {MOST} are the most")),
            _ => Ok(found),
        }
    }

    /// Which processes the names stand for, one line each.
    pub(super) fn notes(&self) -> Vec<String> {
        let shown = |pids: &[u32]| pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let note = |(name, pids): &(String, Vec<u32>)| format!("`{name}` is process {}", shown(pids));
        self.named.iter().map(note).collect()
    }
}

fn with_name(name: &str, running: &[(u32, String)]) -> Result<Vec<u32>, String> {
    let cut = name.get(..LONGEST_NAME).unwrap_or(name);
    let pids: Vec<u32> = running.iter().filter(|(_, known)| known == cut).map(|(pid, _)| *pid).collect();
    if !pids.is_empty() {
        return Ok(pids);
    }
    let advice = match similar::nearest(cut, running.iter().map(|(_, known)| known.as_str()), 1).first() {
        Some(near) => format!("there is one named `{near}`"),
        None => "`ps -eo pid,comm` lists them".into(),
    };
    Err(format!("no process is named `{name}` now; {advice}"))
}

/// All processes except our own, with the names that `comm` yields.
fn running() -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let name = |pid: u32| {
        let bytes = fs::read(format!("/proc/{pid}/comm")).ok()?;
        Some((pid, String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned()))
    };
    pids.filter(|pid| *pid != std::process::id()).filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::{MOST, Processes};

    fn read(text: &str) -> Result<Processes, String> {
        let named = |pid: u32, name: &str| (pid, name.to_owned());
        Processes::read_among(text, &|| {
            vec![named(30, "nginx"), named(7, "sshd"), named(31, "nginx"), named(40, "a-very-long-nam")]
        })
    }

    #[test]
    fn numbers_and_names() {
        for (text, pids) in [
            ("12", &[12][..]),
            ("13,12, 13", &[12, 13]),
            ("nginx", &[30, 31]),
            ("nginx,31,5", &[5, 30, 31]),
            ("a-very-long-name-of-a-process", &[40]),
        ] {
            assert_eq!(read(text).map(|found| found.pids), Ok(pids.to_vec()), "{text}");
        }
        assert_eq!(read("7,nginx").map(|found| found.notes()), Ok(vec!["`nginx` is process 30, 31".to_owned()]));
    }

    #[test]
    fn what_is_no_process_is_refused() {
        assert_eq!(read("ngnix"), Err("no process is named `ngnix` now; there is one named `nginx`".into()));
        assert_eq!(read("zzz"), Err("no process is named `zzz` now; `ps -eo pid,comm` lists them".into()));
        for text in ["", ",", "1,", "0", "4294967296", "-1"] {
            assert!(read(text).is_err(), "{text}");
        }
        let many: Vec<String> = (1..=MOST + 1).map(|pid| pid.to_string()).collect();
        assert!(read(&many.join(",")).is_err_and(|words| words.contains("512 are the most")));
    }
}
