//! What user space does with a script's results: the part of words that runs there.
//!
//! In: bytes of map values, records of ring buffers. Out: values, and calls of a [`Sink`].
//! Guarantee: an object refers to words by name only; a [`Vocabulary`] has what the names mean.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::numbers::ERRORS;
use crate::object::{Constant, Event, Field};
use crate::source::Span;
use crate::statistics::Statistic;
use crate::text::controls::Escapes;
use crate::value::{Symbols, Value};

/// The name of a word, as an object has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WordName(Cow<'static, str>);

impl WordName {
    /// The name of a word of this program.
    pub const fn new(name: &'static str) -> WordName {
        WordName(Cow::Borrowed(name))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The meaning of the words that an object refers to.
pub trait Vocabulary: Debug + Sync {
    /// The user-space part of an aggregation; `None` if there is no such aggregation.
    fn aggregation(&self, name: &WordName) -> Option<&'static dyn Merge>;
    /// The user-space part of a function; `None` if it has none, or there is no such function.
    fn function(&self, name: &WordName) -> Option<&'static dyn Perform>;
}

/// A vocabulary without words.
#[derive(Debug)]
pub struct NoWords;

impl Vocabulary for NoWords {
    fn aggregation(&self, _name: &WordName) -> Option<&'static dyn Merge> {
        None
    }

    fn function(&self, _name: &WordName) -> Option<&'static dyn Perform> {
        None
    }
}

/// An aggregation in user space: makes values from the bytes that programs have written.
pub trait Merge: Debug + Sync {
    /// Merges the pages of a key; each page comes with its number and the bytes of all CPUs.
    fn merge_pages(&self, _params: &[i64], _signed: bool, _pages: &[(u64, Vec<&[u8]>)]) -> Value {
        Value::Missing
    }
    /// Merges the bytes of all CPUs.
    fn merge(&self, params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value;
    /// Whether a map can have these constants; the others may make [`Merge::merge`] overflow.
    fn takes(&self, _params: &[i64]) -> bool {
        true
    }
    /// Whether [`Value::statistic`] of its value gives this statistic; histograms give bounds.
    fn yields(&self, _statistic: Statistic) -> bool {
        false
    }
    /// The `type` in JSON output for a map of this aggregation: `map`, `hist`, `stats`.
    fn json_type(&self) -> &'static str {
        "map"
    }
    /// The value divided by the third argument of `print(@x, top, div)`.
    fn divide(&self, value: Value, _by: i64) -> Value {
        value
    }
}

/// A function in user space: handles the records that its code in programs has sent.
pub trait Perform: Debug + Sync {
    /// Handles a record.
    fn perform(&self, _event: &Event, _record: &Record<'_>, _sink: &mut dyn Sink);
}

/// A record from a ring buffer, decoded on demand.
#[derive(Debug)]
pub struct Record<'a> {
    pub event: &'a Event,
    /// Its bytes, starting with the 8-byte header.
    pub bytes: &'a [u8],
    /// The object's probe names and strings, and the runtime's stacks.
    pub lookup: &'a dyn crate::decode::Lookup,
}

impl<'a> Record<'a> {
    /// The bytes of a field; for variable-length ones, the referenced data. Empty if the record is
    /// too short.
    pub fn field_bytes(&self, field: &Field) -> &'a [u8] {
        let at = field.offset_bytes as usize;
        if !field.variable {
            return self.bytes.get(at..).unwrap_or_default();
        }
        let word = |at: usize| {
            let bytes = self.bytes.get(at..at + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?) as usize)
        };
        let (Some(start), Some(len)) = (word(at), word(at + 4)) else { return &[] };
        self.bytes.get(start..start + len).unwrap_or_default()
    }

    /// The value of field `index`; missing if there is no such field.
    pub fn value(&self, index: usize) -> Value {
        let Some(field) = self.event.fields.get(index) else { return Value::Missing };
        crate::decode::decode(&field.ty, self.field_bytes(field), self.lookup)
    }
}

/// A kernel helper that failed inside a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelperFailure<'a> {
    /// The helper: `probe_read_user`.
    pub helper: &'a str,
    /// Its return value.
    pub code: i64,
    /// The return value as text.
    pub words: &'a str,
}

/// A packet that a program has copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When it was copied (`CLOCK_BOOTTIME`).
    pub at_ns: u64,
    /// What was copied: the start of the packet, or all of it.
    pub bytes: &'a [u8],
    /// The packet's size in bytes.
    pub size_bytes: u32,
}

