//! A server whose queue and pool are known: clients connect, connections wait in a queue, the pool's threads take them up.
//!
//! In: sizes of the pool and of the load, the time that a request takes. Out: how many there were, and the sums of their times.
//! Guarantee: the server's own clock is read next to the system calls that a tracer sees: after `accept4`, before and after
//! `recvfrom`, before `sendto`. Clients are another process; nothing leaves the loopback device.

use std::io::{Error, Read as _, Result, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// What clients and server do.
#[derive(Clone, Copy)]
pub struct Load {
    /// Threads that serve.
    pub threads: u64,
    /// Clients at once; each has one connection after the other.
    pub clients: u64,
    /// Connections of all clients together.
    pub connections: u64,
    /// Requests of a connection.
    pub requests: u64,
    /// How long a thread sleeps for a request, in microseconds.
    pub service_us: u64,
}

/// What the server saw.
#[derive(Default)]
struct Seen {
    requests: u64,
    /// From `accept4` to the first `recvfrom`, over all connections.
    queued: Duration,
    queued_max: Duration,
    /// From the end of `recvfrom` to `sendto`, over all requests.
    served: Duration,
    served_max: Duration,
}

/// Serves until all connections are done, then says what it saw.
pub fn serve(load: Load) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port().to_string();
    let numbers = [load.clients, load.connections, load.requests].map(|number| number.to_string());
    let mut clients = Command::new(std::env::current_exe()?).args(["pool-clients", &port]).args(&numbers).spawn()?;
    let (queue, waiting) = channel();
    let (waiting, seen) = (Mutex::new(waiting), Mutex::new(Seen::default()));
    let start = Instant::now();
    let served = std::thread::scope(|scope| {
        let pool: Vec<_> = (0..load.threads).map(|_| scope.spawn(|| work(&waiting, &seen, load))).collect();
        for _ in 0..load.connections {
            let (connection, _) = listener.accept()?;
            let accepted = (connection, Instant::now());
            queue.send(accepted).map_err(|_| Error::other("the pool is gone"))?;
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
    println!("queued_ns {}\nqueued_max_ns {}", seen.queued.as_nanos(), seen.queued_max.as_nanos());
    println!("served_ns {}\nserved_max_ns {}", seen.served.as_nanos(), seen.served_max.as_nanos());
}

fn work(waiting: &Mutex<Receiver<(TcpStream, Instant)>>, seen: &Mutex<Seen>, load: Load) -> Result<()> {
    let poisoned = || Error::other("a thread failed");
    loop {
        let next = waiting.lock().map_err(|_| poisoned())?.recv();
        let Ok((mut connection, accepted)) = next else {
            return Ok(());
        };
        let queued = accepted.elapsed();
        let mut own = Seen { queued, queued_max: queued, ..Seen::default() };
        for _ in 0..load.requests {
            let served = answer(&mut connection, load.service_us)?;
            own.requests += 1;
            own.served += served;
            own.served_max = own.served_max.max(served);
        }
        let mut seen = seen.lock().map_err(|_| poisoned())?;
        seen.requests += own.requests;
        seen.queued += own.queued;
        seen.queued_max = seen.queued_max.max(own.queued_max);
        seen.served += own.served;
        seen.served_max = seen.served_max.max(own.served_max);
    }
}

/// Reads a byte, takes its time, answers a byte.
fn answer(connection: &mut TcpStream, service_us: u64) -> Result<Duration> {
    let mut request = [0];
    if connection.read(&mut request)? == 0 {
        return Err(Error::other("a client went away"));
    }
    let start = Instant::now();
    crate::sys::sleep_ns(service_us as i64 * 1000);
    let served = start.elapsed();
    connection.write_all(&request)?;
    Ok(served)
}

/// The clients, a thread each.
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
    let mut answer = [0];
    for _ in 0..requests {
        connection.write_all(b"?")?;
        connection.read_exact(&mut answer)?;
    }
    Ok(())
}
