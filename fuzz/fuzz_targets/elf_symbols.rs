//! libFuzzer on `readers::elf_symbols`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| profiler_fuzz::readers::elf_symbols(input));
