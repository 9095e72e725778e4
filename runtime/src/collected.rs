//! An output that keeps what a run prints, for programs that use the results themselves.
//!
//! In: the calls of a session. Out: texts, values, map entries, span ledgers and losses, as data.
//! Guarantee: nothing is written anywhere; a map is what it was when it was printed last.

use std::collections::BTreeMap;
use std::io;

use profiler_model::output::{
    EventSink, Flush, MapPrint, MapSnapshot, Section, SnapshotSink, SourceLocation, SpanLedger, ViewSnapshot,
};
use profiler_model::value::{Symbols, Value};

/// The results of a run, as data.
///
/// A run prints all maps when it ends, except those that a view shows and those that the script has
/// cleared.
#[derive(Debug, Default)]
pub struct Collected {
    /// The entries of each map, by its name with the sigil. A map without keys has one entry whose
    /// key is `None`.
    pub maps: BTreeMap<String, Vec<(Option<Value>, Value)>>,
    /// What `printf`, `time`, `join` and `cat` printed, in order.
    pub texts: Vec<String>,
    /// What `print(value)` printed, in order.
    pub values: Vec<Value>,
    /// Warnings and errors of the script, in order.
    pub notes: Vec<String>,
    /// The account of each span.
    pub spans: Vec<SpanLedger>,
    /// What is missing from the results, and with [`RunOptions::stats`] what they cost.
    ///
    /// [`RunOptions::stats`]: crate::session::RunOptions::stats
    pub quality: Vec<Section>,
}

impl Collected {
    /// The entries of a map with keys; empty if the map was not printed.
    ///
    /// ```
    /// let results = profiler_runtime::Collected::default();
    /// assert_eq!(results.entries("@calls").count(), 0);
    /// ```
    pub fn entries(&self, map: &str) -> impl Iterator<Item = (&Value, &Value)> {
        let entries = self.maps.get(map).map(Vec::as_slice).unwrap_or_default();
        entries.iter().filter_map(|(key, value)| Some((key.as_ref()?, value)))
    }

    /// The value of a map without keys.
    pub fn scalar(&self, map: &str) -> Option<&Value> {
        let (key, value) = self.maps.get(map)?.first()?;
        key.is_none().then_some(value)
    }
}

impl EventSink for Collected {
    fn text(&mut self, _kind: &'static str, bytes: &[u8]) {
        self.texts.push(String::from_utf8_lossy(bytes).into_owned());
    }

    fn note(&mut self, _kind: &'static str, text: &[u8], _place: &SourceLocation) {
        self.notes.push(String::from_utf8_lossy(text).into_owned());
    }

    fn value(&mut self, value: &Value, _symbols: &dyn Symbols) {
        self.values.push(value.clone());
    }

    fn lost(&mut self, _events: u64) {}
}

impl SnapshotSink for Collected {
    fn map(&mut self, map: &MapSnapshot, _print: MapPrint, _symbols: &dyn Symbols) {
        self.maps.insert(map.name.clone(), map.entries.clone());
    }

    fn view(&mut self, _shown: &ViewSnapshot<'_>, _symbols: &dyn Symbols) {}

    fn spans(&mut self, spans: &[SpanLedger]) {
        self.spans = spans.to_vec();
    }

    fn quality(&mut self, sections: &[Section]) {
        self.quality = sections.to_vec();
    }
}

impl Flush for Collected {
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