/// Operations available to a function's user-space part; implemented by the runtime.
pub trait Sink {
    /// Prints text; `kind` is its name in JSON output (`printf`, `time`, `join`, `cat`, `syscall`,
    /// `exec`).
    fn text(&mut self, kind: &'static str, bytes: &[u8]);
    /// Prints a warning (`warnf`) or an error (`errorf`) of the script at the first of these
    /// places; the others are the calls of macros that led there.
    fn note(&mut self, kind: &'static str, text: &[u8], places: &[Span]);
    /// Reports that a read at the first of these places failed.
    fn helper_failed(&mut self, failure: &HelperFailure<'_>, places: &[Span]) {
        self.note("warnf", failure.words.as_bytes(), places);
    }
    /// Prints a value: `print(v)`.
    fn value(&mut self, value: &Value);
    /// Prints a map: `print(@x, top, div)`; zero means all entries, and undivided.
    fn print_map(&mut self, map: usize, top: u64, div: u64);
    /// Prints a map as a picture of the stacks in its keys: `flame(@x)`.
    fn print_flame(&mut self, map: usize);
    /// Prints one entry: `print(@x[key])`; `key` has the bytes of the map's key. If `is_bare`, the
    /// value of `stats()` is printed without the key.
    fn print_entry(&mut self, map: usize, key: &[u8], is_bare: bool);
    /// Removes all entries.
    fn clear_map(&mut self, map: usize);
    /// Sets all values to zero and keeps the keys.
    fn zero_map(&mut self, map: usize);
    /// Ends these windows, one bit each: subsequent prints and clears use the contents that their
    /// maps have now. The program requested it at `at_ns` (`CLOCK_BOOTTIME`).
    fn turn(&mut self, windows: u64, at_ns: u64);
    /// Subsequent prints show those maps of these windows that are never cleared as they are at
    /// that time.
    fn turn_end(&mut self, windows: u64);
    /// Ends the run.
    fn exit(&mut self, code: u8);
    /// Appends a packet to a file of packets.
    fn packet(&mut self, _path: &str, _packet: &Packet<'_>) {}
    /// Prints a file, or an error.
    fn cat(&mut self, path: &str);
    /// Runs a command of the shell.
    fn system(&mut self, command: &str);
    /// Runs a program with these arguments; the first word is the program.
    fn exec(&mut self, words: &[&[u8]]);
    /// Removes the watchpoints at this address, or warns at `span` that there is none.
    fn unwatch(&mut self, address: u64, span: Span);
    /// What is escaped in text that traced programs influence.
    fn escapes(&self) -> Escapes {
        Escapes::Nothing
    }
    /// Symbolizes addresses.
    fn symbols(&self) -> &dyn Symbols;
    /// Wall-clock nanoseconds since 1970.
    fn now_ns(&self) -> u64;
}

/// The name in records of failed helpers: their helper is a constant, the result the only field.
pub const HELPER_ERROR: WordName = WordName::new("helper_error");

/// The name in records of warnings: the text is a constant, the only field is unused.
pub const WARNING: WordName = WordName::new("warning");

/// The name in records that end a window: its bits are a constant, the time is the only field.
pub const TURN: WordName = WordName::new("turn");

/// In place of the time in a record of [`TURN`]: what the handler prints from now on is of the
/// present again.
pub const AT_END: i64 = 0;

/// The functions that handle records which the compiler's own code sends; they are not part of the
/// language.
pub fn internal(name: &WordName) -> Option<&'static dyn Perform> {
    match name {
        _ if *name == HELPER_ERROR => Some(&HelperError),
        _ if *name == WARNING => Some(&Warning),
        _ if *name == TURN => Some(&Turn),
        _ => None,
    }
}

#[derive(Debug)]
struct HelperError;

impl Perform for HelperError {
    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let ([Constant::Str(helper)], Value::Int(code)) = (event.constants.as_slice(), record.value(0)) else {
            return;
        };
        let words = match usize::try_from(code.unsigned_abs()).ok().and_then(|number| ERRORS.get(number)) {
            _ if code == 0 => "Can't lookup map element because it does not exist.",
            _ if helper == "map_delete_elem" => "Can't delete map element because it does not exist.",
            Some(words) => words,
            None => "Unknown error",
        };
        sink.helper_failed(&HelperFailure { helper, code, words }, &event.places());
    }
}

#[derive(Debug)]
struct Warning;

impl Perform for Warning {
    fn perform(&self, event: &Event, _record: &Record<'_>, sink: &mut dyn Sink) {
        if let [Constant::Str(words)] = event.constants.as_slice() {
            sink.note("warnf", words.as_bytes(), &event.places());
        }
    }
}

#[derive(Debug)]
struct Turn;

impl Perform for Turn {
    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        if let ([Constant::Int(bits)], Value::Int(at)) = (event.constants.as_slice(), record.value(0)) {
            match at {
                AT_END => sink.turn_end(*bits as u64),
                at => sink.turn(*bits as u64, at as u64),
            }
        }
    }
}
