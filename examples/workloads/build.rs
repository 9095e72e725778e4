//! Keeps `workload_step` findable by name in the stripped release binary: it goes into the dynamic symbol table.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol=workload_step");
}
