//! Acts that tracers have been seen to count wrongly: interrupted, refused, bound, stacked.
//!
//! In: how often, how long. Out: lines of a name and a number: what a right report contains.
//! Guarantee: a count is exact; traffic is between sockets of this process; mounts are of this
//! process alone, and groups and files are removed.

use std::fs::{self, File};
use std::io::{Error, Read, Result, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{number, sys};

/// The usage text of these acts.
pub const USAGE: &str = "\
workload act alarms N            waits N times for a signal that it handles
workload act fifo PATH           opens a FIFO, and a signal that it handles interrupts that
workload act refused N           calls getppid N times, which seccomp refuses
workload act thread-signals N    a second thread sends itself the ignored signal 23 N times
workload act mptcp plain|mptcp N MS
                                 N clients connect to an MPTCP listener, are accepted after MS milliseconds, and get an answer each
workload act bound N             clients that have a port or a name of their own send N requests each over TCP and UNIX sockets
workload act unread N            closes N connections that it has not read
workload act messages N BYTES    sends and receives N datagrams of BYTES bytes, by one call each
workload act overlay DIRECTORY N reads N pages of a file of DIRECTORY through an overlay with other inode numbers
workload act merges PATH N MS     writes N times to a block device over PATH so that requests merge in its scheduler, and pauses for MS milliseconds
workload act throttled MS        has a child compute for MS milliseconds in a group that may use a tenth of a CPU
workload act replaced N BYTES    allocates N blocks, and continues as `act leaks 6 BYTES`
";

/// Performs an act of this file; `None` if it has no act of this name.
pub fn act(name: &str, rest: &[String]) -> Option<Result<()>> {
    let word = || rest.first().map(String::as_str).ok_or_else(|| Error::other("a word is missing"));
    Some(match name {
        "alarms" => number(rest, 0).and_then(alarms),
        "fifo" => word().and_then(fifo),
        "refused" => number(rest, 0).and_then(refused),
        "thread-signals" => number(rest, 0).and_then(thread_signals),
        "mptcp" => word().and_then(|kind| mptcp(kind == "mptcp", number(rest, 1)?, number(rest, 2)?)),
        "bound" => number(rest, 0).and_then(bound),
        "unread" => number(rest, 0).and_then(unread),
        "messages" => number(rest, 0).and_then(|count| messages(count, number(rest, 1)?)),
        "overlay" => word().and_then(|directory| overlay(directory, number(rest, 1)?)),
        "merges" => word().and_then(|path| merges(path, number(rest, 1)?, number(rest, 2)?)),
        "throttled" => number(rest, 0).and_then(throttled),
        "replaced" => number(rest, 0).and_then(|count| replaced(count, number(rest, 1)?)),
        _ => return None,
    })
}

fn alarms(times: u64) -> Result<()> {
    sys::rare::handle_alarms()?;
    sys::rare::alarm_every(Duration::from_millis(5))?;
    (0..times).for_each(|_| sys::rare::pause());
    sys::rare::alarm_every(Duration::ZERO)?;
    println!("pauses {times}");
    Ok(())
}

fn fifo(path: &str) -> Result<()> {
    sys::rare::make_fifo(path)?;
    sys::rare::handle_alarms()?;
    sys::rare::alarm_every(Duration::from_millis(20))?;
    let opened = sys::rare::open_to_read(path);
    sys::rare::alarm_every(Duration::ZERO)?;
    fs::remove_file(path)?;
    let is_interrupted = opened.is_err_and(|error| error.raw_os_error() == Some(libc::EINTR));
    if is_interrupted { Ok(()) } else { Err(Error::other("the open was not interrupted")) }
}

fn refused(times: u64) -> Result<()> {
    sys::rare::refuse_getppid()?;
    let refused = (0..times).filter(|_| sys::getppid() == -1).count();
    println!("refused {refused}");
    Ok(())
}

fn thread_signals(times: u64) -> Result<()> {
    let send = move || {
        println!("thread {}", sys::thread_id());
        (0..times).try_for_each(|_| sys::rare::signal_thread(23))
    };
    std::thread::spawn(send).join().map_err(|_| Error::other("the thread failed"))?
}

/// The clients connect before the first is accepted, so all others wait after it.
fn mptcp(is_mptcp: bool, clients: u64, ms: u64) -> Result<()> {
    let socket = sys::rare::stream_socket(true)?;
    sys::rare::bind(&socket, 0)?;
    sys::listen(socket.as_raw_fd(), 8)?;
    let listener = TcpListener::from(socket);
    let port = listener.local_addr()?.port();
    let connect = |_| {
        let client = sys::rare::stream_socket(is_mptcp)?;
        sys::rare::connect(&client, port)?;
        Ok(TcpStream::from(client))
    };
    let start = Instant::now();
    let connected = (0..clients.min(8)).map(connect).collect::<Result<Vec<_>>>()?;
    sys::sleep_ns(ms as i64 * 1_000_000);
    let accepted = connected.iter().map(|_| Ok(listener.accept()?.0)).collect::<Result<Vec<_>>>()?;
    let waited = start.elapsed();
    for (mut client, mut server) in connected.into_iter().zip(accepted) {
        client.write_all(b"request")?;
        server.read_exact(&mut [0; 7])?;
        server.write_all(b"answer")?;
        client.read_exact(&mut [0; 6])?;
    }
    println!("port {port}\nclients {clients}\nleast_ns {}\nmost_ns {}", ms * 1_000_000, waited.as_nanos());
    Ok(())
}

/// Sends requests, each of which a thread answers at the other end.
fn converse(mut client: impl Read + Write, mut server: impl Read + Write + Send, times: u64) -> Result<()> {
    std::thread::scope(|scope| {
        let answers = scope.spawn(move || {
            (0..times).try_for_each(|_| {
                server.read_exact(&mut [0; 20])?;
                server.write_all(&[b'r'; 50])
            })
        });
        for _ in 0..times {
            client.write_all(&[b'q'; 20])?;
            client.read_exact(&mut [0; 50])?;
        }
        answers.join().map_err(|_| Error::other("a thread failed"))?
    })
}

/// A client with an address only, one with a port as well, and one with a name.
fn bound(times: u64) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    // A port that was free a moment ago.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    for own in [0, free] {
        let client = sys::rare::stream_socket(false)?;
        sys::rare::bind(&client, own)?;
        sys::rare::connect(&client, port)?;
        converse(TcpStream::from(client), listener.accept()?.0, times)?;
    }
    let [server, own] = ["server", "client"].map(|what| format!("workload-{what}-{}", std::process::id()));
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&server)?)?;
    let client = UnixStream::from(sys::rare::connect_with_name(&own, &server)?);
    converse(client, listener.accept()?.0, times)?;
    println!("port {port}\nrequests {}\nunix_requests {times}", 2 * times);
    Ok(())
}

