//! Windows that handlers end with `print(@x); clear(@x)`, or with `print(@a); print(@b)`.
//!
//! In: the handlers' requests. Out: the buffer from which each map is printed and cleared.
//! Guarantee: between the end of its window and its `clear`, a map is read from the buffer that
//! programs used before and that no program writes any more. So every update is in exactly one
//! printed window. A map that is never cleared is printed, up to the last print, as it was at the
//! end of its window.
//!
//! The reader of the records waits for the programs that were running when the window ended, so
//! whatever the handler prints after the map comes after it. A request made before the present
//! window began covers no time: its maps are empty (maps that are never cleared keep their last
//! contents). If each request were waited for, requests would pile up wherever handlers run more
//! often than that wait takes.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use profiler_model::object::{Alternate, Object, UserMap};

use crate::load::Loaded;
use crate::maps::{self, Contents};
use crate::sys::bpf::Grace;
use crate::sys::map::Take;
use crate::sys::time::boottime_ns;

/// The source from which a map is printed and cleared after its window has ended.
#[derive(Debug, Clone)]
pub(crate) enum Held {
    /// The inactive buffer, selected by this generation word.
    Place(u64),
    /// An empty window: it covers no time.
    Nothing,
    /// The contents of both buffers together.
    Total(Rc<Contents>),
}

/// What a map that is never cleared held when its last window ended.
#[derive(Debug, Clone, Default)]
struct Kept {
    /// The contents of the buffer that programs left then.
    left: Contents,
    total: Rc<Contents>,
}

/// The windows of handlers that print several maps together, or print and clear.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    grace: OnceCell<Grace>,
    /// When the present window of each generation bit began.
    began_ns: RefCell<BTreeMap<u32, u64>>,
    /// Maps whose `clear` has not arrived yet.
    held: RefCell<BTreeMap<usize, Held>>,
    /// The last contents of maps that are never cleared.
    kept: RefCell<BTreeMap<usize, Kept>>,
}

impl Turns {
    /// The source to read a map from, if that is not the present window.
    pub(crate) fn held(&self, map: usize) -> Option<Held> {
        self.held.borrow().get(&map).cloned()
    }

    /// As `held`, for the caller that clears the map; afterwards the map is read from the
    /// present window.
    pub(crate) fn release(&self, map: usize) -> Option<Held> {
        self.held.borrow_mut().remove(&map)
    }

    /// From now on, maps that are never cleared are printed with their current contents.
    pub(crate) fn finish(&self) {
        self.held.borrow_mut().retain(|_, held| !matches!(held, Held::Total(_)));
    }

    /// Discards the saved contents of a map that something other than its handler has cleared.
    pub(crate) fn forget(&self, map: usize) {
        self.kept.borrow_mut().remove(&map);
    }

    /// Ends the windows of these generation bits for a request that a handler made at `at_ns`. Maps
    /// that the handler clears must have been released before.
    pub(crate) fn turn(&self, object: &Object, loaded: &Loaded, windows: u64, at_ns: u64) -> io::Result<()> {
        let outside = || io::Error::from(io::ErrorKind::InvalidData);
        let Some(offset) = object.generation_offset else { return Ok(()) };
        let before = loaded.globals().bss_u64(offset).ok_or_else(outside)?;
        let mut due = self.due(windows, at_ns);
        let keeping = maps_of(object, windows).filter(|(_, alternate)| alternate.keeps);
        let keeping = keeping.fold(0, |bits, (_, alternate)| bits | 1 << alternate.bit);
        if due & keeping != 0 {
            // Maps that are never cleared switch together, so all of them show the same moment.
            due |= keeping;
        }
        if due != 0 {
            let now_ns = boottime_ns();
            loaded.globals().set_bss_u64(offset, before ^ due);
            self.began_ns.borrow_mut().extend(bits(due).map(|bit| (bit, now_ns)));
            self.wait()?;
        }
        for (map, Alternate { bit, keeps, .. }) in maps_of(object, windows) {
            let is_due = due & (1 << bit) != 0;
            let of = match (keeps, is_due) {
                (true, true) => Held::Total(self.total(map, &object.maps[map], before, loaded)?),
                (true, false) => {
                    Held::Total(self.kept.borrow().get(&map).map(|kept| kept.total.clone()).unwrap_or_default())
                }
                (false, true) => Held::Place(before),
                (false, false) => Held::Nothing,
            };
            self.held.borrow_mut().insert(map, of);
        }
        Ok(())
    }

    /// The contents of a map when programs left the buffer of this generation word: that buffer's,
    /// and those that the other buffer held when programs left it.
    fn total(&self, map: usize, of: &UserMap, generations: u64, loaded: &Loaded) -> io::Result<Rc<Contents>> {
        let left = maps::of_place(of, of.place(generations), loaded, Take::Copy)?;
        let mut kept = self.kept.borrow_mut();
        let kept = kept.entry(map).or_default();
        let total = Rc::new(left.clone().join(&kept.left));
        *kept = Kept { left, total: total.clone() };
        Ok(total)
    }

    /// The windows among these that began before the request.
    fn due(&self, windows: u64, at_ns: u64) -> u64 {
        let began_ns = self.began_ns.borrow();
        let is_due = |bit: &u32| began_ns.get(bit).is_none_or(|began| *began < at_ns);
        bits(windows).filter(is_due).fold(0, |due, bit| due | 1 << bit)
    }

    fn wait(&self) -> io::Result<()> {
        if self.grace.get().is_none() {
            // It cannot fail: the cell is empty and belongs to this thread.
            let _ = self.grace.set(Grace::new()?);
        }
        self.grace.get().map_or(Ok(()), Grace::wait)
    }
}

/// The maps of these windows, each with its second buffer.
pub(crate) fn maps_of(object: &Object, windows: u64) -> impl Iterator<Item = (usize, &Alternate)> {
    let maps = object.maps.iter().enumerate().filter_map(|(map, it)| Some((map, it.alternate.as_ref()?)));
    maps.filter(move |(_, it)| windows & (1 << it.bit) != 0)
}

fn bits(word: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |bit| word & (1 << bit) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_from_before_a_window_began_does_not_end_it() {
        let turns = Turns::default();
        assert_eq!(turns.due(0b110, 5), 0b110, "nothing has begun");
        turns.began_ns.borrow_mut().extend([(1, 7), (2, 3)]);
        assert_eq!(turns.due(0b110, 5), 0b100);
        assert_eq!(turns.due(0b110, 7), 0b100, "at the same time is before");
        assert_eq!(turns.due(0b110, 8), 0b110);
    }
}
