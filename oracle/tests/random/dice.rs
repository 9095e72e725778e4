//! Random choices that are determined by a seed.
//!
//! In: a seed. Out: numbers. Guarantee: the same seed gives the same numbers on every machine.

use profiler_oracle::random::Numbers;

/// A sequence of choices.
pub struct Dice(Numbers);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Numbers::new(seed))
    }

    pub fn draw(&mut self) -> u64 {
        self.0.draw()
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
