//! libFuzzer on `readers::dwarf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::readers::dwarf(input));
