//! Where results of work that later runs can use are kept.
//!
//! In: the environment and the user. Out: paths.
//! Guarantee: nothing is made or read here. The same user always gets the same paths.

use std::path::PathBuf;

use profiler_runtime::sys::account::effective_uid;

/// The directory for unwind tables.
pub(super) fn of_unwind_tables() -> Option<PathBuf> {
    let directory = directory(effective_uid(), |name| std::env::var_os(name).map(PathBuf::from))?;
    Some(directory.join("unwind"))
}

/// Root's does not depend on the environment, which `sudo` may leave to the caller. The user's:
/// <https://specifications.freedesktop.org/basedir-spec/latest/>.
fn directory(uid: u32, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if uid == 0 {
        return Some(PathBuf::from("/var/cache/profiler"));
    }
    // A relative path counts as not set.
    let set = |name: &str| variable(name).filter(|path| path.is_absolute());
    let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(caches.join("profiler"))
}

#[cfg(test)]
mod tests {
    use super::directory;
    use std::path::{Path, PathBuf};

    #[test]
    fn caches_are_where_the_user_has_them() {
        let of = |uid, set: &[(&str, &str)]| {
            directory(uid, |name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| PathBuf::from(value)))
        };
        let (home, caches) = (("HOME", "/home/a"), ("XDG_CACHE_HOME", "/c"));
        assert_eq!(of(1000, &[home]).as_deref(), Some(Path::new("/home/a/.cache/profiler")));
        assert_eq!(of(1000, &[home, caches]).as_deref(), Some(Path::new("/c/profiler")));
        assert_eq!(of(0, &[home, caches]).as_deref(), Some(Path::new("/var/cache/profiler")));
        assert_eq!((of(1000, &[]), of(1000, &[("XDG_CACHE_HOME", "c")])), (None, None));
    }
}
