//! A file system that stops answering while a program of it runs.
//!
//! In: an empty directory, the path of a program, its arguments; then lines. Out: `process N`, the
//! program from the file system; after a line `stalled`, and `asked` when the first request is left
//! unanswered.
//! Guarantee: the file system is in the mount namespace of this process and ends with it, which
//! ends when its input does, with the program.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, Read as _, Result, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::sys;

/// The only file of the file system.
const NAME: &str = "program";
const ROOT: u64 = 1;
const FILE: u64 = 2;

/// `include/uapi/linux/fuse.h`, of version 7.31: requests.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
/// Bytes of the header of a request.
const HEADER_BYTES: usize = 40;
/// `FOPEN_KEEP_CACHE`.
const KEEP_CACHE: u32 = 1 << 1;
/// How long names and attributes may be cached, in seconds.
const VALID_S: u64 = 1 << 30;
/// Larger than any request.
const REQUEST_BYTES: usize = 1 << 20;

/// Runs a program from a file system, and stops answering when a line comes.
pub fn stalled(words: &[String]) -> Result<()> {
    let [place, program, arguments @ ..] = words else { return Err(Error::other("a directory and a program")) };
    let bytes = fs::read(program)?;
    sys::rare::own_mounts()?;
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
    sys::rare::mount("workload", place, "fuse", 0, &options)?;
    let file = Path::new(place).join(NAME);
    let is_stalled = Arc::new(AtomicBool::new(false));
    let answers = Arc::clone(&is_stalled);
    thread::spawn(move || serve(device, &bytes, &answers));
    // All of it is in memory from here on.
    fs::read(&file)?;
    let mut child = Command::new(&file).args(arguments).stdout(Stdio::null()).spawn()?;
    println!("process {}", child.id());
    let ended = until_stalled(&is_stalled);
    // It is not waited for: it may wait for a page of its file.
    child.kill().and(ended)
}

fn until_stalled(is_stalled: &AtomicBool) -> Result<()> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    is_stalled.store(true, Ordering::SeqCst);
    println!("stalled");
    std::io::stdin().read_to_string(&mut line).map(drop)
}

fn serve(mut device: File, bytes: &[u8], is_stalled: &AtomicBool) -> Result<()> {
    let mut request = vec![0; REQUEST_BYTES];
    let mut was_asked = false;
    loop {
        let length = device.read(&mut request)?;
        let request = request.get(..length).filter(|request| request.len() >= HEADER_BYTES);
        let request = request.ok_or_else(|| Error::other("a request that is too short"))?;
        let (operation, unique, node) = (word(request, 4), long(request, 8), long(request, 16));
        if is_stalled.load(Ordering::SeqCst) {
            if !was_asked && ![FORGET, BATCH_FORGET, RELEASE, INTERRUPT].contains(&operation) {
                was_asked = true;
                println!("asked");
            }
            continue;
        }
        let body = &request[HEADER_BYTES..];
        let answer = match operation {
            INIT => Ok(initial(body)),
            LOOKUP if node == ROOT && body.strip_suffix(b"\0") == Some(NAME.as_bytes()) => Ok(entry(bytes.len())),
            GETATTR => {
                let head = [VALID_S.to_ne_bytes(), [0; 8]].concat();
                Ok([head, attributes(node, bytes.len())].concat())
            }
            OPEN => Ok([0_u64.to_ne_bytes(), (u64::from(KEEP_CACHE)).to_ne_bytes()].concat()),
            READ => {
                let (offset, size) = (long(body, 8) as usize, word(body, 16) as usize);
                let rest = bytes.get(offset..).unwrap_or_default();
                Ok(rest[..size.min(rest.len())].to_vec())
            }
            FLUSH | RELEASE => Ok(Vec::new()),
            FORGET | BATCH_FORGET | INTERRUPT => continue,
            LOOKUP => Err(libc::ENOENT),
            _ => Err(libc::ENOSYS),
        };
        let (error, body) = answer.map_or_else(|error| (-error, Vec::new()), |body| (0, body));
        let mut reply = Vec::new();
        reply.extend((16 + body.len() as u32).to_ne_bytes());
        reply.extend(error.to_ne_bytes());
        reply.extend(unique.to_ne_bytes());
        reply.extend(body);
        device.write_all(&reply)?;
    }
}

/// `struct fuse_init_out`, as long as version 7.23 made it.
fn initial(body: &[u8]) -> Vec<u8> {
    let mut answer: Vec<u8> = [7, 31].into_iter().flat_map(u32::to_ne_bytes).collect();
    // max_readahead; no flags; the defaults for requests in the background.
    answer.extend(word(body, 8).to_ne_bytes());
    answer.extend([0; 8]);
    // max_write, and the granularity of times.
    answer.extend([4096_u32, 1].into_iter().flat_map(u32::to_ne_bytes));
    answer.resize(64, 0);
    answer
}

/// `struct fuse_entry_out` of the file.
fn entry(size_bytes: usize) -> Vec<u8> {
    let mut answer: Vec<u8> = [FILE, 0, VALID_S, VALID_S, 0].into_iter().flat_map(u64::to_ne_bytes).collect();
    answer.extend(attributes(FILE, size_bytes));
    answer
}

/// `struct fuse_attr`: inode, size, blocks, three times, their nanoseconds, mode, links, owner,
/// group, device, block size, flags.
fn attributes(node: u64, size_bytes: usize) -> Vec<u8> {
    let is_root = node == ROOT;
    let size_bytes = if is_root { 0 } else { size_bytes as u64 };
    let longs = [node, size_bytes, size_bytes.div_ceil(512), 0, 0, 0];
    let mode = if is_root { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o755 };
    let words = [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0];
    longs.into_iter().flat_map(u64::to_ne_bytes).chain(words.into_iter().flat_map(u32::to_ne_bytes)).collect()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u32::from_ne_bytes(*word))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |long| u64::from_ne_bytes(*long))
}
