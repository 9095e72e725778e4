//! Single events for tracing tools to report: one open, one connection, one signal.
//!
//! In: the act's name and its arguments. Out: `pid N` and other values that a report of the act
//! contains, one name and value on each line.
//! Guarantee: no traffic leaves the machine: addresses are those of the loopback device; memory and
//! time are bounded.

mod disk;
mod endings;
mod measured;
mod network;
mod rare;
mod stalled;
mod waiting;

use std::ffi::CString;
use std::fs::File;
use std::io::{Error, Read as _, Result, Write as _};
use std::net::ToSocketAddrs as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use crate::{number, spin, sys};

/// The usage text of the acts.
pub const USAGE: &str = "\
workload act open PATH           opens PATH, which may be missing
workload act exec WORD           runs a program with the argument WORD
workload act exit                runs a program that ends at once
workload act bash COMMAND        types COMMAND into an interactive bash
workload act lookup HOST         asks for the addresses of HOST
workload act connect BYTES       sends BYTES bytes to itself over TCP, by loopback
workload act retransmit          connects to a listener whose queue is full, for 1.5 s
workload act overlap             has the kernel drop a TCP segment of a connection with itself
workload act kill                sends itself the signal 23, which is ignored
workload act setuid              sets the user it already is
workload act nap MS              sleeps once
workload act statfs PATH         asks for the file system of PATH
workload act unix WORD           sends WORD through a pair of sockets
workload act sync PATH BYTES     writes BYTES bytes to PATH, then fdatasync and sync
workload act swap DEVICE         makes DEVICE a swap device, and has 32 MiB, twice over, in a group of 16 MiB
workload act oom                 uses up the memory of a group of 16 MiB until the kernel ends it
workload act cached PATH N        writes N pages to PATH, forgets them, and reads each twice, at random places
workload act reclaim PATH MIB    writes MIB to PATH, forgets them, and has a group of 16 MiB read them
workload act ssl                 reads from a TLS connection that has no other side
workload act thread              starts a thread
workload act stalled DIRECTORY PATH …
                                 runs PATH from a file system over DIRECTORY that stops answering when a line comes
workload act spin MS             two threads use up their CPUs
";

/// Performs one act.
pub fn act(words: &[String]) -> Result<()> {
    let rest = words.get(1..).unwrap_or_default();
    println!("pid {}", std::process::id());
    match words.first().map_or("", String::as_str) {
        "open" => {
            open(text(rest)?);
            Ok(())
        }
        "exec" => exec(text(rest)?),
        "exit" => exec("act"),
        "bash" => bash(text(rest)?),
        "lookup" => {
            lookup(text(rest)?);
            Ok(())
        }
        "connect" => network::connect(number(rest, 0)?),
        "retransmit" => network::retransmit(),
        "overlap" => network::overlap(),
        "kill" => sys::signal_itself(23),
        "setuid" => sys::setuid_again(),
        "nap" => {
            sys::sleep_ns(number(rest, 0)? as i64 * 1_000_000);
            Ok(())
        }
        "statfs" => sys::statfs(&path(text(rest)?)?),
        "unix" => unix(text(rest)?),
        "sync" => disk::sync(text(rest)?, number(rest, 1)?),
        "swap" => disk::swap(text(rest)?),
        "oom" => disk::out_of_memory(),
        "cached" => disk::cached(text(rest)?, number(rest, 1)?),
        "reclaim" => disk::reclaim(text(rest)?, number(rest, 1)?),
        "drain" => disk::drain(text(rest)?),
        "fill" => sys::fill(64 << 20),
        "refill" => sys::fill(32 << 20),
        "ssl" => sys::read_tls(),
        "thread" => std::thread::spawn(|| ()).join().map_err(|_| Error::other("the thread failed")),
        "stalled" => stalled::stalled(rest),
        "spin" => {
            let ms = number(rest, 0)?;
            std::thread::scope(|scope| {
                scope.spawn(|| spin(ms));
                spin(ms);
            });
            Ok(())
        }
        other => [measured::act, waiting::act, rare::act, endings::act]
            .iter()
            .find_map(|act| act(other, rest))
            .unwrap_or_else(|| {
                Err(Error::other(format!(
                    "these are known:\n{USAGE}{}{}{}{}",
                    measured::USAGE,
                    waiting::USAGE,
                    rare::USAGE,
                    endings::USAGE
                )))
            }),
    }
}

fn text(words: &[String]) -> Result<&str> {
    words.first().map(String::as_str).ok_or_else(|| Error::other(format!("a word is missing\n{USAGE}")))
}

fn path(text: &str) -> Result<CString> {
    CString::new(text).map_err(Error::other)
}

fn open(path: &str) {
    match File::open(path) {
        Ok(_) => println!("error 0"),
        Err(error) => println!("error {}", error.raw_os_error().unwrap_or_default()),
    }
}

/// Starts a child with the arguments `functions 1 WORD`.
fn exec(word: &str) -> Result<()> {
    let mut child =
        Command::new(std::env::current_exe()?).args(["functions", "1", word]).stdout(Stdio::null()).spawn()?;
    println!("child {}", child.id());
    child.wait()?;
    Ok(())
}

/// Interactive Bash reads lines with its line editor, even from a pipe.
fn bash(typed: &str) -> Result<()> {
    let mut shell = Command::new("/bin/bash")
        .args(["--norc", "--noprofile", "-i"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    println!("child {}", shell.id());
    if let Some(mut keyboard) = shell.stdin.take() {
        writeln!(keyboard, "{typed}")?;
    }
    shell.wait()?;
    Ok(())
}

fn lookup(host: &str) {
    // Without a name service the lookup fails, but the call is what counts.
    match (host, 80).to_socket_addrs() {
        Ok(found) => println!("addresses {}", found.count()),
        Err(_) => println!("addresses 0"),
    }
}

fn unix(word: &str) -> Result<()> {
    let (mut here, mut there) = UnixStream::pair()?;
    here.write_all(word.as_bytes())?;
    let mut received = vec![0; word.len()];
    there.read_exact(&mut received)?;
    println!("bytes {}", received.len());
    Ok(())
}
