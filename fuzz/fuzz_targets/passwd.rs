//! libFuzzer on `readers::passwd`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::readers::passwd(input));
