//! libFuzzer on `compiler::compile`: every other mutation changes tokens.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|input: &[u8]| profiler_fuzz::compiler::compile(input));
fuzz_mutator!(|input: &mut [u8], size: usize, max_size: usize, seed: u32| {
    profiler_fuzz::mutate::in_place(input, size, max_size, seed)
        .unwrap_or_else(|| libfuzzer_sys::fuzzer_mutate(input, size, max_size))
});
