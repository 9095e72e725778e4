//! Shows a session's views, while it runs and at its end.
//!
//! In: turns of the clocks, the end of the run. Out: rendered views.
//! Guarantee: all maps of a turn are read before any is shown, each once.

use std::collections::BTreeMap;
use std::io;

use profiler_model::object::{Object, UserMap};
use profiler_model::output::{Cell, MapPrint, Section, Table, ViewSnapshot, Window};
use profiler_model::types::Type;
use profiler_model::view::View;

use super::{RunError, Session, system, unseen};
use crate::actions::Actions;
use crate::attach::Links;
use crate::ledger::{self, Account, Inputs, Resolved};
use crate::maps::{self, Contents, alike};
use crate::sys::map::Take;
use crate::unwind::Unwinder;
use crate::view;
use crate::windows::Turn;

/// Shows maps and views with the loss accounting of the run so far.
struct Display<'s, 'a> {
    actions: &'s mut Actions<'a>,
    quality: &'s [Section],
    /// Why there may be nothing to show, for the first table without rows.
    unseen: Vec<String>,
}

impl Display<'_, '_> {
    /// Shows the views of a turn while the session runs.
    fn show_turn(&mut self, turn: &Turn) {
        let contents = self.contents(declared(self.actions.object, &turn.views), turn.take);
        if turn.take.is_some() && self.actions.output.wants_stacks() {
            for (map, held) in &contents {
                self.pass_stacks(*map, held);
            }
        }
        for view in &turn.views {
            self.show_view(*view, turn.window, &contents, true);
        }
    }

    /// The contents of the maps of some views.
    fn contents<'v>(&mut self, views: impl Iterator<Item = &'v View>, taken: Option<u64>) -> BTreeMap<usize, Contents> {
        let object = self.actions.object;
        let (generation, take) = match taken {
            Some(generation) => (generation, Take::Remove),
            None => (self.actions.generation(), Take::Copy),
        };
        let mut contents = BTreeMap::new();
        for map in views.flat_map(|view| &view.maps) {
            if contents.contains_key(map) {
                continue;
            }
            let read = |map: &UserMap| maps::contents(map, generation, self.actions.loaded, take);
            match object.maps.get(*map).map(read) {
                Some(Ok(read)) => drop(contents.insert(*map, read)),
                Some(Err(error)) => {
                    let name = object.maps[*map].name.clone();
                    self.actions.failure.get_or_insert((name, error));
                }
                None => {}
            }
        }
        self.merge_alike(&mut contents);
        contents
    }

    /// Passes a map that has stacks in its keys to an output that wants them.
    fn pass_stacks(&mut self, map: usize, contents: &Contents) {
        let Some(of) = self.actions.object.maps.get(map).filter(|of| has_stacks(of)) else { return };
        let snapshot = maps::snapshot_of(of, contents, self.actions.tables);
        self.actions.symbols.expect(&mut snapshot.entries.iter().filter_map(|(key, _)| key.as_ref()));
        self.actions.output.stacks(&snapshot, self.actions.symbols);
        self.actions.symbols.expect(&mut std::iter::empty());
    }

    /// Merges keys of several processes that print alike, except in the drop-in.
    fn merge_alike(&self, contents: &mut BTreeMap<usize, Contents>) {
        if let Some(names) = self.actions.alike {
            alike::merge(self.actions.object, contents, self.actions.tables, names);
        }
    }

    fn show_view(&mut self, place: usize, window: Window, contents: &BTreeMap<usize, Contents>, is_live: bool) {
        if let Some(view) = self.actions.object.views.get(place) {
            self.show(view, Some(place), (window, is_live), contents);
        }
    }

    /// Shows a view; `place` is its index if it is one of the script.
    fn show(
        &mut self,
        view: &View,
        place: Option<usize>,
        (window, is_live): (Window, bool),
        contents: &BTreeMap<usize, Contents>,
    ) {
        let object = self.actions.object;
        let held = view.maps.iter().filter_map(|map| Some((object.maps.get(*map)?, contents.get(map)?)));
        let held: Vec<_> = held.collect();
        if held.len() < view.maps.len() {
            // A map that could not be read ends the run with an error.
            return;
        }
        let ledgers = crate::spans::counted(object, self.actions.loaded);
        let names = view::Names { lookup: self.actions.tables, symbols: self.actions.symbols };
        let mut table = view::fill(view, &held, window.length.as_secs_f64(), &ledgers, names);
        if table.rows.is_empty() && table.withheld.is_none() {
            table.notes.append(&mut self.unseen);
        }
        let is_periodic = view.every.is_some();
        let is_remainder = view.every.as_ref().is_some_and(|every| every.clear) && !is_live;
        if place.is_some() && !is_periodic && self.says_it_in_words(&table) {
            return;
        }
        let snapshot = ViewSnapshot {
            table: &table,
            view: place.unwrap_or(usize::MAX),
            window,
            is_live,
            is_periodic,
            is_remainder,
            quality: self.quality,
        };
        let cells = table.rows.iter().flatten();
        self.actions.symbols.expect(&mut cells.filter_map(|cell| match cell {
            Cell::Value(value) => Some(value),
            Cell::Missing | Cell::Number(_) => None,
        }));
        self.actions.output.view(&snapshot, self.actions.symbols);
        self.actions.symbols.expect(&mut std::iter::empty());
    }

    /// Whether a table has nothing to show, and people read words of `END` in its place.
    fn says_it_in_words(&self, table: &Table) -> bool {
        let is_empty = table.rows.is_empty() && table.rest.is_none();
        let explains = table.withheld.is_some() || table.empty.is_some() || !table.notes.is_empty();
        let is_for_people = !self.actions.output.is_for_machines() && !self.actions.output.wants_tables();
        is_empty && !explains && is_for_people && self.actions.has_spoken
    }

    /// Prints maps that no view shows.
    fn print_maps(&mut self, maps: &[usize], whole: Window, at_prompt: bool) {
        let object = self.actions.object;
        if self.actions.output.wants_tables() {
            let generation = self.actions.generation();
            for &map in maps {
                match maps::contents(&object.maps[map], generation, self.actions.loaded, Take::Copy) {
                    Ok(contents) if contents.entries.is_empty() => {}
                    Ok(contents) => {
                        let view = view::of_map(map, &object.maps[map], self.actions.tables.vocabulary);
                        let mut contents = BTreeMap::from([(map, contents)]);
                        self.merge_alike(&mut contents);
                        self.show(&view, None, (whole, false), &contents);
                    }
                    Err(error) => {
                        let failed: (String, io::Error) = (object.maps[map].name.clone(), error);
                        self.actions.failure.get_or_insert(failed);
                    }
                }
            }
            return;
        }
        let mut snapshots: Vec<_> = maps.iter().filter_map(|map| self.actions.snapshot(*map)).collect();
        let has_views = !object.views.is_empty();
        // People read an empty line for a map without entries, as in bpftrace. Above views it would
        // say nothing.
        if has_views {
            snapshots.retain(|snapshot| !snapshot.entries.is_empty());
        }
        // At a prompt there is no run output above to separate from the maps.
        if !at_prompt && (!has_views || !snapshots.is_empty()) {
            self.actions.output.end_of_run();
        }
        for snapshot in snapshots {
            self.actions.show(Some(snapshot), MapPrint::default());
        }
    }
}

