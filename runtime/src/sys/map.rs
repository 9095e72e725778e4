//! Access to the entries of BPF maps.
//!
//! In: a map of an object, keys and values as bytes. Out: bytes.
//! Guarantee: a buffer of the wrong size is rejected (`EINVAL`); the kernel never writes past a
//! buffer.
//!
//! The calls are libbpf's own. libbpf-rs hides the error number, puts the values of a per-CPU map
//! into one vector for each CPU, starts `keys` from the first key only, and takes a short batch for
//! the last one, which it need not be in a hash map.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_sys as sys;

use super::check;

/// A map of a loaded object.
#[derive(Debug, Clone, Copy)]
pub struct Map<'a> {
    fd: BorrowedFd<'a>,
    kind: u32,
    key_size_bytes: usize,
    value_size_bytes: usize,
    max_entries: u32,
}

/// A map with its own descriptor.
#[derive(Debug)]
pub struct OwnedMap {
    fd: OwnedFd,
    kind: u32,
    key_size_bytes: usize,
    value_size_bytes: usize,
    max_entries: u32,
}

impl OwnedMap {
    /// Borrows the map.
    pub fn borrow(&self) -> Map<'_> {
        Map {
            fd: self.fd.as_fd(),
            kind: self.kind,
            key_size_bytes: self.key_size_bytes,
            value_size_bytes: self.value_size_bytes,
            max_entries: self.max_entries,
        }
    }
}

/// Result of reading a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Number of entries in the buffers.
    pub entries: usize,
    /// Whether these were the last entries.
    pub last: bool,
}

/// What a batch read does with the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// Keeps them in the map.
    Copy,
    /// Removes them atomically.
    Remove,
}

impl<'a> Map<'a> {
    /// A map, from its descriptor and definition.
    pub(super) fn new(fd: BorrowedFd<'a>, kind: u32, key: u32, value: u32, max_entries: u32) -> io::Result<Map<'a>> {
        let per_cpu = [
            sys::BPF_MAP_TYPE_PERCPU_HASH,
            sys::BPF_MAP_TYPE_PERCPU_ARRAY,
            sys::BPF_MAP_TYPE_LRU_PERCPU_HASH,
            sys::BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE,
        ];
        // The kernel reads and writes per-CPU values as one array, each element rounded up to 8
        // bytes.
        let value_size_bytes = if per_cpu.contains(&kind) {
            (value as usize).next_multiple_of(8) * possible_cpus()?
        } else {
            value as usize
        };
        Ok(Map { fd, kind, key_size_bytes: key as usize, value_size_bytes, max_entries })
    }

    /// Duplicates the descriptor, so that the map outlives the object.
    pub fn to_owned(&self) -> io::Result<OwnedMap> {
        Ok(OwnedMap {
            fd: self.fd.try_clone_to_owned()?,
            kind: self.kind,
            key_size_bytes: self.key_size_bytes,
            value_size_bytes: self.value_size_bytes,
            max_entries: self.max_entries,
        })
    }

    /// Its descriptor.
    pub fn fd(&self) -> BorrowedFd<'a> {
        self.fd
    }

    /// Whether it is a ring buffer.
    pub fn is_ring(&self) -> bool {
        self.kind == sys::BPF_MAP_TYPE_RINGBUF
    }

    /// Size of a key in bytes.
    pub fn key_size_bytes(&self) -> usize {
        self.key_size_bytes
    }

    /// Size of a value in bytes as read and written: for per-CPU maps, the values of all CPUs.
    pub fn value_size_bytes(&self) -> usize {
        self.value_size_bytes
    }

    /// Capacity in entries; for a ring buffer, in bytes.
    pub fn max_entries(&self) -> u32 {
        self.max_entries
    }

    /// Reads the value of a key; `None` if the key does not exist.
    pub fn lookup(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.expect_key(key)?;
        let mut value = vec![0u8; self.value_size_bytes];
        // SAFETY: key and value have the sizes that the kernel copies for this map.
        let ret =
            unsafe { sys::bpf_map_lookup_elem(self.fd.as_raw_fd(), key.as_ptr().cast(), value.as_mut_ptr().cast()) };
        Ok(found(ret)?.then_some(value))
    }

    /// Sets the value of an existing key; returns false if the key does not exist.
    pub fn replace(&self, key: &[u8], value: &[u8]) -> io::Result<bool> {
        found(self.update(key, value, sys::BPF_EXIST)?)
    }

