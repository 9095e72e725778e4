//! Closes span keys whose thread or process has ended.
//!
//! In: spans whose keys contain the id and the start time of a thread or process. Out: runs of the
//! programs that close such keys.
//! Guarantee: a key is closed only if the kernel has no thread or process with its id, or one that
//! started at another time. Where that cannot be known (another time namespace, another `/proc`),
//! nothing is closed.
//!
//! This adds no work to events: a thread of profiler reads the map now and then and uses at most a
//! fiftieth of a processor.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use profiler_model::object::{Attach, EndedKeys, Object};

use crate::load::Loaded;
use crate::maps::each_of;
use crate::spans::Pending;
use crate::sys::bpf::test_run;
use crate::sys::bss::BssMapping;
use crate::sys::map::OwnedMap;
use crate::sys::process::{exists, ticks_per_second};

/// How often the counters are read, which takes no system call.
const LOOK: Duration = Duration::from_millis(100);
/// How often the map is read while at most half of its capacity is used.
const REST: Duration = Duration::from_secs(2);
/// Reading the map takes at most one part in `SHARE` of the time.
const SHARE: u32 = 50;
/// `PROC_TIME_INIT_INO`.
const INITIAL_TIME_NAMESPACE: &str = "time:[4026531834]";
/// The index of `starttime` in `/proc/PID/stat`, counted from 1, and that of the first field after
/// the name.
const START_FIELD: usize = 22;
const FIRST_FIELD: usize = 3;

/// A span's keys, and the program that closes them.
#[derive(Debug)]
struct Keys {
    map: OwnedMap,
    words: BssMapping,
    program: OwnedFd,
    of: EndedKeys,
    pending: Pending,
    limit: u64,
    /// When the map was last read, and how long reading took.
    last: (Instant, Duration),
}

/// The thread that closes keys.
#[derive(Debug)]
pub(crate) struct Closer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Closer {
    /// Starts the thread if a span has such keys.
    pub(crate) fn start(object: &Object, loaded: &Loaded) -> io::Result<Closer> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut spans = Vec::new();
        for program in &object.programs {
            let Attach::Ended { span } = program.attach else { continue };
            spans.extend(Keys::of(span, &program.runs_in, object, loaded)?);
        }
        if spans.is_empty() || !knows_start_times() {
            return Ok(Closer { stop, thread: None });
        }
        let stopped = Arc::clone(&stop);
        let builder = thread::Builder::new().name("ended threads".into());
        let thread = builder.spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                for keys in &mut spans {
                    keys.look(&stopped)?;
                }
                thread::park_timeout(LOOK);
            }
            Ok(())
        })?;
        Ok(Closer { stop, thread: Some(thread) })
    }

    /// Ends the thread and waits for it; returns its error if it failed.
    pub(crate) fn stop(mut self) -> io::Result<()> {
        self.join()
    }

    fn join(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.stop.store(true, Ordering::SeqCst);
        thread.thread().unpark();
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that closes keys of ended threads failed")))
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        // `stop` has reported the thread's error, unless another error came first.
        let _ = self.join();
    }
}

impl Keys {
    fn of(span: usize, program: &str, object: &Object, loaded: &Loaded) -> io::Result<Option<Keys>> {
        let Some(span) = object.spans.get(span) else { return Ok(None) };
        let (Some(map), Some(of)) = (&span.map, span.ended) else { return Ok(None) };
        let map = loaded.map(map).ok_or(io::ErrorKind::NotFound)?.to_owned()?;
        let data = loaded.map(".bss").ok_or(io::ErrorKind::NotFound)?;
        let words = BssMapping::map_writable(data.fd(), data.value_size_bytes())?;
        let program = loaded.program(program).ok_or(io::ErrorKind::NotFound)?.try_clone_to_owned()?;
        let pending = Pending::new(span, loaded)?;
        let last = (Instant::now(), Duration::ZERO);
        Ok(Some(Keys { map, words, program, of, pending, limit: span.limit.into(), last }))
    }

