//! Tests of [`super`] over rings in memory; the test acts as the producer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::*;

/// A ring in memory; the test acts as the producer. The second half mirrors the first, as the
/// kernel maps it.
#[derive(Debug, Clone)]
struct Fake(Rc<FakeRing>);

#[derive(Debug)]
struct FakeRing {
    data: Vec<Cell<u8>>,
    consumer: Cell<u64>,
    producer: Cell<u64>,
    published: RefCell<Vec<u64>>,
}

impl Fake {
    fn new(size: usize, start: u64) -> Fake {
        Fake(Rc::new(FakeRing {
            data: vec![Cell::new(0); size],
            consumer: Cell::new(start),
            producer: Cell::new(start),
            published: RefCell::new(Vec::new()),
        }))
    }

    fn put(&self, position: u64, bytes: &[u8]) {
        for (index, byte) in bytes.iter().enumerate() {
            self.0.data[(position as usize + index) % self.0.data.len()].set(*byte);
        }
    }

    /// Reserves a record as the kernel does, busy until committed. Returns its position.
    fn reserve(&self, bytes: &[u8]) -> u64 {
        let at = self.0.producer.get();
        let next = at + (bytes.len() as u64 + HEADER_BYTES).next_multiple_of(8);
        assert!(next - self.0.consumer.get() <= self.size_bytes(), "the test overfills its ring");
        self.put(at, &(bytes.len() as u32 | BUSY).to_ne_bytes());
        self.put(at + HEADER_BYTES, bytes);
        self.0.producer.set(next);
        at
    }

    fn commit(&self, at: u64, flags: u32) {
        let header = self.header(at);
        self.put(at, &((header & !BUSY) | flags).to_ne_bytes());
    }

    fn send(&self, bytes: &[u8]) {
        let at = self.reserve(bytes);
        self.commit(at, 0);
    }
}

impl RingMemory for Fake {
    fn size_bytes(&self) -> u64 {
        self.0.data.len() as u64
    }
    fn consumer(&self) -> u64 {
        self.0.consumer.get()
    }
    fn producer(&self) -> u64 {
        self.0.producer.get()
    }
    fn header(&self, position: u64) -> u32 {
        let byte = |index: u64| self.0.data[((position + index) % self.size_bytes()) as usize].get();
        u32::from_ne_bytes([byte(0), byte(1), byte(2), byte(3)])
    }
    fn bytes(&self, position: u64, len: u32) -> &[u8] {
        let size = self.size_bytes();
        let copy: Vec<u8> =
            (0..u64::from(len)).map(|index| self.0.data[((position + index) % size) as usize].get()).collect();
        // The consumer may use a record only until it publishes; a leaked copy is the simplest
        // stable slice.
        copy.leak()
    }
    fn publish(&mut self, position: u64) {
        self.0.consumer.set(position);
        self.0.published.borrow_mut().push(position);
    }
}

fn control(text: &str, data_position: u64) -> Vec<u8> {
    let mut record = vec![0u8; 8];
    record.extend(data_position.to_ne_bytes());
    record.extend(text.as_bytes());
    record
}

/// Drains and returns the records in order: data as it is, control with a leading `!`.
fn drain(rings: &mut Rings<Fake>) -> (Vec<String>, Drained) {
    let mut seen = Vec::new();
    let drained = rings.drain(&mut |origin, record| {
        seen.push(match origin {
            Origin::Data => String::from_utf8_lossy(record).into_owned(),
            Origin::Control => format!("!{}", String::from_utf8_lossy(&record[16..])),
        });
    });
    (seen, drained)
}

fn pair(size: usize, start: u64) -> (Fake, Fake, Rings<Fake>) {
    let (data, control) = (Fake::new(size, start), Fake::new(size, start));
    let rings = Rings::new(Some(data.clone()), Some(control.clone()));
    (data, control, rings)
}

#[test]
fn control_comes_between_the_data_before_and_after_it() {
    let (data, ctl, mut rings) = pair(1024, 0);
    data.send(b"a");
    data.send(b"b");
    ctl.send(&control("print", data.producer()));
    ctl.send(&control("clear", data.producer()));
    data.send(b"c");
    ctl.send(&control("exit", data.producer()));
    data.send(b"d");
    let (seen, drained) = drain(&mut rings);
    assert_eq!(seen, ["a", "b", "!print", "!clear", "c", "!exit", "d"]);
    assert_eq!(drained, Drained { records: 7, data_bytes: 64, complete: true });
    assert_eq!(drain(&mut rings).0, [""; 0]);
}

#[test]
fn records_wrap_around_the_end() {
    let (data, ctl, mut rings) = pair(64, 40);
    for round in 0..200 {
        let text = format!("record-{round:03}-{}", "x".repeat(round % 20));
        data.send(text.as_bytes());
        ctl.send(&control("c", data.producer()));
        assert_eq!(drain(&mut rings).0, [text, "!c".into()]);
    }
    assert_eq!(data.consumer(), data.producer());
    assert!(!rings.pending());
}

