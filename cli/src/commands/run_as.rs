//! Selects the user that the command of `-c` runs as.
//!
//! In: `--run-as`, and the caller of `sudo`. Out: an account, or `None` for the user of this
//! process.
//! Guarantee: under `sudo` a command does not run as root unless `--run-as root` is given; the
//! choice is reported.

use std::io;

use profiler_runtime::sys::account::{Account, effective_uid};

use super::exit::{Failure, MISTAKE, USAGE};

/// The user selected on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RunAs {
    /// None: the caller of `sudo`, otherwise the user of this process.
    Invoker,
    /// `--run-as NAME`: a login name or a user id.
    Named(String),
    /// The user of this process, as in bpftrace.
    Unchanged,
}

impl RunAs {
    /// Converts the value of `--run-as`.
    pub(super) fn of_option(user: Option<String>) -> RunAs {
        user.map_or(RunAs::Invoker, RunAs::Named)
    }

    /// The account, if it is another user's; an implicit choice is reported unless `quiet`.
    pub(super) fn account(&self, quiet: bool) -> Result<Option<Account>, Failure> {
        let account = match self {
            RunAs::Unchanged => None,
            RunAs::Named(name) => Some(named(name)?),
            RunAs::Invoker => invoker()?,
        };
        if let (RunAs::Invoker, Some(account), false) = (self, &account, quiet) {
            let name = account.name.display();
            eprintln!("The command runs as {name}, who called sudo; --run-as root runs it as root.");
        }
        Ok(account)
    }
}

fn named(name: &str) -> Result<Account, Failure> {
    let found = match name.parse() {
        Ok(uid) => Account::by_uid(uid),
        Err(_) => Account::by_name(name),
    };
    let missing = || Failure::new(USAGE, format!("there is no user `{name}`")).help("`getent passwd` lists the users");
    found.map_err(|error| unanswered(name, &error))?.ok_or_else(missing)
}

/// The caller of `sudo`. The variable is used only if we are root: any user can set it for their
/// own process.
fn invoker() -> Result<Option<Account>, Failure> {
    let caller = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse::<u32>().ok()).filter(|uid| *uid != 0);
    let Some(uid) = caller.filter(|_| is_root()) else { return Ok(None) };
    let help = "`--run-as root` runs the command as root";
    let missing = || Failure::new(MISTAKE, format!("sudo was called by the user {uid}, who does not exist")).help(help);
    Account::by_uid(uid).map_err(|error| unanswered(&uid.to_string(), &error))?.ok_or_else(missing).map(Some)
}

fn is_root() -> bool {
    effective_uid() == 0
}

fn unanswered(name: &str, error: &io::Error) -> Failure {
    Failure::new(MISTAKE, format!("the user `{name}` cannot be looked up: {error}"))
}

#[cfg(test)]
mod tests {
    use super::RunAs;

    #[test]
    fn users_are_found_by_name_and_number() {
        for name in ["root", "0"] {
            let account = RunAs::Named(name.into()).account(true).ok().flatten();
            assert_eq!(account.map(|account| account.uid), Some(0), "{name}");
        }
        assert!(RunAs::Named("no-such-user-here".into()).account(true).is_err());
        assert!(matches!(RunAs::Unchanged.account(true), Ok(None)));
    }
}
