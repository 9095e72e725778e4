//! Tests of [`super`] that need no kernel.

use profiler_model::decode::Lookup;
use profiler_model::object::{Config, Event};
use profiler_model::output::{
    EventSink, Flush, MapPrint, MapSnapshot, Section, SnapshotSink, SourceLocation, SpanLedger, ViewSnapshot,
};
use profiler_model::results::{HelperFailure, Merge, NoWords, Perform, Record, Sink, Vocabulary, WordName};
use profiler_model::source::Span;
use profiler_model::types::BtfId;
use profiler_model::types::StackType;
use profiler_model::value::{NoSymbols, Value};

use super::*;

/// A function that prints the bytes of its record.
#[derive(Debug)]
struct Echo;

impl Perform for Echo {
    fn perform(&self, _event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        sink.text("printf", record.bytes);
    }
}

/// Keeps text and resolves no names.
#[derive(Debug, Default)]
struct Kept(Vec<Vec<u8>>);

impl Vocabulary for Kept {
    fn aggregation(&self, _name: &WordName) -> Option<&'static dyn Merge> {
        None
    }
    fn function(&self, name: &WordName) -> Option<&'static dyn Perform> {
        (name.as_str() == "echo").then_some(&Echo)
    }
}

impl Lookup for Kept {
    fn stack(&self, _ty: StackType, _id: i64) -> Option<Vec<u64>> {
        None
    }
    fn probe_name(&self, _index: u64) -> Option<&str> {
        None
    }
    fn string(&self, _index: u64) -> Option<&str> {
        None
    }
    fn enumerator(&self, _id: BtfId, _number: i64) -> Option<String> {
        None
    }
    fn vocabulary(&self) -> &dyn Vocabulary {
        self
    }
}

impl Sink for Kept {
    fn text(&mut self, _kind: &'static str, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }
    fn note(&mut self, _kind: &'static str, _text: &[u8], _places: &[Span]) {}
    fn helper_failed(&mut self, _failure: &HelperFailure<'_>, _places: &[Span]) {}
    fn value(&mut self, _value: &Value) {}
    fn print_map(&mut self, _map: usize, _top: u64, _div: u64) {}
    fn print_flame(&mut self, _map: usize) {}
    fn print_entry(&mut self, _map: usize, _key: &[u8], _is_bare: bool) {}
    fn clear_map(&mut self, _map: usize) {}
    fn turn(&mut self, _windows: u64, _at_ns: u64) {}

    fn turn_end(&mut self, _windows: u64) {}
    fn zero_map(&mut self, _map: usize) {}
    fn exit(&mut self, _code: u8) {}
    fn cat(&mut self, _path: &str) {}
    fn system(&mut self, _command: &str) {}
    fn exec(&mut self, _words: &[&[u8]]) {}
    fn unwatch(&mut self, _address: u64, _span: Span) {}
    fn symbols(&self) -> &dyn Symbols {
        &NoSymbols
    }
    fn now_ns(&self) -> u64 {
        0
    }
}

impl EventSink for Kept {
    fn text(&mut self, _kind: &'static str, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }

    fn note(&mut self, _kind: &'static str, _text: &[u8], _place: &SourceLocation) {}

    fn value(&mut self, _value: &Value, _symbols: &dyn Symbols) {}

    fn lost(&mut self, _events: u64) {}
}

impl SnapshotSink for Kept {
    fn map(&mut self, _map: &MapSnapshot, _print: MapPrint, _symbols: &dyn Symbols) {}

    fn view(&mut self, _shown: &ViewSnapshot<'_>, _symbols: &dyn Symbols) {}

    fn spans(&mut self, _spans: &[SpanLedger]) {}

    fn quality(&mut self, _sections: &[Section]) {}
}

impl Flush for Kept {
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An object with one event for each of these programs.
fn object(programs: &[usize]) -> Object {
    let span = Span { start: 0, end: 0 };
    let event = |program: &usize| Event {
        word: WordName::new("echo"),
        ends_the_run: false,
        constants: vec![],
        fields: vec![],
        max_size_bytes: 64,
        program: *program,
        span,
        expanded_from: vec![],
    };
    Object {
        elf: b"not an ELF".to_vec(),
        programs: Vec::new(),
        maps: Vec::new(),
        loaded_for: std::collections::BTreeMap::new(),
        enums: std::collections::BTreeMap::new(),
        events: programs.iter().map(event).collect(),
        probe_names: Vec::new(),
        strings: Vec::new(),
        data_ring: None,
        control_ring: None,
        packets: None,
        wake_flag_offset: None,
        start_time_offset: None,
        wall_clock_offset: None,
        expiry_offset: None,
        result_offset: None,
        stack_tables: Vec::new(),
        unwinding: None,
        ledger: Vec::new(),
        config: Config::default(),
        params: Vec::new(),
        views: Vec::new(),
        generation_offset: None,
        gate_offset: 0,
        run_counters: Vec::new(),
        spans: Vec::new(),
    }
}

fn record(event: u32, size: u32, rest: &[u8]) -> Vec<u8> {
    [&event.to_ne_bytes()[..], &size.to_ne_bytes()[..], rest].concat()
}

#[test]
fn records_reach_their_word_and_are_counted_by_program() {
    let (object, mut kept, mut received) = (object(&[1, 0, 1]), Kept::default(), vec![0; 2]);
    let handlers = Handlers::resolve(&object, &Kept::default()).unwrap();
    for event in [0, 1, 2, 2] {
        handlers.act(&Kept::default(), &record(event, 11, b"abcdef"), &mut received, &mut kept);
    }
    assert_eq!(received, [1, 3]);
    assert_eq!(kept.0.len(), 4);
    assert_eq!(kept.0[0], record(0, 11, b"abc"), "a record ends where it says, not where its room ends");
}

#[test]
fn records_that_make_no_sense_are_left_out() {
    let (object, mut kept, mut received) = (object(&[9]), Kept::default(), vec![0; 2]);
    let handlers = Handlers::resolve(&object, &Kept::default()).unwrap();
    handlers.act(&Kept::default(), &record(7, 8, b""), &mut received, &mut kept);
    handlers.act(&Kept::default(), &[0; 7], &mut received, &mut kept);
    assert!(kept.0.is_empty());
    handlers.act(&Kept::default(), &record(0, u32::MAX, b"x"), &mut received, &mut kept);
    assert_eq!(kept.0, [record(0, u32::MAX, b"x")], "a size beyond the record means all of it");
    assert_eq!(received, [0, 0], "a program out of range is not counted");
}

#[test]
fn a_word_that_nobody_knows_is_reported_before_anything_is_attached() {
    let error = Handlers::resolve(&object(&[0]), &NoWords).unwrap_err();
    assert_eq!(error.as_str(), "echo");
    let message = RunError::UnknownWord(error).to_string();
    assert_eq!(message, "this program does not know the word `echo`, which the object was compiled with");
}

#[test]
fn a_process_that_is_not_there_is_reported_before_anything_is_loaded() {
    // Greater than any process id.
    let pids = vec![1 << 30];
    let options = RunOptions { pids, ..RunOptions::default() };
    let error = run(&object(&[]), &Kept::default(), options, &mut Kept::default(), &NoSymbols).unwrap_err();
    assert_eq!(error.to_string(), format!("there is no process {}", 1 << 30));
}
