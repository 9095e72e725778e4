//! libFuzzer on `naming::jitdump`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::naming::jitdump(input));
