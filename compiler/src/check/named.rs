//! Selects probes by name, for `--probe-filter`.
//!
//! In: the programs of an attach point. Out: the selected programs and probes.
//! Guarantee: the probes that belong to the run itself (`begin`, `end`, `self`) are always kept.

use crate::ast::{Ident, Script};
use crate::check::{Env, ProbeFilter, Seed, Work};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;

fn belongs_to_the_run(attach: &Attach) -> bool {
    matches!(attach, Attach::Begin | Attach::End | Attach::Signal)
}

/// Whether a program is selected; removes its probes that are not.
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

/// Removes the probes that are not selected from a program with several probes.
fn take_out(seed: &mut Seed, wanted: &[bool]) {
    let all = wanted.len();
    match (&mut seed.attach, &mut seed.context.syscalls) {
        // Syscall numbers and names are parallel lists.
        (_, Some(filter)) if filter.numbers.len() == all => {
            retain(&mut filter.numbers, wanted);
            retain(&mut seed.names, wanted);
        }
        (Attach::RawTracepoint { names }, None) if names.len() == all => {
            retain(names, wanted);
            retain(&mut seed.names, wanted);
        }
        // Cookies refer to the names by index, so the names stay.
        (Attach::Uprobe { sites, .. }, _) if sites.len() == all => retain(sites, wanted),
        (Attach::Kprobe { sites, .. }, _) if sites.len() == all => retain(sites, wanted),
        // In all other cases (a static probe with several sites), the program keeps all of its
        // probes.
        _ => return,
    }
    seed.points = wanted.iter().filter(|wanted| **wanted).count() as u32;
}

fn retain<T>(items: &mut Vec<T>, wanted: &[bool]) {
    let mut wanted = wanted.iter();
    items.retain(|_| wanted.next().is_some_and(|wanted| *wanted));
}

/// Reports a script with no probe left after filtering.
pub(super) fn require_one(script: &Script, work: &[Work<'_>], env: &mut Env<'_>) {
    let is_own = |work: &Work<'_>| belongs_to_the_run(&work.seed.attach);
    if env.options.probe_filter.is_none() || env.report.has_errors() || !work.iter().all(is_own) {
        return;
    }
    let Some(point) = script.blocks.iter().flat_map(|block| &block.points).next() else { return };
    let message = "no probes to attach: none of this script's probes matches `--probe-filter`";
    let help = "the filter matches the names that `probe` prints, such as `interval:s:1`, or the block's own name";
    env.report.push(Diagnostic::error(Code(446), point.span, message).help(help));
}
