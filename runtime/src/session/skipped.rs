//! Warnings about probe sites that could not be attached while the rest was.
//!
//! In: the parts of programs that are missing. Out: notes at their probes.
//! Guarantee: each process and each function is named once. Of many functions, the first ones are
//! named and all are counted.

use profiler_model::object::Program;
use profiler_model::results::Sink as _;

use super::Session;
use crate::attach::{Skipped, meaning};

/// Most functions that a warning names.
const MOST_NAMED: usize = 8;

impl Session<'_> {
    pub(super) fn warn_of_skipped(&mut self, skipped: &[(usize, Skipped)]) {
        let mut told: Vec<u32> = Vec::new();
        let object = self.actions.object;
        for (index, skipped) in skipped {
            let Some(program) = object.programs.get(*index) else { continue };
            for pid in &skipped.absent {
                if !told.contains(pid) {
                    told.push(*pid);
                    let words = format!("there is no process {pid}: nothing is attached for it");
                    self.actions.note("warnf", words.as_bytes(), program.span);
                }
            }
            if let Some(words) = refused_sites(program, skipped) {
                self.actions.note("warnf", words.as_bytes(), program.span);
            }
        }
    }
}

fn refused_sites(program: &Program, skipped: &Skipped) -> Option<String> {
    let (_, error) = skipped.sites.first()?;
    let names: Vec<String> = skipped.sites.iter().take(MOST_NAMED).map(|(name, _)| format!("`{name}`")).collect();
    let more = if skipped.sites.len() > MOST_NAMED { ", …" } else { "" };
    let reason = match meaning(&program.attach, error) {
        "" => error.to_string(),
        words => words.to_owned(),
    };
    let (count, all) = (skipped.sites.len(), program.points);
    let are = if count == 1 { "is" } else { "are" };
    Some(format!("{count} of {all} functions {are} not probed: {}{more}; {reason}", names.join(", ")))
}
