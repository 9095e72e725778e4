//! The editor setup of `editors/README.md`, tested in Neovim.
//!
//! In: the documented configuration and a script with an error. Out: the diagnostic that the editor
//! holds.

use std::path::PathBuf;
use std::process::Command;

const README: &str = include_str!("../../editors/README.md");

/// Waits until the editor has diagnostics, and prints their messages. The timeout is for a server
/// that never answers.
const SHOW: &str = "lua vim.wait(120000, function() return #vim.diagnostic.get(0) > 0 end) \
    for _, d in ipairs(vim.diagnostic.get(0)) do io.stdout:write(d.message .. '\\n') end";

/// The major and minor version of the installed Neovim.
fn neovim_version() -> Option<(u32, u32)> {
    let output = Command::new("nvim").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers =
        text.lines().next()?.strip_prefix("NVIM v")?.split(['.', '-']).map_while(|part| part.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// The documented `init.lua`: the first block is for 0.11 and later, the second for older versions.
fn configuration(version: (u32, u32)) -> &'static str {
    let mut blocks = README.split("```lua\n").skip(1).filter_map(|block| block.split("```").next());
    let (new, old) = (blocks.next().expect("a block"), blocks.next().expect("a second block"));
    if version >= (0, 11) { new } else { old }
}

#[test]
fn neovim_shows_diagnostics_with_the_documented_set_up() {
    let Some(version) = neovim_version() else {
        println!("SKIPPED: nvim is not installed");
        return;
    };
    let home = std::env::temp_dir().join(format!("profiler-neovim-{}", std::process::id()));
    let package = home.join("data/nvim/site/pack/profiler/start");
    std::fs::create_dir_all(&package).expect("a directory");
    let vim = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../editors/vim");
    let copied = Command::new("cp").arg("-r").arg(vim).arg(package.join("profiler")).status();
    assert!(copied.is_ok_and(|status| status.success()));
    std::fs::write(home.join("init.lua"), configuration(version)).expect("a file");
    let script = home.join("mistake.prof");
    std::fs::write(&script, "BEGIN { @x = cuont(); }\n").expect("a file");
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_profiler"));
    let path =
        format!("{}:{}", binary.parent().expect("a directory").display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("nvim")
        .args(["--headless", "-u"])
        .arg(home.join("init.lua"))
        .arg(&script)
        .args(["-c", SHOW, "-c", "qa!"])
        .env("PATH", path)
        .env("HOME", &home)
        .env("XDG_DATA_HOME", home.join("data"))
        .env("XDG_CONFIG_HOME", home.join("config"))
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("there is no function called `cuont`"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    std::fs::remove_dir_all(&home).expect("our own directory");
}
