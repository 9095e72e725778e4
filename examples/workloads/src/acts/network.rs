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

/// A segment without data for the listener's end of a connection. The kernel finds the connection first, and then that the
/// checksum is wrong.
pub fn bad_checksum() -> Result<()> {
    let (listener, port) = listener()?;
    let (_client, _server, client_port) = connected(&listener, port)?;
    let [from, to] = [client_port, port].map(u16::to_be_bytes);
    let loopback = Ipv4Addr::LOCALHOST.octets();
    let mut packet = vec![0; 40];
    // An IP header of 20 bytes, protocol TCP; the kernel adds length and checksum.
    packet[0] = 0x45;
    packet[8] = 64;
    packet[9] = 6;
    packet[12..16].copy_from_slice(&loopback);
    packet[16..20].copy_from_slice(&loopback);
    packet[20..22].copy_from_slice(&from);
    packet[22..24].copy_from_slice(&to);
    // A TCP header of 20 bytes with nothing but ACK, and a checksum that cannot be right together with the one that follows it.
    packet[32] = 0x50;
    packet[33] = 0x10;
    for checksum in [0x1234_u16, 0x4321] {
        packet[36..38].copy_from_slice(&checksum.to_be_bytes());
        sys::send_raw(&packet)?;
    }
    Ok(())
}
