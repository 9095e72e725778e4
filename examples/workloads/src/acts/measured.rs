//! Acts that are repeated and measure themselves, for the recipes of the standard library.
//!
//! In: how often, how long, how large. Out: lines of a name and a number: counts, and nanoseconds
//! by this program's own clock.
//! Guarantee: a count is exact; a time is read just before and after what is measured, so it is
//! never shorter than it.

use std::fs::{File, OpenOptions};
use std::io::{Error, PipeReader, PipeWriter, Read as _, Result, Write as _, pipe};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::process::{Command, Stdio};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::{number, spin, sys};

/// The usage text of these acts.
pub const USAGE: &str = "\
workload act naps N MS           sleeps N times for MS milliseconds
workload act crowd THREADS MS    threads on one CPU want to compute for MS milliseconds
workload act moves N             a thread `mover` changes between CPU 0 and CPU 1, N times
workload act pingpong N          threads `ping` and `pong` send each other N bytes
workload act lives N MS          runs N programs that sleep for MS milliseconds
workload act signals N           sends itself the ignored signal 23 N times
workload act file PATH N BYTES   writes N times BYTES bytes, then N times a flush and BYTES bytes; reads N times; fails once
workload act direct PATH N BYTES writes N times BYTES bytes past the page cache
workload act leaks N BYTES       allocates BYTES bytes N times and frees every other
workload act backlog N MS        N clients connect over TCP, and are accepted after MS milliseconds
workload act privileges N        asks to set its user N times with CAP_SETUID, and N times without
workload act dials N             connects to itself over TCP N times, and N times to a port that is closed
";

/// Performs an act of this file; `None` if it has no act of this name.
pub fn act(name: &str, rest: &[String]) -> Option<Result<()>> {
    Some(match name {
        "naps" => both(rest, naps),
        "crowd" => both(rest, crowd),
        "moves" => number(rest, 0).and_then(moves),
        "pingpong" => number(rest, 0).and_then(pingpong),
        "lives" => both(rest, lives),
        "signals" => number(rest, 0).and_then(|times| (0..times).try_for_each(|_| sys::signal_itself(23))),
        "file" => on_file(rest, file),
        "direct" => on_file(rest, direct),
        "leaks" => both(rest, |times, bytes| {
            leaks(times, bytes);
            Ok(())
        }),
        "backlog" => both(rest, backlog),
        "privileges" => number(rest, 0).and_then(privileges),
        "dials" => number(rest, 0).and_then(dials),
        _ => return None,
    })
}

fn both(rest: &[String], act: fn(u64, u64) -> Result<()>) -> Result<()> {
    act(number(rest, 0)?, number(rest, 1)?)
}

fn on_file(rest: &[String], act: fn(&str, u64, u64) -> Result<()>) -> Result<()> {
    let path = rest.first().ok_or_else(|| Error::other("a path is missing"))?;
    act(path, number(rest, 1)?, number(rest, 2)?)
}

/// Runs something several times; returns the sum of the times and the longest one.
fn timed(times: u64, mut act: impl FnMut(u64) -> Result<()>) -> Result<(Duration, Duration)> {
    let (mut sum, mut longest) = (Duration::ZERO, Duration::ZERO);
    for index in 0..times {
        let start = Instant::now();
        act(index)?;
        let took = start.elapsed();
        (sum, longest) = (sum + took, longest.max(took));
    }
    Ok((sum, longest))
}

fn named<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Result<T>>> {
    Builder::new().name(name.to_owned()).spawn(body)
}

fn joined<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().map_err(|_| Error::other("a thread failed"))?
}

/// The switches are those of this thread while it naps, and all since the process began.
fn naps(times: u64, ms: u64) -> Result<()> {
    let before = sys::switches();
    let (sum, longest) = timed(times, |_| {
        sys::sleep_ns(ms as i64 * 1_000_000);
        Ok(())
    })?;
    let after = sys::switches();
    println!("naps {times}\nleast_ns {}", times * ms * 1_000_000);
    println!("napped_ns {}\nlongest_ns {}", sum.as_nanos(), longest.as_nanos());
    println!("voluntary {}\ninvoluntary {}", after.0 - before.0, after.1 - before.1);
    println!("voluntary_all {}", after.0);
    Ok(())
}