impl<'a> Session<'a> {
    fn display<'s>(&'s mut self, quality: &'s [Section]) -> Display<'s, 'a> {
        Display { actions: &mut self.actions, quality, unseen: Vec::new() }
    }

    /// Shows the views that are due.
    pub(super) fn turn(&mut self, links: &Links) -> Result<(), RunError> {
        let turns = self.windows.turns(self.actions.loaded.globals(), self.ticks.as_ref());
        let turns = turns.map_err(system("closing a window"))?;
        for turn in &turns {
            let quality = quality_of(self, turn, links);
            self.display(&quality).show_turn(turn);
        }
        if !turns.is_empty() {
            self.flush();
        }
        Ok(())
    }

    /// Shows the views that a control command requested, of what their maps hold now.
    pub(super) fn show_asked(&mut self, views: &[View], quality: &[Section]) {
        let whole = self.windows.whole();
        let mut display = self.display(quality);
        let contents = display.contents(views.iter(), None);
        for view in views {
            display.show(view, None, (whole, false), &contents);
        }
    }

    /// Passes the stacks of all maps to an output that wants them; those of windows that were shown
    /// have been passed.
    pub(super) fn pass_stacks(&mut self) {
        if !self.actions.output.wants_stacks() {
            return;
        }
        let generation = self.actions.generation();
        for (map, of) in self.actions.object.maps.iter().enumerate().filter(|(_, of)| has_stacks(of)) {
            match maps::not_taken(of, generation, self.actions.loaded) {
                Ok(contents) => {
                    let mut contents = BTreeMap::from([(map, contents)]);
                    let mut display = self.display(&[]);
                    display.merge_alike(&mut contents);
                    for (map, held) in &contents {
                        display.pass_stacks(*map, held);
                    }
                }
                Err(error) => {
                    self.actions.failure.get_or_insert((of.name.clone(), error));
                }
            }
        }
    }

    /// Prints all views at the end of the run, and all maps unless a control command has ended it.
    pub(super) fn print_results(&mut self, links: &Links) -> Result<(), RunError> {
        let object = self.actions.object;
        let last = self.windows.last_turns().map_err(system("closing the last window"))?;
        let quality = self.quality(links);
        let last: Vec<_> = last.into_iter().map(|turn| (quality_of(self, &turn, links), turn)).collect();
        let whole = self.windows.whole();
        let once: Vec<usize> = (0..object.views.len()).filter(|view| object.views[*view].every.is_none()).collect();
        let bare: Vec<usize> = (0..object.maps.len())
            .filter(|map| {
                !object.maps[*map].is_state()
                    && !object.maps[*map].is_private()
                    && !object.views.iter().any(|view| view.maps.contains(map))
            })
            .collect();
        let at_prompt = self.sources.requests.is_some();
        let wants_maps = object.config.print_maps_on_exit && !self.sources.is_stopped;
        let unseen = unseen::sentences(object, &|index| self.values.get(index));
        let mut display = Display { unseen, ..self.display(&quality) };
        // Everything is read before anything is shown: resolving the symbols of one map takes long
        // enough for the next one to change.
        let read = |(quality, turn): (Vec<Section>, Turn)| {
            (display.contents(declared(object, &turn.views), turn.take), quality, turn)
        };
        let turns: Vec<_> = last.into_iter().map(read).collect();
        let of_once = display.contents(declared(object, &once), None);
        // If views show everything, no maps are printed above them.
        if wants_maps && (!bare.is_empty() || object.views.is_empty()) {
            display.print_maps(&bare, whole, at_prompt);
        }
        for (contents, quality, turn) in &turns {
            display.quality = quality;
            for view in &turn.views {
                // A window that was still being closed is not the last one of its view.
                display.show_view(*view, turn.window, contents, turn.take.is_some());
            }
        }
        display.quality = &quality;
        for view in once {
            display.show_view(view, whole, &of_once, false);
        }
        Ok(())
    }

    /// Loss accounting and overhead so far.
    pub(super) fn quality(&self, links: &Links) -> Vec<Section> {
        sections(self, &account(self, links))
    }
}

