//! The events of spans whose handlers enclose the current code, and the loops over spans.
//!
//! In: handlers and loops, as the check enters and leaves them. Out: the event or loop that a name
//! refers to.
//! Guarantee: of several events of one span, the innermost is found.

use super::event::Event;
use crate::typed::{SpanValues, VarIndex};

/// A span event whose handlers are being checked.
#[derive(Debug)]
pub(super) struct Active {
    /// The span.
    pub(super) index: usize,
    pub(super) event: Event,
    /// The variable that holds the key.
    pub(super) key: VarIndex,
    /// The values read so far.
    pub(super) values: SpanValues,
    /// Names of the kept fields read so far, parallel to `values.kept`.
    pub(super) fields: Vec<String>,
    /// Fields that this stage itself keeps, with their variables.
    pub(super) own: Vec<(String, VarIndex)>,
}

impl Active {
    pub(super) fn new(index: usize, event: Event, key: VarIndex) -> Active {
        Active { index, event, key, values: SpanValues::default(), fields: Vec::new(), own: Vec::new() }
    }
}

/// A loop over a span whose body is being checked.
#[derive(Debug)]
struct Walk {
    /// The loop variable.
    var: VarIndex,
    /// The values that the body reads of each start.
    active: Active,
}

/// The events and loops around the current code, the innermost last.
#[derive(Debug, Default)]
pub(crate) struct OpenEvents {
    events: Vec<Active>,
    walks: Vec<Walk>,
}

impl OpenEvents {
    /// Enters the handlers of an event.
    pub(super) fn enter(&mut self, event: Active) {
        self.events.push(event);
    }

    /// Leaves the innermost event.
    pub(super) fn leave(&mut self) -> Option<Active> {
        self.events.pop()
    }

    /// Hides all events but the innermost one until [`OpenEvents::restore`].
    pub(super) fn hide_outer(&mut self) -> Vec<Active> {
        self.events.drain(..self.events.len().saturating_sub(1)).collect()
    }

    /// Leaves the innermost event and shows the hidden ones again.
    pub(super) fn restore(&mut self, outer: Vec<Active>) -> SpanValues {
        let values = self.leave().map(|event| event.values).unwrap_or_default();
        self.events = outer;
        values
    }

    /// The innermost event.
    pub(super) fn last(&mut self) -> Option<&mut Active> {
        self.events.last_mut()
    }

    /// The innermost event of a span.
    pub(super) fn of_span(&mut self, index: usize) -> Option<&mut Active> {
        self.events.iter_mut().rev().find(|event| event.index == index)
    }

    /// The span whose `expire` handlers enclose the current code.
    pub(super) fn expired_span(&self) -> Option<usize> {
        self.events.iter().find(|event| event.event == Event::Expire).map(|event| event.index)
    }

    /// Enters a loop over a span.
    pub(super) fn enter_walk(&mut self, var: VarIndex, active: Active) {
        self.walks.push(Walk { var, active });
    }

    /// Leaves the innermost loop; returns the values that its body read.
    pub(super) fn leave_walk(&mut self) -> SpanValues {
        self.walks.pop().map(|walk| walk.active.values).unwrap_or_default()
    }

    /// The span of the loop with this variable.
    pub(super) fn walked_span(&self, var: VarIndex) -> Option<usize> {
        self.walks.iter().find(|walk| walk.var == var).map(|walk| walk.active.index)
    }

    /// Makes the loop with this variable the innermost event until [`OpenEvents::put_back`].
    pub(super) fn take_walk(&mut self, var: VarIndex) {
        if let Some(walk) = self.walks.iter_mut().find(|walk| walk.var == var) {
            let idle = Active::new(walk.active.index, Event::Open, walk.active.key);
            self.events.push(std::mem::replace(&mut walk.active, idle));
        }
    }

    /// Ends the look-up that [`OpenEvents::take_walk`] began.
    pub(super) fn put_back(&mut self, var: VarIndex) {
        if let (Some(active), Some(walk)) = (self.events.pop(), self.walks.iter_mut().find(|walk| walk.var == var)) {
            walk.active = active;
        }
    }
}
