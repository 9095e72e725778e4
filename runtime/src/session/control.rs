//! Carries out control commands while a session runs.
//!
//! In: requests from the prompt. Out: printed or cleared maps, a status, the end of the run.
//! Guarantee: requests are carried out in the order they were sent; none after one that ends the
//! run.

use std::time::Duration;

use profiler_model::object::Attach;
use profiler_model::output::{MapPrint, SpanLedger};
use profiler_model::results::Sink as _;
use profiler_model::view::View;

use super::{Session, traced};
use crate::attach::Links;
use crate::control::Status;
use crate::control::{Requests, Task};
use crate::ledger;
use crate::spans;

impl Session<'_> {
    /// Carries out the pending requests.
    pub(super) fn obey(&mut self, links: &Links) {
        while let Some(request) = self.sources.requests.as_ref().and_then(Requests::take) {
            let named = |name: &str| self.actions.object.maps.iter().position(|map| map.name == name);
            match &request.task {
                Task::Stop => {
                    self.sources.is_stopped = true;
                    return;
                }
                Task::HandOver(successor) => {
                    self.sources.is_stopped = true;
                    self.successor = Some(successor.clone());
                    return;
                }
                Task::Show { view, maps } => {
                    let maps: Option<Vec<usize>> = maps.iter().map(|map| named(map)).collect();
                    if let Some(maps) = maps {
                        self.show_asked(&[View { maps, ..View::clone(view) }], &[]);
                    }
                }
                Task::Views => {
                    let quality = self.quality(links);
                    self.show_asked(&self.actions.object.views, &quality);
                }
                Task::Print(map) => {
                    let map = named(map);
                    let snapshot = map.and_then(|map| self.actions.snapshot(map));
                    self.actions.show(snapshot, MapPrint::default());
                }
                Task::Status(answer) => {
                    // The requester may be gone.
                    let _ = answer.send(self.status(links));
                }
                Task::Clear(name) => {
                    if let Some(map) = named(name) {
                        self.actions.clear_map(map);
                        self.actions.tables.turns.forget(map);
                    }
                }
            }
            self.flush();
        }
    }

    /// The state of the run so far.
    pub(super) fn status(&self, links: &Links) -> Status {
        let (object, loaded, elapsed) = (self.actions.object, self.actions.loaded, self.windows.whole().length);
        let costs = ledger::costs(object, loaded, elapsed);
        let runs: u64 = costs.iter().map(|cost| cost.runs).sum();
        let time = Duration::from_nanos(costs.iter().map(|cost| cost.time_ns).sum());
        let losses: u64 = self.losses(links).iter().map(|(_, lost)| lost).sum();
        let spans: u64 = spans::read(object, loaded).iter().map(SpanLedger::lost).sum();
        // The kernel does not measure test runs, which is how timers run.
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
