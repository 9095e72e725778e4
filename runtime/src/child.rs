//! The command of `-c`.
//!
//! In: a command line. Out: a process that waits until the probes are attached.
//! Guarantee: the process never outlives the session. A command that does not exist is reported
//! before anything is attached.

mod loading;

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::sys::account::Account;
use crate::sys::poll;
use crate::sys::process::{self, Program, Stopped};
use crate::sys::ptrace::Followed;

/// A child process; killed when dropped.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    program: PathBuf,
    /// A pidfd; readable when the process has ended.
    ended: OwnedFd,
    stopped: Option<Stopped>,
    status: Option<i32>,
}

/// Why a command could not be started.
#[derive(Debug)]
pub enum ChildError {
    /// A quote is not closed.
    OpenQuote,
    /// The command line is empty.
    Empty,
    /// No such program.
    NotFound(String),
    /// The system refused.
    System(io::Error),
}

/// How long a child may run after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(1);

impl Child {
    /// Starts a command, as another user if an account is given. It waits for [`Child::resume`]
    /// before it runs.
    pub fn spawn_stopped(words: Vec<String>, account: Option<&Account>) -> Result<Child, ChildError> {
        let name = words.first().ok_or(ChildError::Empty)?;
        let path =
            find(name, &std::env::var("PATH").unwrap_or_default()).ok_or_else(|| ChildError::NotFound(name.clone()))?;
        let invalid = |_| ChildError::System(io::ErrorKind::InvalidInput.into());
        let file = path.clone();
        let path = CString::new(path.as_os_str().as_bytes()).map_err(invalid)?;
        let words: Vec<CString> = words.into_iter().map(CString::new).collect::<Result<_, _>>().map_err(invalid)?;
        let environment = environment(std::env::vars_os(), account);
        let program = Program { path: &path, arguments: &words, environment: &environment, account };
        let stopped = process::fork_stopped(program).map_err(ChildError::System)?;
        let ended = poll::pidfd(stopped.pid).map_err(ChildError::System)?;
        Ok(Child { pid: stopped.pid, program: file, ended, stopped: Some(stopped), status: None })
    }

    /// Its process id (`cpid`).
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The file that it will run.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Lets the process run.
    pub fn resume(&mut self) -> Result<(), ChildError> {
        match self.stopped.take() {
            Some(stopped) => stopped.resume().map_err(ChildError::System),
            None => Ok(()),
        }
    }

    /// The same. Before it runs any code, and when its libraries are mapped, it waits for
    /// `prepare`.
    pub(crate) fn resume_prepared(&mut self, prepare: &(dyn Fn() + Sync)) -> Result<(), ChildError> {
        // The kernel releases the process when the thread that follows it ends, however it ends.
        thread::scope(|scope| {
            let following = thread::Builder::new().name("loading".into()).spawn_scoped(scope, || {
                // A process that may not be followed, as in some containers, runs at once.
                let followed = Followed::new(self.pid).ok();
                self.resume()?;
                self.status = followed.and_then(|followed| loading::hold(followed, self.pid, prepare).ok().flatten());
                Ok(())
            });
            let ended = following.map_err(ChildError::System)?.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Its wait status; `None` while it runs.
    pub fn try_wait(&mut self) -> Option<i32> {
        if self.status.is_none() {
            // An error means that there is no such child to wait for.
            self.status = process::try_wait(self.pid).unwrap_or(Some(0));
        }
        self.status
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A child that was never resumed exits when the pipe closes.
        let waiting = self.stopped.take().is_some();
        if self.try_wait().is_some() {
            return;
        }
        if !waiting {
            process::kill(self.pid, libc::SIGTERM);
        }
        if !matches!(poll::wait(&[self.ended.as_fd()], Some(GRACE)), Ok(ready) if ready != 0) {
            process::kill(self.pid, libc::SIGKILL);
            let _ = poll::wait(&[self.ended.as_fd()], Some(GRACE));
        }
        self.try_wait();
    }
}

/// Splits a command line into words at each blank, as bpftrace does: quotes are characters like
/// others, and between two blanks is an empty word.
pub fn split_at_blanks(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

/// Splits a command line into words, at white space. Quotes and backslashes work as in a shell; no
/// other shell syntax does.
///
/// # Errors
///
/// A quote that is not closed, or a backslash at the end.
pub fn split(command: &str) -> Result<Vec<String>, ChildError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => word.get_or_insert_default().push_str(&quoted(&mut chars, c)?),
            '\\' => word.get_or_insert_default().push(chars.next().ok_or(ChildError::OpenQuote)?),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// The text up to the closing quote. Within double quotes a backslash escapes `"` and `\`.
fn quoted(chars: &mut std::str::Chars<'_>, quote: char) -> Result<String, ChildError> {
    let mut text = String::new();
    while let Some(c) = chars.next() {
        match c {
            c if c == quote => return Ok(text),
            '\\' if quote == '"' => match chars.next() {
                Some(c @ ('"' | '\\')) => text.push(c),
                Some(c) => text.extend(['\\', c]),
                None => return Err(ChildError::OpenQuote),
            },
            c => text.push(c),
        }
    }
    Err(ChildError::OpenQuote)
}

/// The environment of a command: ours, but with the other user's name and home if it runs as one,
/// as `su` and `runuser` do.
fn environment(ours: impl Iterator<Item = (OsString, OsString)>, account: Option<&Account>) -> Vec<CString> {
    let theirs = |name: &OsStr| match (account, name.to_str()) {
        (Some(account), Some("HOME")) => Some(account.home.clone()),
        (Some(account), Some("USER" | "LOGNAME")) => Some(account.name.clone()),
        _ => None,
    };
    let line = |(name, value): (OsString, OsString)| {
        let value = theirs(&name).unwrap_or(value);
        let line = [name.as_bytes(), b"=", value.as_bytes()].concat();
        // A variable never contains a NUL: the kernel ends each at the first one.
        CString::new(line).ok()
    };
    ours.filter_map(line).collect()
}

/// The executable file that a command's name refers to.
fn find(name: &str, path: &str) -> Option<PathBuf> {
    let executable = |file: &Path| file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|file| executable(file));
    }
    std::env::split_paths(path).map(|directory| directory.join(name)).find(|file| executable(file))
}

impl fmt::Display for ChildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChildError::OpenQuote => f.write_str("the command has an unclosed quote or a trailing backslash"),
            ChildError::Empty => f.write_str("the command is empty"),
            ChildError::NotFound(name) if name.contains('/') => write!(f, "{name} is not an executable file"),
            ChildError::NotFound(name) => write!(f, "no program named {name} in PATH"),
            ChildError::System(error) => write!(f, "cannot start the command: {error}"),
        }
    }
}

