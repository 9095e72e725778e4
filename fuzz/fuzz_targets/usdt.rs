//! libFuzzer on `readers::usdt`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::readers::usdt(input));
