//! libFuzzer on `readers::elf_listing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::readers::elf_listing(input));
