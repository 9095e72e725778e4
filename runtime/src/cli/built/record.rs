//! What an object was made from, as text.
//!
//! In: a script, what was said of it, this machine. Out: JSON between two NULs (`readelf -p .profiler` shows it), and back.
//! Guarantee: what was written is read back as it was; any other bytes are an object of another version.

use profiler_compiler::source::Source;
use serde_json::{Value, json};

use crate::cli::args::ScriptArguments;

/// The version of profiler that this is.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What decides what the compiler makes of a script.
#[derive(Debug)]
pub struct Record {
    /// The script with its imports and modules.
    pub source: Source,
    /// `$1`, `$2`, ….
    pub positional: Vec<String>,
    /// Values by name.
    pub named: Vec<(String, Option<String>)>,
    /// The process of `-p`.
    pub pid: Option<u32>,
    /// Settings of the environment.
    pub settings: Vec<(String, String)>,
    /// Whose instructions the machine's processors have.
    pub machine: String,
    /// The kernel's release.
    kernel: String,
}

/// The machine in words.
pub fn this_machine() -> String {
    format!("Linux {} {}", kernel(), std::env::consts::ARCH)
}

fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

impl Record {
    pub fn new(source: &Source, script: &ScriptArguments, settings: Vec<(String, String)>) -> Record {
        Record {
            source: source.clone(),
            positional: script.parameters.clone(),
            named: script.named.clone(),
            pid: script.pid,
            settings,
            machine: std::env::consts::ARCH.into(),
            kernel: kernel(),
        }
    }

    /// The machine that it was made for, in words.
    pub fn machine(&self) -> String {
        format!("Linux {} {}", self.kernel, self.machine)
    }

    pub fn text(&self) -> String {
        let files: Vec<Value> = self
            .source
            .files()
            .zip(self.source.modules())
            .map(|((name, range), module)| {
                let text = self.source.text.get(range.start as usize..range.end as usize);
                json!({"name": name, "module": module, "text": text})
            })
            .collect();
        let document = json!({
            "profiler": VERSION,
            "machine": self.machine,
            "kernel": self.kernel,
            "pid": self.pid,
            "positional": self.positional,
            "named": self.named,
            "settings": self.settings,
            "files": files,
        });
        format!("\0{document}\0")
    }

    /// Reads it; of another version, that version.
    pub fn read(bytes: &[u8]) -> Result<Record, String> {
        let text = bytes.strip_prefix(b"\0").and_then(|bytes| bytes.strip_suffix(b"\0")).unwrap_or_default();
        let document: Value = serde_json::from_slice(text).unwrap_or_default();
        match document["profiler"].as_str() {
            Some(VERSION) => from_document(&document).ok_or_else(|| "of unknown version".into()),
            version => Err(version.unwrap_or("of unknown version").to_owned()),
        }
    }
}

fn from_document(document: &Value) -> Option<Record> {
    let mut files = document["files"].as_array()?.iter();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let first = files.next()?;
    let mut source = Source::new(text(&first["name"])?, text(&first["text"])?);
    for file in files {
        let (name, words) = (text(&file["name"])?, file["text"].as_str()?);
        match file["module"].as_str() {
            Some(module) => source.append_module(name, words, module),
            None => source.append(name, words),
        }
    }
    let pairs = |list: &Value| -> Option<Vec<(String, Option<String>)>> {
        list.as_array()?.iter().map(|pair| Some((text(&pair[0])?, text(&pair[1])))).collect()
    };
    Some(Record {
        source,
        positional: document["positional"].as_array()?.iter().map(text).collect::<Option<_>>()?,
        named: pairs(&document["named"])?,
        pid: document["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()),
        settings: pairs(&document["settings"])?
            .into_iter()
            .map(|(name, value)| Some((name, value?)))
            .collect::<Option<_>>()?,
        machine: text(&document["machine"])?,
        kernel: text(&document["kernel"])?,
    })
}

#[cfg(test)]
mod tests {
    use super::Record;
    use crate::cli::args::ScriptArguments;
    use crate::cli::script::Origin;
    use profiler_compiler::source::Source;

    #[test]
    fn what_was_written_is_read_back() {
        let mut source = Source::new("a.prof", "use m\nBEGIN { }");
        source.append("b.prof", "macro f() { \"ü\\0\" }");
        source.append_module("m.prof", "pub @x\n", "a/m");
        let script = ScriptArguments {
            parameters: vec!["1".into(), String::new()],
            named: vec![("slow".into(), Some("5ms".into())), ("loud".into(), None)],
            pid: Some(7),
            ..ScriptArguments::new(Origin::File("a.prof".into()))
        };
        let record = Record::new(&source, &script, vec![("max_strlen".into(), "64".into())]);
        let text = record.text();
        let again = Record::read(text.as_bytes()).expect("ours");
        assert_eq!(again.text(), text);
        assert_eq!((again.source.text.as_str(), again.named), (source.text.as_str(), script.named));
        assert_eq!(again.source.modules().collect::<Vec<_>>(), [None, None, Some("a/m")]);
        for length in 0..text.len() {
            assert!(Record::read(&text.as_bytes()[..length]).is_err(), "{length}");
        }
        let other = text.replacen(super::VERSION, "0.0.9", 1);
        assert_eq!(Record::read(other.as_bytes()).err().as_deref(), Some("0.0.9"));
    }
}
