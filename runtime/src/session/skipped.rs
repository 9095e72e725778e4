//! Warnings about probes and sites that could not be attached while the rest was, and about
//! processes that do not exist.
//!
//! In: the programs that the kernel refused, the missing parts of others, and the processes that
//! parameters choose. Out: notes at their probes, or an error if nothing is left.
//! Guarantee: each process and each function is named once. Of many functions, the first ones are
//! named and all are counted.

use std::cell::RefCell;
use std::collections::BTreeMap;

use profiler_model::object::{Attach, Object, Program, RefusedProbes};
use profiler_model::results::Sink as _;

use super::{RunError, Session};
use crate::attach::{AttachError, Skipped, meaning};
use crate::sys::process;

/// Most functions that a warning names.
const MOST_NAMED: usize = 8;

/// The programs that the kernel refused to attach, by index, if the script lets the rest run.
#[derive(Debug, Default)]
pub(super) struct LeftOut(RefCell<BTreeMap<usize, AttachError>>);

impl LeftOut {
    /// Remembers a program.
    pub(super) fn add(&self, index: usize, error: AttachError) {
        self.0.borrow_mut().insert(index, error);
    }

    /// All of them; the first one is an error if no other program of the script runs.
    pub(super) fn unless_nothing_is_left(self, object: &Object) -> Result<BTreeMap<usize, AttachError>, RunError> {
        let mut left_out = self.0.into_inner();
        let runs = |(index, program): (usize, &Program)| {
            !left_out.contains_key(&index) && !matches!(program.attach, Attach::End)
        };
        let is_anything_left = object.programs.iter().enumerate().any(runs);
        match left_out.pop_first() {
            Some((_, error)) if !is_anything_left => Err(RunError::Attach(error)),
            Some((index, error)) => {
                left_out.insert(index, error);
                Ok(left_out)
            }
            None => Ok(left_out),
        }
    }
}

impl Session<'_> {
    /// Warns about each program that is left out, unless the script ignores them.
    pub(super) fn warn_of_left_out(&mut self, left_out: &BTreeMap<usize, AttachError>) {
        let object = self.actions.object;
        if object.config.refused_probes == RefusedProbes::Ignore {
            return;
        }
        for (index, error) in left_out {
            let Some(program) = object.programs.get(*index) else { continue };
            let reason = if error.meaning.is_empty() { error.error.to_string() } else { error.meaning.to_owned() };
            let words = format!("`{}` cannot be attached and is left out: {reason}", error.probe);
            self.actions.note("warnf", words.as_bytes(), &[program.span]);
        }
    }

    pub(super) fn warn_of_skipped(&mut self, skipped: &[(usize, Skipped)]) {
        let mut told: Vec<u32> = Vec::new();
        let object = self.actions.object;
        for (index, skipped) in skipped {
            let Some(program) = object.programs.get(*index) else { continue };
            for pid in &skipped.absent {
                if !told.contains(pid) {
                    told.push(*pid);
                    let words = format!("there is no process {pid}: nothing is attached for it");
                    self.actions.note("warnf", words.as_bytes(), &[program.span]);
                }
            }
            if let Some(words) = refused_sites(program, skipped) {
                self.actions.note("warnf", words.as_bytes(), &[program.span]);
            }
        }
        // Other probes are attached, and their filter lets nothing through.
        for pid in self.values.processes(object) {
            if pid != 0 && !told.contains(&pid) && !process::exists(pid) {
                told.push(pid);
                self.actions.note("warnf", format!("there is no process {pid}").as_bytes(), &[]);
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
