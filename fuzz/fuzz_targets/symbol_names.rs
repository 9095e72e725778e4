//! libFuzzer on `naming::symbol_names`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::naming::symbol_names(input));
