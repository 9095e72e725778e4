//! Stacks without those of idle threads.
//!
//! In: the stacks of a run, or of a file. Out: the same without what threads did while they had
//! nothing to do.
//! Guarantee: what is left out is noted with its sum for each state. Only stacks with states can be
//! idle.

use std::collections::BTreeMap;

use profiler_model::units::Unit;

use super::fold::KERNEL;
use super::samples::{UnitName, is_number};
use super::states::{self, Placed, State};
use super::{Folded, Stacks, fold};

/// The states of threads that have nothing to do: they wait for an event, a time, a child or a
/// debugger. What reads a socket or a pipe may be in the middle of a request.
const IDLE: [&str; 4] = ["poll", "sleep", "child", "stopped"];

/// States in which only the functions of a stack say whether the thread has nothing to do.
const LOCK: &str = "lock";
const OTHER: &str = "other";
/// Names of such functions: condition variables of C, C++ and Rust, on which threads of a pool wait
/// for work; threads of Go without work; processes that wait for a signal.
const WAITS_FOR_WORK: [&str; 6] =
    ["pthread_cond_", "Condvar::wait", "runtime.stopm", "sigsuspend", "sigtimedwait", "sys_pause"];
/// Functions that make a lock of a condition variable: those of Python and of Java.
const TAKES_A_LOCK: [&str; 2] = ["take_gil", "ObjectMonitor::enter"];

impl Stacks {
    /// Leaves out the stacks of idle threads. Whether keys have states: without them, no thread is
    /// known to be idle.
    pub fn leave_out_idle(&mut self) -> bool {
        let parts = fold::state_parts(&self.samples);
        let mut left_out = LeftOut::default();
        for (site, number) in std::mem::take(&mut self.samples.rows) {
            let part = parts.get(site.map).copied().flatten();
            let state = part.and_then(|part| states::named(site.labels.get(part)?));
            let frames = self.samples.stack(&site).map(fold::frame);
            match state.filter(|state| is_idle(*state, frames)) {
                Some(state) => left_out.add(state, number, site.unit == UnitName::Nanoseconds),
                None => drop(self.samples.rows.insert(site, number)),
            }
        }
        self.notes.extend(left_out.note());
        parts.iter().any(Option::is_some)
    }
}

impl Folded {
    /// Leaves out the stacks of idle threads. Whether the stacks have states.
    pub fn leave_out_idle(&mut self) -> bool {
        let mut left_out = LeftOut::default();
        let states = &self.states;
        self.rows.retain(|stack, number| {
            let is_idle = |placed: &&Placed| is_idle(placed.state, stack.split(';').skip(placed.depth + 1));
            let idle = states.get(stack).filter(is_idle);
            idle.inspect(|placed| left_out.add(placed.state, *number, self.unit == Unit::Duration)).is_none()
        });
        self.notes.extend(left_out.note());
        !states.is_empty()
    }
}

/// The sums of what is left out, and whether they are times.
#[derive(Default)]
struct LeftOut {
    sums: BTreeMap<(&'static str, bool), u64>,
}

impl LeftOut {
    fn add(&mut self, state: State, number: u64, is_time: bool) {
        let sum = self.sums.entry((state.name(), is_time)).or_default();
        *sum = sum.saturating_add(number);
    }

    /// The largest first.
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    fn note(self) -> Option<String> {
        let mut sums: Vec<_> = self.sums.into_iter().collect();
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
        let text = |((state, is_time), sum): ((&str, bool), u64)| {
            let unit = if is_time { Unit::Duration } else { Unit::None };
            format!("{state} {}", unit.text(sum as f64))
        };
        let texts: Vec<String> = sums.into_iter().map(text).collect();
        (!texts.is_empty()).then(|| format!("idle threads are left out: {}", texts.join(", ")))
    }
}

/// Whether a thread in this state, with these frames, has nothing to do.
fn is_idle(state: State, frames: impl Iterator<Item = impl AsRef<str>>) -> bool {
    if ![LOCK, OTHER].contains(&state.name()) {
        return IDLE.contains(&state.name());
    }
    let (mut has_user, mut waits, mut locks) = (false, false, false);
    for frame in frames {
        let frame = frame.as_ref();
        let has = |name: &&str| frame.contains(name);
        has_user |= !frame.ends_with(KERNEL) && !is_number(frame);
        waits |= WAITS_FOR_WORK.iter().any(has);
        locks |= TAKES_A_LOCK.iter().any(has);
    }
    // A wait without a user stack began before the run.
    waits && !locks || !has_user && state.name() == LOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_threads_wait_for_something_to_do() {
        let is = |state, frames: &[&str]| is_idle(states::named(state).expect("a state"), frames.iter());
        for state in ["poll", "sleep", "child", "stopped"] {
            assert!(is(state, &["main", "handle"]), "{state}");
        }
        for state in
            ["running", "runnable", "throttled", "blocked", "lock", "disk", "network", "pipe", "fault", "gpu", "other"]
        {
            assert!(!is(state, &["main", "pthread_mutex_lock", "futex_wait_[k]"]), "{state}");
        }
        assert!(is("lock", &["worker", "pthread_cond_timedwait@@GLIBC_2.3.2", "futex_wait_[k]"]));
        assert!(is("lock", &["std::sync::poison::condvar::Condvar::wait", "futex_wait_[k]"]));
        assert!(!is("lock", &["take_gil", "pthread_cond_timedwait"]));
        assert!(!is("disk", &["pthread_cond_wait"]) && !is("other", &["io_schedule_[k]"]));
        assert!(is("other", &["__x64_sys_rt_sigsuspend_[k]"]), "the master of nginx");
        assert!(is("lock", &["4711", "futex_wait_[k]"]), "it has waited since before the run");
    }

    #[test]
    fn what_is_left_out_is_noted() {
        let text = "a;lock;main;pthread_cond_wait;futex_[k] 70\na;lock;main;pthread_mutex_lock 5\nb;poll;main 20\nb;running;main 3\n";
        let mut folded = Folded::read(&mut text.as_bytes()).expect("lines");
        assert!(folded.leave_out_idle());
        assert_eq!(folded.rows.keys().collect::<Vec<_>>(), ["a;lock;main;pthread_mutex_lock", "b;running;main"]);
        assert_eq!(folded.notes, ["idle threads are left out: lock 70, poll 20"]);
        assert!(!Folded::read(&mut "main;poll 3".as_bytes()).expect("lines").leave_out_idle(), "no states");
    }
}
