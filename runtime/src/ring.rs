//! Reads the two ring buffers in order.
//!
//! In: a data ring and a control ring, as [`RingMemory`]. Out: each record once, in place, to a
//! visitor.
//! Guarantee: a control record comes after the data records that preceded it when it was made, and
//! before those that its program makes later. Discarded records are skipped; unfinished ones are
//! waited for.

use std::fmt::Debug;

/// Memory of a ring buffer as the kernel lays it out.
pub trait RingMemory: Debug {
    /// Bytes of data; a power of two.
    fn size_bytes(&self) -> u64;
    /// The consumer position.
    fn consumer(&self) -> u64;
    /// The producer position, where the next record will be reserved.
    fn producer(&self) -> u64;
    /// The first word of the record at a position: length, busy bit and discard bit.
    fn header(&self, position: u64) -> u32;
    /// Bytes from a position on, contiguous even across the end of the buffer.
    fn bytes(&self, position: u64, len: u32) -> &[u8];
    /// Sets the consumer position, which frees the space before it.
    fn publish(&mut self, position: u64);
}

/// Set while a record is being written.
pub const BUSY: u32 = 1 << 31;
/// Set on a record that its program discarded.
pub const DISCARD: u32 = 1 << 30;
/// Size of the header before each record.
pub const HEADER_BYTES: u64 = 8;

/// Space is freed in steps of this size: the position has a cache line of its own, but each write
/// takes that line away from the CPUs that produce.
const PUBLISH_BYTES: u64 = 64 << 10;

/// Which ring a record came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The ring with output.
    Data,
    /// The ring with actions.
    Control,
}

/// The result of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Records passed to the visitor.
    pub records: u64,
    /// Bytes of the data ring that were consumed.
    pub data_bytes: u64,
    /// False if an unfinished record blocked others.
    pub complete: bool,
}

/// The reader's side of one ring.
#[derive(Debug)]
struct Consumer<M> {
    memory: M,
    position: u64,
    published: u64,
    publish_bytes: u64,
}

impl<M: RingMemory> Consumer<M> {
    fn new(memory: M) -> Consumer<M> {
        let position = memory.consumer();
        // A small ring must not wait until it is nearly full before space is freed.
        let publish_bytes = PUBLISH_BYTES.min(memory.size_bytes() / 4);
        Consumer { memory, position, published: position, publish_bytes }
    }

    /// Whether there are records between the reader and the producer.
    fn pending(&self) -> bool {
        self.position < self.memory.producer()
    }

    /// The end of the record at the reader's position and its bytes, which are `None` for a
    /// discarded record; `None` if it is unfinished.
    fn head(&self) -> Option<(u64, Option<&[u8]>)> {
        let header = self.memory.header(self.position);
        if header & BUSY != 0 {
            return None;
        }
        let len = header & !(BUSY | DISCARD);
        let next = self.position + (u64::from(len) + HEADER_BYTES).next_multiple_of(8);
        let record = (header & DISCARD == 0).then(|| self.memory.bytes(self.position + HEADER_BYTES, len));
        Some((next, record))
    }

    /// Visits the records before `limit`; false if one is unfinished.
    fn consume_until(&mut self, limit: u64, visit: &mut impl FnMut(&[u8])) -> bool {
        while self.position < limit {
            let Some((next, record)) = self.head() else { return false };
            if let Some(record) = record {
                visit(record);
            }
            self.step(next);
        }
        true
    }

    fn step(&mut self, next: u64) {
        self.position = next;
        if self.position - self.published >= self.publish_bytes {
            self.publish();
        }
    }

    fn publish(&mut self) {
        if self.position != self.published {
            self.memory.publish(self.position);
            self.published = self.position;
        }
    }
}

/// Both rings of an object.
#[derive(Debug)]
pub struct Rings<M> {
    data: Option<Consumer<M>>,
    control: Option<Consumer<M>>,
}

impl<M: RingMemory> Rings<M> {
    /// Starts at the rings' consumer positions.
    pub fn new(data: Option<M>, control: Option<M>) -> Rings<M> {
        Rings { data: data.map(Consumer::new), control: control.map(Consumer::new) }
    }

    /// Whether there is anything to read.
    pub fn pending(&self) -> bool {
        self.data.as_ref().is_some_and(Consumer::pending) || self.control.as_ref().is_some_and(Consumer::pending)
    }

    /// Bytes of the data ring; 0 without one.
    pub fn data_size_bytes(&self) -> u64 {
        self.data.as_ref().map_or(0, |data| data.memory.size_bytes())
    }

    /// Visits the records that the rings hold at the call and no later ones, so a busy producer
    /// cannot keep the reader here.
    ///
    /// The order of the two reads of producer positions matters. A program's control record is
    /// committed before its later data records are reserved. So if the data up to `data_end`
    /// includes a record that follows a control record, that control record is before
    /// `control_end`, which is read later.
    pub fn drain(&mut self, visit: &mut impl FnMut(Origin, &[u8])) -> Drained {
        let data_start = self.data.as_ref().map_or(0, |data| data.position);
        let data_end = self.data.as_ref().map_or(0, |data| data.memory.producer());
        let control_end = self.control.as_ref().map_or(0, |control| control.memory.producer());
        let mut records = 0;
        let mut counted = |origin: Origin, record: &[u8]| {
            records += 1;
            visit(origin, record);
        };
        let complete = self.drain_control(control_end, &mut counted)
            && self.drain_data(data_end, &mut |r| counted(Origin::Data, r));
        for consumer in [&mut self.data, &mut self.control].into_iter().flatten() {
            consumer.publish();
        }
        let data_bytes = self.data.as_ref().map_or(0, |data| data.position) - data_start;
        Drained { records, data_bytes, complete }
    }

    fn drain_data(&mut self, limit: u64, visit: &mut impl FnMut(&[u8])) -> bool {
        self.data.as_mut().is_none_or(|data| data.consume_until(limit, visit))
    }

    /// Visits the control records before `limit`, each after the data that preceded it.
    fn drain_control(&mut self, limit: u64, visit: &mut impl FnMut(Origin, &[u8])) -> bool {
        let Some(control) = self.control.as_mut() else { return true };
        while control.position < limit {
            let Some((next, record)) = control.head() else { return false };
            if let Some(record) = record {
                if let Some(data) = self.data.as_mut() {
                    // A position from a program is never beyond the producer. If it were, the
                    // reader would wait forever.
                    let until = data_position(record).min(data.memory.producer());
                    if !data.consume_until(until, &mut |data| visit(Origin::Data, data)) {
                        return false;
                    }
                }
                visit(Origin::Control, record);
            }
            control.step(next);
        }
        true
    }
}

/// The data ring's position when a control record was made: the `u64` after its 8-byte header.
fn data_position(record: &[u8]) -> u64 {
    record.get(8..16).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
