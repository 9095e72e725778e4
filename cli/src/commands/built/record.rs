//! The section of an object that describes it.
//!
//! In: an object and what it was built from. Out: its file with the section; from a file, both
//! again.
//! Guarantee: what was written is read back unchanged. Other bytes are refused, and nothing that
//! was read makes a later step panic: versions are compared first, then the checksum of the whole
//! file, then every index and place is checked.
//!
//! The section is text between two NULs (`readelf -p .profiler` shows it), one line each: the
//! [`Header`], the [`Record`], the object's description, the checksum of all other bytes of the
//! file.

use profiler_compiler::CATALOGUE;
use profiler_compiler::check::getopt;
use profiler_compiler::object::{DataSizes, Object};
use profiler_compiler::source::{Source, Span};
use profiler_runtime::elf::appended;
use serde::{Deserialize, Serialize};

use super::checksum::checksum;
use super::machine::Answers;

/// The section's name.
pub(super) const SECTION: &str = ".profiler";
/// The version of this profiler.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The version of the section's format. It increases with every change of what an object describes.
const FORMAT: u32 = 5;
/// Digits of the checksum.
const SUM_DIGITS: usize = 16;

/// What is known of an object of any version.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Header {
    /// The version of profiler that built it.
    pub profiler: String,
    /// The format of the rest.
    #[serde(default)]
    pub format: u32,
    /// The architecture that it is for.
    pub machine: String,
    /// The release of the kernel that it was built on.
    pub kernel: String,
}

/// What an object was built from, and what it relies on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The script with its imports and modules.
    pub files: Vec<ScriptFile>,
    /// `$1`, `$2`, ….
    pub positional: Vec<String>,
    /// Values by parameter name.
    pub named: Vec<(String, Option<String>)>,
    /// The processes of `-p`.
    pub pids: Vec<u32>,
    /// Settings from environment variables.
    pub settings: Vec<(String, String)>,
    /// `-k`.
    pub report_failures: bool,
    pub probe_filter: Option<String>,
    /// Whether the script compiles only with `--unsafe`.
    pub needs_unsafe: bool,
    /// Whether `-p` or `-c` change the programs or what they are attached to.
    pub depends_on_processes: bool,
    /// What the script reads with `getopt`.
    pub options: Vec<ScriptOption>,
    /// What the machine answered.
    pub answers: Answers,
}

/// A file of the script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ScriptFile {
    pub name: String,
    /// The module's path, if it is one.
    pub module: Option<String>,
    pub text: String,
}

/// An option that the script reads with `getopt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptOption {
    pub name: String,
    pub default: OptionValue,
    pub description: String,
}

/// Its default, which has its type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OptionValue {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Str(Vec<u8>),
}

/// Why an object cannot be used.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// It has no such section.
    NotOurs,
    /// Another version wrote it, or another format of this one.
    OtherVersion(Header),
    /// Another architecture.
    OtherMachine(Header),
    /// It is damaged.
    Damaged,
}

/// Kernel release and architecture of this machine, for messages.
pub(super) fn this_machine() -> String {
    Header::here().machine()
}

impl Header {
    /// The header of an object that is built here.
    fn here() -> Header {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        Header { profiler: VERSION.into(), format: FORMAT, machine: std::env::consts::ARCH.into(), kernel }
    }

    /// Kernel release and architecture that the object was built for, for messages.
    pub(super) fn machine(&self) -> String {
        format!("Linux {} {}", self.kernel, self.machine)
    }
}

impl Record {
    /// The files of a script.
    pub(super) fn files_of(source: &Source) -> Vec<ScriptFile> {
        let file = |((name, range), module): ((&str, std::ops::Range<u32>), Option<&str>)| ScriptFile {
            name: name.to_owned(),
            module: module.map(str::to_owned),
            text: source.text.get(range.start as usize..range.end as usize).unwrap_or_default().to_owned(),
        };
        source.files().zip(source.modules()).map(file).collect()
    }

    /// The script.
    pub(super) fn source(&self) -> Source {
        let mut files = self.files.iter();
        let first = files.next().map_or(("", ""), |file| (&file.name, &file.text));
        let mut source = Source::new(first.0, first.1);
        for file in files {
            match &file.module {
                Some(module) => source.append_module(&file.name, &file.text, module),
                None => source.append(&file.name, &file.text),
            }
        }
        source
    }

    /// The file of an object with this record; `None` if its ELF is not one, or if it cannot be
    /// read back.
    pub(super) fn embed(&self, object: &Object) -> Option<Vec<u8>> {
        let json = |value: Result<String, serde_json::Error>| value.ok();
        let (header, record) = (json(serde_json::to_string(&Header::here()))?, json(serde_json::to_string(self))?);
        let text = format!("\0{header}\n{record}\n{}\n{}\0", object.to_json(), "0".repeat(SUM_DIGITS));
        let mut file = appended::append(&object.elf, SECTION, text.as_bytes())?;
        let (at, sum) = sum_of(&file)?;
        file.get_mut(at..at + SUM_DIGITS)?.copy_from_slice(sum.as_bytes());
        let (_, _, read) = read(&file).ok()?;
        let whole = Object { elf: object.elf.clone(), loaded_for: object.loaded_for.clone(), ..read };
        (whole == *object).then_some(file)
    }
}

