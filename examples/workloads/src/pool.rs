//! A server with a known queue and thread pool: clients connect, connections wait in a queue, and
//! the pool's threads take them.
//!
//! In: sizes of the pool and of the load, the service time of a request. Out: the number of
//! requests, and the sums of their times.
//! Guarantee: the clock is read next to the system calls that a tracer sees: before the client's
//! `sendto`, after the server's `recvfrom`, before its `sendto`. A request contains the time at
//! which it was sent. Clients are another process; all traffic stays on the loopback device.
//! However late a thread gets its CPU, the parts of a request are at least `queued_least_ns` and
//! `served_ns`, and both together at most `answered_ns`.

use std::io::{Error, Read as _, Result, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::sys::{FutexLock, monotonic_ns, poll, sleep_ns};

/// The parameters of clients and server.
#[derive(Clone, Copy)]
pub struct Load {
    /// Threads that serve.
    pub threads: u64,
    /// Concurrent clients; each opens one connection after another.
    pub clients: u64,
    /// Connections of all clients together.
    pub connections: u64,
    /// Requests on each connection.
    pub requests: u64,
    /// How long a thread sleeps for a request, in microseconds.
    pub service_us: u64,
    pub way: Way,
}

/// How a thread serves a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By itself.
    Alone,
    /// While it holds a lock that is not libc's, for which the others wait.
    Locked,
    /// By another thread, which also answers.
    Handed,
}

impl Way {
    /// `locked`, `handed`, or nothing.
    pub fn parse(word: Option<&str>) -> Result<Way> {
        match word {
            None => Ok(Way::Alone),
            Some("locked") => Ok(Way::Locked),
            Some("handed") => Ok(Way::Handed),
            Some(_) => Err(Error::other("the ways to serve are locked and handed")),
        }
    }
}

/// Measurements of the server.
#[derive(Default)]
struct Seen {
    requests: u64,
    /// Time from the client's `sendto` to the end of `recvfrom`, summed over all requests.
    queued_ns: u64,
    queued_max_ns: u64,
    /// The part of that from when the first request of a connection was seen to be there until a
    /// thread asked for it.
    queued_least_ns: u64,
    /// Time from the client's `sendto` to the end of the server's, summed over all requests.
    answered_ns: u64,
    /// Threads that served a request.
    servers: u64,
    /// Time from the end of `recvfrom` to `sendto`, summed over all requests.
    served: Duration,
    served_max: Duration,
    /// The part of it in which the thread waited for the lock.
    locked_out: Duration,
}

/// Serves until all connections are done, then prints its measurements.
pub fn serve(load: Load) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port().to_string();
    let numbers = [load.clients, load.connections, load.requests].map(|number| number.to_string());
    let mut clients = Command::new(std::env::current_exe()?).args(["pool-clients", &port]).args(&numbers).spawn()?;
    let (queue, waiting) = channel();
    let (waiting, seen) = (Mutex::new(waiting), Mutex::new(Seen::default()));
    let lock = FutexLock::new();
    let start = Instant::now();
    let served = std::thread::scope(|scope| {
        let pool: Vec<_> = (0..load.threads).map(|_| scope.spawn(|| work(&waiting, &seen, &lock, load))).collect();
        for _ in 0..load.connections {
            let (connection, _) = listener.accept()?;
            // Until its first request is there.
            poll(connection.as_raw_fd(), Duration::from_secs(60))?;
            queue.send((connection, monotonic_ns())).map_err(|_| Error::other("the pool is gone"))?;
        }
        drop(queue);
        pool.into_iter().try_for_each(|thread| thread.join().map_err(|_| Error::other("a thread failed"))?)
    });
    let wall = start.elapsed();
    clients.wait()?;
    served?;
    report(load, &seen.into_inner().map_err(|_| Error::other("a thread failed"))?, wall);
    Ok(())
}

