//! Per-thread values, read through the kernel's task iterator.
//!
//! In: a [`ThreadMap`] and the loaded object. Out: the id and value of each live thread.
//! Guarantee: each thread that has a value during the whole read is returned exactly once; each
//! value is from one copy of its bytes.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;

use profiler_model::object::ThreadMap;

use crate::load::Loaded;
use crate::sys::link;

/// Size of the mark after each value: the thread's id in the low half, 1 in the high half.
const MARK_BYTES: usize = 8;
/// The command word of the reader program: write the values out, or remove them.
const READ: u64 = 0;
const REMOVE: u64 = 1;

/// The values of all threads that have one, sorted by thread id.
pub fn values(map: &ThreadMap, loaded: &Loaded) -> io::Result<Vec<(u32, Vec<u8>)>> {
    let bytes = walk(map, loaded, READ)?;
    let size = map.value_size_bytes as usize;
    let mut values: Vec<(u32, Vec<u8>)> = bytes
        .chunks_exact(size + MARK_BYTES)
        .filter_map(|entry| {
            let (value, mark) = entry.split_at(size);
            let mark = u64::from_ne_bytes(mark.try_into().ok()?);
            // An entry without the mark is just being created.
            (mark >> 32 != 0).then(|| (mark as u32, value.to_vec()))
        })
        .collect();
    values.sort_by_key(|(thread, _)| *thread);
    Ok(values)
}

/// Removes the values of all threads.
pub fn clear(map: &ThreadMap, loaded: &Loaded) -> io::Result<()> {
    walk(map, loaded, REMOVE).map(drop)
}

/// Runs the reader program for every task and returns what it wrote.
fn walk(map: &ThreadMap, loaded: &Loaded, order: u64) -> io::Result<Vec<u8>> {
    let program = loaded.program(&map.reader).ok_or(io::ErrorKind::NotFound)?;
    if !loaded.globals().set_bss_u64(map.order_offset, order) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let link = link::iterator(program, None)?;
    let mut bytes = Vec::new();
    File::from(link::read_iterator(link.as_fd())?).read_to_end(&mut bytes)?;
    Ok(bytes)
}
