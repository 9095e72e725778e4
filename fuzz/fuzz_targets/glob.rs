//! libFuzzer on `readers::glob`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::readers::glob(input));
