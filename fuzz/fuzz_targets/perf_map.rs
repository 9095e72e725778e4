//! libFuzzer on `naming::perf_map`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::naming::perf_map(input));
