//! Which programs run at the same events.
//!
//! In: how two programs are attached. Out: whether one program can do the work of both, and whether
//! an event can run both.
//! Guarantee: attachments count as the same event only with the same sites, cookies and processes.

use std::collections::HashSet;
use std::hash::Hash;

use super::{Attach, Site};

impl Attach {
    /// Whether the program runs at events, raised by the kernel or by a timer of the runtime.
    /// Programs that run once, or that repeat depending on their own result, do not.
    pub fn has_events(&self) -> bool {
        matches!(
            self,
            Attach::RawTracepoint { .. }
                | Attach::Tracepoint { .. }
                | Attach::Uprobe { .. }
                | Attach::Kprobe { .. }
                | Attach::Trampoline { .. }
                | Attach::PerfEvent { .. }
                | Attach::Watchpoint { .. }
                | Attach::Timer { .. }
        )
    }

    /// Whether both run at exactly the same events. One function may have several names.
    pub fn is_same_event(&self, other: &Attach) -> bool {
        match (self, other) {
            (
                Attach::Uprobe { path, at_return, sites, multi, scope },
                Attach::Uprobe { path: path2, at_return: at_return2, sites: sites2, multi: multi2, scope: scope2 },
            ) => {
                let place = |site: &Site| (site.file_offset, site.semaphore_offset, site.cookie);
                (path, at_return, multi, scope) == (path2, at_return2, multi2, scope2)
                    && sites.iter().map(place).eq(sites2.iter().map(place))
            }
            _ => self.has_events() && self == other,
        }
    }

    /// Whether one event can run both, so that their order matters.
    pub fn overlaps(&self, other: &Attach) -> bool {
        match (self, other) {
            (Attach::RawTracepoint { names }, Attach::RawTracepoint { names: names2 }) => {
                have_common(names, names2, String::as_str)
            }
            (
                Attach::Uprobe { path, at_return, sites, .. },
                Attach::Uprobe { path: path2, at_return: at_return2, sites: sites2, .. },
            ) => (path, at_return) == (path2, at_return2) && have_common(sites, sites2, |site| site.file_offset),
            (Attach::Kprobe { at_return, sites, .. }, Attach::Kprobe { at_return: at_return2, sites: sites2, .. }) => {
                at_return == at_return2
                    && have_common(sites, sites2, |site| (site.function.as_str(), site.offset_bytes))
            }
            // When several timers are due together, they run in script order.
            (Attach::Timer { .. }, Attach::Timer { .. } | Attach::Sweep { .. })
            | (Attach::Sweep { .. }, Attach::Timer { .. }) => true,
            _ => self.is_same_event(other),
        }
    }
}

fn have_common<'a, T, K: Eq + Hash>(some: &'a [T], others: &'a [T], key: impl Fn(&'a T) -> K) -> bool {
    let keys: HashSet<K> = some.iter().map(&key).collect();
    others.iter().any(|other| keys.contains(&key(other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Scope;

    fn uprobe(path: &str, names: &[(&str, u64)], scope: Scope) -> Attach {
        let site = |(cookie, (name, file_offset)): (usize, &(&str, u64))| Site {
            file_offset: *file_offset,
            name: (*name).to_owned(),
            cookie: cookie as u64,
            semaphore_offset: 0,
        };
        let sites = names.iter().enumerate().map(site).collect();
        Attach::Uprobe { path: path.to_owned(), at_return: false, sites, multi: true, scope }
    }

    #[test]
    fn the_same_functions_by_other_names_are_one_event() {
        let f = || uprobe("/bin/x", &[("f", 16)], Scope::All);
        assert!(f().is_same_event(&f()));
        assert!(f().is_same_event(&uprobe("/bin/x", &[("g", 16)], Scope::All)));
        for other in [
            uprobe("/bin/y", &[("f", 16)], Scope::All),
            uprobe("/bin/x", &[("f", 17)], Scope::All),
            uprobe("/bin/x", &[("f", 16), ("g", 32)], Scope::All),
            uprobe("/bin/x", &[("f", 16)], Scope::of(&[1])),
        ] {
            assert!(!f().is_same_event(&other), "{other:?}");
        }
        assert!(!Attach::Begin.is_same_event(&Attach::Begin), "each runs once");
    }

    #[test]
    fn what_has_an_event_in_common_has_an_order() {
        let f = uprobe("/bin/x", &[("f", 16)], Scope::All);
        assert!(f.overlaps(&uprobe("/bin/x", &[("e", 0), ("f", 16)], Scope::of(&[1]))));
        assert!(!f.overlaps(&uprobe("/bin/x", &[("e", 0)], Scope::All)));
        let raw =
            |names: &[&str]| Attach::RawTracepoint { names: names.iter().map(|name| (*name).to_owned()).collect() };
        assert!(raw(&["a", "b"]).overlaps(&raw(&["b", "c"])) && !raw(&["a"]).overlaps(&raw(&["b"])));
        let timer = |period_ns| Attach::Timer { period_ns };
        assert!(timer(1).overlaps(&timer(2)) && !timer(1).is_same_event(&timer(2)));
    }
}
