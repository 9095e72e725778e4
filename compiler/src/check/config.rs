//! The `config = { … }` block.
//!
//! In: its entries. Out: [`Settings`] with bpftrace's defaults.
//! Guarantee: an unknown key or a value of the wrong kind is a diagnostic, never ignored.

use crate::ast::{ConfigEntry, ExprKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Config;
use crate::similar;

/// What a script may set.
#[derive(Debug)]
pub struct Settings {
    /// For the runtime.
    pub runtime: Config,
    /// Most entries of a keyed map.
    pub max_map_keys: u32,
    /// Room of a string that the script does not size.
    pub max_strlen: u32,
    /// Bytes of the data ring.
    pub ring_size_bytes: u32,
    /// What was wrong.
    pub diagnostics: Vec<Diagnostic>,
}

/// A power of two; 8 MiB hold a quarter of a second of a million small records a second.
const RING_SIZE_BYTES: u32 = 8 << 20;

const KEYS: [&str; 7] = [
    "max_cat_bytes",
    "max_map_keys",
    "max_strlen",
    "missing_probes",
    "perf_rb_pages",
    "print_maps_on_exit",
    "stack_mode",
];

/// Reads the block.
pub fn read(entries: &[ConfigEntry]) -> Settings {
    let mut settings = Settings {
        runtime: Config::default(),
        max_map_keys: 4096,
        max_strlen: 1024,
        ring_size_bytes: RING_SIZE_BYTES,
        diagnostics: Vec::new(),
    };
    for entry in entries {
        if let Err(diagnostic) = settings.apply(entry) {
            settings.diagnostics.push(diagnostic);
        }
    }
    settings
}

impl Settings {
    fn apply(&mut self, entry: &ConfigEntry) -> Result<(), Diagnostic> {
        match entry.key.text.as_str() {
            "print_maps_on_exit" => self.runtime.print_maps_on_exit = boolean(entry)?,
            "max_cat_bytes" => self.runtime.max_cat_bytes = number(entry, 1, 1 << 30)?,
            "max_map_keys" => self.max_map_keys = number(entry, 1, 1 << 24)? as u32,
            "max_strlen" => self.max_strlen = number(entry, 1, 16 << 10)? as u32,
            "perf_rb_pages" => {
                self.ring_size_bytes = (number(entry, 1, 1 << 17)? as u32).next_power_of_two() * 4096;
            }
            // One value each that means what we do anyway; the others come with the words that need them.
            "missing_probes" => word(entry, &["error"])?,
            "stack_mode" => word(entry, &["bpftrace"])?,
            other => {
                let near = similar::nearest(other, KEYS.iter().copied(), 1);
                let help = near.first().map_or_else(
                    || format!("known settings: {}", KEYS.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                );
                let message = format!("there is no setting called `{other}`");
                return Err(Diagnostic::error(Code(210), entry.key.span, message).help(help));
            }
        }
        Ok(())
    }
}

fn number(entry: &ConfigEntry, low: u64, high: u64) -> Result<u64, Diagnostic> {
    match entry.value.kind {
        ExprKind::Int(n) if (low..=high).contains(&n) => Ok(n),
        _ => {
            let message = format!("`{}` takes a number from {low} to {high}", entry.key.text);
            Err(Diagnostic::error(Code(311), entry.value.span, message))
        }
    }
}

fn boolean(entry: &ConfigEntry) -> Result<bool, Diagnostic> {
    match entry.value.kind {
        ExprKind::Bool(b) => Ok(b),
        ExprKind::Int(n @ 0..=1) => Ok(n == 1),
        _ => {
            let message = format!("`{}` takes true or false", entry.key.text);
            Err(Diagnostic::error(Code(311), entry.value.span, message))
        }
    }
}

fn word(entry: &ConfigEntry, known: &[&str]) -> Result<(), Diagnostic> {
    let given = match &entry.value.kind {
        ExprKind::Name(name) => name.as_str(),
        ExprKind::Str(text) => std::str::from_utf8(text).unwrap_or(""),
        _ => "",
    };
    if known.contains(&given) {
        return Ok(());
    }
    let message = format!("`{}` can only be `{}` so far", entry.key.text, known.join("` or `"));
    Err(Diagnostic::error(Code(311), entry.value.span, message))
}
