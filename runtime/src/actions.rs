//! Runs the script's functions that act in user space.
//!
//! In: calls of a function's `perform`. Out: calls of the output, changes of maps, the end
//! of the run.
//! Guarantee: commands run only if the user allowed them; the first exit code wins.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use profiler_model::object::{Attach, Object, Program, UserMap};
use profiler_model::output::{MapPrint, MapSnapshot, Output, SourceLocation};
use profiler_model::results::{HelperFailure, Packet, Sink};
use profiler_model::source::Span;
use profiler_model::text::controls::Escapes;
use profiler_model::value::{Symbols, Value};

use crate::commands::{self, Ended};
use crate::host::bounded::open_of_any_system;
use crate::load::Loaded;
use crate::maps::{self, Contents, alike};
use crate::packets::PacketFiles;
use crate::sys::map::Take;
use crate::sys::signal;
use crate::tables::Tables;
use crate::turns::{Held, maps_of};

/// How long `cat` waits for a file.
const CAT_PATIENCE: Duration = Duration::from_secs(5);

/// Finds the place of a span in the script.
pub(crate) type Locate<'a> = &'a dyn Fn(Span) -> SourceLocation;

/// The user-space half of functions.
pub(crate) struct Actions<'a> {
    /// The compiled object.
    pub object: &'a Object,
    /// Its loaded maps and programs.
    pub loaded: &'a Loaded,
    /// Stacks, strings and names that values refer to.
    pub tables: &'a Tables<'a>,
    /// Symbol names for addresses.
    pub symbols: &'a dyn Symbols,
    /// Names for finding rows that print alike, which are merged; `None` keeps them apart.
    pub alike: Option<&'a dyn Symbols>,
    /// Receives what the functions print.
    pub output: &'a mut dyn Output,
    /// The files of packets.
    pub packets: PacketFiles,
    /// Whether `system` may run commands.
    pub allow_unsafe: bool,
    /// Whether warnings are dropped.
    pub no_warnings: bool,
    /// What is at least escaped in the text of traced programs, wherever results go.
    pub escapes: Escapes,
    /// Finds the place of a span in the script.
    pub locate: Option<Locate<'a>>,
    /// Whether the script has printed words; `END` starts this anew.
    pub has_spoken: bool,
    /// The code of the first `exit`.
    pub exit: Option<u8>,
    /// Addresses whose watchpoints are to be closed.
    pub unwatched: Vec<u64>,
    /// Number of `system` commands that were not run because a signal had ended the run.
    pub commands_left_out: u64,
    /// The first map that could not be read or changed, and why.
    pub failure: Option<(String, io::Error)>,
}

impl<'a> Actions<'a> {
    /// Whether the script's next command runs; counts one that does not because a signal came.
    fn may_run_commands(&mut self) -> bool {
        // The compiler rejects a script that may not; this check is for objects from elsewhere.
        if self.allow_unsafe && signal::came() {
            self.commands_left_out += 1;
            return false;
        }
        self.allow_unsafe
    }

    /// Prints what a command has written, and whether it failed.
    fn show_ended(&mut self, kind: &'static str, ended: &Ended) {
        self.output.text(kind, &ended.output);
        if let Some(words) = ended.failure() {
            self.output.note("error", words.as_bytes(), &SourceLocation::default());
        }
    }

    /// Applies `act` to a map that an action names. An error is recorded in `failure`.
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

    /// The generation word, which selects the buffers that programs starting now write to.
    pub(crate) fn generation(&self) -> u64 {
        self.tables.generation()
    }

    /// The current contents of a map.
    pub(crate) fn snapshot(&mut self, map: usize) -> Option<MapSnapshot> {
        self.with_map(map, |of, this| match this.merged(map, of, this.generation())? {
            Some(merged) => Ok(merged),
            None => maps::snapshot(of, this.generation(), this.loaded, this.tables),
        })
    }

    /// The contents of a map in the buffer of this generation word, with keys of several processes
    /// merged if they print alike. `None` if no keys can merge.
    fn merged(&self, map: usize, of: &'a UserMap, generations: u64) -> io::Result<Option<MapSnapshot>> {
        self.merged_of(map, of, || maps::contents(of, generations, self.loaded, Take::Copy))
    }

