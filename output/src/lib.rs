//! Output formats: text as bpftrace prints it, tables, JSON lines and comma-separated values.
//!
//! In: calls of a run through the traits of [`profiler_model::output`], which are events and
//! snapshots of maps and views. Out: bytes.
//! Guarantee: results come from plain data alone; nothing here knows the kernel, a script or a
//! command line. The size of a terminal is passed in.
//!
//! | module | what |
//! |---|---|
//! | [`text`] | what a person reads: text, tables, views that are redrawn on a terminal |
//! | [`json`] | one JSON document per line |
//! | [`csv`] | views and maps as comma-separated values |
//! | [`table`] | a table as lines of a given width |
//! | [`screen`] | redrawing of views in place |
//! | [`progress`] | an output with a progress line on the terminal |
//! | [`stacks`] | stacks of maps as folded lines and as a flame graph |
//! | [`escaping`] | a writer that makes bytes of traced programs harmless for terminals |
//!
//! # Another format
//!
//! A format implements [`EventSink`], [`SnapshotSink`] and [`Flush`]; the module of the traits says
//! in which order they are called. This one writes a line for each entry of a map of counts, and
//! ignores everything else:
//!
//! ```
//! use std::io::{self, Write};
//!
//! use profiler_model::output::{
//!     EventSink, Flush, MapPrint, MapSnapshot, Output, Section, SnapshotSink, SourceLocation,
//!     SpanLedger, ViewSnapshot,
//! };
//! use profiler_model::text::write_value;
//! use profiler_model::value::{NoSymbols, Symbols, Value};
//!
//! /// Lines `map,key,count`. Lines about losses begin with `#`.
//! struct Counts<W> {
//!     lines: Vec<u8>,
//!     to: W,
//! }
//!
//! impl<W: Write> SnapshotSink for Counts<W> {
//!     fn map(&mut self, map: &MapSnapshot, _: MapPrint, symbols: &dyn Symbols) {
//!         for (key, value) in &map.entries {
//!             let Value::Uint(count) = value else { continue };
//!             let mut name = Vec::new();
//!             if let Some(key) = key {
//!                 // Addresses are named now: their process may end.
//!                 write_value(key, symbols, &mut name);
//!             }
//!             let name = String::from_utf8_lossy(&name).replace('"', "\"\"");
//!             self.lines.extend(format!("{},\"{name}\",{count}\n", map.name).bytes());
//!         }
//!     }
//!     fn view(&mut self, _: &ViewSnapshot<'_>, _: &dyn Symbols) {}
//!     fn spans(&mut self, _: &[SpanLedger]) {}
//!     fn quality(&mut self, sections: &[Section]) {
//!         for line in sections.iter().flat_map(|section| &section.lines) {
//!             self.lines.extend(format!("#{line}\n").bytes());
//!         }
//!     }
//! }
//!
//! impl<W: Write> EventSink for Counts<W> {
//!     fn text(&mut self, _: &'static str, _: &[u8]) {}
//!     fn note(&mut self, _: &'static str, _: &[u8], _: &SourceLocation) {}
//!     fn value(&mut self, _: &Value, _: &dyn Symbols) {}
//!     fn lost(&mut self, _: u64) {}
//! }
//!
//! impl<W: Write> Flush for Counts<W> {
//!     fn flush(&mut self) -> io::Result<()> {
//!         self.to.write_all(&std::mem::take(&mut self.lines))?;
//!         self.to.flush()
//!     }
//! }
//!
//! // A run makes these calls:
//! let mut file = Vec::new();
//! let mut counts = Counts { lines: Vec::new(), to: &mut file };
//! let output: &mut dyn Output = &mut counts;
//! let entries = vec![(Some(Value::Str(b"sshd".to_vec())), Value::Uint(3))];
//! let map = MapSnapshot {
//!     name: "@calls".into(),
//!     keyed: true,
//!     aggregation: None,
//!     entries,
//!     processes: Vec::new(),
//! };
//! output.map(&map, MapPrint::default(), &NoSymbols);
//! output.quality(&[]);
//! output.flush()?;
//! assert_eq!(file, b"@calls,\"sshd\",3\n");
//! # Ok::<(), io::Error>(())
//! ```
//!
//! [`EventSink`]: profiler_model::output::EventSink
//! [`SnapshotSink`]: profiler_model::output::SnapshotSink
//! [`Flush`]: profiler_model::output::Flush

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(unreachable_pub))]

mod buffer;
pub mod csv;
mod entries;
pub mod escaping;
#[cfg(test)]
mod fixtures;
mod idle;
pub mod json;
pub mod progress;
pub mod screen;
pub mod stacks;
pub mod table;
pub mod text;
mod trials;
mod window;