/// The kernel resets a connection whose data no process reads any more.
fn unread(times: u64) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    for _ in 0..times {
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        let (server, _) = listener.accept()?;
        client.write_all(&[b'x'; 100])?;
        server.peek(&mut [0; 100])?;
        drop(server);
        // The reset is there.
        let _ = client.read(&mut [0; 1]);
    }
    println!("port {port}\nresets {times}");
    Ok(())
}

fn messages(count: u64, bytes: u64) -> Result<()> {
    let inbox = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(inbox.local_addr()?)?;
    let sent = sys::rare::messages(&sender, count as usize, bytes as usize, true)?;
    let received = sys::rare::messages(&inbox, count as usize, bytes as usize, false)?;
    println!("sent {}\nreceived {}", sent as u64 * bytes, received as u64 * bytes);
    Ok(())
}

/// With `xino=on` and two file systems, an inode of the overlay has another number than the file
/// that has the data.
fn overlay(directory: &str, pages: u64) -> Result<()> {
    const PAGE_BYTES: usize = 4096;
    let lower = format!("{directory}/lower");
    let over = format!("{directory}/over");
    fs::create_dir_all(&lower)?;
    fs::create_dir_all(&over)?;
    let mut file = File::create(format!("{lower}/data"))?;
    file.write_all(&vec![b'x'; pages as usize * PAGE_BYTES])?;
    file.sync_all()?;
    sys::advise(&file, true)?;
    sys::rare::own_mounts()?;
    sys::rare::mount("tmpfs", &over, "tmpfs", 0, "")?;
    for part in ["upper", "work", "merged"] {
        fs::create_dir(format!("{over}/{part}"))?;
    }
    let layers = format!("xino=on,lowerdir={lower},upperdir={over}/upper,workdir={over}/work");
    sys::rare::mount("overlay", &format!("{over}/merged"), "overlay", 0, &layers)?;
    let file = File::open(format!("{over}/merged/data"))?;
    sys::advise(&file, false)?;
    let mut page = vec![0; PAGE_BYTES];
    for index in (0..pages).rev().chain(0..pages) {
        file.read_exact_at(&mut page, index * PAGE_BYTES as u64)?;
    }
    println!("pages {}\nonce {pages}", 2 * pages);
    Ok(())
}

