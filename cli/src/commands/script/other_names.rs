//! The names that other tools have for what recipes do: those of bcc, bpftrace and perf-tools.
//!
//! In: a name. Out: the recipe that answers the same question.
//! Guarantee: no recipe has such a name, and each leads to a recipe. A tool whose question no
//! recipe answers is not here, nor one that is a one-liner of the language (`funccount`, `trace`).

/// Names and recipes, sorted by name.
pub(super) const OTHER_NAMES: [(&str, &str); 57] = [
    ("biolatency", "io/block"),
    ("biosnoop", "io/block"),
    ("btrfsdist", "io/files"),
    ("btrfsslower", "io/slow"),
    ("cachestat", "io/page-cache"),
    ("cachetop", "io/page-cache"),
    ("capable", "proc/capabilities"),
    ("dbslower", "db/postgres"),
    ("dbstat", "db/postgres"),
    ("drsnoop", "mem/reclaim"),
    ("execsnoop", "proc/exec"),
    ("exitsnoop", "proc/exits"),
    ("ext4dist", "io/files"),
    ("ext4slower", "io/slow"),
    ("faultstat", "mem/faults"),
    ("fileslower", "io/slow"),
    ("filetop", "io/by-file"),
    ("futexctn", "lock/futex"),
    ("gethostlatency", "net/dns"),
    ("iolatency", "io/block"),
    ("iosnoop", "io/block"),
    ("javagc", "runtime/jvm"),
    ("killsnoop", "proc/signals"),
    ("klockstat", "lock/kernel"),
    ("memleak", "mem/leaks"),
    ("nfsdist", "io/files"),
    ("nfsslower", "io/slow"),
    ("nodegc", "runtime/node"),
    ("offcputime", "cpu/offcpu"),
    ("oomkill", "mem/oom"),
    ("opensnoop", "proc/opens"),
    ("pidpersec", "proc/threads"),
    ("pythongc", "runtime/python"),
    ("runqlat", "sched/runq"),
    ("runqlen", "sched/runq-length"),
    ("runqslower", "sched/runq"),
    ("sigsnoop", "proc/signals"),
    ("sslsniff", "db/tls"),
    ("sslsnoop", "db/tls"),
    ("syncsnoop", "io/fsync"),
    ("syscount", "syscall/counts"),
    ("tcpaccept", "net/accept-queue"),
    ("tcpconnect", "net/tcp"),
    ("tcpconnlat", "net/tcp"),
    ("tcplife", "net/sockets"),
    ("tcpretrans", "net/tcp"),
    ("tcpstates", "net/tcp"),
    ("tcpsynbl", "net/accept-queue"),
    ("tcptop", "net/sockets"),
    ("threadsnoop", "proc/threads"),
    ("vfscount", "io/files"),
    ("vfsstat", "io/files"),
    ("wakeuptime", "sched/wakers"),
    ("xfsdist", "io/files"),
    ("xfsslower", "io/slow"),
    ("zfsdist", "io/files"),
    ("zfsslower", "io/slow"),
];

/// The path of the recipe that does what a tool of this name does.
pub(super) fn recipe(name: &str) -> Option<&'static str> {
    OTHER_NAMES.iter().find(|(other, _)| *other == name).map(|(_, path)| *path)
}

/// The other names of a recipe.
pub(super) fn of(path: &str) -> impl Iterator<Item = &'static str> {
    OTHER_NAMES.iter().filter(move |(_, recipe)| *recipe == path).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::OTHER_NAMES;
    use crate::commands::script::modules;

    #[test]
    fn names_are_sorted_free_and_lead_to_recipes() {
        assert!(OTHER_NAMES.is_sorted_by(|(a, _), (b, _)| a < b));
        for (name, path) in OTHER_NAMES {
            assert!(modules::recipes().any(|(recipe, _)| *recipe == path), "{name}: there is no recipe {path}");
            let is_taken = modules::standard().iter().any(|(known, _)| known.rsplit('/').next() == Some(name));
            assert!(!is_taken, "{name} is the name of a module");
            assert_eq!(modules::named(name).map(|(path, _)| path), Some(path));
        }
    }
}
