//! Edits a program in the user's editor.
//!
//! In: its text. Out: the edited text. Guarantee: the file is readable by its owner only, and is
//! deleted afterwards.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;

use super::super::exit::words_of;

/// Opens a text in the editor; `None` if it was not changed.
pub(super) fn edit(text: &str) -> Result<Option<String>, String> {
    let path = std::env::temp_dir().join(format!("profiler-{}.prof", std::process::id()));
    let failed = |error: std::io::Error| format!("cannot write `{}`: {}", path.display(), words_of(&error));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n"));
    let edited = written.map_err(failed).and_then(|()| run(&path)).and_then(|()| {
        fs::read_to_string(&path).map_err(|error| format!("cannot read `{}`: {}", path.display(), words_of(&error)))
    });
    // Only the text that was read is kept.
    let _ = fs::remove_file(&path);
    let edited = edited?;
    Ok((edited.trim() != text.trim()).then(|| edited.trim().to_owned()))
}

fn run(path: &std::path::Path) -> Result<(), String> {
    let editor =
        ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let editor = editor.unwrap_or_else(|| "vi".into());
    // An editor may include options, as in `code --wait`.
    let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(path).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{editor}` ended with {status}")),
        Err(error) => Err(format!("cannot run `{editor}`: {}", words_of(&error))),
    }
}
