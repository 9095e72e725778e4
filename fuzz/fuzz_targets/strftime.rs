//! libFuzzer on `records::strftime`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::records::strftime(input));
