//! Which places of a stack frame hold values at the same time.
//!
//! In: what each instruction of a function does with the places: slots of the script's values, or
//! homes of spilled registers. Out: the pairs that conflict.
//! Guarantee: two places that are live at one point conflict. A place is live between an access and
//! a later read, over every path, unless an instruction replaces all of its bytes in between; a
//! place whose address is in a register is live from then on. The two places of one instruction
//! conflict.

/// What an instruction does with a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// May read it, and may change it.
    Reads,
    /// Changes some of its bytes.
    Changes,
    /// Replaces all bytes that any instruction reads, and reads none.
    Replaces,
    /// Puts its address into a register: any later instruction may read it.
    Escapes,
}

/// What the instructions of a block do, and where it continues.
#[derive(Debug, Default, Clone)]
pub(super) struct Block {
    /// For each instruction that accesses places: these.
    pub steps: Vec<Vec<(usize, Access)>>,
    /// Indices of the possible next blocks.
    pub successors: Vec<usize>,
}

/// The conflicts between places.
#[derive(Debug)]
pub(super) struct Conflicts {
    rows: Vec<Set>,
}

/// A set of places.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Set {
    words: Vec<u64>,
}

/// What is live at one point.
struct Live {
    /// May be read later.
    needed: Set,
    /// May have been accessed before.
    reached: Set,
}

impl Conflicts {
    /// The conflicts between `count` places in a function that starts at block 0.
    pub(super) fn of(count: usize, blocks: &[Block]) -> Conflicts {
        let mut conflicts = Conflicts { rows: vec![Set::new(count); count] };
        let needed = needed(count, blocks);
        let reached = reached(count, blocks);
        for ((block, needed), reached) in blocks.iter().zip(needed).zip(reached) {
            let Some(reached) = reached else { continue };
            conflicts.within(block, Live { needed, reached });
        }
        conflicts
    }

    /// Whether an instruction accesses the place.
    pub(super) fn is_used(&self, place: usize) -> bool {
        self.rows[place].has(place)
    }

    /// Whether two places may not share bytes.
    pub(super) fn between(&self, a: usize, b: usize) -> bool {
        self.rows[a].has(b)
    }

    /// Adds those of a block: `live` has what is needed at its end and reached at its start.
    fn within(&mut self, block: &Block, mut live: Live) {
        let mut needed = vec![live.needed.clone()];
        for step in block.steps.iter().rev() {
            before(step, &mut live.needed);
            needed.push(live.needed.clone());
        }
        needed.reverse();
        self.join(&needed[0].both(&live.reached));
        for (step, after) in block.steps.iter().zip(&needed[1..]) {
            // Over-approximates what is live at the instruction by what is live on either side.
            let mut busy = live.needed.both(&live.reached);
            for (place, _) in step {
                live.reached.insert(*place);
                busy.insert(*place);
            }
            live.needed.clone_from(after);
            busy.add(&live.needed.both(&live.reached));
            self.join(&busy);
        }
    }

    /// All of these are live at one point.
    fn join(&mut self, live: &Set) {
        for place in live.iter() {
            self.rows[place].add(live);
        }
    }
}

/// Goes back over an instruction.
fn before(step: &[(usize, Access)], needed: &mut Set) {
    for (place, access) in step {
        if *access == Access::Replaces {
            needed.remove(*place);
        }
    }
    for (place, access) in step {
        if *access == Access::Reads {
            needed.insert(*place);
        }
    }
}

/// For each block, what may be read after its end.
fn needed(count: usize, blocks: &[Block]) -> Vec<Set> {
    let mut always = Set::new(count);
    for (place, access) in blocks.iter().flat_map(|block| &block.steps).flatten() {
        if *access == Access::Escapes {
            always.insert(*place);
        }
    }
    let mut ends = vec![always; blocks.len()];
    let mut starts = ends.clone();
    let mut changed = true;
    while changed {
        changed = false;
        for (index, block) in blocks.iter().enumerate().rev() {
            for next in &block.successors {
                ends[index].add(&starts[*next]);
            }
            let mut live = ends[index].clone();
            block.steps.iter().rev().for_each(|step| before(step, &mut live));
            changed |= starts[index].add(&live);
        }
    }
    ends
}

/// For each block, what may have been accessed before its start; `None` if it is unreachable.
fn reached(count: usize, blocks: &[Block]) -> Vec<Option<Set>> {
    let mut starts: Vec<Option<Set>> = vec![None; blocks.len()];
    let mut waiting = vec![(0, Set::new(count))];
    while let Some((index, more)) = waiting.pop() {
        let changed = match &mut starts[index] {
            Some(known) => known.add(&more),
            unknown => {
                *unknown = Some(more);
                true
            }
        };
        let Some(start) = starts[index].as_ref().filter(|_| changed) else { continue };
        let mut end = start.clone();
        blocks[index].steps.iter().flatten().for_each(|(place, _)| end.insert(*place));
        waiting.extend(blocks[index].successors.iter().map(|next| (*next, end.clone())));
    }
    starts
}

impl Set {
    fn new(places: usize) -> Set {
        Set { words: vec![0; places.div_ceil(64)] }
    }

    fn insert(&mut self, place: usize) {
        self.words[place / 64] |= 1 << (place % 64);
    }

    fn remove(&mut self, place: usize) {
        self.words[place / 64] &= !(1 << (place % 64));
    }

    fn has(&self, place: usize) -> bool {
        self.words[place / 64] & (1 << (place % 64)) != 0
    }

    /// Adds the places of `other`; returns whether the set changed.
    fn add(&mut self, other: &Set) -> bool {
        let mut changed = false;
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            changed |= *more & !*word != 0;
            *word |= more;
        }
        changed
    }

    fn both(&self, other: &Set) -> Set {
        Set { words: self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect() }
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let places = 0..self.words.len() * 64;
        places.filter(|place| self.has(*place))
    }
}