    /// Adds a key; returns false if the key exists or the map is full.
    pub fn insert_new(&self, key: &[u8], value: &[u8]) -> io::Result<bool> {
        match check(self.update(key, value, sys::BPF_NOEXIST)?) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EEXIST | libc::E2BIG)) => Ok(false),
            result => result.map(|_| true),
        }
    }

    /// Sets the value of a key, whether or not it exists.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        check(self.update(key, value, sys::BPF_ANY)?).map(|_| ())
    }

    /// Writes a value and returns the kernel's result.
    fn update(&self, key: &[u8], value: &[u8], flags: u32) -> io::Result<i32> {
        self.expect_key(key)?;
        if value.len() != self.value_size_bytes {
            return Err(wrong_size());
        }
        // SAFETY: key and value have the sizes that the kernel copies for this map.
        Ok(unsafe {
            sys::bpf_map_update_elem(self.fd.as_raw_fd(), key.as_ptr().cast(), value.as_ptr().cast(), u64::from(flags))
        })
    }

    /// Sets the value of a key to what a descriptor refers to.
    pub fn insert_fd(&self, key: &[u8], fd: BorrowedFd<'_>) -> io::Result<()> {
        self.insert(key, &fd.as_raw_fd().to_ne_bytes())
    }

    /// Removes a key; returns false if it did not exist.
    pub fn remove(&self, key: &[u8]) -> io::Result<bool> {
        self.expect_key(key)?;
        // SAFETY: the key has the size that the kernel copies for this map.
        found(unsafe { sys::bpf_map_delete_elem(self.fd.as_raw_fd(), key.as_ptr().cast()) })
    }

    /// The key after `key`, or the first; `None` at the end.
    pub fn next_key(&self, key: Option<&[u8]>) -> io::Result<Option<Vec<u8>>> {
        if let Some(key) = key {
            self.expect_key(key)?;
        }
        let mut next = vec![0u8; self.key_size_bytes];
        let key = key.map_or(std::ptr::null(), <[u8]>::as_ptr);
        // SAFETY: both keys have the size that the kernel copies for this map; a null key requests
        // the first.
        let ret = unsafe { sys::bpf_map_get_next_key(self.fd.as_raw_fd(), key.cast(), next.as_mut_ptr().cast()) };
        Ok(found(ret)?.then_some(next))
    }

    /// Reads as many entries as fit into `keys` and `values`, starting at `cursor` (initially
    /// empty, kept between calls). `ENOSPC` means that the next entries need larger buffers.
    pub fn batch(&self, cursor: &mut Vec<u8>, keys: &mut [u8], values: &mut [u8], take: Take) -> io::Result<Batch> {
        let room = keys.len() / self.key_size_bytes.max(1);
        if self.key_size_bytes == 0 || values.len() < room.saturating_mul(self.value_size_bytes) {
            return Err(wrong_size());
        }
        // Hash maps store a `u32` in the cursor, other map types a key.
        let mut next = vec![0u8; self.key_size_bytes.max(8)];
        let from = if cursor.len() == next.len() { cursor.as_mut_ptr() } else { std::ptr::null_mut() };
        let mut count = room as u32;
        let options = sys::bpf_map_batch_opts { sz: size_of::<sys::bpf_map_batch_opts>() as u64, ..Default::default() };
        let call = match take {
            Take::Copy => sys::bpf_map_lookup_batch,
            Take::Remove => sys::bpf_map_lookup_and_delete_batch,
        };
        // SAFETY: keys and values have space for `count` entries, the cursors for a key; null
        // starts at the beginning.
        let ret = unsafe {
            call(
                self.fd.as_raw_fd(),
                from.cast(),
                next.as_mut_ptr().cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &raw mut count,
                &raw const options,
            )
        };
        let more = found(ret)?;
        *cursor = next;
        Ok(Batch { entries: (count as usize).min(room), last: !more })
    }

    fn expect_key(&self, key: &[u8]) -> io::Result<()> {
        if key.len() == self.key_size_bytes { Ok(()) } else { Err(wrong_size()) }
    }
}

fn wrong_size() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

/// Whether a call found its key: `ENOENT` means no and is not an error.
fn found(ret: i32) -> io::Result<bool> {
    match check(ret) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Number of possible CPUs: the number of values in a per-CPU entry.
pub fn possible_cpus() -> io::Result<usize> {
    libbpf_rs::num_possible_cpus().map_err(|_| io::Error::last_os_error())
}