/// The offset of the checksum in a file, and what it has to be.
fn sum_of(file: &[u8]) -> Option<(usize, String)> {
    let at = appended::range(file, SECTION)?.end.checked_sub(SUM_DIGITS + 1)?;
    let rest = file.get(at + SUM_DIGITS..)?;
    Some((at, format!("{:016x}", checksum(&[file.get(..at)?, rest]))))
}

/// The record and the description in the file of an object; the object's ELF is empty.
pub(super) fn read(file: &[u8]) -> Result<(Header, Record, Object), Unreadable> {
    let section = appended::section(file, SECTION).ok_or(Unreadable::NotOurs)?;
    let text = section.strip_prefix(b"\0").and_then(|text| text.strip_suffix(b"\0"));
    let text = text.and_then(|text| std::str::from_utf8(text).ok()).ok_or(Unreadable::Damaged)?;
    let (header, rest) = text.split_once('\n').unwrap_or((text, ""));
    let header: Header = serde_json::from_str(header).map_err(|_| Unreadable::Damaged)?;
    if (header.profiler.as_str(), header.format) != (VERSION, FORMAT) {
        return Err(Unreadable::OtherVersion(header));
    }
    if header.machine != std::env::consts::ARCH {
        return Err(Unreadable::OtherMachine(header));
    }
    let is_whole = sum_of(file).is_some_and(|(at, sum)| file.get(at..at + SUM_DIGITS) == Some(sum.as_bytes()));
    if !is_whole {
        return Err(Unreadable::Damaged);
    }
    let mut lines = rest.split('\n');
    let record: Record = lines.next().and_then(|line| serde_json::from_str(line).ok()).ok_or(Unreadable::Damaged)?;
    let object = lines.next().and_then(Object::from_json).ok_or(Unreadable::Damaged)?;
    let size = |name: &str| appended::size_bytes(file, name).unwrap_or_default();
    let sizes = DataSizes { bss_bytes: size(".bss"), rodata_bytes: size(".rodata") };
    object.validate(sizes, &CATALOGUE).map_err(|_| Unreadable::Damaged)?;
    let source = record.source();
    let is_inside = |span: Span| source.text.get(span.start as usize..span.end as usize).is_some();
    if object.params.iter().all(|param| is_inside(param.span)) {
        Ok((header, record, object))
    } else {
        Err(Unreadable::Damaged)
    }
}

impl From<&getopt::Parameter> for ScriptOption {
    fn from(of: &getopt::Parameter) -> ScriptOption {
        let default = match &of.default {
            getopt::Value::Bool(value) => OptionValue::Bool(*value),
            getopt::Value::Int(value) => OptionValue::Int(*value),
            getopt::Value::Uint(value) => OptionValue::Uint(*value),
            getopt::Value::Str(value) => OptionValue::Str(value.clone()),
        };
        ScriptOption { name: of.name.clone(), default, description: of.description.clone() }
    }
}

impl From<&ScriptOption> for getopt::Parameter {
    fn from(of: &ScriptOption) -> getopt::Parameter {
        let default = match &of.default {
            OptionValue::Bool(value) => getopt::Value::Bool(*value),
            OptionValue::Int(value) => getopt::Value::Int(*value),
            OptionValue::Uint(value) => getopt::Value::Uint(*value),
            OptionValue::Str(value) => getopt::Value::Str(value.clone()),
        };
        getopt::Parameter { name: of.name.clone(), default, description: of.description.clone(), span: Span::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::Record;
    use profiler_compiler::source::Source;

    #[test]
    fn a_script_is_read_back_with_its_modules() {
        let mut source = Source::new("a.prof", "use m\nBEGIN { }");
        source.append("b.prof", "macro f() { \"ü\\0\" }");
        source.append_module("m.prof", "pub @x\n", "a/m");
        let files = Record::files_of(&source);
        let record: Record = serde_json::from_value(serde_json::json!({
            "files": files, "positional": ["1", ""], "named": [["slow", "5ms"], ["loud", null]], "pids": [7],
            "settings": [["max_strlen", "64"]], "report_failures": false, "probe_filter": null, "needs_unsafe": false,
            "depends_on_processes": true, "options": [], "answers": {"kernel_build": 1, "answers": []},
        }))
        .expect("a record");
        let again = record.source();
        assert_eq!((again.name.as_str(), again.text.as_str()), ("a.prof", source.text.as_str()));
        assert_eq!(again.modules().collect::<Vec<_>>(), [None, None, Some("a/m")]);
        assert_eq!(Record::files_of(&again), files);
    }
}
