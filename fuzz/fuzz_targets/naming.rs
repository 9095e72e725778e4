//! libFuzzer on `naming::naming`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::naming::naming(input));