/// In each of 60 places three pages are written: the first, the third, and the one in between,
/// which makes one request of three when they wait in the scheduler.
fn merges(path: &str, rounds: u64, pause_ms: u64) -> Result<()> {
    const PAGE_BYTES: i64 = 4096;
    let backing = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    backing.set_len(64 << 20)?;
    let device = sys::rare::LoopDevice::new(&backing)?;
    fs::write(format!("/sys/block/loop{}/queue/scheduler", device.number), "mq-deadline")?;
    let places = (0..60).flat_map(|place| [0, 2, 1].map(|page| (place << 20) + page * PAGE_BYTES));
    let places: Vec<i64> = places.collect();
    for _ in 0..rounds {
        device.write_pages(&places)?;
        sys::sleep_ns(pause_ms as i64 * 1_000_000);
    }
    println!("loop {}\nbytes {}", device.number, rounds * places.len() as u64 * PAGE_BYTES as u64);
    println!("pause_ns {}", pause_ms * 1_000_000);
    Ok(())
}

/// A group of processes that may use 10 ms of 100 ms, of version 1 or 2.
struct Quota {
    group: String,
    is_old: bool,
}

impl Quota {
    fn new() -> Result<Quota> {
        const OLD: &str = "/sys/fs/cgroup/cpu";
        const GROUPS: &str = "/sys/fs/cgroup";
        let is_old = fs::exists(format!("{OLD}/cpu.cfs_quota_us"))? || fs::exists(format!("{OLD}/cpu.shares"))?;
        if !is_old {
            fs::write(format!("{GROUPS}/cgroup.subtree_control"), "+cpu")?;
        }
        let group = format!("{}/workload-throttled-{}", if is_old { OLD } else { GROUPS }, std::process::id());
        fs::create_dir(&group)?;
        let quota = Quota { group, is_old };
        // The period is 100 ms.
        let (file, limit) = if is_old { ("cpu.cfs_quota_us", "10000") } else { ("cpu.max", "10000 100000") };
        fs::write(format!("{}/{file}", quota.group), limit)?;
        Ok(quota)
    }

    /// The kernel's account of the time in which the group was not allowed to run.
    fn throttled_ns(&self) -> Result<u64> {
        let account = fs::read_to_string(format!("{}/cpu.stat", self.group))?;
        let (name, unit_ns) = if self.is_old { ("throttled_time ", 1) } else { ("throttled_usec ", 1000) };
        let number = account.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
        number.map(|number| number * unit_ns).ok_or_else(|| Error::other("the kernel counts no throttled time"))
    }
}

impl Drop for Quota {
    /// The processes in it have ended.
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.group);
    }
}

/// A child computes in the group; it begins when it is in it.
fn throttled(ms: u64) -> Result<()> {
    let quota = Quota::new()?;
    let own = std::env::current_exe()?;
    let mut child = Command::new(own).args(["ready", "spin", &ms.to_string()]).stdin(Stdio::piped()).spawn()?;
    println!("child {}", child.id());
    fs::write(format!("{}/cgroup.procs", quota.group), child.id().to_string())?;
    drop(child.stdin.take());
    child.wait()?;
    println!("throttled_ns {}", quota.throttled_ns()?);
    Ok(())
}

fn replaced(count: u64, bytes: u64) -> Result<()> {
    for _ in 0..count {
        std::mem::forget(super::measured::workload_allocate(bytes as usize));
    }
    let program = std::env::current_exe()?;
    Err(Command::new(program).args(["act", "leaks", "6", &bytes.to_string()]).exec())
}