/// Each thread waits while it exists and has no CPU: at least as long as the kernel counts while it
/// computes, and at most from before its start until it was joined, without its CPU time.
fn crowd(threads: u64, ms: u64) -> Result<()> {
    sys::pin_to_cpu(0)?;
    let compute = move || {
        let (delay_ns, switches) = (sys::run_delay_ns(), sys::switches());
        spin(ms);
        let (delayed_ns, preempted) = (sys::run_delay_ns() - delay_ns, sys::switches().1 - switches.1);
        let cpu_ns = sys::thread_cpu_ns();
        sys::end_at_once();
        Ok((delayed_ns, preempted, cpu_ns))
    };
    let running = (0..threads.clamp(1, 64))
        .map(|_| Ok((Instant::now(), named("crowd", compute)?)))
        .collect::<Result<Vec<_>>>()?;
    let (mut least_ns, mut most_ns, mut preempted) = (0, 0, 0);
    for (before, thread) in running {
        let (delayed_ns, switches, cpu_ns) = joined(thread)?;
        least_ns += delayed_ns;
        most_ns += before.elapsed().as_nanos().saturating_sub(u128::from(cpu_ns));
        preempted += switches;
    }
    println!("waited_least_ns {least_ns}\nwaited_most_ns {most_ns}\npreempted {preempted}");
    Ok(())
}

/// The thread begins on CPU 0, as this one is pinned there.
fn moves(times: u64) -> Result<()> {
    sys::pin_to_cpu(0)?;
    let mover = move || (0..times).try_for_each(|index| sys::pin_to_cpu((index as usize + 1) % 2));
    joined(named("mover", mover)?)?;
    println!("moves {times}");
    Ok(())
}

fn pingpong(times: u64) -> Result<()> {
    let ((mut asked, mut ask), (mut answered, mut answer)) = (pipe()?, pipe()?);
    let send = |to: &mut PipeWriter| to.write_all(b"x");
    let receive = |from: &mut PipeReader| from.read_exact(&mut [0]);
    let second = named("pong", move || {
        let before = sys::switches().0;
        for _ in 0..times {
            receive(&mut asked)?;
            send(&mut answer)?;
        }
        Ok((sys::switches().0 - before, sys::thread_cpu_ns()))
    })?;
    let first = named("ping", move || {
        for _ in 0..times {
            send(&mut ask)?;
            receive(&mut answered)?;
        }
        Ok(sys::thread_cpu_ns())
    })?;
    let ping_ns = joined(first)?;
    let (slept, cpu_ns) = joined(second)?;
    println!("sent {times}\npong_slept {slept}\nping_cpu_ns {ping_ns}\npong_cpu_ns {cpu_ns}");
    Ok(())
}

/// A process lives a little less than the time from before its start to after its end.
fn lives(times: u64, ms: u64) -> Result<()> {
    let own = std::env::current_exe()?;
    let (_, longest) = timed(times, |_| {
        let ended = Command::new(&own).args(["act", "nap", &ms.to_string()]).stdout(Stdio::null()).status()?;
        if ended.success() { Ok(()) } else { Err(Error::other("a process failed")) }
    })?;
    println!("lives {times}\nshortest_ns {}\nlongest_ns {}", ms * 1_000_000, longest.as_nanos());
    Ok(())
}

