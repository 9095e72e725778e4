//! `profiler fmt`: formats scripts.
//!
//! In: scripts. Out: the same files, or standard output for standard input.
//! Guarantee: a file is replaced atomically, keeps its owner, permissions and symbolic links to it,
//! and is not touched if nothing changes or if it has an error. A failure in one file does not stop
//! the others from being formatted.

use std::fs::{self, File};
use std::io::{self, Write, stdout};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use profiler_compiler::fmt::format;

use super::args::FormatArguments;
use super::exit::{Failure, MISTAKE, OK};
use super::script::Origin;

/// Formats scripts.
pub(super) fn fmt(arguments: &FormatArguments) -> Result<u8, Failure> {
    let mut code = OK;
    for path in &arguments.files {
        match one(path, arguments.check) {
            Ok(true) => {}
            Ok(false) => code = MISTAKE,
            Err(Failure::ReaderGone) => return Err(Failure::ReaderGone),
            Err(failure) => {
                super::report(&failure);
                code = MISTAKE;
            }
        }
    }
    Ok(code)
}

/// The canonical form of a script, and its original text.
pub(super) fn form(origin: &Origin) -> Result<(String, String), Failure> {
    let source = origin.load_alone()?;
    match format(&source) {
        Ok(form) => Ok((form, source.text)),
        Err(diagnostics) => Err(Failure::Script { source, diagnostics }),
    }
}

/// Formats or checks a script; returns whether it is in canonical form now.
fn one(path: &str, check: bool) -> Result<bool, Failure> {
    let (form, text) = form(&Origin::File(path.to_owned()))?;
    let is_same = is_same_file(path, &form, &text)?;
    if check {
        if !is_same {
            write(&format!("{path}\n"))?;
        }
        return Ok(is_same);
    }
    if path == "-" {
        write(&form)?;
    } else if !is_same {
        replace(Path::new(path), &form).map_err(|error| Failure::output(&format!("`{path}`"), &error))?;
    }
    Ok(true)
}

/// Whether the file already is in canonical form. The parsed text may lack a byte order mark that
/// the file has.
fn is_same_file(path: &str, form: &str, text: &str) -> Result<bool, Failure> {
    if path == "-" || form != text {
        return Ok(form == text);
    }
    let length = fs::metadata(path).map_err(|error| Failure::output(&format!("`{path}`"), &error))?.len();
    Ok(length == text.len() as u64)
}

fn write(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::output("standard output", &error))
}

/// Atomically replaces a file.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    // The target of a symbolic link is replaced, not the link.
    let path = path.canonicalize()?;
    let old = fs::metadata(&path)?;
    // Only writable files may be replaced.
    File::options().append(true).open(&path)?;
    let new = temporary_path(&path);
    let written = File::options().write(true).create_new(true).mode(0o600).open(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
            std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(old.permissions())?;
        file.sync_all()?;
        fs::rename(&new, &path)
    });
    if written.is_err() {
        // It may not even exist.
        let _ = fs::remove_file(&new);
    }
    written
}

/// A unique file name in the same directory.
fn temporary_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.profiler-{}", std::process::id()))
}
