//! Compiles a pattern to the automaton that BPF programs run over a string.
//!
//! In: the syntax tree of a pattern. Out: a [`Table`], or why it is too large.
//! Guarantee: the automaton accepts exactly the texts without NULs in which `regex-automata` finds
//! a match; it is minimal; the same pattern gives the same bytes.
//!
//! A state is the offset of its row in the transitions. A row has one next state for each class of
//! bytes. The NUL at the end of a text is input too and leads to one of the first two states, which
//! have no way out: the first row rejects, the second accepts. So a program may stop at any state
//! up to the second.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use regex_automata::Anchored;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::alphabet::Unit;
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_syntax::hir::Hir;

/// Maximum size of the transitions.
pub const TRANSITIONS_BYTES: u32 = 16 << 10;

/// Offset of the accepting state in a parameter's bytes: after the word for `any`.
pub const ACCEPT_OFFSET: u32 = 8;
/// Offset of the first state.
pub const START_OFFSET: u32 = 16;
/// Offset of the classes of the 256 bytes.
pub const CLASSES_OFFSET: u32 = 24;
/// Offset of the transitions, two bytes each.
pub const TRANSITIONS_OFFSET: u32 = CLASSES_OFFSET + 256;
/// Total size. The verifier does not know that no state is followed by more than its row, so 256
/// unused transitions follow.
pub const SIZE_BYTES: u32 = TRANSITIONS_OFFSET + TRANSITIONS_BYTES + 2 * 256;

/// Bounds memory and time while an automaton is built that may become smaller.
const WORKSPACE_BYTES: usize = 1 << 20;

/// The number of the rejecting state.
const REJECT: u32 = 0;
/// The number of the accepting state.
const ACCEPT: u32 = 1;

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    start: u16,
    accept: u16,
    classes: [u8; 256],
    transitions: Vec<u16>,
}

/// Why a pattern has no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooLarge {
    /// The size of the minimal automaton.
    Known {
        /// The number of states.
        states: usize,
        /// The number of classes of bytes that it distinguishes.
        classes: usize,
    },
    /// The automaton does not fit in the workspace.
    Unknown,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = TRANSITIONS_BYTES;
        match *self {
            TooLarge::Known { states, classes } => {
                let size_bytes = 2 * states * classes;
                write!(
                    f,
                    "its table has {states} states for {classes} classes of bytes, {size_bytes} bytes, and {most} are the most"
                )
            }
            TooLarge::Unknown => write!(f, "its table is many times larger than {most} bytes"),
        }
    }
}

impl Table {
    /// Compiles a pattern.
    pub fn new(pattern: &Hir) -> Result<Table, TooLarge> {
        let mut graph = Graph::new(&determinised(pattern)?);
        graph.accept_early();
        graph.minimise();
        graph.merge_classes();
        graph.table()
    }

    /// The bytes of the table, without the leading word for `any`.
    pub fn bytes(&self) -> Vec<u8> {
        let header = [u64::from(self.accept), u64::from(self.start)];
        let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(self.classes);
        bytes.extend(self.transitions.iter().flat_map(|next| next.to_le_bytes()));
        bytes
    }

    /// Matches a text the way the generated program does.
    #[cfg(test)]
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        let end = text.iter().chain(&[0]).fold(self.start, |state, byte| {
            self.transitions[usize::from(state / 2) + usize::from(self.classes[usize::from(*byte)])]
        });
        end == self.accept
    }
}

/// The automaton as the library builds it, which recognises a match one byte after its end.
fn determinised(pattern: &Hir) -> Result<dense::DFA<Vec<u32>>, TooLarge> {
    let limit = Some(WORKSPACE_BYTES);
    let config = thompson::Config::new().utf8(false).nfa_size_limit(limit).which_captures(WhichCaptures::None);
    let nfa = thompson::Compiler::new().configure(config).build_from_hir(pattern).map_err(|_| TooLarge::Unknown)?;
    let config = dense::Config::new()
        .start_kind(StartKind::Unanchored)
        .accelerate(false)
        .dfa_size_limit(limit)
        .determinize_size_limit(limit);
    dense::Builder::new().configure(config).build_from_nfa(&nfa).map_err(|_| TooLarge::Unknown)
}

/// An automaton whose accepting and rejecting states have no way out.
struct Graph {
    start: u32,
    /// The column of each byte; that of NUL is the end of the text.
    classes: [usize; 256],
    /// A row for each state, with the next state for each column.
    rows: Vec<Vec<u32>>,
}