/// The views of an object at some places.
fn declared<'v>(object: &'v Object, places: &'v [usize]) -> impl Iterator<Item = &'v View> {
    places.iter().filter_map(|place| object.views.get(*place))
}

/// Loss accounting and overhead of the views of a turn: if they are cleared, of their window.
fn quality_of(session: &mut Session<'_>, turn: &Turn, links: &Links) -> Vec<Section> {
    let now = account(session, links);
    let first = turn.views.first().and_then(|view| Some((*view, session.actions.object.views.get(*view)?)));
    let Some((clock, _)) = first.filter(|(_, view)| view.every.is_some_and(|every| every.clear)) else {
        return sections(session, &now);
    };
    let window = now.since(&session.accounted.remove(&clock).unwrap_or_default());
    session.accounted.insert(clock, now);
    sections(session, &window)
}

/// What is missing so far.
fn account(session: &Session<'_>, links: &Links) -> Account {
    Account {
        losses: session.losses(links),
        resolved: session.counts.resolved.get(),
        names: session.actions.symbols.shortfalls(),
    }
}

fn sections(session: &Session<'_>, account: &Account) -> Vec<Section> {
    let (object, loaded) = (session.actions.object, session.actions.loaded);
    let elapsed = session.windows.whole().length;
    let costs = || ledger::with_traps(ledger::costs(object, loaded, elapsed), object, &session.traps);
    let costs = session.measuring.as_ref().map(|_| costs());
    // People can see an address that has no name; only programs need the count.
    let names_matter = session.measuring.is_some() || session.actions.output.is_for_machines();
    let resolved = if names_matter { account.resolved } else { Resolved::default() };
    let mut names = account.names;
    if !names_matter {
        // Any process on the machine can cause these losses, and most runs need none of the
        // names.
        names.lost_records = 0;
    }
    let unwinding = session.unwinder.as_ref().map(Unwinder::used);
    let visits: Vec<_> = session.gate.visits.rounds().collect();
    let costs = costs.as_deref();
    ledger::sections(&Inputs { object, losses: &account.losses, resolved, names, costs, unwinding, visits: &visits })
}

/// Whether a map has stacks in its keys that files of stacks show.
fn has_stacks(map: &UserMap) -> bool {
    map.key.as_ref().is_some_and(Type::has_stacks) && !map.is_state()
}
