//! Fuzz targets for output: from the bytes that BPF programs write to what a user sees.
//!
//! In: bytes of records and of maps, formats. Guarantee: both renderers get every value; every line
//! of JSON is UTF-8.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use profiler_compiler::btf::BtfId;
use profiler_compiler::check::Options;
use profiler_compiler::decode::{Lookup, decode};
use profiler_compiler::format as formats;
use profiler_compiler::object::{MapValue, Object};
use profiler_compiler::results::{HelperFailure, Merge, Sink, Vocabulary};
use profiler_compiler::source::{Source, Span};
use profiler_compiler::strftime::{self as times, Dialect, Zone};
use profiler_compiler::types::{Space, StackMode, StackType, Type};
use profiler_compiler::value::{Stack, SymbolName, Symbols, Value};
use profiler_compiler::{CATALOGUE, compile as pipeline};
use profiler_model::output::{MapPrint, MapSnapshot, Output, SourceLocation};
use profiler_output::json::Json;
use profiler_output::text::Text;
use profiler_runtime::session::Handlers;

use super::fixture::Machine;

/// A script with every kind of record and of value.
const SCRIPT: &str = r#"
    BEGIN {
        printf("%d %5s %-8x %c %p %r %rx %rh|%ld %10.3s\n", pid, comm, nsecs, 65, 4096, buf(4096, 3), buf(4096, 3), buf(4096, 3), cpu, "x");
        print((1, "a", (true, pid))); print(comm); print(nsecs); print(ntop(2, 16909060)); print(strftime("%H:%M:%S %f", nsecs));
        printf("%s %s %s %s\n", kstack(5), ustack(perf, 3), ksym(4096), usym(4096)); time("%F %T\n");
        @count[comm] = count(); @sum[pid, comm] = sum(cpu); @avg = avg(pid); @min[cpu] = min(pid); @max = max(pid);
        @stats[pid] = stats(pid); @hist[comm] = hist(pid); @lhist = lhist(pid, 0, 100, 10);
        @plain[pid] = comm; @tuple[pid] = (pid, comm); @stack[kstack(5)] = 1; @user = username;
        print(@count, 3, 2); clear(@sum); zero(@hist); print(@plain[1]); system("echo %s %d", comm, pid); cat("/proc/%d/x", pid);
        join(4096); printf("%s", probe); print(@lhist); exit(3);
    }
"#;

/// A writer that keeps its bytes.
#[derive(Debug, Clone, Default)]
struct Paper(Rc<RefCell<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Knows the names of some addresses, and a stack.
#[derive(Debug)]
pub struct Names;

impl Symbols for Names {
    fn kernel(&self, address: u64) -> Option<SymbolName> {
        (address & 1 == 0).then(|| SymbolName { name: "do_idle".into(), offset: address, module: None })
    }
    fn user(&self, pid: u32, address: u64) -> Option<SymbolName> {
        let module = (pid & 1 == 0).then(|| "/bin/app".to_owned());
        (address & 1 == 0).then(|| SymbolName { name: "main".into(), offset: address, module })
    }
    fn username(&self, uid: u32) -> Option<String> {
        (uid == 0).then(|| "root".into())
    }
    fn boot_time_ns(&self) -> u64 {
        1 << 60
    }
}

impl Lookup for Names {
    fn stack(&self, ty: StackType, id: i64) -> Option<Vec<u64>> {
        (id & 1 == 0).then(|| vec![id as u64; usize::from(ty.limit).min(20)])
    }
    fn probe_name(&self, index: u64) -> Option<&str> {
        (index == 0).then_some("BEGIN")
    }
    fn string(&self, index: u64) -> Option<&str> {
        (index < 2).then_some("%H:%M:%S %f")
    }
    fn enumerator(&self, _: BtfId, number: i64) -> Option<String> {
        (number == 1).then(|| "RED".into())
    }
    fn vocabulary(&self) -> &dyn Vocabulary {
        &CATALOGUE
    }
}

/// Both renderers.
pub struct Outputs {
    paper: Paper,
    text: Text,
    json: Json,
}

impl Outputs {
    /// With nothing printed yet.
    pub fn new() -> Outputs {
        let paper = Paper::default();
        Outputs {
            text: Text::new(Box::new(io::sink()), Box::new(io::sink()), false),
            json: Json::new(Box::new(paper.clone()), false),
            paper,
        }
    }

    fn both(&mut self) -> [&mut dyn Output; 2] {
        [&mut self.text, &mut self.json]
    }

    /// Tests what was printed.
    pub fn finish(mut self) {
        for output in self.both() {
            assert!(output.flush().is_ok());
        }
        let bytes = self.paper.0.borrow();
        assert!(std::str::from_utf8(&bytes).is_ok(), "JSON that is not UTF-8");
        assert!(
            bytes.split(|byte| *byte == b'\n').all(|line| line.is_empty() || (line[0] == b'{' && line.ends_with(b"}")))
        );
    }
}

impl Sink for Outputs {
    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        self.both().into_iter().for_each(|output| output.text(kind, bytes));
    }
    fn note(&mut self, kind: &'static str, text: &[u8], _places: &[Span]) {
        self.both().into_iter().for_each(|output| output.note(kind, text, &SourceLocation::default()));
    }
    fn helper_failed(&mut self, failure: &HelperFailure<'_>, _places: &[Span]) {
        self.both().into_iter().for_each(|output| output.helper_failed(failure, &SourceLocation::default()));
    }
    fn value(&mut self, value: &Value) {
        self.both().into_iter().for_each(|output| output.value(value, &Names));
    }
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
        &Names
    }
    fn now_ns(&self) -> u64 {
        1 << 60
    }
}

