//! TCP acts over the loopback device.
//!
//! In: numbers. Out: the ports.
//! Guarantee: all traffic is to 127.0.0.1, between sockets of this process.

use std::io::{Error, Read as _, Result, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use crate::sys;

fn listener() -> Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    println!("port {port}");
    Ok((listener, port))
}

/// Both ends of a connection, and the client's port.
fn connected(listener: &TcpListener, port: u16) -> Result<(TcpStream, TcpStream, u16)> {
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let (server, from) = listener.accept()?;
    println!("client_port {}", from.port());
    Ok((client, server, from.port()))
}

/// One connection that carries `bytes` bytes to the listener.
pub fn connect(bytes: u64) -> Result<()> {
    let (listener, port) = listener()?;
    let (mut client, mut server, _) = connected(&listener, port)?;
    let sent = vec![b'x'; bytes as usize];
    std::thread::scope(|scope| {
        scope.spawn(move || client.write_all(&sent));
        server.read_to_end(&mut Vec::new())
    })?;
    Ok(())
}

/// One connection fills the listener's queue. The next SYN is dropped and retransmitted after a
/// second.
pub fn retransmit() -> Result<()> {
    let (listener, port) = listener()?;
    sys::listen(listener.as_raw_fd(), 0)?;
    let _waiting = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    if !sys::poll(listener.as_raw_fd(), Duration::from_secs(60))? {
        return Err(Error::other("no connection is in the queue"));
    }
    let refused =
        TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Duration::from_millis(1500));
    println!("connected {}", u8::from(refused.is_ok()));
    Ok(())
}

/// Sends a segment that the receiver queues because there is a gap before it, and then a larger one
/// that covers it: the kernel drops the first one. Both come from a raw socket, with the
/// connection's current sequence numbers.
pub fn overlap() -> Result<()> {
    let (listener, port) = listener()?;
    let (client, _server, client_port) = connected(&listener, port)?;
    let (sent, received) = sys::tcp_positions(client.as_raw_fd())?;
    for (gap, size_bytes) in [(100, 10), (90, 30)] {
        sys::send_raw(&segment(client_port, port, sent.wrapping_add(gap), received, size_bytes))?;
    }
    Ok(())
}

/// An IP packet with a TCP ACK segment from and to 127.0.0.1.
fn segment(from: u16, to: u16, sequence: u32, acknowledged: u32, size_bytes: u16) -> Vec<u8> {
    let loopback = Ipv4Addr::LOCALHOST.octets();
    let mut tcp = Vec::new();
    tcp.extend(from.to_be_bytes());
    tcp.extend(to.to_be_bytes());
    tcp.extend(sequence.to_be_bytes());
    tcp.extend(acknowledged.to_be_bytes());
    // Header length of five words, ACK, window, empty checksum, no urgent data.
    tcp.extend([0x50, 0x10, 0x10, 0, 0, 0, 0, 0]);
    tcp.extend(vec![b'x'; size_bytes.into()]);
    let mut pseudo: Vec<u8> = [loopback, loopback].concat();
    pseudo.extend([0, TCP]);
    pseudo.extend((tcp.len() as u16).to_be_bytes());
    let checksum = checksum(&[pseudo, tcp.clone()].concat());
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    // The kernel fills in the length and the checksum of this header.
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, TCP, 0, 0];
    packet.extend([loopback, loopback].concat());
    packet.extend(tcp);
    packet
}

/// The IP protocol number of TCP.
const TCP: u8 = 6;

/// The internet checksum: the complement of the ones' complement sum of all 16-bit words.
fn checksum(bytes: &[u8]) -> u16 {
    let pair = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
    let sum: u32 = bytes.chunks(2).map(pair).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
