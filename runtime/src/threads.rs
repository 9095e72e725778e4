//! Values of threads, read through the kernel's iterator of tasks.
//!
//! In: a [`ThreadMap`] and the loaded object. Out: each live thread's number and value.
//! Guarantee: each thread that has a value for the whole time of reading is there exactly once; each value is from one copy of its bytes.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;

use profiler_compiler::object::ThreadMap;

use crate::load::Loaded;
use crate::sys::link;

/// Behind each value: the thread's number in the low half, 1 in the high one.
const MARK_BYTES: usize = 8;
/// What the order's word says: write out, or remove.
const READ: u64 = 0;
const REMOVE: u64 = 1;

/// The values of all threads that have one, in the order of the threads' numbers.
pub fn values(map: &ThreadMap, loaded: &Loaded) -> io::Result<Vec<(u32, Vec<u8>)>> {
    let bytes = walk(map, loaded, READ)?;
    let size = map.value_size_bytes as usize;
    let mut values: Vec<(u32, Vec<u8>)> = bytes
        .chunks_exact(size + MARK_BYTES)
        .filter_map(|entry| {
            let (value, mark) = entry.split_at(size);
            let mark = u64::from_ne_bytes(mark.try_into().ok()?);
            // Without the mark it is being made at this moment.
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

/// Runs the reader for every task; what it wrote.
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
