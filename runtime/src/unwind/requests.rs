//! Which requests are answered, and which have been answered already.
//!
//! In: requests of processes. Out: for how long a process is not to ask again.
//! Guarantee: a process whose code has not changed asks less and less often: its stack leads to
//! addresses that have no mapping.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Duration;

use profiler_model::unwind::UNCLAIMED;

use super::mappings::Program;

/// The first pause.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);

/// The processes that have asked.
#[derive(Debug, Default)]
pub(super) struct Requests {
    last: HashMap<u32, Request>,
}

#[derive(Debug)]
struct Request {
    identity: u64,
    /// A hash of the program.
    code: u64,
    start_stack: u64,
    /// A hash of the code that the process has until it runs the program that it is to run.
    before: Option<u64>,
    pause: Duration,
    is_answered: bool,
}

/// What to do about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The process is not to ask again for this long.
    pub pause: Option<Duration>,
    /// Whether its mappings are to be written.
    pub is_new: bool,
}

impl Requests {
    /// A request of a process that has these regions of code.
    pub(super) fn ask(&mut self, pid: u32, identity: u64, program: &Program<'_>) -> Verdict {
        let code = hash_of(program);
        match self.last.get_mut(&pid) {
            // It still runs what it was before.
            Some(last) if last.before == Some(hash_of(&program.code)) => Verdict { pause: None, is_new: false },
            // It has claimed what was prepared for it.
            Some(last) if (last.identity, last.code) == (UNCLAIMED, code) => {
                last.identity = identity;
                Verdict { pause: None, is_new: !last.is_answered }
            }
            Some(last) if (last.identity, last.code) == (identity, code) => {
                last.pause = (last.pause * 2).clamp(SHORTEST, LONGEST);
                Verdict { pause: Some(last.pause), is_new: !last.is_answered }
            }
            _ => {
                let start_stack = program.start_stack;
                let pause = Duration::ZERO;
                let request = Request { identity, code, start_stack, before: None, pause, is_answered: false };
                self.last.insert(pid, request);
                Verdict { pause: None, is_new: true }
            }
        }
    }

    /// A process that is still `program` will run another one.
    pub(super) fn expect(&mut self, pid: u32, program: &Program<'_>) {
        let (start_stack, before) = (program.start_stack, Some(hash_of(&program.code)));
        let (code, pause) = (hash_of(program), Duration::ZERO);
        let request = Request { identity: UNCLAIMED, code, start_stack, before, pause, is_answered: false };
        self.last.insert(pid, request);
    }

    /// A process runs the program that it was to run, which may have the same code as before.
    pub(super) fn begun(&mut self, pid: u32) {
        if let Some(last) = self.last.get_mut(&pid) {
            last.before = None;
        }
    }

    /// The identity of a process that has asked, if its code is no longer the same: none yet if it
    /// runs another program.
    pub(super) fn changed(&self, pid: u32, program: &Program<'_>) -> Option<u64> {
        let last = self.last.get(&pid)?;
        // Another memory has another stack.
        let identity = if last.start_stack == program.start_stack { last.identity } else { UNCLAIMED };
        let is_same = last.code == hash_of(program) || last.before == Some(hash_of(&program.code));
        (!is_same).then_some(identity)
    }

    /// The processes that have asked.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.last.keys().copied()
    }

    /// Whether a process has asked.
    pub(super) fn knows(&self, pid: u32) -> bool {
        self.last.contains_key(&pid)
    }

    /// The last request of a process has been answered with all its mappings.
    pub(super) fn answered(&mut self, pid: u32) {
        if let Some(last) = self.last.get_mut(&pid) {
            last.is_answered = true;
        }
    }

    /// Keeps the processes that still exist.
    pub(super) fn retain(&mut self, exists: impl Fn(u32) -> bool) {
        self.last.retain(|pid, _| exists(*pid));
    }

    /// Forgets all requests.
    pub(super) fn clear(&mut self) {
        self.last.clear();
    }
}

fn hash_of(it: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    it.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::regions::{Region, Regions};

    fn program<'a>(code: &[Region<'a>]) -> Program<'a> {
        Program { code: code.to_vec(), start_stack: 1 }
    }

    #[test]
    fn pauses_grow_until_the_code_changes() {
        let maps = "1000-2000 r-xp 0 08:01 12 /bin/a\n5000-6000 r-xp 0 08:01 13 /lib/b\n";
        let regions = Regions::parse(maps);
        let (one, both) = ([regions.get(0)], [regions.get(0), regions.get(1)]);
        let mut requests = Requests::default();
        let mut ask = |identity, code: &[Region<'_>]| {
            let verdict = requests.ask(7, identity, &program(code));
            requests.answered(7);
            assert_eq!(verdict.is_new, verdict.pause.is_none());
            verdict.pause.map(|pause| pause.as_millis())
        };
        let pauses: Vec<_> = (0..9).map(|_| ask(1, &one)).collect();
        let expected = [100, 200, 400, 800, 1000, 1000, 1000, 1000].map(Some);
        assert_eq!((pauses[0], &pauses[1..]), (None, &expected[..]));
        assert_eq!((ask(1, &both), ask(1, &both)), (None, Some(100)), "other code");
        assert_eq!((ask(2, &both), ask(2, &both)), (None, Some(100)), "another program");
    }

    #[test]
    fn what_is_expected_is_answered_when_it_runs_its_program() {
        let maps = "1000-2000 r-xp 0 08:01 12 /bin/a\n5000-6000 r-xp 0 08:01 13 /lib/b\n";
        let regions = Regions::parse(maps);
        let (before, after) = (program(&[regions.get(0)]), program(&[regions.get(1)]));
        let mut requests = Requests::default();
        requests.expect(7, &before);
        // It may have the new stack already, and still the old code.
        let between = Program { start_stack: 2, ..before.clone() };
        for program in [&before, &between] {
            assert!(!requests.ask(7, 1, program).is_new && requests.changed(7, program).is_none());
        }
        let mut same = Requests::default();
        same.expect(7, &before);
        same.begun(7);
        assert_eq!(same.changed(7, &between), Some(UNCLAIMED), "the same program again");
        let after = Program { start_stack: 2, ..after };
        assert_eq!(requests.changed(7, &after), Some(UNCLAIMED));
        assert!(requests.ask(7, UNCLAIMED, &after).is_new);
    }

    #[test]
    fn a_claim_is_no_complaint() {
        let mut requests = Requests::default();
        assert!(requests.ask(7, UNCLAIMED, &program(&[])).is_new);
        requests.answered(7);
        assert_eq!(requests.ask(7, 1, &program(&[])), Verdict { pause: None, is_new: false });
        assert_eq!(requests.ask(7, 1, &program(&[])), Verdict { pause: Some(SHORTEST), is_new: false });
    }

    #[test]
    fn memory_that_was_not_prepared_is_answered() {
        let mut requests = Requests::default();
        requests.ask(7, UNCLAIMED, &program(&[]));
        requests.answered(7);
        let other = Program { start_stack: 2, ..program(&[]) };
        assert_eq!(requests.ask(7, 1, &other), Verdict { pause: None, is_new: true });
    }

    #[test]
    fn an_incomplete_answer_is_repeated_but_not_at_once() {
        let mut requests = Requests::default();
        assert_eq!(requests.ask(7, 1, &program(&[])), Verdict { pause: None, is_new: true });
        assert_eq!(requests.ask(7, 1, &program(&[])), Verdict { pause: Some(SHORTEST), is_new: true });
        requests.retain(|pid| pid != 7);
        assert_eq!(requests.ask(7, 1, &program(&[])).pause, None);
    }
}
