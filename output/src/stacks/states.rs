//! The states of threads in stacks: which part of a stack is one, and its colour.
//!
//! In: the parts of stacks that may be names of states. Out: [`State`]s with their places.
//! Guarantee: a part is a state only if that part of all stacks is one, so that a thread or a
//! function with the name of a state does not look like one.

use std::collections::BTreeSet;

/// The state of threads that are on a CPU.
const RUNNING: &str = "running";

/// The states of threads that are not, as the recipes name them. The colour is one of the 256 of
/// terminals, all of which are tones of blue.
const OFF_CPU: [(&str, u8); 15] = [
    ("runnable", 195),
    ("throttled", 153),
    ("preempted", 195),
    ("blocked", 75),
    ("lock", 63),
    ("disk", 33),
    ("network", 38),
    ("poll", 117),
    ("pipe", 73),
    ("sleep", 189),
    ("fault", 141),
    ("child", 147),
    ("stopped", 103),
    ("gpu", 99),
    ("other", 110),
];

/// Frames of a file that are looked at: threads and states are outermost.
const FILE_FRAMES: std::ops::Range<usize> = 1..4;

/// A state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Running,
    OffCpu(OffCpu),
}

/// A state, and which frame of its stack it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    pub state: State,
    pub depth: usize,
}

/// The part of a picture that a frame is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Zone {
    /// Code that runs.
    #[default]
    OnCpu,
    /// The frame of a state, or one that it contains.
    Waiting(OffCpu),
    /// Outside of the state: the thread.
    Thread,
}

/// A state of a thread that is not on a CPU: the index in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OffCpu(pub u8);

impl OffCpu {
    /// All of them, in the order of the table.
    pub(super) fn all() -> impl Iterator<Item = OffCpu> {
        (0..OFF_CPU.len() as u8).map(OffCpu)
    }

    pub(super) fn name(self) -> &'static str {
        OFF_CPU.get(usize::from(self.0)).map_or("", |(name, _)| name)
    }

    /// The number of the colour in a terminal of 256 colours.
    pub(super) fn terminal_colour(self) -> u8 {
        OFF_CPU.get(usize::from(self.0)).map_or(0, |(_, colour)| *colour)
    }

    /// The same colour as red, green and blue.
    pub(super) fn rgb(self) -> (u8, u8, u8) {
        let cube = self.terminal_colour().saturating_sub(16);
        let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
        (level(cube / 36), level(cube / 6 % 6), level(cube % 6))
    }
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Running => RUNNING,
            State::OffCpu(state) => state.name(),
        }
    }
}

impl Placed {
    /// The zone of the frame at this depth.
    pub(super) fn zone(self, depth: usize) -> Zone {
        match self.state {
            _ if depth < self.depth => Zone::Thread,
            State::Running => Zone::OnCpu,
            State::OffCpu(state) => Zone::Waiting(state),
        }
    }
}

/// The state with this name.
pub(super) fn named(name: &str) -> Option<State> {
    let off_cpu = || OffCpu::all().find(|state| state.name() == name).map(State::OffCpu);
    if name == RUNNING { Some(State::Running) } else { off_cpu() }
}

/// The part that is a state in all rows: the last one if there are several.
pub(super) fn position(rows: &[Vec<&str>]) -> Option<usize> {
    let parts = rows.iter().map(Vec::len).min()?;
    let is_state = |part: &usize| rows.iter().all(|row| row.get(*part).is_some_and(|name| named(name).is_some()));
    (0..parts).rev().find(is_state)
}

/// The frame that is a state in all stacks of a file, in which threads, states and functions look
/// alike: the outermost frame is none, and a single state may be a function.
pub(super) fn position_in_file<'a>(stacks: impl Iterator<Item = &'a String>) -> Option<usize> {
    let rows: Vec<Vec<&str>> =
        stacks.map(|stack| stack.split(';').skip(FILE_FRAMES.start).take(FILE_FRAMES.len()).collect()).collect();
    let part = position(&rows)?;
    let names: BTreeSet<&str> = rows.iter().filter_map(|row| row.get(part).copied()).collect();
    (names.len() > 1).then_some(part + FILE_FRAMES.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_state_only_if_it_is_one_in_all_rows() {
        let at = |rows: &[&[&str]]| position(&rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>());
        assert_eq!(at(&[&["sleep", "running"], &["sleep", "lock"]]), Some(1));
        assert_eq!(at(&[&["sleep", "7"], &["poll", "8"]]), Some(0));
        assert_eq!(at(&[&["sleep"], &["server"]]), None);
        assert_eq!(at(&[&["a", "lock"], &["a"]]), None);
        assert_eq!(at(&[]), None);
    }

    #[test]
    fn a_function_is_no_state_of_a_file() {
        let at = |stacks: &[&str]| {
            position_in_file(stacks.iter().map(|stack| (*stack).to_owned()).collect::<Vec<_>>().iter())
        };
        assert_eq!(at(&["a;lock;main", "a;running;main", "b;sleep"]), Some(1));
        assert_eq!(at(&["a;1;lock;main", "a;1;running"]), Some(2));
        for stacks in [&["main;poll", "main;poll;more"][..], &["sleep;main", "poll;main"], &["main;poll", "main;work"]]
        {
            assert_eq!(at(stacks), None, "{stacks:?}");
        }
    }

    #[test]
    fn colours_are_blue_and_those_of_states_of_one_recipe_differ() {
        for state in OffCpu::all() {
            let (r, g, b) = state.rgb();
            assert!(b >= g && b >= r, "{}", state.name());
            let (runnable, preempted) = ("runnable", "preempted");
            let alike = OffCpu::all().filter(|other| other.terminal_colour() == state.terminal_colour()).count();
            assert_eq!(alike, if [runnable, preempted].contains(&state.name()) { 2 } else { 1 }, "{}", state.name());
        }
    }
}
