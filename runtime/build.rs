//! Links the unwinder into the binary, so that it needs nothing but libc at run time.
//!
//! In: cargo's build environment. Out: a linker script that stands for `libgcc_s`.
//! Guarantee: nothing else of the link changes. The standard library asks for `-lgcc_s`; the script answers with the static
//! archives of the same compiler. (`-static-libgcc` does not apply to a library that is asked for by name.)

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let gnu_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux")
        && env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    let Some(folder) = env::var_os("OUT_DIR").map(PathBuf::from).filter(|_| gnu_linux) else { return };
    // Where it cannot be written, the link falls back to the shared library.
    if fs::write(folder.join("libgcc_s.so"), "GROUP ( -lgcc_eh -lgcc )\n").is_ok() {
        println!("cargo:rustc-link-search=native={}", folder.display());
    }
}
