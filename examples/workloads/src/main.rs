//! Programs with known answers: they do a stated number of operations and print that number.
//!
//! In: a subcommand and numbers. Out: lines of a name and a number on standard output.
//! Guarantee: the numbers printed are the numbers done, each by one system call or one function
//! call.
#![deny(unsafe_code)]

mod acts;
mod contention;
mod descriptors;
mod held;
mod keepalive;
mod measure;
mod parcel;
mod pool;
mod shares;
mod spans;
mod states;
mod sys;
mod unwinding;

use std::fs::File;
use std::io::{Error, Result, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const USAGE: &str = "\
workload ready …                 prints `ready`, waits for a line, and then does the rest: tracers find a process that has begun
workload getppid N [THREADS]     each thread calls getppid N times; wall and processor time a call
workload paced RATE SECONDS      calls getppid RATE times a second
workload reads N SIZE            reads SIZE bytes N times, from /dev/zero
workload files N                 opens /dev/null, /dev/zero, /dev/full and /dev/random in turn, N times in all
workload sleepers N MS           N threads sleep once for MS milliseconds
workload functions N             calls workload_step(0), … workload_step(N-1); the results sum to N*N
workload static-probes [N]       passes workload:step N times with 0, … N-1 and workload:guarded as often when it is listened to,
                                 then each site of workload:forms, workload:ratio and workload:text once;
                                 without N, for each number on standard input the first two
workload on-demand               for each number N on standard input: N calls each of getppid, of libc's getpid and of workload_step;
                                 for `become PATH`, runs PATH in the same process as `workload on-demand`
workload made [DIRECTORY]        for each number N on standard input: N calls of getppid from code that it makes, which
                                 jit-PID.dump in DIRECTORY names, as just-in-time compilers do
workload churn N                 maps code and unmaps it, N times
workload touches N               writes the first byte of each of N fresh pages of 4096 bytes
workload writes N                prints the address of a variable, waits for a line, then two threads write it N times each
workload execs N CALLS [AT_ONCE] runs `workload functions CALLS` N times, AT_ONCE (1) at a time
workload pinned CPU CMD…         becomes CMD, which runs on that CPU only
workload spin MS                 uses up a CPU for MS milliseconds
workload shares MS               spends MS milliseconds of CPU time in workload_share_70, workload_share_20 and workload_share_10
workload spans THREADS ROUNDS [KEYS]  things that begin, pass marks and end, on keys of their own or on KEYS shared ones
workload linger THREADS           begins key 0; threads begin keys 1 to THREADS, one after another, and end; key 0 is finished when the input ends
workload descriptors THREADS ROUNDS SEED  each thread opens, reads, duplicates and closes descriptors at random; numbers are given again
workload closes FROM TO           closes descriptors FROM, FROM + 1, … TO - 1, none of which is open
workload nest DEPTH TIMES        calls workload_nest, which calls itself, DEPTH deep, TIMES times
workload stacks N [ROUNDS]       calls workload_step by N paths, each by calls at other places; ROUNDS (1) times
workload leaps DEPTH TIMES       calls workload_dive, which calls itself, DEPTH deep; two times of three a jump leaves it, so nothing returns
workload stranded DEPTH THREADS  THREADS threads end inside workload_dive, one after another; then it returns
workload relays TIMES            calls workload_relay, which jumps to workload_step, TIMES times
workload parcels N               calls workload_parcel on parcels 0 … N-1, a struct whose fields follow from its number
workload pool THREADS CLIENTS CONNECTIONS REQUESTS SERVICE_US [locked|handed]
                                 a server with THREADS threads; each of CONNECTIONS has REQUESTS requests of SERVICE_US microseconds,
                                 one at a time if `locked`, by a lock that is not libc's; other threads answer if `handed`
workload keepalive tcp|unix CLIENTS REQUESTS PIECES SERVICE_US
                                 an event loop whose CLIENTS are connected when it prints `ready`; after a line of input each sends
                                 REQUESTS requests in PIECES pieces, which take SERVICE_US microseconds
workload contend THREADS N US    each thread takes one pthread mutex N times and holds it for US microseconds
workload conditions N HOLD_US PAUSE_US
                                 a thread waits N times for a condition, then has the mutex for HOLD_US; another wakes it when it has waited for PAUSE_US
workload states MS TIMES          threads that compute, wait for a CPU, or are blocked, each in one way: TIMES times MS milliseconds
workload held N                  N threads blocked in each way, and one that computes, until it is killed
workload rwlock READERS N US     each of READERS and a writer takes one pthread rwlock N times and holds it for US microseconds
workload parked THREADS          after a line of input, threads wait for a condition until the input ends
workload demo SECONDS            rounds of 8 reads of 64 bytes, 4 of 512, 2 of 4096, 1 of 65536, an open and a sleep of 1 ms
workload rss CMD…                runs CMD: exit code, wall time, peak memory
workload first-event CMD…        time until CMD prints `x`, while getppid is called without pause
workload interrupt MS CMD…       time from SIGINT, MS milliseconds after the start, to the end of CMD
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let ended = match words.split_first() {
        Some((first, rest)) if first == "ready" => released().and_then(|()| run(rest)),
        _ => run(&words),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("workload: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Says that the process has begun, and waits for a line of input.
fn released() -> Result<()> {
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

fn run(words: &[String]) -> Result<()> {
    let rest = words.get(1..).unwrap_or_default();
    match words.first().map_or("", String::as_str) {
        "getppid" => getppid(number(rest, 0)?, if rest.len() > 1 { number(rest, 1)? } else { 1 }),
        "paced" => {
            paced(number(rest, 0)?, number(rest, 1)?);
            Ok(())
        }
        "reads" => reads(number(rest, 0)?, number(rest, 1)?),
        "files" => files(number(rest, 0)?),
        "sleepers" => sleepers(number(rest, 0)?, number(rest, 1)?),
        "functions" => {
            functions(number(rest, 0)?);
            Ok(())
        }
        "static-probes" if rest.is_empty() => static_probes_on_demand(),
        "static-probes" => {
            static_probes(number(rest, 0)?);
            Ok(())
        }
        "on-demand" => on_demand(),
        "made" => made(rest.first().map(String::as_str)),
        "churn" => sys::made::churn(number(rest, 0)?),
        "touches" => {
            touches(number(rest, 0)?);
            Ok(())
        }
        "writes" => writes(number(rest, 0)?),
        "stacks" => {
            spans::stacks(number(rest, 0)?, if rest.len() > 1 { number(rest, 1)? } else { 1 });
            Ok(())
        }
        "execs" => execs(number(rest, 0)?, number(rest, 1)?, if rest.len() > 2 { number(rest, 2)? } else { 1 }),
        "pinned" => pinned(number(rest, 0)?, rest.get(1..).unwrap_or_default()),
        "spin" => {
            spin(number(rest, 0)?);
            Ok(())
        }
        "states" => states::states(Duration::from_millis(number(rest, 0)?), number(rest, 1)?),
        "shares" => {
            shares::shares(number(rest, 0)?);
            Ok(())
        }
        "parcels" => {
            parcel::send(number(rest, 0)?);
            Ok(())
        }
        "pool" => pool::serve(pool::Load {
            threads: number(rest, 0)?.clamp(1, 1024),
            clients: number(rest, 1)?.clamp(1, 1024),
            connections: number(rest, 2)?,
            requests: number(rest, 3)?,
            service_us: number(rest, 4)?,
            way: pool::Way::parse(rest.get(5).map(String::as_str))?,
        }),
        "pool-clients" => {
            let port = u16::try_from(number(rest, 0)?).map_err(|_| Error::other("no port has that number"))?;
            pool::clients(port, number(rest, 1)?, number(rest, 2)?, number(rest, 3)?)
        }
        "keepalive" => keepalive::keepalive(
            rest.first().map_or("", String::as_str),
            &keepalive::Load {
                clients: number(rest, 1)?.clamp(1, 1024),
                requests: number(rest, 2)?,
                pieces: number(rest, 3)?.max(1),
                service_us: number(rest, 4)?,
            },
        ),
        "contend" => contention::contend(number(rest, 0)?.clamp(1, 1024), number(rest, 1)?, number(rest, 2)?),
        "conditions" => contention::conditions(number(rest, 0)?, number(rest, 1)?, number(rest, 2)?),
        "held" => held::held(number(rest, 0)?.clamp(1, 1024)),
        "rwlock" => contention::rwlock(number(rest, 0)?.clamp(1, 1024), number(rest, 1)?, number(rest, 2)?),
        "parked" => contention::parked(number(rest, 0)?.clamp(1, 1024)),
        "spans" => spans::spans(number(rest, 0)?, number(rest, 1)?, if rest.len() > 2 { number(rest, 2)? } else { 0 }),
        "linger" => spans::linger(number(rest, 0)?),
        "closes" => descriptors::closes(number(rest, 0)?, number(rest, 1)?),
        "descriptors" => descriptors::descriptors(number(rest, 0)?, number(rest, 1)?, number(rest, 2)?),
        "leaps" => {
            spans::leaps(number(rest, 0)?, number(rest, 1)?);
            Ok(())
        }
        "stranded" => spans::stranded(number(rest, 0)?, number(rest, 1)?),
        "relays" => {
            spans::relays(number(rest, 0)?);
            Ok(())
        }
        "nest" => {
            spans::nest(number(rest, 0)?, number(rest, 1)?);
            Ok(())
        }
        "unwind" => {
            let numbers: Result<Vec<u64>> = (1..rest.len()).map(|index| number(rest, index)).collect();
            unwinding::unwind(rest.first().map_or("", String::as_str), &numbers?)
        }
        "demo" => demo(number(rest, 0)?),
        "act" => acts::act(rest),
        "rss" => measure::rss(rest),
        "first-event" => measure::first_event(rest),
        "interrupt" => measure::interrupt(number(rest, 0)?, rest.get(1..).unwrap_or_default()),
        _ => Err(Error::other(format!("these are known:\n{USAGE}{}{}", unwinding::USAGE, acts::USAGE))),
    }
}

fn number(words: &[String], index: usize) -> Result<u64> {
    let word = words.get(index).ok_or_else(|| Error::other(format!("a number is missing\n{USAGE}")))?;
    word.parse().map_err(|_| Error::other(format!("`{word}` is not a number")))
}

/// Each thread makes `calls` calls; all threads start together.
fn getppid(calls: u64, threads: u64) -> Result<()> {
    let threads = threads.clamp(1, 1024) as usize;
    let start_line = Barrier::new(threads);
    let thread = || {
        start_line.wait();
        let (start, cpu_start_ns) = (Instant::now(), sys::thread_cpu_ns());
        for _ in 0..calls {
            sys::getppid();
        }
        (start.elapsed().as_nanos(), u128::from(sys::thread_cpu_ns() - cpu_start_ns))
    };
    let times: Vec<(u128, u128)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(thread)).collect();
        running.into_iter().map_while(|thread| thread.join().ok()).collect()
    });
    if times.len() < threads {
        return Err(Error::other("a thread failed"));
    }
    let total_calls = calls * threads as u64;
    println!("calls {total_calls}");
    per_call("ns_per_call", times.iter().map(|(wall_ns, _)| wall_ns).sum(), total_calls);
    per_call("cpu_ns_per_call", times.iter().map(|(_, cpu_ns)| cpu_ns).sum(), total_calls);
    Ok(())
}

fn per_call(name: &str, total_ns: u128, calls: u64) {
    let tenths = total_ns * 10 / u128::from(calls.max(1));
    println!("{name} {}.{}", tenths / 10, tenths % 10);
}

/// Makes the calls that are due by the elapsed time, so that the rate does not depend on the cost
/// of a call.
fn paced(calls_per_second: u64, seconds: u64) {
    let start = Instant::now();
    let total = calls_per_second * seconds;
    let mut done = 0;
    while done < total {
        let due = (start.elapsed().as_nanos() * u128::from(calls_per_second) / 1_000_000_000) as u64;
        while done < due.min(total) {
            sys::getppid();
            done += 1;
        }
    }
    let reached = u128::from(done) * 1_000_000_000 / start.elapsed().as_nanos().max(1);
    println!("calls {done}\ncalls_per_second {reached}");
}

fn reads(calls: u64, size_bytes: u64) -> Result<()> {
    let zeros = File::open("/dev/zero")?;
    let mut buffer = vec![0; size_bytes as usize];
    let mut bytes = 0;
    for _ in 0..calls {
        bytes += sys::read(&zeros, &mut buffer)? as u64;
    }
    println!("reads {calls}\nbytes {bytes}");
    Ok(())
}

fn files(opens: u64) -> Result<()> {
    let paths = [c"/dev/null", c"/dev/zero", c"/dev/full", c"/dev/random"];
    // Touch the strings before the first open, so that they are resident and a probe can read them.
    let bytes = std::hint::black_box(paths).into_iter().flat_map(std::ffi::CStr::to_bytes);
    std::hint::black_box(bytes.map(|byte| u64::from(*byte)).sum::<u64>());
    for path in paths.iter().cycle().take(opens as usize) {
        sys::open_and_close(path)?;
    }
    println!("opens {opens}");
    Ok(())
}

fn sleepers(threads: u64, ms: u64) -> Result<()> {
    std::thread::scope(|scope| {
        for index in 0..threads {
            let sleeper = std::thread::Builder::new().name(format!("sleeper-{index}"));
            sleeper.spawn_scoped(scope, || sys::sleep_ns(ms as i64 * 1_000_000))?;
        }
        Ok::<(), Error>(())
    })?;
    println!("sleepers {threads}\nms {ms}");
    Ok(())
}

fn functions(calls: u64) {
    let sum = (0..calls).fold(0u64, |sum, a| sum.wrapping_add(sys::workload_step(a)));
    println!("calls {calls}\nsum {sum}");
}

fn static_probes(calls: u64) {
    let guarded = pass_static_probes(calls);
    sys::static_forms();
    println!("steps {calls}\nguarded {guarded}");
}

fn pass_static_probes(calls: u64) -> u64 {
    let pass = |a| {
        sys::static_step(a);
        sys::static_guarded(a)
    };
    (0..calls).filter(|a| pass(*a)).count() as u64
}

fn static_probes_on_demand() -> Result<()> {
    println!("ready");
    for line in std::io::stdin().lines() {
        let calls = line?.trim().parse().map_err(|_| Error::other("a line is not a number"))?;
        println!("guarded {}", pass_static_probes(calls));
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// The allocator gets fresh memory from the kernel, which maps each page on the first write.
fn touches(pages: u64) {
    const PAGE_BYTES: usize = 4096;
    let mut memory: Vec<u8> = vec![0; pages as usize * PAGE_BYTES];
    memory.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
    println!("touches {}", std::hint::black_box(&memory).iter().step_by(PAGE_BYTES).filter(|byte| **byte == 1).count());
}

/// The variable that `writes` writes.
static CELL: AtomicU64 = AtomicU64::new(0);

fn writes(times: u64) -> Result<()> {
    println!("address {:#x}", (&raw const CELL).addr());
    std::io::stdin().read_line(&mut String::new())?;
    let write = || (0..times).for_each(|value| CELL.store(value, Ordering::Relaxed));
    write();
    std::thread::scope(|scope| std::thread::Builder::new().spawn_scoped(scope, write).map(drop))?;
    println!("writes {}", times * 2);
    Ok(())
}

/// Reads a number of calls from each input line, makes them, and prints the total since the start,
/// so that a test can inject a fault between two steps with known counts. `become PROGRAM` executes
/// another program.
fn on_demand() -> Result<()> {
    let mut done = 0;
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line?;
        if let Some(program) = line.strip_prefix("become ") {
            return Err(Command::new(program).arg("on-demand").exec());
        }
        let wanted: u64 = line.trim().parse().map_err(|_| Error::other("a line is not a number"))?;
        for call in done..done + wanted {
            sys::getppid();
            sys::libc_getpid();
            sys::workload_step(call);
        }
        done += wanted;
        println!("done {done}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn made(directory: Option<&str>) -> Result<()> {
    let code = sys::made::Made::new()?;
    let _dump = directory.map(|directory| sys::made::Dump::of(&code, directory)).transpose()?;
    println!("{:x}", code.address());
    for line in std::io::stdin().lines() {
        let calls: u64 = line?.trim().parse().map_err(|_| Error::other("a line is not a number"))?;
        (0..calls).for_each(|_| code.call());
        println!("done {calls}");
    }
    Ok(())
}

fn execs(processes: u64, calls: u64, at_once: u64) -> Result<()> {
    let own = std::env::current_exe()?;
    let mut running = std::collections::VecDeque::new();
    for _ in 0..processes {
        if running.len() as u64 >= at_once.max(1) {
            ended_well(running.pop_front())?;
        }
        running.push_back(Command::new(&own).args(["functions", &calls.to_string()]).stdout(Stdio::null()).spawn()?);
    }
    while !running.is_empty() {
        ended_well(running.pop_front())?;
    }
    println!("execs {processes}");
    Ok(())
}

fn ended_well(process: Option<std::process::Child>) -> Result<()> {
    let Some(mut process) = process else { return Ok(()) };
    if process.wait()?.success() { Ok(()) } else { Err(Error::other("a process failed")) }
}

fn pinned(cpu: u64, words: &[String]) -> Result<()> {
    let (program, arguments) = words.split_first().ok_or_else(|| Error::other("no command to pin"))?;
    sys::pin_to_cpu(cpu as usize)?;
    Err(Command::new(program).args(arguments).exec())
}

fn spin(ms: u64) {
    let start = Instant::now();
    while start.elapsed().as_millis() < u128::from(ms) {
        std::hint::spin_loop();
    }
}

/// Read sizes, and how often each is used in a round of `demo`.
const DEMO_READS: [(usize, usize); 4] = [(64, 8), (512, 4), (4096, 2), (65536, 1)];

fn demo(seconds: u64) -> Result<()> {
    let zeros = File::open("/dev/zero")?;
    let mut buffer = vec![0; 65536];
    let start = Instant::now();
    let mut rounds = 0u64;
    while start.elapsed().as_secs() < seconds {
        for (size_bytes, times) in DEMO_READS {
            for _ in 0..times {
                sys::read(&zeros, &mut buffer[..size_bytes])?;
            }
        }
        sys::open_and_close(c"/dev/null")?;
        sys::sleep_ns(1_000_000);
        rounds += 1;
    }
    println!("rounds {rounds}");
    Ok(())
}
