//! Links the unwinder into the binary, so that it needs nothing but libc at run time, lists the
//! pages of the diagnostics, and embeds the standard library.
//!
//! In: cargo's build environment, `spec/errors/`, `stdlib/`. Out: a linker script that replaces
//! `libgcc_s`; `diagnostics.rs`, the pages by code; `stdlib.rs`, the modules by path.
//! Guarantee: of a link that is no release's, nothing else changes. The standard library asks for
//! `-lgcc_s`; the script answers with the static archives of the same compiler. (`-static-libgcc`
//! does not apply to a library that is asked for by name.) A file added to `stdlib` is a module
//! without further ado; the list is sorted by path.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    list_diagnostics();
    embed().expect("the standard library can be read");
    link_unwinder();
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        order_functions();
    }
}

/// The directory of this package now: a checkout can be moved after the script was built.
fn package() -> String {
    env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")
}

/// An array of a code and its page each, sorted.
fn list_diagnostics() {
    let pages = format!("{}/../spec/errors", package());
    println!("cargo:rerun-if-changed={pages}");
    let files = fs::read_dir(&pages).expect("spec/errors is part of the repository").filter_map(Result::ok);
    let mut codes: Vec<String> =
        files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".md")?.to_owned())).collect();
    codes.sort();
    let rows: Vec<String> =
        codes.iter().map(|code| format!("({code:?}, include_str!(\"{pages}/{code}.md\")),\n")).collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("diagnostics.rs"), format!("&[\n{}]\n", rows.concat())).expect("OUT_DIR can be written");
}

/// `PROFILER_ORDER` names a file of symbols: their functions are put first (see scripts/release).
fn order_functions() {
    println!("cargo:rerun-if-env-changed=PROFILER_ORDER");
    if let Some(order) = env::var("PROFILER_ORDER").ok().filter(|order| !order.is_empty()) {
        println!("cargo:rerun-if-changed={order}");
        println!("cargo:rustc-link-arg-bins=-Wl,--symbol-ordering-file={order},--no-warn-symbol-ordering");
    }
}

fn link_unwinder() {
    let Some(directory) = env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    let gnu_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux")
        && env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    if !gnu_linux {
        return;
    }
    // Where it cannot be written, the link falls back to the shared library.
    if fs::write(directory.join("libgcc_s.so"), "GROUP ( -lgcc_eh -lgcc )\n").is_ok() {
        println!("cargo:rustc-link-search=native={}", directory.display());
    }
}

/// Writes a list of the modules in `stdlib` with their texts.
fn embed() -> io::Result<()> {
    let directory = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let root = Path::new(&package()).join("../stdlib").canonicalize()?;
    println!("cargo:rerun-if-changed={}", root.display());
    let mut modules = Vec::new();
    collect(&root, &root, &mut modules)?;
    modules.sort();
    let entry = |(name, path): &(String, PathBuf)| format!("    ({name:?}, include_str!({:?})),\n", path.display());
    let entries: String = modules.iter().map(entry).collect();
    fs::write(directory.join("stdlib.rs"), format!("&[\n{entries}]\n"))
}

fn collect(root: &Path, directory: &Path, modules: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, modules)?;
        } else if path.extension().is_some_and(|suffix| suffix == "prof")
            && let Ok(name) = path.with_extension("").strip_prefix(root)
        {
            modules.push((name.display().to_string(), path));
        }
    }
    Ok(())
}
