//! Acts of TCP over the loopback device.
//!
//! In: numbers. Out: the ports.
//! Guarantee: only 127.0.0.1 is spoken to, and by this process alone.

use std::io::{Read as _, Result, Write as _};
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

/// A connection, both of its ends, and their ports.
fn connected(listener: &TcpListener, port: u16) -> Result<(TcpStream, TcpStream, u16)> {
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let (server, from) = listener.accept()?;
    println!("client_port {}", from.port());
    Ok((client, server, from.port()))
}

/// One connection that carries so many bytes to the listener.
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

/// One connection fills the listener's queue; the next one's SYN finds no room, and is sent again after a second.
pub fn retransmit() -> Result<()> {
    let (listener, port) = listener()?;
    sys::listen(listener.as_raw_fd(), 0)?;
    let _waiting = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let refused =
        TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Duration::from_millis(1500));
    println!("connected {}", u8::from(refused.is_ok()));
    Ok(())
}

/// A segment that the listener's end of a connection keeps, for a gap is before it, and then one that has the first one's bytes and
/// more: the kernel drops the first one. Both come from a raw socket, with the numbers that the connection is at.
pub fn overlap() -> Result<()> {
    let (listener, port) = listener()?;
    let (client, _server, client_port) = connected(&listener, port)?;
    let (sent, received) = sys::tcp_positions(client.as_raw_fd())?;
    for (gap, size_bytes) in [(100, 10), (90, 30)] {
        sys::send_raw(&segment(client_port, port, sent.wrapping_add(gap), received, size_bytes))?;
    }
    Ok(())
}

/// An IP packet with a TCP segment from and to 127.0.0.1, with ACK.
fn segment(from: u16, to: u16, sequence: u32, acknowledged: u32, size_bytes: u16) -> Vec<u8> {
    let loopback = Ipv4Addr::LOCALHOST.octets();
    let mut tcp = Vec::new();
    tcp.extend(from.to_be_bytes());
    tcp.extend(to.to_be_bytes());
    tcp.extend(sequence.to_be_bytes());
    tcp.extend(acknowledged.to_be_bytes());
    // Five words of header, ACK, a window, the checksum's place, nothing urgent.
    tcp.extend([0x50, 0x10, 0x10, 0, 0, 0, 0, 0]);
    tcp.extend(vec![b'x'; size_bytes.into()]);
    let mut pseudo: Vec<u8> = [loopback, loopback].concat();
    pseudo.extend([0, TCP]);
    pseudo.extend((tcp.len() as u16).to_be_bytes());
    let checksum = checksum(&[pseudo, tcp.clone()].concat());
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    // The kernel adds the length and the checksum of this header.
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, TCP, 0, 0];
    packet.extend([loopback, loopback].concat());
    packet.extend(tcp);
    packet
}

/// The number of TCP among the protocols of IP.
const TCP: u8 = 6;

/// The checksum of the internet: the complement of the sum of all pairs of bytes; carries are added again.
fn checksum(bytes: &[u8]) -> u16 {
    let pair = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
    let sum: u32 = bytes.chunks(2).map(pair).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
