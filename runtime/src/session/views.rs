//! A session's views: while it runs, and at its end.
//!
//! In: turns of the clocks, the end of the run. Out: filled views through the renderer.
//! Guarantee: all maps of a turn are read before any is shown, each once.

use std::collections::BTreeMap;
use std::io;

use profiler_compiler::view::View;

use super::{RunError, Session, system};
use crate::attach::Links;
use crate::ledger::{self, Facts, Section};
use crate::maps::{self, Contents};
use crate::render::{MapPrint, Shown, Window};
use crate::sys::map::Take;
use crate::view;
use crate::windows::Turn;

impl Session<'_> {
    /// Shows the views whose time has come.
    pub(super) fn turn(&mut self, links: &Links) -> Result<(), RunError> {
        let turns = self.windows.turns(self.actions.loaded.globals()).map_err(system("closing a window"))?;
        for turn in &turns {
            let quality = self.quality(links);
            self.show_turn(turn, true, &quality);
        }
        if !turns.is_empty() {
            self.flush();
        }
        Ok(())
    }

    fn show_turn(&mut self, turn: &Turn, is_live: bool, quality: &[Section]) {
        let contents = self.contents(&turn.views, turn.take);
        for view in &turn.views {
            self.show_view(*view, turn.window, &contents, is_live, quality);
        }
    }

    /// What the maps of some views hold.
    fn contents(&mut self, views: &[usize], taken: Option<u64>) -> BTreeMap<usize, Contents> {
        let object = self.actions.object;
        let (generation, take) = match taken {
            Some(generation) => (generation, Take::Remove),
            None => (self.actions.generation(), Take::Copy),
        };
        let mut contents = BTreeMap::new();
        for map in views.iter().filter_map(|view| object.views.get(*view)).flat_map(|view| &view.maps) {
            if contents.contains_key(map) {
                continue;
            }
            let read =
                |map: &profiler_compiler::object::UserMap| maps::contents(map, generation, self.actions.loaded, take);
            match object.maps.get(*map).map(read) {
                Some(Ok(read)) => drop(contents.insert(*map, read)),
                Some(Err(error)) => {
                    let name = object.maps[*map].name.clone();
                    self.actions.failure.get_or_insert((name, error));
                }
                None => {}
            }
        }
        contents
    }

    /// Shows one map in a way that somebody asked for while it runs.
    pub(super) fn show_asked(&mut self, map: usize, view: &View) {
        let view = View { maps: vec![map], ..view.clone() };
        let generation = self.actions.generation();
        let Some(of) = self.actions.object.maps.get(map) else { return };
        match maps::contents(of, generation, self.actions.loaded, Take::Copy) {
            Ok(contents) => {
                let whole = self.windows.whole();
                self.show(&view, usize::MAX, (whole, false, false), &BTreeMap::from([(map, contents)]), &[]);
            }
            Err(error) => {
                self.actions.failure.get_or_insert((of.name.clone(), error));
            }
        }
    }

    fn show_view(
        &mut self,
        place: usize,
        window: Window,
        contents: &BTreeMap<usize, Contents>,
        is_live: bool,
        quality: &[Section],
    ) {
        if let Some(view) = self.actions.object.views.get(place) {
            let is_periodic = view.every.is_some();
            self.show(view, place, (window, is_live, is_periodic), contents, quality);
        }
    }

    fn show(
        &mut self,
        view: &View,
        place: usize,
        (window, is_live, is_periodic): (Window, bool, bool),
        contents: &BTreeMap<usize, Contents>,
        quality: &[Section],
    ) {
        let object = self.actions.object;
        let held = view.maps.iter().filter_map(|map| Some((object.maps.get(*map)?, contents.get(map)?)));
        let held: Vec<_> = held.collect();
        if held.len() < view.maps.len() {
            // A map that could not be read ends the run with an error.
            return;
        }
        let table = view::fill(view, &held, window.length().as_secs_f64(), self.actions.tables);
        let shown = Shown { table: &table, view: place, window, is_live, is_periodic, quality };
        self.actions.render.view(&shown, self.actions.symbols);
    }

    /// All maps and views at the end of the run.
    pub(super) fn print_results(&mut self, quality: &[Section]) -> Result<(), RunError> {
        let object = self.actions.object;
        let last = self.windows.last_turns().map_err(system("closing the last window"))?;
        let whole = self.windows.whole();
        let once: Vec<usize> = (0..object.views.len()).filter(|view| object.views[*view].every.is_none()).collect();
        let bare: Vec<usize> = (0..object.maps.len())
            .filter(|map| {
                !object.maps[*map].is_state()
                    && !object.maps[*map].is_private()
                    && !object.views.iter().any(|view| view.maps.contains(map))
            })
            .collect();
        // Everything is read before anything is shown: naming the addresses of one map takes long enough for the next to change.
        let turns: Vec<_> = last.into_iter().map(|turn| (self.contents(&turn.views, turn.take), turn)).collect();
        let of_once = self.contents(&once, None);
        // Where views show everything, nothing is printed above them.
        if object.config.print_maps_on_exit && (!bare.is_empty() || object.views.is_empty()) {
            self.print_maps(&bare, whole, quality);
        }
        for (contents, turn) in turns {
            for view in &turn.views {
                // A window that was still being closed is not the last of its view.
                self.show_view(*view, turn.window, &contents, turn.take.is_some(), quality);
            }
        }
        for view in once {
            self.show_view(view, whole, &of_once, false, quality);
        }
        Ok(())
    }

    /// Maps that no view shows.
    fn print_maps(&mut self, maps: &[usize], whole: Window, quality: &[Section]) {
        let object = self.actions.object;
        if self.actions.render.wants_tables() {
            let generation = self.actions.generation();
            for &map in maps {
                match maps::contents(&object.maps[map], generation, self.actions.loaded, Take::Copy) {
                    Ok(contents) if contents.entries.is_empty() => {}
                    Ok(contents) => {
                        let view = view::of_map(map, &object.maps[map]);
                        let contents = BTreeMap::from([(map, contents)]);
                        self.show(&view, usize::MAX, (whole, false, false), &contents, quality);
                    }
                    Err(error) => {
                        let failed: (String, io::Error) = (object.maps[map].name.clone(), error);
                        self.actions.failure.get_or_insert(failed);
                    }
                }
            }
            return;
        }
        // At a prompt, the blank line that parts a run from its maps parts nothing.
        if self.orders.is_none() {
            self.actions.render.end_of_run();
        }
        let snapshots: Vec<_> = maps.iter().map(|map| self.actions.snapshot(*map)).collect();
        for snapshot in snapshots {
            self.actions.show(snapshot, MapPrint::default());
        }
    }

    /// How good the results are so far.
    pub(super) fn quality(&self, links: &Links) -> Vec<Section> {
        let (object, loaded) = (self.actions.object, self.actions.loaded);
        let losses = ledger::read(object, loaded, &links.missed_runs());
        let costs = self.measuring.as_ref().map(|_| ledger::costs(object, loaded, self.windows.whole().length()));
        // A number in the place of a name stands there for people to see.
        let names_matter = self.measuring.is_some() || self.actions.render.is_for_machines();
        let unnamed = if names_matter { self.unnamed.get() } else { 0 };
        ledger::sections(&Facts { object, losses: &losses, unnamed, costs: costs.as_deref() })
    }
}
