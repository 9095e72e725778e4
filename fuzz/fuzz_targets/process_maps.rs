//! libFuzzer on `readers::process_maps`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::readers::process_maps(input));