fn report(load: Load, seen: &Seen, wall: Duration) {
    println!("connections {}\nrequests {}\nwall_ns {}", load.connections, seen.requests, wall.as_nanos());
    println!("queued_ns {}\nqueued_max_ns {}", seen.queued_ns, seen.queued_max_ns);
    println!("served_ns {}\nserved_max_ns {}", seen.served.as_nanos(), seen.served_max.as_nanos());
    println!("queued_least_ns {}\nanswered_ns {}", seen.queued_least_ns, seen.answered_ns);
    println!("servers {}\nlocked_out_ns {}", seen.servers, seen.locked_out.as_nanos());
}

/// A connection, and when its first request was seen to be there.
type Waiting = (TcpStream, u64);

fn work(waiting: &Mutex<Receiver<Waiting>>, seen: &Mutex<Seen>, lock: &FutexLock, load: Load) -> Result<()> {
    let poisoned = || Error::other("a thread failed");
    let mut is_server = false;
    loop {
        let next = waiting.lock().map_err(|_| poisoned())?.recv();
        let Ok((mut connection, there_ns)) = next else {
            return Ok(());
        };
        let mut own = Seen { queued_least_ns: monotonic_ns().saturating_sub(there_ns), ..Seen::default() };
        for _ in 0..load.requests {
            answer(&mut connection, lock, load, &mut own)?;
        }
        let mut seen = seen.lock().map_err(|_| poisoned())?;
        seen.servers += u64::from(!is_server && own.requests > 0);
        is_server = is_server || own.requests > 0;
        seen.add(&own);
    }
}

impl Seen {
    fn add(&mut self, other: &Seen) {
        self.requests += other.requests;
        self.queued_ns += other.queued_ns;
        self.queued_max_ns = self.queued_max_ns.max(other.queued_max_ns);
        self.queued_least_ns += other.queued_least_ns;
        self.answered_ns += other.answered_ns;
        self.served += other.served;
        self.served_max = self.served_max.max(other.served_max);
        self.locked_out += other.locked_out;
    }
}

/// Reads a request, has it served, and answers.
fn answer(connection: &mut TcpStream, lock: &FutexLock, load: Load, seen: &mut Seen) -> Result<()> {
    let mut request = [0; 8];
    if connection.read(&mut request)? < request.len() {
        return Err(Error::other("a client went away"));
    }
    let (start, now_ns, sent_ns) = (Instant::now(), monotonic_ns(), u64::from_ne_bytes(request));
    let service_ns = load.service_us as i64 * 1000;
    let served = match load.way {
        Way::Alone => {
            sleep_ns(service_ns);
            let served = start.elapsed();
            connection.write_all(&request)?;
            served
        }
        Way::Locked => {
            lock.lock();
            seen.locked_out += start.elapsed();
            sleep_ns(service_ns);
            lock.unlock();
            let served = start.elapsed();
            connection.write_all(&request)?;
            served
        }
        Way::Handed => std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                sleep_ns(service_ns);
                let served = start.elapsed();
                connection.write_all(&request).map(|()| served)
            });
            other.join().map_err(|_| Error::other("a thread failed"))?
        })?,
    };
    let queued_ns = now_ns.saturating_sub(sent_ns);
    seen.requests += 1;
    seen.queued_ns += queued_ns;
    seen.queued_max_ns = seen.queued_max_ns.max(queued_ns);
    seen.answered_ns += monotonic_ns().saturating_sub(sent_ns);
    seen.served += served;
    seen.served_max = seen.served_max.max(served);
    Ok(())
}

/// Runs the clients, one thread each.
pub fn clients(port: u16, clients: u64, connections: u64, requests: u64) -> Result<()> {
    let left = std::sync::atomic::AtomicU64::new(connections);
    let take = || {
        left.fetch_update(std::sync::atomic::Ordering::Relaxed, std::sync::atomic::Ordering::Relaxed, |left| {
            left.checked_sub(1)
        })
        .is_ok()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| {
                    while take() {
                        ask(port, requests)?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| Error::other("a client failed"))?)
    })
}

fn ask(port: u16, requests: u64) -> Result<()> {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let mut answer = [0; 8];
    for _ in 0..requests {
        connection.write_all(&monotonic_ns().to_ne_bytes())?;
        connection.read_exact(&mut answer)?;
    }
    Ok(())
}
