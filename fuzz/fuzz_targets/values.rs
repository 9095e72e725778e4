//! libFuzzer on `records::values`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::records::values(input));
