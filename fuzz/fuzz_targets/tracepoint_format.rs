//! libFuzzer on `readers::tracepoint_format`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::readers::tracepoint_format(input));
