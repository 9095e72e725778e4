//! libFuzzer on `records::format`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::records::format(input));
