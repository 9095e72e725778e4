//! libFuzzer on `objects::object`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::objects::object(input));
