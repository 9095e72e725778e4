//! The user that the command of `-c` runs as.
//!
//! In: `--run-as`, and the variable that `sudo` sets. Out: what `id -u` prints inside the command.

use super::machine::{profiler, skip};

/// The uid of `nobody`, which every Linux distribution has.
const NOBODY: &str = "65534";

/// Standard output and standard error of a run whose command prints its user and home.
fn user_of_command(options: &[&str], environment: &[(&str, &str)]) -> (String, String) {
    let mut command = profiler(&["-e", "BEGIN { }", "-c", "sh -c 'id -u; echo $HOME'"]);
    command.args(options);
    let output = command.env_remove("SUDO_UID").envs(environment.iter().copied()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_command_runs_as_the_named_user() {
    if skip() {
        return;
    }
    let (stdout, _) = user_of_command(&["--run-as", "nobody"], &[]);
    assert!(stdout.starts_with("65534\n") && !stdout.contains("/root"), "{stdout}");
}

#[test]
fn under_sudo_a_command_runs_as_the_caller() {
    if skip() {
        return;
    }
    let (stdout, stderr) = user_of_command(&[], &[("SUDO_UID", NOBODY)]);
    assert!(stdout.starts_with("65534\n"), "{stdout}");
    assert!(stderr.contains("runs as nobody, who called sudo"), "{stderr}");
    let (stdout, stderr) = user_of_command(&["--run-as", "root"], &[("SUDO_UID", NOBODY)]);
    assert!(stdout.starts_with("0\n") && !stderr.contains("sudo"), "{stdout}{stderr}");
    let (stdout, stderr) = user_of_command(&["-q"], &[("SUDO_UID", NOBODY)]);
    assert!(stdout.starts_with("65534\n") && stderr.is_empty(), "{stdout}{stderr}");
}
