//! Whether a description that was read from a file can be used.
//!
//! In: an [`Object`], the sizes of its data, the words that it names. Out: the first [`Flaw`].
//! Guarantee: in an object without flaws, every index is one of its list, every place is inside the
//! object's data, and no size, shift or period makes an arithmetic operation overflow or a loop
//! endless.

use std::fmt;

use super::{Attach, Constant, EndedKeys, Loss, MapValue, Object, Storage, TimeSpan, UserMap};
use crate::params::{Param, Value};
use crate::results::Vocabulary;
use crate::scope::Scope;
use crate::types::{Members, Type};
use crate::view::{Formula, Source, View};

/// The sizes of an object's data sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DataSizes {
    pub bss_bytes: u64,
    pub rodata_bytes: u64,
}

/// Why a description cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// An index of such a thing has no entry in its list.
    Index(&'static str),
    /// Such a thing is not inside the object's data.
    Place(&'static str),
    /// Such a number is not in its range.
    Number(&'static str),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Index(what) => write!(f, "there is no such {what}"),
            Flaw::Place(what) => write!(f, "{what} is outside the data"),
            Flaw::Number(what) => write!(f, "{what} is out of range"),
        }
    }
}

/// Maximum size of a value, far above any that the compiler generates.
const MOST_BYTES: u64 = 1 << 28;

/// Maximum number of frames of a stack.
const MOST_FRAMES: u8 = crate::types::MOST_FRAMES;

impl Object {
    /// Checks everything that the runtime relies on and that the types do not express.
    pub fn validate(&self, sizes: DataSizes, vocabulary: &dyn Vocabulary) -> Result<(), Flaw> {
        let object = Checked { object: self, sizes, vocabulary };
        object.words()?;
        self.programs.iter().try_for_each(|program| object.attach(&program.attach))?;
        self.maps.iter().try_for_each(|map| object.map(map))?;
        for event in &self.events {
            object.program(event.program)?;
            number("a record", u64::from(event.max_size_bytes) <= MOST_BYTES)?;
            event.constants.iter().try_for_each(|constant| match constant {
                Constant::Map(map) => index("map", *map, &self.maps),
                Constant::Int(_) | Constant::Str(_) | Constant::Format(_) => Ok(()),
            })?;
            event.fields.iter().try_for_each(|field| object.size_of(&field.ty).map(|_| ()))?;
        }
        for table in &self.stack_tables {
            number("the number of frames", (1..=MOST_FRAMES).contains(&table.limit))?;
        }
        for counter in &self.ledger {
            object.word("a counter", counter.offset_bytes)?;
            object.loss(&counter.loss)?;
        }
        for counter in &self.run_counters {
            object.program(counter.program)?;
            object.copies("a counter of runs", counter.offset_bytes, counter.stride_bytes, counter.copies, 16)?;
        }
        self.params.iter().try_for_each(|param| object.param(param))?;
        self.views.iter().try_for_each(|view| object.view(view))?;
        self.spans.iter().try_for_each(|span| object.span(span))
    }
}

fn number(what: &'static str, fits: bool) -> Result<(), Flaw> {
    if fits { Ok(()) } else { Err(Flaw::Number(what)) }
}

fn index<T>(what: &'static str, at: usize, list: &[T]) -> Result<(), Flaw> {
    if at < list.len() { Ok(()) } else { Err(Flaw::Index(what)) }
}

/// An object that is being checked.
struct Checked<'a> {
    object: &'a Object,
    sizes: DataSizes,
    vocabulary: &'a dyn Vocabulary,
}

