//! The workload program, whose answers are known.
//!
//! In: `PROFILER_WORKLOAD`, a built program. Without it, the program is built next to `profiler`.
//! Out: its path.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

const PROFILER: &str = env!("CARGO_BIN_EXE_profiler");

/// The path of the workload program. Cargo builds only the programs of a test's own package, so
/// `cargo test -p profiler-cli` builds this one here.
pub fn workload() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Ok(path) = std::env::var("PROFILER_WORKLOAD") {
            return path;
        }
        // target/PROFILE/profiler; the profile `dev` has the directory `debug`.
        let built = Path::new(PROFILER).parent().expect("a directory");
        let name = built.file_name().and_then(|name| name.to_str()).expect("a profile");
        let profile = if name == "debug" { "dev" } else { name };
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "workload", "--profile", profile, "--target-dir"])
            .arg(built.parent().expect("the target directory"))
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .status();
        assert!(status.is_ok_and(|status| status.success()), "the workload does not build");
        built.join("workload").display().to_string()
    })
}