    /// As `merged`, for the contents that `contents` returns.
    fn merged_of(
        &self,
        map: usize,
        of: &'a UserMap,
        contents: impl FnOnce() -> io::Result<Contents>,
    ) -> io::Result<Option<MapSnapshot>> {
        let Some(names) = self.alike.filter(|_| alike::may_merge(of)) else { return Ok(None) };
        let mut all = BTreeMap::from([(map, contents()?)]);
        alike::merge(self.object, &mut all, self.tables, names);
        Ok(all.get(&map).map(|held| maps::snapshot_of(of, held, self.tables)))
    }

    /// Prints a map as it is, or was when its handler asked for it.
    fn show_printed(&mut self, map: usize, print: MapPrint) {
        let snapshot = self.with_map(map, |of, this| {
            let merged = match this.tables.turns.held(map) {
                Some(Held::Nothing) => None,
                Some(Held::Place(generations)) => this.merged(map, of, generations)?,
                Some(Held::Total(contents)) => this.merged_of(map, of, || Ok((*contents).clone()))?,
                None => this.merged(map, of, this.generation())?,
            };
            merged.map_or_else(|| this.tables.printed(map), Ok)
        });
        self.show(snapshot, print);
    }

    /// The first of these places, with the others as the calls that led there.
    fn place(&self, places: &[Span]) -> SourceLocation {
        let mut located = places.iter().filter_map(|span| self.locate.map(|locate| locate(*span)));
        let first = located.next().unwrap_or_default();
        SourceLocation { expanded_from: located.collect(), ..first }
    }

    /// Prints a map snapshot.
    pub(crate) fn show(&mut self, snapshot: Option<MapSnapshot>, print: MapPrint) {
        if let Some(snapshot) = snapshot {
            // Of a part, the rows are not known yet.
            if print.top == 0 {
                let keys = snapshot.entries.iter().filter_map(|(key, _)| key.as_ref());
                self.symbols.expect(&mut keys.chain(snapshot.entries.iter().map(|(_, value)| value)));
            }
            self.output.map(&snapshot, print, self.symbols);
            self.symbols.expect(&mut std::iter::empty());
        }
    }
}