impl Checked<'_> {
    fn words(&self) -> Result<(), Flaw> {
        let object = self.object;
        let optional = [
            object.wake_flag_offset,
            object.start_time_offset,
            object.wall_clock_offset,
            object.expiry_offset,
            object.result_offset,
            object.generation_offset,
        ];
        self.word("the gate", object.gate_offset)?;
        optional.into_iter().flatten().try_for_each(|offset| self.word("a word of the run", offset))
    }

    fn program(&self, at: usize) -> Result<(), Flaw> {
        index("program", at, &self.object.programs)
    }

    fn map_at(&self, at: usize) -> Result<(), Flaw> {
        index("map", at, &self.object.maps)
    }

    fn span_at(&self, at: usize) -> Result<(), Flaw> {
        index("span", at, &self.object.spans)
    }

    /// Bytes of `.bss`.
    fn bss(&self, what: &'static str, offset: u32, size_bytes: u64) -> Result<(), Flaw> {
        let end = u64::from(offset).checked_add(size_bytes);
        if end.is_some_and(|end| end <= self.sizes.bss_bytes) { Ok(()) } else { Err(Flaw::Place(what)) }
    }

    /// A `u64` in `.bss`.
    fn word(&self, what: &'static str, offset: u32) -> Result<(), Flaw> {
        if offset.is_multiple_of(8) { self.bss(what, offset, 8) } else { Err(Flaw::Place(what)) }
    }

    /// Copies of something in `.bss`, each of at least `size_bytes`.
    fn copies(
        &self,
        what: &'static str,
        offset: u32,
        stride_bytes: u32,
        copies: u32,
        size_bytes: u64,
    ) -> Result<(), Flaw> {
        number("the number of copies", copies > 0 && (copies == 1 || u64::from(stride_bytes) >= size_bytes))?;
        let before = u64::from(stride_bytes) * u64::from(copies - 1);
        self.bss(what, offset, before + size_bytes)
    }

    fn attach(&self, attach: &Attach) -> Result<(), Flaw> {
        match attach {
            Attach::Timer { period_ns } | Attach::Visits { period_ns } => number("a period", *period_ns > 0),
            Attach::Sweep { span, period_ns } => {
                number("a period", *period_ns > 0)?;
                self.span_at(*span)
            }
            Attach::Ended { span } => self.span_at(*span),
            Attach::Uprobe { scope, .. } => self.scope(scope),
            Attach::Begin
            | Attach::End
            | Attach::Test { .. }
            | Attach::Bench { .. }
            | Attach::Signal
            | Attach::RawTracepoint { .. }
            | Attach::Tracepoint { .. }
            | Attach::Kprobe { .. }
            | Attach::Trampoline { .. }
            | Attach::Iterator { .. }
            | Attach::Watchpoint { .. }
            | Attach::PerfEvent { .. } => Ok(()),
        }
    }

    fn scope(&self, scope: &Scope) -> Result<(), Flaw> {
        match scope {
            Scope::All | Scope::Processes(_) => Ok(()),
            Scope::Param(at) => index("parameter", *at, &self.object.params),
            Scope::Both(a, b) | Scope::Either(a, b) => self.scope(a).and_then(|()| self.scope(b)),
        }
    }

    fn loss(&self, loss: &Loss) -> Result<(), Flaw> {
        match loss {
            Loss::MapFull { map } => self.map_at(*map),
            Loss::Events { program }
            | Loss::Control { program }
            | Loss::Rounds { program }
            | Loss::Scratch { program }
            | Loss::Ticks { program }
            | Loss::MergedTicks { program }
            | Loss::Skipped { program }
            | Loss::Returns { program } => self.program(*program),
            Loss::Stacks | Loss::Callers { .. } | Loss::Commands => Ok(()),
        }
    }

    fn map(&self, map: &UserMap) -> Result<(), Flaw> {
        if let Some(key) = &map.key {
            self.size_of(key)?;
        }
        match &map.value {
            MapValue::Plain(ty) => self.size_of(ty).map(|_| ())?,
            MapValue::Aggregate { word, params, pages, .. } => {
                // A word that there is not is reported when the session starts.
                let takes = self.vocabulary.aggregation(word).is_none_or(|word| word.takes(params));
                number("a constant of an aggregation", takes)?;
                number("the number of buckets of a page", pages.is_none_or(|pages| pages.sub_bits < 32))?;
            }
        }
        if let Some(alternate) = &map.alternate {
            number("a bit of the generation", alternate.bit < 64)?;
            self.storage(&alternate.storage)?;
        }
        self.storage(&map.storage)
    }

    fn storage(&self, storage: &Storage) -> Result<(), Flaw> {
        match storage {
            Storage::Global { offset_bytes, stride_bytes, copies, value_size_bytes } => {
                let size_bytes = 8 + u64::from(*value_size_bytes);
                self.copies("a map", *offset_bytes, *stride_bytes, *copies, size_bytes)
            }
            Storage::Map { key_size_bytes, value_size_bytes, length_offset, .. } => {
                let most = u64::from(*key_size_bytes).max(u64::from(*value_size_bytes));
                number("the size of an entry", most <= MOST_BYTES)?;
                length_offset.map_or(Ok(()), |offset| self.word("the length of a map", offset))
            }
            Storage::Threads(threads) => {
                number("the size of a value", u64::from(threads.value_size_bytes) <= MOST_BYTES)?;
                self.word("the order to a reader", threads.order_offset)
            }
        }
    }

    /// An upper bound of the size of a type's values: every part is aligned to at most 8 bytes.
    fn size_of(&self, ty: &Type) -> Result<u64, Flaw> {
        let size_bytes = match ty {
            Type::Int(int) | Type::Enum { int, .. } => {
                number("the size of an integer", matches!(int.size_bytes, 1 | 2 | 4 | 8))?;
                8
            }
            Type::Float { size_bytes } => {
                number("the size of a floating-point number", matches!(size_bytes, 4 | 8))?;
                8
            }
            Type::Str { capacity_bytes } | Type::Buf { capacity_bytes } => u64::from(*capacity_bytes) + 8,
            Type::Array { of, len } => self.size_of(of)?.saturating_mul(u64::from(*len)),
            Type::Tuple(parts) => self.sum_of(&mut parts.iter())?,
            Type::Record(parts) => self.sum_of(&mut parts.iter().map(|(_, part)| part))?,
            Type::Members(members) => self.members(members)?,
            Type::Stack(stack) => {
                number("the number of frames", (1..=MOST_FRAMES).contains(&stack.limit))?;
                16
            }
            Type::Statistic { map, key_bytes, .. } => {
                self.map_at(*map)?;
                u64::from(*key_bytes)
            }
            Type::Pointer { to, .. } => {
                self.size_of(to)?;
                8
            }
            Type::Unknown
            | Type::None
            | Type::Bool
            | Type::Struct { .. }
            | Type::KernelSymbol
            | Type::UserSymbol
            | Type::Inet
            | Type::Timestamp
            | Type::Username
            | Type::ProbeName
            | Type::MacAddress
            | Type::CgroupPath => 24,
        };
        number("the size of a type", size_bytes <= MOST_BYTES)?;
        Ok(size_bytes.next_multiple_of(8))
    }

    fn sum_of(&self, parts: &mut dyn Iterator<Item = &Type>) -> Result<u64, Flaw> {
        let mut sum = 0_u64;
        for part in parts {
            sum = sum.saturating_add(self.size_of(part)?);
        }
        Ok(sum)
    }

    fn members(&self, members: &Members) -> Result<u64, Flaw> {
        for member in &members.list {
            self.size_of(&member.ty)?;
            let fits = member.bits.is_none_or(|(first, width)| width > 0 && u32::from(first) + u32::from(width) <= 64);
            number("a bit-field", fits)?;
        }
        Ok(u64::from(members.size_bytes))
    }

    fn param(&self, param: &Param) -> Result<(), Flaw> {
        let (ty, is_any) = (param.ty, param.ty.has_any());
        for value in [Some(&param.value), param.default.as_ref()].into_iter().flatten() {
            let fits = match value {
                Value::Any => is_any,
                Value::Number(_) => !is_any,
                Value::Text(text) if ty.is_text() => text.len() < ty.capacity_bytes() as usize,
                Value::Text(_) => ty.is_pattern(),
                Value::Set(_) => ty.is_set(),
            };
            number("the value of a parameter", fits)?;
        }
        let Some(place) = &param.place else { return Ok(()) };
        number("the size of a parameter", place.size_bytes == ty.size_bytes())?;
        let end = u64::from(place.offset_bytes) + u64::from(place.size_bytes);
        if end <= self.sizes.rodata_bytes { Ok(()) } else { Err(Flaw::Place("a parameter")) }
    }

    fn view(&self, view: &View) -> Result<(), Flaw> {
        view.maps.iter().try_for_each(|map| self.map_at(*map))?;
        let order = view.order.iter().map(|order| order.by);
        for source in view.columns.iter().map(|column| column.source).chain(order) {
            if let Source::Computed { place, .. } = source {
                index("computed column", place, &view.computed)?;
            } else {
                source_of(view, source)?;
            }
        }
        for fed in &view.fed {
            index("map of a view", fed.map, &view.maps)?;
            self.span_at(fed.span)?;
        }
        let computed = view.computed.iter().map(|computed| &computed.formula);
        let required = view.requires.iter().map(|requirement| &requirement.formula);
        computed.chain(required).chain(&view.filter).try_for_each(|formula| self.formula(view, formula))?;
        number("a period", view.every.is_none_or(|every| every.period_ns > 0))
    }

    fn formula(&self, view: &View, formula: &Formula) -> Result<(), Flaw> {
        match formula {
            Formula::Source(source) => source_of(view, *source),
            Formula::OneOrCount(part) => source_of(view, Source::Key(*part)),
            Formula::Number { .. } | Formula::Text(_) => Ok(()),
            Formula::Ledger { span, .. } => self.span_at(*span),
            Formula::Named(_, of) | Formula::Negate(of) | Formula::Not(of) => self.formula(view, of),
            Formula::Binary(_, left, right) | Formula::PerSecond(left, right) => {
                self.formula(view, left).and_then(|()| self.formula(view, right))
            }
        }
    }

    fn span(&self, span: &TimeSpan) -> Result<(), Flaw> {
        let counters_bytes = u64::from(super::SpanCounter::COUNT) * 8;
        self.copies("the counters of a span", span.counters_offset, span.stride_bytes, span.copies, counters_bytes)?;
        let key_bytes = u64::from(span.key_size_bytes);
        number("the size of an entry", key_bytes.max(u64::from(span.value_size_bytes)) <= MOST_BYTES)?;
        let Some(EndedKeys { number_offset, start_offset, key_offset, .. }) = span.ended else { return Ok(()) };
        number(
            "a part of a key",
            u64::from(number_offset) + 4 <= key_bytes && u64::from(start_offset) + 8 <= key_bytes,
        )?;
        self.bss("the key of a span", key_offset, key_bytes)
    }
}

/// A source that is not computed; a computed column would refer to itself.
fn source_of(view: &View, source: Source) -> Result<(), Flaw> {
    match source {
        Source::Key(_) => Ok(()),
        Source::Measure { map, .. } | Source::Field { map, .. } => index("map of a view", map, &view.maps),
        Source::Computed { .. } => Err(Flaw::Index("column of a formula")),
    }
}
