//! Links the unwinder into the binary, so that it needs nothing but libc at run time, and lists the pages of the diagnostics.
//!
//! In: cargo's build environment, `spec/errors/`. Out: a linker script that stands for `libgcc_s`; `diagnostics.rs`, the pages by code.
//! Guarantee: nothing else of the link changes. The standard library asks for `-lgcc_s`; the script answers with the static
//! archives of the same compiler. (`-static-libgcc` does not apply to a library that is asked for by name.)

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    list_diagnostics();
    link_unwinder();
}

/// An array of a code and its page each, sorted.
fn list_diagnostics() {
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../spec/errors");
    println!("cargo:rerun-if-changed={pages}");
    let files = fs::read_dir(pages).expect("spec/errors is part of the repository").filter_map(Result::ok);
    let mut codes: Vec<String> =
        files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".md")?.to_owned())).collect();
    codes.sort();
    let rows: Vec<String> =
        codes.iter().map(|code| format!("({code:?}, include_str!(\"{pages}/{code}.md\")),\n")).collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("diagnostics.rs"), format!("&[\n{}]\n", rows.concat())).expect("OUT_DIR can be written");
}

fn link_unwinder() {
    let gnu_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux")
        && env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    let Some(folder) = env::var_os("OUT_DIR").map(PathBuf::from).filter(|_| gnu_linux) else { return };
    // Where it cannot be written, the link falls back to the shared library.
    if fs::write(folder.join("libgcc_s.so"), "GROUP ( -lgcc_eh -lgcc )\n").is_ok() {
        println!("cargo:rustc-link-search=native={}", folder.display());
    }
}
