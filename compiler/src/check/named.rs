//! Probes chosen by their names, as `--probe-filter` asks.
//!
//! In: the programs of an attach point. Out: those of them, and of their probes, that are wanted.
//! Guarantee: the probes that belong to the run itself (`begin`, `end`, `self`) stay.

use std::fmt;
use std::rc::Rc;

use crate::ast::{Ident, Script};
use crate::check::{Env, Seed, Work};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;

/// Which probes are wanted: by what its maker makes of their names.
#[derive(Clone)]
pub struct ProbeFilter(Rc<dyn Fn(&str) -> bool>);

impl ProbeFilter {
    /// Those whose full name, or whose block's own name, `takes` is true of.
    pub fn new(takes: impl Fn(&str) -> bool + 'static) -> ProbeFilter {
        ProbeFilter(Rc::new(takes))
    }
}

impl fmt::Debug for ProbeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProbeFilter").finish_non_exhaustive()
    }
}

fn belongs_to_the_run(attach: &Attach) -> bool {
    matches!(attach, Attach::Begin | Attach::End | Attach::Signal)
}

/// Whether a program is wanted; takes the probes out of it that are not.
pub(super) fn keep(seed: &mut Seed, own_name: Option<&Ident>, filter: Option<&ProbeFilter>) -> bool {
    let Some(ProbeFilter(takes)) = filter.filter(|_| !belongs_to_the_run(&seed.attach)) else { return true };
    if let Some(own) = own_name {
        return takes(&own.text);
    }
    let wanted: Vec<bool> = seed.names.iter().map(|name| takes(name)).collect();
    let count = wanted.iter().filter(|wanted| **wanted).count();
    if count > 0 && count < wanted.len() {
        take_out(seed, &wanted);
    }
    count > 0
}

/// A program of several probes is attached at those that are wanted only.
fn take_out(seed: &mut Seed, wanted: &[bool]) {
    let all = wanted.len();
    match (&mut seed.attach, &mut seed.context.syscalls) {
        // The position of a call's number is that of its name.
        (_, Some(filter)) if filter.numbers.len() == all => {
            retain(&mut filter.numbers, wanted);
            retain(&mut seed.names, wanted);
        }
        (Attach::RawTracepoint { names }, None) if names.len() == all => {
            retain(names, wanted);
            retain(&mut seed.names, wanted);
        }
        // Here cookies refer to the names by number.
        (Attach::Uprobe { sites, .. }, _) if sites.len() == all => retain(sites, wanted),
        (Attach::Kprobe { sites, .. }, _) if sites.len() == all => retain(sites, wanted),
        // Elsewhere (a static probe with several sites) the program's probes stay together.
        _ => return,
    }
    seed.points = wanted.iter().filter(|wanted| **wanted).count() as u32;
}

fn retain<T>(items: &mut Vec<T>, wanted: &[bool]) {
    let mut wanted = wanted.iter();
    items.retain(|_| wanted.next().is_some_and(|wanted| *wanted));
}

/// Reports a script of which the filter leaves nothing.
pub(super) fn require_one(script: &Script, work: &[Work<'_>], env: &mut Env<'_>) {
    let is_own = |work: &Work<'_>| belongs_to_the_run(&work.seed.attach);
    if env.options.probe_filter.is_none() || env.report.has_errors() || !work.iter().all(is_own) {
        return;
    }
    let Some(point) = script.blocks.iter().flat_map(|block| &block.points).next() else { return };
    let message = "no probes to attach: none of this script's has a name that `--probe-filter` takes";
    let help = "the names are those that `probe` prints, such as `interval:s:1`, or the block's own";
    env.report.push(Diagnostic::error(Code(446), point.span, message).help(help));
}