/// The failure is a read of a descriptor that is only open for writing.
fn file(path: &str, times: u64, bytes: u64) -> Result<()> {
    let block = vec![b'x'; bytes as usize];
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    let (mut flushed, mut longest_flush) = (Duration::ZERO, Duration::ZERO);
    let (mut written, _) = timed(times, |_| file.write_all(&block))?;
    for _ in 0..times {
        let (took, longest) = timed(1, |_| file.sync_data())?;
        (flushed, longest_flush) = (flushed + took, longest_flush.max(longest));
        written += timed(1, |_| file.write_all_at(&block, 0))?.0;
    }
    let (failed, _) = timed(1, |_| match sys::read(&file, &mut [0]) {
        Ok(_) => Err(Error::other("the read did not fail")),
        Err(_) => Ok(()),
    })?;
    let file = File::open(path)?;
    let mut buffer = block;
    let read = failed + timed(times, |_| (&file).read_exact(&mut buffer))?.0;
    std::fs::remove_file(path)?;
    println!("writes {}\nwritten {}\nwrite_ns {}", 2 * times, 2 * times * bytes, written.as_nanos());
    println!("flushes {times}\nflush_ns {}\nflush_longest_ns {}", flushed.as_nanos(), longest_flush.as_nanos());
    println!("reads {times}\nread {}\nread_ns {}", times * bytes, read.as_nanos());
    Ok(())
}

/// The kernel requires that the memory begins at a multiple of the disk's sector size.
fn direct(path: &str, times: u64, bytes: u64) -> Result<()> {
    const ALIGNED: usize = 4096;
    let memory = vec![b'x'; bytes as usize + ALIGNED];
    let start = memory.as_ptr().align_offset(ALIGNED);
    let block = memory.get(start..start + bytes as usize).ok_or_else(|| Error::other("no aligned memory"))?;
    let file = OpenOptions::new().write(true).create(true).custom_flags(libc::O_DIRECT).open(path)?;
    let written = timed(times, |index| file.write_all_at(block, index * bytes));
    std::fs::remove_file(path)?;
    let (sum, longest) = written?;
    println!(
        "writes {times}\nwritten {}\nwrite_ns {}\nlongest_ns {}",
        times * bytes,
        sum.as_nanos(),
        longest.as_nanos()
    );
    Ok(())
}

fn leaks(times: u64, bytes: u64) {
    for index in 0..times {
        let block = workload_allocate(bytes as usize);
        if index % 2 == 1 {
            std::mem::forget(block);
        }
    }
    println!("allocated {times}\nleaked {}\nleaked_bytes {}", times / 2, times / 2 * bytes);
}

/// The function that allocates, which stacks show.
#[inline(never)]
pub fn workload_allocate(bytes: usize) -> Vec<u8> {
    std::hint::black_box(vec![1; bytes])
}

/// The kernel checks the capability, and allows the call without it: the user stays the same.
fn privileges(times: u64) -> Result<()> {
    (0..times).try_for_each(|_| sys::setuid_again())?;
    sys::drop_capabilities()?;
    (0..times).try_for_each(|_| sys::setuid_again())?;
    println!("granted {times}\ndenied {times}");
    Ok(())
}

/// All clients are in the listener's queue before the first is accepted.
fn backlog(clients: u64, ms: u64) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let start = Instant::now();
    let connect = |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    let connected = (0..clients.min(100)).map(connect).collect::<Result<Vec<_>>>()?;
    sys::sleep_ns(ms as i64 * 1_000_000);
    for _ in &connected {
        listener.accept()?;
    }
    println!("port {port}\nclients {}", connected.len());
    println!("least_ns {}\nmost_ns {}", ms * 1_000_000, start.elapsed().as_nanos());
    Ok(())
}

/// A listener that is closed at once leaves a port that refuses connections.
fn dials(times: u64) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let (sum, longest) = timed(times, |_| {
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        let (server, _) = listener.accept()?;
        drop(client);
        drop(server);
        Ok(())
    })?;
    drop(listener);
    let refused = (0..times).filter(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err()).count();
    println!("port {port}\nconnected {times}\nrefused {refused}");
    println!("connect_ns {}\nlongest_ns {}", sum.as_nanos(), longest.as_nanos());
    Ok(())
}