/// Calls `act` with [`SCRIPT`], compiled once for each thread.
fn with_object<T>(act: impl FnOnce(&Object) -> T) -> T {
    thread_local! {
        static OBJECT: Object = {
            let options = Options { allow_unsafe: true, ..Options::default() };
            let compiled = pipeline::compile(&Source::new("x", SCRIPT), &CATALOGUE, &Machine::new(true), &options);
            compiled.unwrap_or_else(|problems| panic!("{problems:#?}")).object
        };
    }
    OBJECT.with(act)
}

/// Records as they are in a ring buffer: the first byte selects the kind, the rest is one record.
pub fn records(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    with_object(|object| {
        let mut record = bytes.to_vec();
        let kinds = object.events.len() as u32 + 1;
        if let Some(index) = record.get_mut(..4) {
            index.copy_from_slice(&(u32::from(*kind) % kinds).to_ne_bytes());
        }
        let mut outputs = Outputs::new();
        let handlers = Handlers::resolve(object, &CATALOGUE).expect("its own words");
        handlers.act(&Names, &record, &mut [0], &mut outputs);
        outputs.finish();
    });
}

/// Keys and values as they are in maps: the first byte selects the map, the rest is cut into a key
/// and per-CPU values.
pub fn values(input: &[u8]) {
    let Some(([kind, cut], bytes)) = input.split_first_chunk::<2>() else { return };
    with_object(|object| {
        let Some(map) = object.maps.get(usize::from(*kind) % object.maps.len()) else { return };
        let (key, rest) = bytes.split_at(usize::from(*cut).min(bytes.len()));
        let key_value = map.key.as_ref().map(|ty| decode(ty, key, &Names));
        let (value, aggregation) = match &map.value {
            MapValue::Plain(ty) => (decode(ty, rest, &Names), None),
            MapValue::Aggregate { word: name, params, signed, .. } => {
                let Some(word) = CATALOGUE.aggregation(name.as_str()) else { return };
                let size = word.size_bytes(params) as usize;
                let copies: Vec<&[u8]> = rest.chunks(size.max(1)).collect();
                (word.merge(params, *signed, &copies), Some(word as &dyn Merge))
            }
        };
        let mut outputs = Outputs::new();
        let flame = (*cut > 200).then_some(map.unit);
        let print = MapPrint { top: u64::from(*cut) % 3, div: u64::from(*kind) % 5, flame };
        for output in outputs.both() {
            let entries = vec![(key_value.clone(), value.clone()), (key_value.clone(), value.clone())];
            let keyed = map.key.is_some();
            let processes = vec![vec![1, 2]];
            output.map(&MapSnapshot { name: map.name.clone(), keyed, aggregation, entries, processes }, print, &Names);
        }
        outputs.finish();
    });
}

/// A `printf` format, with values of every kind.
pub fn format(input: &[u8]) {
    // Each conversion may ask for 64 KiB.
    let Ok(format) = formats::parse(&input[..input.len().min(2048)]) else { return };
    let values = [
        Value::Int(-42),
        Value::Uint(u64::MAX),
        Value::Str(b"caf\xe9 \xc3\xa9".to_vec()),
        Value::Missing,
        Value::Buf(vec![0, 65, 255]),
        Value::Pointer(4096),
        Value::Tuple(vec![Value::Bool(true), Value::Int(1)]),
        Value::Stack(Stack {
            space: Space::User,
            mode: StackMode::Perf,
            pid: 1,
            frames: vec![2, 3],
            interrupted: Vec::new(),
            end: None,
        }),
    ];
    let mut out = Vec::new();
    format.render(|index| values[index % values.len()].clone(), &Names, &mut out);
    for conversion in format.conversions() {
        for ty in [Type::None, Type::I64, Type::Str { capacity_bytes: 4 }, Type::Unknown] {
            let _ = formats::accepts(conversion, &ty);
        }
    }
}

/// A `strftime` format, after eight bytes of time and four of the time zone's offset.
pub fn strftime(input: &[u8]) {
    let Some((time, rest)) = input.split_first_chunk::<8>() else { return };
    let Some((offset, format)) = rest.split_first_chunk::<4>() else { return };
    let zone = Zone { utc_offset_seconds: i32::from_le_bytes(*offset), ..Zone::default() };
    let format = String::from_utf8_lossy(format);
    for dialect in [Dialect::Strftime, Dialect::Time] {
        let _ = times::strftime(&format, u64::from_le_bytes(*time), &zone, dialect);
    }
}
