//! The system calls and libbpf calls of the runtime, each behind a safe function.
//!
//! In: plain values, slices and borrowed descriptors. Out: plain values, owned descriptors, `io::Error`.
//! Guarantee: the only module with `unsafe`; whatever arguments its safe functions get, memory stays sound.
#![allow(unsafe_code)]

pub mod mmap;
