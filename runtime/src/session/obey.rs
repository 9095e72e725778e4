//! Orders to a session at work.
//!
//! In: orders over a channel, from the prompt. Out: maps that are shown or emptied, a status, the end of the run.
//! Guarantee: orders are followed one by one as they came; none after one that ends the run.

use std::time::Duration;

use profiler_compiler::object::Attach;
use profiler_compiler::words::Sink as _;

use super::{Session, traced};
use crate::attach::Links;
use crate::ledger;
use crate::orders::{Orders, Task};
use crate::render::MapPrint;
use crate::repl::status::Status;
use crate::spans::{self, SpanLedger};

impl Session<'_> {
    /// Does what it was told meanwhile.
    pub(super) fn obey(&mut self, links: &Links) {
        while let Some(order) = self.orders.as_ref().and_then(Orders::take) {
            let named = |name: &str| self.actions.object.maps.iter().position(|map| map.name == name);
            match &order.task {
                Task::Stop => {
                    self.is_stopped = true;
                    return;
                }
                Task::HandOver(heir) => {
                    self.is_stopped = true;
                    self.heir = Some(heir.clone());
                    return;
                }
                Task::Print { map, view: Some(view) } => {
                    if let Some(map) = named(map) {
                        self.show_asked(map, view);
                    }
                }
                Task::Print { map, view: None } => {
                    let map = named(map);
                    let snapshot = map.and_then(|map| self.actions.snapshot(map));
                    self.actions.show(snapshot, MapPrint::default());
                }
                Task::Status(answer) => {
                    // Whoever asked may be gone.
                    let _ = answer.send(self.status(links));
                }
                Task::Clear(name) => {
                    if let Some(map) = named(name) {
                        self.actions.clear_map(map);
                    }
                }
            }
            self.flush();
        }
    }

    /// What it did so far.
    pub(super) fn status(&self, links: &Links) -> Status {
        let (object, loaded, elapsed) = (self.actions.object, self.actions.loaded, self.windows.whole().length());
        let costs = ledger::costs(object, loaded, elapsed);
        let runs: u64 = costs.iter().map(|cost| cost.runs).sum();
        let time = Duration::from_nanos(costs.iter().map(|cost| cost.time_ns).sum());
        let losses: u64 = ledger::read(object, loaded, &links.missed_runs()).iter().map(|(_, lost)| lost).sum();
        let spans: u64 = spans::read(object, loaded).iter().map(SpanLedger::lost).sum();
        // The kernel does not measure test runs, of which timers are made.
        let test_run =
            |attach: &Attach| matches!(attach, Attach::Begin | Attach::End | Attach::Timer { .. } | Attach::Signal);
        let is_measured = !traced(object).all(|program| test_run(&program.attach));
        Status {
            probes: traced(object).map(|program| program.points).sum(),
            cost: is_measured.then_some((runs, time)),
            elapsed,
            records: self.received.iter().sum(),
            lost: losses + spans,
        }
    }
}
