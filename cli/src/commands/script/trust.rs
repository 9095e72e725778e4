//! Checks that only root or the user can change a file that becomes part of a script.
//!
//! In: a file's path. Out: why the file is untrusted, if it is.
//! Guarantee: the file itself and every directory above it are checked, after symbolic links are
//! resolved. As in `sshd`, a file that a user's private group may write to is trusted, because no
//! other user is in that group.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use profiler_runtime::sys::account::effective_uid;

const WRITABLE_BY_GROUP: u32 = 0o020;
const WRITABLE_BY_ALL: u32 = 0o002;
/// In a directory with this bit only the owner of an entry may replace it.
const STICKY: u32 = 0o1000;

/// Why another user could have changed a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Untrusted {
    /// The file, or the directory above it, that another user controls.
    pub path: PathBuf,
    /// How.
    pub reason: Reason,
}

/// How another user controls a file or directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It is owned by the user with this id.
    Owner(u32),
    /// It is writable by the group with this id.
    Group(u32),
    /// It is writable by all users.
    Everybody,
}

impl Untrusted {
    /// A sentence fragment: who could have changed what.
    pub(super) fn words(&self) -> String {
        let path = self.path.display();
        match self.reason {
            Reason::Owner(uid) => format!("`{path}` belongs to another user (uid {uid})"),
            Reason::Group(gid) => format!("the members of a group (gid {gid}) may write to `{path}`"),
            Reason::Everybody => format!("everybody may write to `{path}`"),
        }
    }

    /// Advice.
    pub(super) fn help(&self) -> String {
        let path = self.path.display();
        match self.reason {
            Reason::Owner(_) => format!("copy the file to a directory of your own, or `chown` `{path}`"),
            Reason::Group(_) => format!("take away the right to write: `chmod g-w {path}`"),
            Reason::Everybody => format!("take away the right to write: `chmod o-w {path}`"),
        }
    }
}

/// What allows a user other than root and the one who runs profiler to change a file; `None` if
/// nothing does.
pub(super) fn untrusted(file: &Path) -> Option<Untrusted> {
    // A path that cannot be resolved cannot be read either, which is reported there.
    let file = file.canonicalize().ok()?;
    let users = trusted_users();
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    file.ancestors().find_map(|path| {
        let metadata = fs::metadata(path).ok()?;
        let mode = Mode { bits: metadata.mode(), uid: metadata.uid(), gid: metadata.gid(), is_dir: metadata.is_dir() };
        let reason = judge(&mode, &users, |gid, uid| is_private_group(&groups, gid, uid))?;
        Some(Untrusted { path: path.to_owned(), reason })
    })
}

/// Permissions of a file or directory.
struct Mode {
    bits: u32,
    uid: u32,
    gid: u32,
    is_dir: bool,
}

fn judge(mode: &Mode, users: &[u32], is_private: impl Fn(u32, u32) -> bool) -> Option<Reason> {
    if !users.contains(&mode.uid) {
        return Some(Reason::Owner(mode.uid));
    }
    if mode.is_dir && mode.bits & STICKY != 0 {
        return None;
    }
    if mode.bits & WRITABLE_BY_ALL != 0 {
        return Some(Reason::Everybody);
    }
    let shared = mode.bits & WRITABLE_BY_GROUP != 0 && mode.gid != 0 && !is_private(mode.gid, mode.uid);
    shared.then_some(Reason::Group(mode.gid))
}

/// Root, the user that the process runs as, and the caller of `sudo`. The latter is read only if we
/// are root, because any user can set the variable for their own process.
fn trusted_users() -> Vec<u32> {
    let own = effective_uid();
    let mut users = vec![0, own];
    if own == 0 {
        users.extend(std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse::<u32>().ok()));
    }
    users
}

/// Whether a group is a user's private group: it has the user's number and lists no member but the
/// user.
fn is_private_group(groups: &str, gid: u32, uid: u32) -> bool {
    let line = groups.lines().find(|line| line.split(':').nth(2).and_then(|number| number.parse().ok()) == Some(gid));
    let Some(mut fields) = line.map(|line| line.split(':')) else { return false };
    let (name, members) = (fields.next().unwrap_or_default(), fields.nth(2).unwrap_or_default());
    gid == uid && members.split(',').all(|member| member.is_empty() || member == name)
}

#[cfg(test)]
mod tests {
    use super::{Mode, Reason, is_private_group, judge, untrusted};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown};

    fn judged(bits: u32, uid: u32, gid: u32, is_dir: bool) -> Option<Reason> {
        judge(&Mode { bits, uid, gid, is_dir }, &[0, 1000], |gid, uid| gid == uid)
    }

    #[test]
    fn only_root_and_the_user_are_trusted() {
        assert_eq!(judged(0o644, 0, 0, false), None);
        assert_eq!(judged(0o664, 1000, 1000, false), None, "a private group");
        assert_eq!(judged(0o664, 1000, 100, false), Some(Reason::Group(100)));
        assert_eq!(judged(0o666, 0, 0, false), Some(Reason::Everybody));
        assert_eq!(judged(0o600, 1001, 1001, false), Some(Reason::Owner(1001)));
        assert_eq!(judged(0o1777, 0, 0, true), None, "/tmp");
        assert_eq!(judged(0o777, 0, 0, true), Some(Reason::Everybody));
    }

    #[test]
    fn a_private_group_has_no_other_member() {
        let groups = "root:x:0:\nann:x:1000:\nbob:x:1001:ann\ncat:x:1002:cat\nstaff:x:50:\n";
        assert!(is_private_group(groups, 1000, 1000));
        assert!(!is_private_group(groups, 1001, 1001), "ann is in it");
        assert!(is_private_group(groups, 1002, 1002));
        assert!(!is_private_group(groups, 50, 1000) && !is_private_group(groups, 7, 7));
    }

    #[test]
    fn a_directory_above_counts() {
        let root = std::env::temp_dir().join(format!("profiler-trust-{}", std::process::id()));
        let inner = root.join("inner");
        fs::create_dir_all(&inner).expect("a directory");
        let file = inner.join("a.prof");
        fs::write(&file, "BEGIN { }").expect("a file");
        assert_eq!(untrusted(&file), None);
        fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).expect("a mode");
        let found = untrusted(&file).expect("anybody can replace `inner`");
        assert_eq!((found.path, found.reason), (root.canonicalize().expect("it exists"), Reason::Everybody));
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).expect("a mode");
        // Only root can change the owner of a file.
        if chown(&file, Some(12345), None).is_ok() {
            assert_eq!(untrusted(&file).map(|found| found.reason), Some(Reason::Owner(12345)));
        }
        fs::remove_dir_all(&root).expect("our own directory");
    }
}