impl Graph {
    /// The part of the library's automaton that a search for any match uses.
    fn new(dfa: &dense::DFA<Vec<u32>>) -> Graph {
        let alphabet = dfa.byte_classes();
        let end = alphabet.alphabet_len() - 1;
        let mut classes = [end; 256];
        for byte in 1..=255 {
            classes[usize::from(byte)] = usize::from(alphabet.get(byte));
        }
        let mut found: HashMap<StateID, u32> = HashMap::new();
        let mut states: Vec<StateID> = Vec::new();
        let mut number = |state: StateID, states: &mut Vec<StateID>| {
            if dfa.is_match_state(state) {
                return ACCEPT;
            }
            if dfa.is_dead_state(state) {
                return REJECT;
            }
            *found.entry(state).or_insert_with(|| {
                states.push(state);
                states.len() as u32 + ACCEPT
            })
        };
        // Fails only for anchored searches and for bytes that end a search, which we do not use.
        let start = dfa.start_state(&start::Config::new().anchored(Anchored::No));
        let start = start.map_or(REJECT, |state| number(state, &mut states));
        let mut rows = vec![vec![REJECT; end + 1], vec![ACCEPT; end + 1]];
        let mut at = 0;
        while let Some(state) = states.get(at).copied() {
            let units = alphabet.representatives(..).filter_map(Unit::as_u8);
            let mut row: Vec<u32> = units.map(|byte| number(dfa.next_state(state, byte), &mut states)).collect();
            row.push(if dfa.is_match_state(dfa.next_eoi_state(state)) { ACCEPT } else { REJECT });
            rows.push(row);
            at += 1;
        }
        Graph { start, classes, rows }
    }

    /// Replaces states from which every byte leads to acceptance by the accepting one.
    fn accept_early(&mut self) {
        let accepts: Vec<bool> = self.rows.iter().map(|row| row.iter().all(|next| *next == ACCEPT)).collect();
        for next in self.rows.iter_mut().flatten().chain([&mut self.start]) {
            if accepts[*next as usize] {
                *next = ACCEPT;
            }
        }
    }

    /// Merges states that accept the same rests of a text.
    fn minimise(&mut self) {
        let mut blocks = self.distances();
        let mut count = 0;
        loop {
            let mut known: HashMap<(u32, Vec<u32>), u32> = HashMap::new();
            let signature =
                |state: usize| (blocks[state], self.rows[state].iter().map(|next| blocks[*next as usize]).collect());
            let refined: Vec<u32> = (0..self.rows.len())
                .map(|state| {
                    let next = known.len() as u32;
                    *known.entry(signature(state)).or_insert(next)
                })
                .collect();
            blocks = refined;
            if known.len() == count {
                break;
            }
            count = known.len();
        }
        // Blocks are numbered in the order of their first states, so the first two keep theirs.
        let mut rows = vec![Vec::new(); count];
        for (state, row) in self.rows.iter().enumerate().rev() {
            rows[blocks[state] as usize] = row.iter().map(|next| blocks[*next as usize]).collect();
        }
        self.start = blocks[self.start as usize];
        self.rows = rows;
        self.remove_unreachable();
    }

    /// For each state the length of the shortest way to the accepting one. Different lengths tell
    /// states apart at once, which otherwise takes as many rounds as a pattern is long.
    fn distances(&self) -> Vec<u32> {
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); self.rows.len()];
        for (state, row) in self.rows.iter().enumerate() {
            for next in row {
                before[*next as usize].push(state as u32);
            }
        }
        let mut distances = vec![u32::MAX; self.rows.len()];
        distances[ACCEPT as usize] = 0;
        let mut queue = vec![ACCEPT];
        let mut at = 0;
        while let Some(state) = queue.get(at).copied() {
            for previous in &before[state as usize] {
                if distances[*previous as usize] == u32::MAX {
                    distances[*previous as usize] = distances[state as usize] + 1;
                    queue.push(*previous);
                }
            }
            at += 1;
        }
        distances
    }

    /// Removes states that nothing leads to, and numbers the others as they are reached.
    fn remove_unreachable(&mut self) {
        let mut reached = vec![REJECT, ACCEPT];
        let mut numbers: HashMap<u32, u32> = HashMap::from([(REJECT, REJECT), (ACCEPT, ACCEPT)]);
        let mut number = |state: u32, reached: &mut Vec<u32>| {
            *numbers.entry(state).or_insert_with(|| {
                reached.push(state);
                reached.len() as u32 - 1
            })
        };
        let start = number(self.start, &mut reached);
        let mut rows = Vec::new();
        while let Some(state) = reached.get(rows.len()).copied() {
            rows.push(self.rows[state as usize].iter().map(|next| number(*next, &mut reached)).collect());
        }
        (self.start, self.rows) = (start, rows);
    }

    /// Merges columns that are equal in all rows.
    fn merge_classes(&mut self) {
        let mut kept: BTreeMap<Vec<u32>, usize> = BTreeMap::new();
        let mut columns: Vec<usize> = Vec::new();
        let mut merged: HashMap<usize, usize> = HashMap::new();
        for class in &mut self.classes {
            let column = *class;
            *class = *merged.entry(column).or_insert_with(|| {
                *kept.entry(self.rows.iter().map(|row| row[column]).collect()).or_insert_with(|| {
                    columns.push(column);
                    columns.len() - 1
                })
            });
        }
        for row in &mut self.rows {
            *row = columns.iter().map(|column| row[*column]).collect();
        }
    }

    fn table(&self) -> Result<Table, TooLarge> {
        let (states, classes) = (self.rows.len(), self.rows[0].len());
        if 2 * states * classes > TRANSITIONS_BYTES as usize {
            return Err(TooLarge::Known { states, classes });
        }
        let offset = |state: u32| (2 * state as usize * classes) as u16;
        Ok(Table {
            start: offset(self.start),
            accept: offset(ACCEPT),
            classes: self.classes.map(|class| class as u8),
            transitions: self.rows.iter().flatten().map(|next| offset(*next)).collect(),
        })
    }
}
