//! Reads a script's text from a file, standard input or the command line.
//!
//! In: the script's origin. Out: a [`Source`] of at most [`LIMIT_BYTES`] of UTF-8 that is not
//! blank.
//! Guarantee: never reads more than the limit, whatever the path is; every error includes advice.

mod headers;
mod imports;
pub(super) mod modules;
mod other_names;
mod traits;
mod trust;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use profiler_compiler::diagnostic::Code;
use profiler_compiler::source::Source;

pub(crate) use headers::Headers;

use super::exit::{Failure, words_of};

/// The ELF machine number of BPF, as in the header.
pub(super) const MACHINE_BPF: [u8; 2] = 247_u16.to_le_bytes();

/// Limit in bytes of a script: far above any real one, low enough for 32-bit spans and for memory.
const LIMIT_BYTES: u64 = 4 * 1024 * 1024;

/// The longest text of a script in a heading.
const MAX_TITLE_CHARS: usize = 80;
const UNREADABLE: Code = Code(1);
const TOO_LARGE: Code = Code(2);
const NOT_TEXT: Code = Code(3);
const EMPTY: Code = Code(4);

/// Where to read a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// A file, or a standard library module; `-` is standard input.
    File(String),
    /// The command line itself (`-e`).
    Inline(String),
    /// Like `Inline`, for the drop-in: bpftrace calls it `stdin` in output that automation may
    /// parse.
    Foreign(String),
}

impl Origin {
    /// What a heading calls the script: its file, or its text up to a limit.
    pub(super) fn title(&self) -> String {
        match self {
            Origin::File(path) if path == "-" => "script on standard input".into(),
            Origin::File(path) => path.clone(),
            Origin::Inline(text) | Origin::Foreign(text) => {
                let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
                match words.char_indices().nth(MAX_TITLE_CHARS) {
                    Some((end, _)) => format!("{}…", &words[..end]),
                    None => words,
                }
            }
        }
    }

    /// Whether it is a recipe of the command's own, not a file.
    fn is_recipe(&self) -> bool {
        matches!(self, Origin::File(path) if modules::named(path).is_some() && !Path::new(path).exists())
    }

    /// Reads the script and the files that it imports and includes.
    pub(super) fn load(&self) -> Result<Source, Failure> {
        self.load_with(&Headers::default())
    }

    /// The same with headers from the command line.
    pub(super) fn load_with(&self, headers: &Headers) -> Result<Source, Failure> {
        let (source, directory) = self.read()?;
        with_files(source, directory, headers)
    }

    /// Reads the script without the files that it imports.
    pub(super) fn load_alone(&self) -> Result<Source, Failure> {
        Ok(self.read()?.0)
    }

    /// The script, and the directory in which its imports are searched.
    fn read(&self) -> Result<(Source, &Path), Failure> {
        Ok(match self {
            Origin::Inline(text) => (decode("-e", text.clone().into_bytes())?, Path::new("")),
            Origin::Foreign(text) => (decode("stdin", text.clone().into_bytes())?, Path::new("")),
            Origin::File(path) if path == "-" => {
                (decode("stdin", read("stdin", std::io::stdin().lock())?)?, Path::new(""))
            }
            Origin::File(path) => match modules::named(path).filter(|_| !Path::new(path).exists()) {
                Some((path, text)) => (Source::new(format!("stdlib/{path}.prof"), text), Path::new("")),
                None => (decode(path, read_file(path)?)?, Path::new(path).parent().unwrap_or(Path::new(""))),
            },
        })
    }
}

/// A script with its text from an editor, and the files that it imports.
pub(super) fn edited(path: &str, text: &str) -> Result<Source, Failure> {
    let directory = Path::new(path).parent().unwrap_or(Path::new(""));
    with_files(Source::new(path, text), directory, &Headers::default())
}

fn with_files(mut source: Source, directory: &Path, headers: &Headers) -> Result<Source, Failure> {
    imports::resolve(&mut source, directory, headers)?;
    modules::resolve(&mut source, directory)?;
    headers::predefine(&mut source);
    Ok(source)
}

fn read_file(path: &str) -> Result<Vec<u8>, Failure> {
    let refused = |error: &std::io::Error| {
        let failure = Failure::coded(UNREADABLE, format!("cannot read `{path}`: {}", words_of(error)));
        match error.kind() {
            std::io::ErrorKind::NotFound => failure.help(advice_for_missing(path)),
            _ => failure,
        }
    };
    let file = File::open(path).map_err(|error| refused(&error))?;
    if file.metadata().map_err(|error| refused(&error))?.is_dir() {
        return Err(Failure::coded(UNREADABLE, format!("cannot read `{path}`: it is a directory"))
            .help("name a script in it: `profiler run FILE`"));
    }
    read(path, file)
}

/// Advice for a path that does not exist.
fn advice_for_missing(path: &str) -> String {
    if path.contains(['{', ' ']) {
        return format!("to run a program from the command line, write `profiler run -e '{path}'`");
    }
    let with_suffix = format!("{path}.prof");
    if Path::new(&with_suffix).is_file() {
        return format!("there is a file `{with_suffix}`");
    }
    if let Some(recipe) = modules::nearest(path) {
        return format!("did you mean the recipe `{recipe}`?");
    }
    "check the path; a program itself can be given with `-e 'PROGRAM'`".into()
}

