//! Keeps `workload_step` and `workload_numbers` findable by name in the stripped release binary:
//! they go into the dynamic symbol table.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol=workload_step");
    println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol=workload_numbers");
}