    /// Closes the keys of ended tasks, if it is time to check.
    fn look(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let (at, took) = self.last;
        let open = self.pending.count();
        let rest = if open > self.limit / 2 { LOOK } else { REST };
        if open == 0 || at.elapsed() < rest.max(took * SHARE) {
            return Ok(());
        }
        let begin = Instant::now();
        for key in self.ended()? {
            if stop.load(Ordering::SeqCst) || !self.words.set(self.of.key_offset, &key) {
                break;
            }
            test_run(self.program.as_fd())?;
        }
        self.last = (Instant::now(), begin.elapsed());
        Ok(())
    }

    /// The keys whose thread or process has ended.
    fn ended(&self) -> io::Result<Vec<Vec<u8>>> {
        let (mut known, mut ended) = (HashMap::new(), Vec::new());
        each_of(&self.map.borrow(), |key, _| {
            let Some((number, start_ns)) = self.task(key) else { return };
            if *known.entry((number, start_ns)).or_insert_with(|| has_ended(number, start_ns)) {
                ended.push(key.to_vec());
            }
        })?;
        Ok(ended)
    }

    /// The id and the start time in a key.
    fn task(&self, key: &[u8]) -> Option<(u32, u64)> {
        let bytes = |offset: u32| key.get(offset as usize..);
        let number = u32::from_ne_bytes(*bytes(self.of.number_offset)?.first_chunk()?);
        Some((number, u64::from_ne_bytes(*bytes(self.of.start_offset)?.first_chunk()?)))
    }
}

/// Whether the start times in keys are those that `/proc` shows, and the ids in it are ours.
fn knows_start_times() -> bool {
    // Since 5.6: without this file there are no time namespaces.
    let time = fs::read_link("/proc/self/ns/time");
    let own = fs::read_link("/proc/self");
    time.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |time| time.as_os_str() == INITIAL_TIME_NAMESPACE)
        && own.is_ok_and(|own| own.as_os_str() == std::process::id().to_string().as_str())
}

/// Whether no thread or process has this id, or one that started at another time. Id 0 stands for
/// processes of other namespaces and for the idle threads.
fn has_ended(number: u32, start_ns: u64) -> bool {
    if number == 0 {
        return false;
    }
    if !exists(number) {
        return true;
    }
    // The `stat` file of the process would add up the times of all its threads.
    let stat = fs::read(format!("/proc/{number}/task/{number}/stat"));
    let tick_ns = 1_000_000_000 / ticks_per_second();
    // A file that cannot be read may be hidden, or its task may be ending.
    stat.ok().and_then(|stat| started(&stat)).is_some_and(|ticks| ticks != start_ns / tick_ns)
}

/// The start time in `/proc/PID/stat`, in clock ticks. The name, in parentheses, may contain any
/// character.
fn started(stat: &[u8]) -> Option<u64> {
    let stat = String::from_utf8_lossy(stat);
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(START_FIELD - FIRST_FIELD)?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_time_is_found_after_any_name() {
        let text = b"7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 10";
        assert_eq!(started(text), Some(4711));
        assert_eq!(started(b""), None);
    }

    #[test]
    fn this_thread_lives_and_one_that_started_at_another_time_has_ended() {
        let own = std::process::id();
        let stat = fs::read(format!("/proc/{own}/task/{own}/stat")).unwrap();
        let ticks = started(&stat).unwrap();
        let tick_ns = 1_000_000_000 / ticks_per_second();
        assert!(!has_ended(own, ticks * tick_ns) && !has_ended(own, ticks * tick_ns + tick_ns - 1));
        assert!(has_ended(own, (ticks + 1) * tick_ns));
        assert!(has_ended(u32::MAX >> 1, 0), "beyond the largest number that a thread can have");
        assert!(!has_ended(0, 0));
    }
}
