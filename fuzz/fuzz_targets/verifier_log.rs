//! libFuzzer on `readers::verifier_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::readers::verifier_log(input));