impl std::error::Error for ChildError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_quotes() {
        let words = |command| split(command).unwrap();
        assert_eq!(words("  ls  -l\t/tmp "), ["ls", "-l", "/tmp"]);
        assert_eq!(words(r#"sh -c 'echo "$x" \n' "a \"b\" \c""#), ["sh", "-c", r#"echo "$x" \n"#, r#"a "b" \c"#]);
        assert_eq!(words(r#"a''b "" c\ d"#), ["ab", "", "c d"]);
        assert_eq!(words(""), [""; 0]);
        for open in ["'a", "\"a", "a\\", "\"a\\"] {
            assert!(matches!(split(open), Err(ChildError::OpenQuote)), "{open}");
        }
    }

    #[test]
    fn commands_are_found_in_path() {
        assert!(find("sh", "/nowhere:/bin").is_some());
        assert!(find("sh", "/nowhere").is_none());
        assert!(find("/bin", "").is_none(), "a directory is not a program");
        let error = spawn("no-such-program-here -x").unwrap_err();
        assert_eq!(error.to_string(), "no program named no-such-program-here in PATH");
    }

    fn spawn(command: &str) -> Result<Child, ChildError> {
        Child::spawn_stopped(split(command).expect("words"), None)
    }

    #[test]
    fn blanks_are_all_that_bpftrace_splits_at() {
        assert_eq!(split_at_blanks("echo a  \"b c\" "), ["echo", "a", "", "\"b", "c\"", ""]);
    }

    #[test]
    fn a_child_runs_only_when_resumed() {
        let mut child = spawn("sh -c 'exit 7'").unwrap();
        assert!(!std::fs::read_to_string(format!("/proc/{}/stat", child.pid())).unwrap().contains("(sh)"));
        assert_eq!(child.try_wait(), None);
        child.resume().unwrap();
        poll::wait(&[child.as_fd()], None).unwrap();
        assert_eq!(child.try_wait(), Some(7 << 8));
    }

    #[test]
    fn another_user_has_their_own_home() {
        let account =
            Account { name: "ann".into(), uid: 1000, gid: 1000, groups: vec![1000], home: "/home/ann".into() };
        let ours =
            || [("HOME", "/root"), ("TERM", "dumb"), ("USER", "root")].map(|(n, v)| (n.into(), v.into())).into_iter();
        let lines = |account| -> Vec<String> {
            environment(ours(), account).into_iter().map(|line| line.into_string().unwrap()).collect()
        };
        assert_eq!(lines(None), ["HOME=/root", "TERM=dumb", "USER=root"]);
        assert_eq!(lines(Some(&account)), ["HOME=/home/ann", "TERM=dumb", "USER=ann"]);
    }

    #[test]
    fn a_child_does_not_outlive_its_owner() {
        for resumed in [false, true] {
            let mut child = spawn("sleep 1000").unwrap();
            let pid = child.pid();
            if resumed {
                child.resume().unwrap();
            }
            drop(child);
            assert!(!Path::new(&format!("/proc/{pid}")).exists());
        }
    }
}
