//! Functions of Rust that call each other in random order, and print which of them were active.
//!
//! In: `main` or `thread`, where the chains run; their number; the limit of the first phase in
//! milliseconds. Out: lines `chain ID NAME…`, innermost first, one for each call of `leaf`, which
//! closes the descriptor 1000000 + ID, which is not open.
//! Guarantee: all functions named `chain_…` have frames of their own. Calls with id 0 come first,
//! until SIGUSR1.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

unsafe extern "C" {
    fn close(descriptor: i32) -> i32;
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
}

const SIGUSR1: i32 = 10;
static IS_WARM: AtomicBool = AtomicBool::new(false);

extern "C" fn on_warm(_: i32) {
    IS_WARM.store(true, Ordering::Relaxed);
}

struct Chain {
    active: Vec<&'static str>,
    left: u64,
    id: i32,
    random: u64,
}

#[inline(never)]
fn leaf(chain: &Chain) -> i32 {
    if chain.id != 0 {
        let names: Vec<_> = chain.active.iter().rev().copied().collect();
        println!("chain {} {}", chain.id, names.join(" "));
    }
    // SAFETY: no descriptor has this number.
    unsafe { close(1_000_000 + chain.id) + 1 }
}

impl Chain {
    /// What follows the call keeps the caller's frame.
    #[inline(always)]
    fn within(&mut self, name: &'static str, call: impl FnOnce(&mut Chain)) {
        self.active.push(name);
        call(self);
        self.active.pop();
    }

    #[inline(always)]
    fn onward(&mut self) {
        if self.left == 0 {
            black_box(leaf(self));
            return;
        }
        self.left -= 1;
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        FUNCTIONS[(self.random >> 33) as usize % FUNCTIONS.len()](self);
    }
}

#[inline(never)]
fn chain_plain(chain: &mut Chain) {
    chain.within("chain_plain", |chain| chain.onward());
}

#[inline(never)]
fn chain_generic<const SIZE: usize>(chain: &mut Chain) {
    let mut array = [0u8; SIZE];
    black_box(&mut array);
    chain.within("chain_generic", |chain| chain.onward());
    black_box(&mut array);
}

#[inline(never)]
fn chain_closure(chain: &mut Chain) {
    let mut calls = 0;
    let call: Box<dyn FnOnce(&mut Chain) + '_> = Box::new(|chain| {
        chain.onward();
        calls += 1;
    });
    chain.within("chain_closure", black_box(call));
    black_box(calls);
}

/// The standard library calls the rest of the chain when it compares.
#[inline(never)]
fn chain_sort(chain: &mut Chain) {
    let mut values: Vec<u64> = (0..50).map(|value| value * 7919 % 50).collect();
    chain.within("chain_sort", |chain| {
        let mut is_first = true;
        values.sort_by(|left, right| {
            if std::mem::take(&mut is_first) {
                chain.onward();
            }
            left.cmp(right)
        });
    });
    black_box(&values);
}

struct Guard<'c>(&'c mut Chain);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.onward();
    }
}

/// The rest of the chain runs while a panic passes this function.
#[inline(never)]
fn chain_passed(chain: &mut Chain) {
    chain.active.push("chain_passed");
    let guard = Guard(chain);
    if black_box(true) {
        resume_unwind(Box::new(0u8));
    }
    drop(guard);
}

#[inline(never)]
fn chain_catch(chain: &mut Chain) {
    // A panic in a destructor that a panic has called would end the process.
    let is_passed = chain.active.contains(&"chain_passed");
    chain.within("chain_catch", |chain| {
        let depth = chain.active.len();
        let call = AssertUnwindSafe(|| if is_passed { chain.onward() } else { chain_passed(chain) });
        black_box(catch_unwind(call).is_err());
        chain.active.truncate(depth);
    });
}

static FUNCTIONS: [fn(&mut Chain); 7] = [
    chain_plain,
    chain_generic::<3>,
    chain_generic::<200>,
    chain_generic::<9000>,
    chain_closure,
    chain_sort,
    chain_catch,
];

fn chains(count: i32, warm_ms: u64) {
    let mut chain = Chain { active: Vec::new(), left: 0, id: 0, random: 1 };
    for _ in 0..warm_ms {
        if IS_WARM.load(Ordering::Relaxed) {
            break;
        }
        leaf(&chain);
        std::thread::sleep(Duration::from_millis(1));
    }
    for id in 1..=count {
        chain.id = id;
        chain.left = 1 + (chain.random >> 20) % 12;
        chain.onward();
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (count, warm_ms) = (words[2].parse().expect("a number"), words[3].parse().expect("a number"));
    // SAFETY: the handler writes one atomic value.
    unsafe { signal(SIGUSR1, on_warm) };
    if words[1] == "thread" {
        std::thread::spawn(move || chains(count, warm_ms)).join().expect("it ends");
    } else {
        chains(count, warm_ms);
    }
}
