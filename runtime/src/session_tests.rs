//! Tests of [`super`] that need no kernel.

use profiler_compiler::btf::BtfId;
use profiler_compiler::decode::Lookup;
use profiler_compiler::object::{Config, Event};
use profiler_compiler::source::Span;
use profiler_compiler::types::StackType;
use profiler_compiler::value::{SymbolName, Value};
use profiler_compiler::words::{Doc, Function, Record, Sink};

use super::*;
use crate::render::{MapPrint, MapSnapshot};
use crate::spans::SpanLedger;

/// Prints the bytes of its record.
#[derive(Debug)]
struct Echo;

impl Function for Echo {
    fn check(
        &'static self,
        _: &mut profiler_compiler::check::Body<'_, '_>,
        _: &[profiler_compiler::ast::Expr],
        span: profiler_compiler::source::Span,
    ) -> profiler_compiler::typed::Expr {
        profiler_compiler::check::Body::poison(span)
    }

    fn lower(
        &self,
        _: &mut profiler_compiler::lower::Body<'_, '_>,
        _: &profiler_compiler::typed::Call,
        _: &profiler_compiler::types::Type,
    ) -> profiler_compiler::lower::Value {
        profiler_compiler::lower::Value::None
    }

    fn name(&self) -> &'static str {
        "echo"
    }
    fn doc(&self) -> Doc {
        Doc { signature: "echo()", summary: "A test's.", page: "" }
    }
    fn perform(&self, _event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        sink.text("printf", record.bytes);
    }
}

/// Knows nothing, keeps text.
#[derive(Debug, Default)]
struct Kept(Vec<Vec<u8>>);

impl Symbols for Kept {
    fn kernel(&self, _address: u64) -> Option<SymbolName> {
        None
    }
    fn user(&self, _pid: u32, _address: u64) -> Option<SymbolName> {
        None
    }
    fn username(&self, _uid: u32) -> Option<String> {
        None
    }
    fn boot_time_ns(&self) -> u64 {
        0
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
}

impl Sink for Kept {
    fn text(&mut self, _kind: &'static str, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }
    fn note(&mut self, _kind: &'static str, _text: &[u8], _span: Span) {}
    fn helper_failed(&mut self, _failure: &profiler_compiler::words::HelperFailure<'_>, _span: Span) {}
    fn value(&mut self, _value: &Value) {}
    fn print_map(&mut self, _map: usize, _top: u64, _div: u64) {}
    fn print_entry(&mut self, _map: usize, _key: &[u8]) {}
    fn clear_map(&mut self, _map: usize) {}
    fn zero_map(&mut self, _map: usize) {}
    fn exit(&mut self, _code: u8) {}
    fn cat(&mut self, _path: &str, _span: Span) {}
    fn system(&mut self, _command: &str) {}
    fn unwatch(&mut self, _address: u64, _span: Span) {}
    fn symbols(&self) -> &dyn Symbols {
        self
    }
    fn now_ns(&self) -> u64 {
        0
    }
}

impl Render for Kept {
    fn attached(&mut self, _probes: u32) {}
    fn text(&mut self, _kind: &'static str, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }
    fn note(&mut self, _kind: &'static str, _text: &[u8], _place: &crate::render::Place) {}
    fn helper_failed(&mut self, _failure: &profiler_compiler::words::HelperFailure<'_>, _place: &crate::render::Place) {
    }
    fn value(&mut self, _value: &Value, _symbols: &dyn Symbols) {}
    fn map(&mut self, _map: &MapSnapshot<'_>, _print: MapPrint, _symbols: &dyn Symbols) {}
    fn end_of_run(&mut self) {}
    fn trial(&mut self, _trial: &crate::render::Trial<'_>) {}
    fn lost(&mut self, _events: u64) {}
    fn spans(&mut self, _spans: &[SpanLedger]) {}
    fn view(&mut self, _shown: &crate::render::Shown<'_>, _symbols: &dyn Symbols) {}
    fn quality(&mut self, _sections: &[crate::ledger::Section]) {}
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An object whose events are emitted by these programs.
fn object(programs: &[usize]) -> Object {
    let span = Span { start: 0, end: 0 };
    let event = |program: &usize| Event {
        word: &Echo,
        constants: vec![],
        fields: vec![],
        max_size_bytes: 64,
        program: *program,
        span,
    };
    Object {
        elf: b"not an ELF".to_vec(),
        programs: Vec::new(),
        maps: Vec::new(),
        enums: std::collections::BTreeMap::new(),
        events: programs.iter().map(event).collect(),
        probe_names: Vec::new(),
        strings: Vec::new(),
        data_ring: None,
        control_ring: None,
        wake_flag_offset: None,
        start_time_offset: None,
        wall_clock_offset: None,
        result_offset: None,
        stack_tables: Vec::new(),
        ledger: Vec::new(),
        config: Config::default(),
        params: Vec::new(),
        views: Vec::new(),
        generation_offset: None,
        spans: Vec::new(),
    }
}

fn record(event: u32, size: u32, rest: &[u8]) -> Vec<u8> {
    [&event.to_ne_bytes()[..], &size.to_ne_bytes()[..], rest].concat()
}

#[test]
fn records_reach_their_word_and_are_counted_by_program() {
    let (object, mut kept, mut received) = (object(&[1, 0, 1]), Kept::default(), vec![0; 2]);
    for event in [0, 1, 2, 2] {
        act(&object, &Kept::default(), &record(event, 11, b"abcdef"), &mut received, &mut kept);
    }
    assert_eq!(received, [1, 3]);
    assert_eq!(kept.0.len(), 4);
    assert_eq!(kept.0[0], record(0, 11, b"abc"), "a record ends where it says, not where its room ends");
}

#[test]
fn records_that_make_no_sense_are_left_out() {
    let (object, mut kept, mut received) = (object(&[9]), Kept::default(), vec![0; 2]);
    act(&object, &Kept::default(), &record(7, 8, b""), &mut received, &mut kept);
    act(&object, &Kept::default(), &[0; 7], &mut received, &mut kept);
    assert!(kept.0.is_empty());
    act(&object, &Kept::default(), &record(0, u32::MAX, b"x"), &mut received, &mut kept);
    assert_eq!(kept.0, [record(0, u32::MAX, b"x")], "a size beyond the record means all of it");
    assert_eq!(received, [0, 0], "a program out of range is not counted");
}

#[test]
fn a_process_that_is_not_there_is_reported_before_anything_is_loaded() {
    // Larger than any process id can be.
    let pid = Some(1 << 30);
    let options = RunOptions { pid, ..RunOptions::default() };
    let error = run(&object(&[]), options, &mut Kept::default(), &Kept::default()).unwrap_err();
    assert_eq!(error.to_string(), format!("there is no process {}", 1 << 30));
}
