//! libFuzzer on `readers::library_cache`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::readers::library_cache(input));