impl Sink for Actions<'_> {
    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        self.has_spoken |= !bytes.trim_ascii().is_empty();
        self.output.text(kind, bytes);
    }

    fn note(&mut self, kind: &'static str, text: &[u8], places: &[Span]) {
        if self.no_warnings && kind == "warnf" {
            return;
        }
        let place = self.place(places);
        self.output.note(kind, text, &place);
    }

    fn helper_failed(&mut self, failure: &HelperFailure<'_>, places: &[Span]) {
        let place = self.place(places);
        self.output.helper_failed(failure, &place);
    }

    fn value(&mut self, value: &Value) {
        self.output.value(value, self.symbols);
    }

    fn print_map(&mut self, map: usize, top: u64, div: u64) {
        self.show_printed(map, MapPrint { top, div, flame: None });
    }

    fn print_flame(&mut self, map: usize) {
        let unit = self.object.maps.get(map).map(|map| map.unit);
        self.show_printed(map, MapPrint { flame: unit, ..MapPrint::default() });
    }

    fn print_entry(&mut self, map: usize, key: &[u8], is_bare: bool) {
        let snapshot = self.with_map(map, |_, this| this.tables.printed_entry(map, key));
        // A key that was removed since the call prints nothing.
        let snapshot = snapshot.filter(|snapshot| !snapshot.entries.is_empty());
        match snapshot.as_ref().and_then(|snapshot| snapshot.entries.first()) {
            Some((_, value @ Value::Stats { .. })) if is_bare => self.value(value),
            _ => self.show(snapshot, MapPrint::default()),
        }
    }

    fn clear_map(&mut self, map: usize) {
        self.with_map(map, |of, this| match this.tables.turns.release(map) {
            Some(Held::Nothing) => Ok(()),
            Some(Held::Place(generations)) => maps::clear(of, generations, this.loaded),
            Some(Held::Total(_)) | None => maps::clear(of, this.generation(), this.loaded),
        });
    }

    fn zero_map(&mut self, map: usize) {
        self.with_map(map, |of, this| match this.tables.turns.release(map) {
            Some(Held::Nothing) => Ok(()),
            Some(Held::Place(generations)) => maps::zero_into(of, generations, this.generation(), this.loaded),
            Some(Held::Total(_)) | None => maps::zero(of, this.generation(), this.loaded),
        });
    }

    fn turn(&mut self, windows: u64, at_ns: u64) {
        let (object, loaded) = (self.object, self.loaded);
        for (map, alternate) in maps_of(object, windows) {
            // A `clear` whose control ring was full has been counted; the map is cleared
            // nevertheless.
            if !alternate.keeps && self.tables.turns.held(map).is_some() {
                self.clear_map(map);
            }
        }
        if let Err(error) = self.tables.turns.turn(object, loaded, windows, at_ns) {
            let name =
                maps_of(object, windows).next().map_or_else(String::new, |(map, _)| object.maps[map].name.clone());
            self.failure.get_or_insert((name, error));
        }
    }

    fn turn_end(&mut self, windows: u64) {
        for (map, _) in maps_of(self.object, windows) {
            self.tables.turns.release(map);
        }
    }

    fn exit(&mut self, code: u8) {
        self.exit.get_or_insert(code);
    }

    fn packet(&mut self, path: &str, packet: &Packet<'_>) {
        self.packets.write(path, packet, self.symbols.boot_time_ns());
    }

    fn cat(&mut self, path: &str) {
        match read_file(path, self.object.config.max_cat_bytes) {
            Ok(bytes) => self.output.text("cat", &bytes),
            Err(error) => {
                let reason = error.to_string();
                let reason = reason.split(" (os error").next().unwrap_or_default();
                let words = format!("failed to open file '{path}' ({reason})");
                self.output.note("error", words.as_bytes(), &SourceLocation::default());
            }
        }
    }

    fn unwatch(&mut self, address: u64, span: Span) {
        let is_it =
            |program: &Program| matches!(program.attach, Attach::Watchpoint { address: it, .. } if it == address);
        if self.object.programs.iter().any(is_it) {
            self.unwatched.push(address);
        } else {
            self.note("warnf", format!("no watchpoint is at {address:#x}").as_bytes(), &[span]);
        }
    }

    fn system(&mut self, command: &str) {
        if self.may_run_commands() {
            match commands::shell(command) {
                Ok(ended) => self.show_ended("syscall", &ended),
                Err(error) => self.output.text("syscall", format!("system: {error}\n").as_bytes()),
            }
        }
    }

    fn exec(&mut self, words: &[&[u8]]) {
        if self.may_run_commands() {
            match commands::program(words) {
                Ok(ended) => self.show_ended("exec", &ended),
                Err(error) => {
                    let program = String::from_utf8_lossy(words.first().copied().unwrap_or_default());
                    self.output.text("exec", format!("exec: {program}: {error}\n").as_bytes());
                }
            }
        }
    }

    fn escapes(&self) -> Escapes {
        self.escapes.max(if self.output.escapes() { Escapes::Controls } else { Escapes::Nothing })
    }

    fn symbols(&self) -> &dyn Symbols {
        self.symbols
    }

    fn now_ns(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
    }
}

/// The first `most` bytes of a regular file. The path may come from a traced process, and the file
/// system from another user, so the read runs in a thread of its own. If that does not answer in
/// time, it is abandoned.
fn read_file(path: &str, most: u64) -> io::Result<Vec<u8>> {
    let (reply, answer) = channel();
    let path = PathBuf::from(path);
    let read = move || {
        let read = open_of_any_system(&path).and_then(|file| {
            let mut bytes = Vec::new();
            match file.take(most).read_to_end(&mut bytes) {
                // A kernel file that has no more data for now.
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                _ => Ok(bytes),
            }
        });
        // The caller may have stopped waiting.
        let _ = reply.send(read);
    };
    thread::Builder::new().name("cat".into()).spawn(read)?;
    answer.recv_timeout(CAT_PATIENCE).unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer")))
}
