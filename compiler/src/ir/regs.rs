//! Sets of virtual registers for dataflow analyses.
//!
//! In: registers below a number that is given at creation. Out: set membership. The set is a bit
//! vector, because long functions need one for every block.

use super::VReg;

/// A set of registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regs {
    words: Vec<u64>,
}

impl Regs {
    /// The empty set, with capacity for `count` registers.
    pub fn none(count: u32) -> Regs {
        Regs { words: vec![0; (count as usize).div_ceil(64)] }
    }

    /// All registers below `count`.
    pub fn all(count: u32) -> Regs {
        Regs { words: vec![u64::MAX; (count as usize).div_ceil(64)] }
    }

    /// Adds a register.
    pub fn insert(&mut self, reg: VReg) {
        self.words[reg.0 as usize / 64] |= 1 << (reg.0 % 64);
    }

    /// Removes a register.
    pub fn remove(&mut self, reg: VReg) {
        self.words[reg.0 as usize / 64] &= !(1 << (reg.0 % 64));
    }

    /// Whether the set contains a register.
    pub fn contains(&self, reg: VReg) -> bool {
        self.words[reg.0 as usize / 64] & (1 << (reg.0 % 64)) != 0
    }

    /// Adds the registers of `other`; returns whether the set changed.
    pub fn join(&mut self, other: &Regs) -> bool {
        self.each(other, |mine, theirs| mine | theirs)
    }

    /// Keeps only registers that `other` contains too; returns whether the set changed.
    pub fn meet(&mut self, other: &Regs) -> bool {
        self.each(other, |mine, theirs| mine & theirs)
    }

    fn each(&mut self, other: &Regs, both: impl Fn(u64, u64) -> u64) -> bool {
        let mut changed = 0;
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            let joined = both(*mine, *theirs);
            changed |= joined ^ *mine;
            *mine = joined;
        }
        changed != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_join_and_meet_and_say_whether_they_changed() {
        let of = |regs: &[u32]| {
            let mut set = Regs::none(130);
            for reg in regs {
                set.insert(VReg(*reg));
            }
            set
        };
        let mut set = of(&[0, 64]);
        assert!(set.join(&of(&[64, 129])) && !set.join(&of(&[129])));
        assert_eq!(set, of(&[0, 64, 129]));
        assert!(set.meet(&of(&[0, 129, 5])) && !set.meet(&Regs::all(130)));
        assert_eq!(set, of(&[0, 129]));
        set.remove(VReg(0));
        assert!(set.contains(VReg(129)) && !set.contains(VReg(0)));
    }
}
