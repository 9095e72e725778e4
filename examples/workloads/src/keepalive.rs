//! A single-threaded server with many open connections, all of which were opened before the first
//! request.
//!
//! In: TCP or UNIX sockets, sizes of the load. Out: the number of requests and reads, and the sums
//! of their times.
//! Guarantee: the server reads one piece of a request in one call, and answers in one call. Like
//! Redis, it reads from all connections before it answers, so that it works on several requests at
//! once. Clients are threads of the same process. However late a thread gets its CPU, the parts of
//! a request are at least `queued_least_ns` and `served_ns`, and both together at most
//! `answered_ns`.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use crate::sys::{monotonic_ns, poll, sleep_ns};

/// The parameters of clients and server.
pub struct Load {
    /// Connections, each with a thread that sends the next request after the answer.
    pub clients: u64,
    /// Requests on each connection.
    pub requests: u64,
    /// Writes in each request.
    pub pieces: u64,
    /// How long the server sleeps for a request, in microseconds.
    pub service_us: u64,
}

/// A piece of a request, or an answer: the time at which it was sent.
type Piece = [u8; 8];

/// How long the server sleeps when there is nothing to read, in nanoseconds.
const IDLE_NS: i64 = 50_000;

#[derive(Default)]
struct Seen {
    requests: u64,
    reads: u64,
    /// Time from sending the first piece to reading it, summed over all requests.
    queued_ns: u64,
    /// The part of that from when the first piece was seen to be there until the server asked for
    /// it.
    queued_least_ns: u64,
    /// Time from sending the first piece to the end of the answer's call, summed over all requests.
    answered_ns: u64,
    /// Time from that read to the answer, summed over all requests.
    served_ns: u64,
    /// The maximum number of requests that were read and not yet answered.
    busy_max: u64,
}

/// Connects all clients, prints `ready`, and serves them after a line of input.
pub fn keepalive(family: &str, load: &Load) -> Result<()> {
    match family {
        "tcp" => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let pair = || {
                let client = TcpStream::connect(listener.local_addr()?)?;
                let (server, _) = listener.accept()?;
                // Otherwise a second piece waits until the first is acknowledged.
                client.set_nodelay(true)?;
                server.set_nonblocking(true)?;
                Ok((client, server))
            };
            run(load, &(0..load.clients).map(|_| pair()).collect::<Result<Vec<_>>>()?)
        }
        "unix" => {
            let path = std::env::temp_dir().join(format!("workload-keepalive-{}", std::process::id()));
            let listener = UnixListener::bind(&path)?;
            let pair = || {
                let client = UnixStream::connect(&path)?;
                let (server, _) = listener.accept()?;
                server.set_nonblocking(true)?;
                Ok((client, server))
            };
            let pairs = (0..load.clients).map(|_| pair()).collect::<Result<Vec<_>>>();
            std::fs::remove_file(&path)?;
            run(load, &pairs?)
        }
        _ => Err(Error::other(format!("`{family}` is neither tcp nor unix"))),
    }
}

fn run<S: Sync>(load: &Load, pairs: &[(S, S)]) -> Result<()>
where
    for<'a> &'a S: Read + Write + AsFd,
{
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let seen = std::thread::scope(|scope| {
        for (client, _) in pairs {
            scope.spawn(move || ask(client, load));
        }
        let servers: Vec<&S> = pairs.iter().map(|(_, server)| server).collect();
        serve(&servers, load)
    })?;
    println!("requests {}\nreads {}\nbusy_max {}", seen.requests, seen.reads, seen.busy_max);
    println!("queued_ns {}\nserved_ns {}", seen.queued_ns, seen.served_ns);
    println!("queued_least_ns {}\nanswered_ns {}", seen.queued_least_ns, seen.answered_ns);
    Ok(())
}

fn ask(mut connection: impl Read + Write, load: &Load) -> Result<()> {
    let mut answer: Piece = [0; 8];
    for _ in 0..load.requests {
        for _ in 0..load.pieces {
            connection.write_all(&monotonic_ns().to_ne_bytes())?;
        }
        connection.read_exact(&mut answer)?;
    }
    Ok(())
}

/// The request that a connection is in.
#[derive(Clone, Default)]
struct Request {
    /// Pieces that were read.
    pieces: u64,
    /// When the first was sent, seen to be there (0: not), and read.
    sent_ns: u64,
    there_ns: u64,
    taken_ns: u64,
}

fn serve<S>(servers: &[S], load: &Load) -> Result<Seen>
where
    S: Copy + Read + Write + AsFd,
{
    let mut seen = Seen::default();
    let mut open = vec![Request::default(); servers.len()];
    while seen.requests < load.clients * load.requests {
        let before = seen.reads;
        for (server, request) in servers.iter().copied().zip(&mut open) {
            let asked_ns = monotonic_ns();
            let Some(sent_ns) = piece(server)? else { continue };
            seen.reads += 1;
            if request.pieces == 0 {
                (request.sent_ns, request.taken_ns) = (sent_ns, monotonic_ns());
                seen.queued_ns += request.taken_ns.saturating_sub(sent_ns);
                let there_ns = std::mem::take(&mut request.there_ns);
                seen.queued_least_ns += if there_ns == 0 { 0 } else { asked_ns.saturating_sub(there_ns) };
            }
            request.pieces += 1;
        }
        seen.busy_max = seen.busy_max.max(open.iter().filter(|request| request.pieces > 0).count() as u64);
        for index in 0..servers.len() {
            let Some((mut server, request)) = servers.get(index).copied().zip(open.get_mut(index)) else { continue };
            if request.pieces < load.pieces {
                continue;
            }
            sleep_ns(load.service_us as i64 * 1000);
            seen.served_ns += monotonic_ns() - request.taken_ns;
            server.write_all(&[0; 8])?;
            seen.answered_ns += monotonic_ns().saturating_sub(request.sent_ns);
            request.pieces = 0;
            seen.requests += 1;
            look(servers, &mut open)?;
        }
        if seen.reads == before {
            sleep_ns(IDLE_NS);
        }
    }
    Ok(seen)
}

/// Looks for first pieces that are there.
fn look<S: AsFd>(servers: &[S], open: &mut [Request]) -> Result<()> {
    for (server, request) in servers.iter().zip(open) {
        if request.pieces == 0 && request.there_ns == 0 && poll(server.as_fd().as_raw_fd(), Duration::ZERO)? {
            request.there_ns = monotonic_ns();
        }
    }
    Ok(())
}

/// The time at which the next piece was sent; `None` if there is no piece to read.
fn piece(mut server: impl Read) -> Result<Option<u64>> {
    let mut piece: Piece = [0; 8];
    match server.read(&mut piece) {
        Ok(8) => Ok(Some(u64::from_ne_bytes(piece))),
        Ok(_) => Err(Error::other("a client went away")),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