fn read(name: &str, reader: impl Read) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    // One byte above the limit distinguishes "too large" from "just fits", even for pipes and
    // devices, which have no size.
    reader
        .take(LIMIT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::coded(UNREADABLE, format!("cannot read `{name}`: {}", words_of(&error))))?;
    if bytes.len() as u64 > LIMIT_BYTES && !bytes.contains(&0) {
        let words = format!("`{name}` is larger than 4 MiB, the most that a script may be");
        return Err(Failure::coded(TOO_LARGE, words).help("is it a script at all?"));
    }
    Ok(bytes)
}

fn decode(name: &str, bytes: Vec<u8>) -> Result<Source, Failure> {
    if bytes.contains(&0) {
        return Err(binary(name, &bytes));
    }
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let (before, after) = error.as_bytes().split_at(at);
        let (line, byte) = (before.split(|b| *b == b'\n').count(), after.first().copied().unwrap_or_default());
        Failure::coded(NOT_TEXT, format!("`{name}` is not UTF-8: byte {byte:#04x} in line {line}"))
            .help("save the script as UTF-8; arbitrary bytes in a string are written as `\\xff`")
    })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    if text.trim().is_empty() {
        return Err(Failure::coded(EMPTY, format!("`{name}` is empty"))
            .help("the smallest script is a probe and a block: `BEGIN { printf(\"hello\\n\"); }`"));
    }
    Ok(Source::new(name, text))
}

fn binary(name: &str, bytes: &[u8]) -> Failure {
    if bytes.starts_with(b"\x7fELF") && bytes.get(18..20) == Some(&MACHINE_BPF) {
        return Failure::coded(NOT_TEXT, format!("`{name}` is a BPF object, not a script"))
            .help(format!("`profiler run {name}` runs an object that `profiler build` wrote"));
    }
    if bytes.starts_with(b"\x7fELF") {
        return Failure::coded(NOT_TEXT, format!("`{name}` is a binary (ELF) file, not a script"))
            .help(format!("to trace it while it runs: `profiler run SCRIPT -c {name}`"));
    }
    Failure::coded(NOT_TEXT, format!("`{name}` is a binary file, not a script"))
        .help("a script is text: `profiler help run` shows some")
}

#[cfg(test)]
mod tests {
    use super::{LIMIT_BYTES, Origin, decode, read};
    use std::io::Read;

    fn refusal(result: Result<impl std::fmt::Debug, super::Failure>) -> String {
        result.expect_err("a refusal").render(false)
    }

    #[test]
    fn a_script_of_one_megabyte_is_read_whole() {
        let text = "BEGIN { }\n".repeat(100_000);
        let source = Origin::Inline(text.clone()).load().expect("text");
        assert_eq!((source.name.as_str(), source.text.len()), ("-e", text.len()));
    }

    #[test]
    fn an_endless_file_is_refused() {
        assert!(refusal(read("x", std::io::repeat(b'a'))).contains("error[E0002]: `x` is larger"));
        assert!(read("x", std::io::repeat(b'a').take(LIMIT_BYTES)).is_ok());
        assert!(refusal(Origin::File("/dev/zero".into()).load()).contains("error[E0003]: `/dev/zero` is a binary"));
    }

    #[test]
    fn missing_files_and_directories_are_explained() {
        let near = refusal(Origin::File("lock/latncy".into()).load());
        assert!(near.ends_with("did you mean the recipe `lock/latency`?\n"), "{near}");
        assert_eq!(
            refusal(Origin::File("/no/such.prof".into()).load()),
            "error[E0001]: cannot read `/no/such.prof`: there is no such file or directory\n  \
             = help: check the path; a program itself can be given with `-e 'PROGRAM'`\n"
        );
        assert!(
            refusal(Origin::File("BEGIN { exit(); }".into()).load()).contains("profiler run -e 'BEGIN { exit(); }'")
        );
        assert!(refusal(Origin::File("/".into()).load()).contains("error[E0001]: cannot read `/`: it is a directory"));
    }

    #[test]
    fn binary_files_are_refused() {
        let own = std::env::current_exe().expect("own path");
        assert!(refusal(Origin::File(own.display().to_string()).load()).contains("is a binary (ELF) file"));
        assert!(refusal(decode("x", b"\x7fELF\0".to_vec())).contains("error[E0003]: `x` is a binary (ELF) file"));
        assert!(refusal(decode("x", b"a\0b".to_vec())).contains("error[E0003]: `x` is a binary file"));
        assert!(refusal(decode("x", b"a\nb\xffc".to_vec())).contains("`x` is not UTF-8: byte 0xff in line 2"));
    }

    #[test]
    fn blank_scripts_are_refused_and_a_byte_order_mark_is_dropped() {
        for blank in ["", " \n\t\n", "\u{feff}"] {
            assert!(refusal(decode("x", blank.as_bytes().to_vec())).starts_with("error[E0004]: `x` is empty\n"));
        }
        assert_eq!(decode("x", "\u{feff}BEGIN".as_bytes().to_vec()).expect("text").text, "BEGIN");
    }
}
