//! What functions do in user space.
//!
//! In: calls of a word's `perform`. Out: output through the renderer, changes of maps, the end of the run.
//! Guarantee: commands run only when the user allowed them; the first exit code counts.

use std::fs::File;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use profiler_compiler::object::{Attach, Object, Program, UserMap};
use profiler_compiler::source::Span;
use profiler_compiler::value::{Symbols, Value};
use profiler_compiler::words::{HelperFailure, Sink};

use crate::load::Loaded;
use crate::maps;
use crate::render::{MapPrint, MapSnapshot, Place, Render};
use crate::tables::Tables;

/// Says where in the script a span is.
pub type Locate<'a> = &'a dyn Fn(Span) -> Place;

/// The runtime's half of functions.
pub struct Actions<'a> {
    /// What was compiled.
    pub object: &'a Object,
    /// Where its maps are.
    pub loaded: &'a Loaded,
    /// What values refer to.
    pub tables: &'a Tables<'a>,
    /// Names for addresses.
    pub symbols: &'a dyn Symbols,
    /// The screen.
    pub render: &'a mut dyn Render,
    /// Whether `system` may run commands.
    pub allow_unsafe: bool,
    /// Whether warnings are dropped.
    pub no_warnings: bool,
    /// Where in the script a span is.
    pub locate: Option<Locate<'a>>,
    /// The code of the first `exit`.
    pub exit: Option<u8>,
    /// Addresses whose watchpoints are to be closed.
    pub unwatched: Vec<u64>,
    /// The first map that could not be read or changed, and why.
    pub failure: Option<(String, io::Error)>,
}

impl<'a> Actions<'a> {
    /// A map that an action names, with the result of what was done to it.
    fn with_map<T>(&mut self, map: usize, act: impl FnOnce(&'a UserMap, &Actions<'a>) -> io::Result<T>) -> Option<T> {
        let object = self.object;
        let map = object.maps.get(map)?;
        match act(map, self) {
            Ok(result) => Some(result),
            Err(error) => {
                self.failure.get_or_insert((map.name.clone(), error));
                None
            }
        }
    }

    /// Into which place programs that start now put what they find.
    pub fn generation(&self) -> u64 {
        self.tables.generation()
    }

    /// What a map holds now.
    pub fn snapshot(&mut self, map: usize) -> Option<MapSnapshot<'a>> {
        self.with_map(map, |map, this| maps::snapshot(map, this.generation(), this.loaded, this.tables))
    }

    /// Writes what a map held.
    pub fn show(&mut self, snapshot: Option<MapSnapshot<'_>>, print: MapPrint) {
        if let Some(snapshot) = snapshot {
            self.render.map(&snapshot, print, self.symbols);
        }
    }
}

impl Sink for Actions<'_> {
    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        self.render.text(kind, bytes);
    }

    fn note(&mut self, kind: &'static str, text: &[u8], span: Span) {
        if self.no_warnings && kind == "warnf" {
            return;
        }
        let place = self.locate.map(|locate| locate(span)).unwrap_or_default();
        self.render.note(kind, text, &place);
    }

    fn helper_failed(&mut self, failure: &HelperFailure<'_>, span: Span) {
        let place = self.locate.map(|locate| locate(span)).unwrap_or_default();
        self.render.helper_failed(failure, &place);
    }

    fn value(&mut self, value: &Value) {
        self.render.value(value, self.symbols);
    }

    fn print_map(&mut self, map: usize, top: u64, div: u64) {
        let snapshot =
            self.with_map(map, |map, this| maps::snapshot_or_zero(map, this.generation(), this.loaded, this.tables));
        self.show(snapshot, MapPrint { top, div });
    }

    fn print_entry(&mut self, map: usize, key: &[u8]) {
        let snapshot =
            self.with_map(map, |map, this| maps::snapshot_entry(map, this.generation(), key, this.loaded, this.tables));
        // A key that is gone since the call has nothing to print.
        self.show(snapshot.filter(|snapshot| !snapshot.entries.is_empty()), MapPrint::default());
    }

    fn clear_map(&mut self, map: usize) {
        self.with_map(map, |map, this| maps::clear(map, this.generation(), this.loaded));
    }

    fn zero_map(&mut self, map: usize) {
        self.with_map(map, |map, this| maps::zero(map, this.generation(), this.loaded));
    }

    fn exit(&mut self, code: u8) {
        self.exit.get_or_insert(code);
    }

    fn cat(&mut self, path: &str, span: Span) {
        match read_file(path, self.object.config.max_cat_bytes) {
            Ok(bytes) => self.render.text("cat", &bytes),
            Err(error) => {
                let reason = error.to_string();
                let reason = reason.split(" (os error").next().unwrap_or_default();
                self.note("error", format!("failed to open file '{path}' ({reason})").as_bytes(), span);
            }
        }
    }

    fn unwatch(&mut self, address: u64, span: Span) {
        let is_it =
            |program: &Program| matches!(program.attach, Attach::Watchpoint { address: it, .. } if it == address);
        if self.object.programs.iter().any(is_it) {
            self.unwatched.push(address);
        } else {
            self.note("warnf", format!("no watchpoint is at {address:#x}").as_bytes(), span);
        }
    }

    fn system(&mut self, command: &str) {
        if !self.allow_unsafe {
            // The compiler refuses such a script; this holds for objects from elsewhere.
            return;
        }
        let output =
            Command::new("/bin/sh").args(["-c", command]).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        match output {
            Ok(output) => self.render.text("syscall", &output.stdout),
            Err(error) => self.render.text("syscall", format!("system: {error}\n").as_bytes()),
        }
    }

    fn symbols(&self) -> &dyn Symbols {
        self.symbols
    }

    fn now_ns(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
    }
}

/// The first bytes of a file.
fn read_file(path: &str, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