#[test]
fn an_unfinished_record_holds_back_what_follows_it() {
    let (data, ctl, mut rings) = pair(1024, 0);
    data.send(b"a");
    let slow = data.reserve(b"slow");
    data.send(b"b");
    ctl.send(&control("exit", data.producer()));
    let (seen, drained) = drain(&mut rings);
    assert_eq!(seen, ["a"]);
    assert!(!drained.complete);
    assert!(rings.pending());
    data.commit(slow, 0);
    let (seen, drained) = drain(&mut rings);
    assert_eq!(seen, ["slow", "b", "!exit"]);
    assert!(drained.complete);
}

#[test]
fn an_unfinished_control_record_holds_back_all_data() {
    let (data, ctl, mut rings) = pair(1024, 0);
    data.send(b"a");
    let slow = ctl.reserve(&control("clear", data.producer()));
    data.send(b"b");
    assert_eq!(drain(&mut rings).0, [""; 0]);
    ctl.commit(slow, 0);
    assert_eq!(drain(&mut rings).0, ["a", "!clear", "b"]);
}

#[test]
fn discarded_records_are_skipped() {
    let (data, ctl, mut rings) = pair(1024, 0);
    let gone = data.reserve(b"gone");
    data.send(b"a");
    let no = ctl.reserve(&control("no", data.producer()));
    ctl.send(&control("yes", data.producer()));
    data.commit(gone, DISCARD);
    ctl.commit(no, DISCARD);
    let (seen, drained) = drain(&mut rings);
    assert_eq!(seen, ["a", "!yes"]);
    assert_eq!((drained.records, drained.complete), (2, true));
}

#[test]
fn a_drain_ends_at_what_was_there_when_it_began() {
    let (data, ctl, mut rings) = pair(1024, 0);
    data.send(b"a");
    ctl.send(&control("x", data.producer()));
    let mut seen = 0;
    rings.drain(&mut |_, _| {
        seen += 1;
        data.send(b"more");
        ctl.send(&control("more", data.producer()));
    });
    assert_eq!(seen, 2, "records sent by the visitor belong to the next drain");
    assert_eq!(drain(&mut rings).0, ["more", "!more", "more", "!more"]);
}

#[test]
fn room_is_given_back_in_batches_and_at_the_end() {
    let data = Fake::new(1 << 20, 0);
    let mut rings = Rings::new(Some(data.clone()), None);
    let record = [7u8; 1016];
    for _ in 0..200 {
        data.send(&record);
    }
    rings.drain(&mut |_, _| {});
    assert_eq!(*data.0.published.borrow(), [65536, 131_072, 196_608, 204_800]);
}

#[test]
fn a_ring_of_one_page_gives_room_back_by_quarters() {
    let data = Fake::new(4096, 0);
    let mut rings = Rings::new(Some(data.clone()), None);
    for _ in 0..32 {
        data.send(&[7u8; 120]);
    }
    rings.drain(&mut |_, _| {});
    assert_eq!(*data.0.published.borrow(), [1024, 2048, 3072, 4096]);
}

#[test]
fn a_position_ahead_of_the_producer_does_not_hang() {
    let (data, ctl, mut rings) = pair(1024, 0);
    data.send(b"a");
    ctl.send(&control("x", u64::MAX));
    ctl.send(b"short");
    let mut seen = Vec::new();
    rings.drain(&mut |origin, record| seen.push((origin, record.len())));
    assert_eq!(seen, [(Origin::Data, 1), (Origin::Control, 17), (Origin::Control, 5)]);
}

#[test]
fn two_producers_keep_their_own_order() {
    let (data, ctl, mut rings) = pair(4096, 8);
    let mut seen = Vec::new();
    // Two CPUs: each sends data, then a control record; their reservations interleave and commit
    // out of order.
    for round in 0..50 {
        let first = data.reserve(format!("A{round}").as_bytes());
        let second = data.reserve(format!("B{round}").as_bytes());
        data.commit(second, 0);
        let of_b = ctl.reserve(&control(&format!("B{round}"), data.producer()));
        seen.extend(drain(&mut rings).0);
        data.commit(first, 0);
        ctl.send(&control(&format!("A{round}"), data.producer()));
        ctl.commit(of_b, 0);
        seen.extend(drain(&mut rings).0);
    }
    for cpu in ["A", "B"] {
        let own: Vec<&String> = seen.iter().filter(|text| text.trim_start_matches('!').starts_with(cpu)).collect();
        let expected: Vec<String> = (0..50).flat_map(|n| [format!("{cpu}{n}"), format!("!{cpu}{n}")]).collect();
        assert_eq!(own, expected.iter().collect::<Vec<_>>());
    }
}
