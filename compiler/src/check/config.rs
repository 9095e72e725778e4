//! The `config = { ... }` block, and the settings from the environment, which override it.
//!
//! In: entries of the block, and names with values of `BPFTRACE_NAME=value`. Out: [`Settings`] with
//! bpftrace's defaults.
//! Guarantee: an unknown key of the block or a value of the wrong type is a diagnostic; a setting
//! of bpftrace that has no effect here is a warning.

use crate::ast::{ConfigEntry, Expr, ExprKind, Ident};
use crate::check::MissingProbes;
use crate::check::getopt::Value;
use crate::diagnostic::{Code, Diagnostic};
use crate::object::{Config, RefusedProbes};
use crate::similar;
use crate::source::Span;
use crate::types::StackMode;

/// The settings that a script can change.
#[derive(Debug)]
pub(super) struct Settings {
    /// The settings that the runtime reads.
    pub runtime: Config,
    /// Capacity of a keyed map, in entries.
    pub max_map_keys: u32,
    /// Capacity in bytes of a string that the script does not size.
    pub max_strlen: u32,
    /// Size of the data ring buffer in bytes; a power of two.
    pub ring_size_bytes: u32,
    /// Maximum size in bytes of all preallocated maps together.
    pub max_map_memory_bytes: u64,
    /// Maximum number of probes.
    pub max_probes: u32,
    /// Maximum number of distinct stacks.
    pub max_stacks: u32,
    /// How to treat a probe that does not exist, when the script says.
    pub missing_probes: Option<MissingProbes>,
    /// How a stack is printed when the script does not specify a mode.
    pub stack_mode: StackMode,
    /// Values of the enumerated settings, by name.
    words: Vec<(&'static str, &'static str)>,
    /// Problems found in the block and the environment.
    pub diagnostics: Vec<Diagnostic>,
}

/// Maximum size of a string or buffer that is read at once. bpftrace has no limit of its own. Here
/// each CPU has its own memory for one, and a record of this size must fit the ring buffer.
pub const MAX_STRING_BYTES: u32 = 1 << 20;

/// Default capacity of a string in bytes.
const MAX_STRLEN: u32 = 1024;

/// The code of what is wrong in the environment.
const IN_ENVIRONMENT: Code = Code(212);

/// A power of two. 8 MiB hold 250 ms of small records at a million a second.
const RING_SIZE_BYTES: u32 = 8 << 20;

/// Default limit of the preallocated memory of all maps together.
const MAX_MAP_MEMORY_BYTES: u64 = 512 << 20;

/// Default limit of probes. bpftrace has 1024; a wildcard over functions costs little here.
const MAX_PROBES: u32 = 1 << 16;

const KEYS: [&str; 13] = [
    "license",
    "max_cat_bytes",
    "max_map_keys",
    "max_map_memory_mb",
    "max_probes",
    "max_stacks",
    "max_strlen",
    "missing_probes",
    "perf_rb_pages",
    "print_maps_on_exit",
    "show_debug_info",
    "stack_mode",
    "str_trunc_trailer",
];

/// Default number of distinct stacks. Each additional stack takes about 1 KiB, allocated on demand.
const MAX_STACKS: u32 = 128 << 10;

/// The kind of value that a setting without effect takes.
#[derive(Debug, Clone, Copy)]
enum Takes {
    Number,
    Boolean,
    Word(&'static [&'static str]),
    Anything,
}

/// Settings of bpftrace that have no effect here, what they take, and why.
const WITHOUT_EFFECT: [(&str, Takes, &str); 17] = [
    (
        "cache_user_symbols",
        Takes::Word(&["PER_PID", "PER_PROGRAM", "NONE"]),
        "symbols of a process are kept as long as they are needed",
    ),
    ("cpp_demangle", Takes::Boolean, "names of C++ are always shown as they are written in the source"),
    ("lazy_symbolication", Takes::Boolean, "symbols are always read when they are needed"),
    ("log_size", Takes::Number, "the verifier's log is as large as it has to be"),
    ("max_bpf_progs", Takes::Number, "the limit is 1024"),
    ("max_type_res_iterations", Takes::Anything, "types are resolved until all are known"),
    ("on_stack_limit", Takes::Number, "the compiler decides what is on the stack"),
    ("symbol_source", Takes::Anything, "symbols come from wherever a function has one"),
    ("unstable_addr", Takes::Anything, "addresses of values are as stable as the rest"),
    ("unstable_dw_ustack", Takes::Anything, "`dw_ustack` is as stable as the rest"),
    ("unstable_import", Takes::Anything, "`import` is as stable as the rest"),
    ("unstable_import_statement", Takes::Anything, "`import` is as stable as the rest"),
    ("unstable_macro", Takes::Anything, "macros are as stable as the rest"),
    ("unstable_map_decl", Takes::Anything, "declarations of maps are as stable as the rest"),
    ("unstable_tseries", Takes::Anything, "`tseries` is as stable as the rest"),
    ("unstable_typeinfo", Takes::Anything, "`typeinfo` is as stable as the rest"),
    ("use_blazesym", Takes::Boolean, "symbols are always read"),
];

/// Former names of settings, from older versions of bpftrace.
const RENAMED: [(&str, &str); 4] = [
    ("cat_bytes_max", "max_cat_bytes"),
    ("map_keys_max", "max_map_keys"),
    ("no_cpp_demangle", "cpp_demangle"),
    ("strlen", "max_strlen"),
];

/// Licenses that the kernel treats as GPL-compatible (`include/linux/license.h`).
const LICENCES: [&str; 6] =
    ["GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"];

/// Reads the block, then the environment.
pub(super) fn read(entries: &[ConfigEntry], environment: &[(String, String)]) -> Settings {
    let mut settings = Settings {
        runtime: Config::default(),
        max_map_keys: 4096,
        max_strlen: MAX_STRLEN,
        ring_size_bytes: RING_SIZE_BYTES,
        max_map_memory_bytes: MAX_MAP_MEMORY_BYTES,
        max_probes: MAX_PROBES,
        max_stacks: MAX_STACKS,
        missing_probes: None,
        stack_mode: StackMode::Bpftrace,
        words: vec![("license", "GPL"), ("missing_probes", "error"), ("stack_mode", "bpftrace")],
        diagnostics: Vec::new(),
    };
    for entry in entries {
        let result = settings.apply(entry);
        settings.diagnostics.extend(result.err());
    }
    for (name, value) in environment {
        // The environment has many other variables. Settings without effect are not reported,
        // because the script did not set them.
        let is_known = KEYS.contains(&name.as_str()) || WITHOUT_EFFECT.iter().any(|(known, ..)| known == name);
        if is_known
            && let Err(diagnostic) = settings.apply(&entry_of(name, value))
            && diagnostic.is_error()
        {
            let message = format!("BPFTRACE_{}: {}", name.to_uppercase(), diagnostic.message);
            settings.diagnostics.push(Diagnostic { message, code: IN_ENVIRONMENT, ..diagnostic });
        }
    }
    settings
}

/// An environment variable as an entry of the block.
fn entry_of(name: &str, value: &str) -> ConfigEntry {
    let span = Span::default();
    let kind = match (value.parse(), value) {
        (Ok(number), _) => ExprKind::Int(number),
        (_, "true") => ExprKind::Bool(true),
        (_, "false") => ExprKind::Bool(false),
        _ => ExprKind::Str(value.as_bytes().to_vec()),
    };
    ConfigEntry { key: Ident { text: name.into(), span }, value: Expr { kind, span } }
}

impl Settings {
    fn apply(&mut self, entry: &ConfigEntry) -> Result<(), Diagnostic> {
        // bpftrace's block also accepts the names used in the environment, with or without prefix.
        let key = &entry.key.text;
        let name = match key.strip_prefix("BPFTRACE_") {
            Some(name) => name.to_ascii_lowercase(),
            None if key.chars().any(|c| c.is_ascii_lowercase()) => key.clone(),
            None => key.to_ascii_lowercase(),
        };
        let renamed = RENAMED.iter().find(|(former, _)| *former == name);
        if let Some((former, now)) = renamed {
            let message = format!("`{former}` is called `{now}` now");
            self.diagnostics.push(Diagnostic::warning(Code(914), entry.key.span, message));
        }
        match renamed.map_or(name.as_str(), |(_, now)| now) {
            "print_maps_on_exit" => self.runtime.print_maps_on_exit = boolean(entry)?,
            "show_debug_info" => self.runtime.show_debug_info = boolean(entry)?,
            "max_cat_bytes" => self.runtime.max_cat_bytes = number(entry, 0, 1 << 30)?,
            "max_map_keys" => self.max_map_keys = number(entry, 1, 1 << 24)? as u32,
            "max_map_memory_mb" => self.max_map_memory_bytes = number(entry, 1, 1 << 20)? << 20,
            "max_probes" => self.max_probes = number(entry, 1, 1 << 20)? as u32,
            "max_stacks" => self.max_stacks = number(entry, 1, 1 << 24)? as u32,
            "max_strlen" => {
                let size_bytes = number(entry, 0, u64::from(MAX_STRING_BYTES))? as u32;
                self.max_strlen = if size_bytes == 0 { MAX_STRLEN } else { size_bytes };
                self.runtime.max_strlen = self.max_strlen;
            }
            "perf_rb_pages" => {
                let pages = number(entry, 0, 1 << 17)? as u32;
                self.ring_size_bytes = if pages == 0 { RING_SIZE_BYTES } else { pages.next_power_of_two() * 4096 };
            }
            "str_trunc_trailer" => self.runtime.str_trunc_trailer = text(entry)?,
            "missing_probes" => {
                let modes = [MissingProbes::Error, MissingProbes::Warn, MissingProbes::Ignore];
                let mode = self.word("missing_probes", entry, &["error", "warn", "ignore"])?;
                self.missing_probes = Some(modes[mode]);
                self.runtime.refused_probes = [RefusedProbes::End, RefusedProbes::Warn, RefusedProbes::Ignore][mode];
            }
            "stack_mode" => {
                let modes = [StackMode::Bpftrace, StackMode::Perf, StackMode::Raw, StackMode::BuildId];
                let known = ["bpftrace", "perf", "raw", "build_id"];
                self.stack_mode = modes[self.word("stack_mode", entry, &known)?];
            }
            // The programs always declare `GPL`; the kernel requires no more.
            "license" => {
                self.word("license", entry, &LICENCES)?;
            }
            other => return Err(no_effect(entry, other)),
        }
        Ok(())
    }

    /// Looks up the given value among the known ones and records it; returns its index.
    fn word(&mut self, name: &str, entry: &ConfigEntry, known: &[&'static str]) -> Result<usize, Diagnostic> {
        let at = one_of(entry, known)?;
        self.words.iter_mut().filter(|(setting, _)| *setting == name).for_each(|(_, word)| *word = known[at]);
        Ok(at)
    }

    /// The settings that scripts can read, sorted by name.
    pub(super) fn constants(&self) -> Vec<(&'static str, Value)> {
        let number = |n: u64| Value::Int(n as i64);
        let mut all = vec![
            ("cpp_demangle", Value::Bool(true)),
            ("lazy_symbolication", Value::Bool(true)),
            ("max_cat_bytes", number(self.runtime.max_cat_bytes)),
            ("max_map_keys", number(self.max_map_keys.into())),
            ("max_map_memory_mb", number(self.max_map_memory_bytes >> 20)),
            ("max_probes", number(self.max_probes.into())),
            ("max_stacks", number(self.max_stacks.into())),
            ("max_strlen", number(self.max_strlen.into())),
            ("perf_rb_pages", number(u64::from(self.ring_size_bytes) / 4096)),
            ("print_maps_on_exit", Value::Bool(self.runtime.print_maps_on_exit)),
            ("show_debug_info", Value::Bool(self.runtime.show_debug_info)),
            ("str_trunc_trailer", Value::Str(self.runtime.str_trunc_trailer.clone().into_bytes())),
            ("use_blazesym", Value::Bool(true)),
        ];
        all.extend(self.words.iter().map(|(name, word)| (*name, Value::Str(word.as_bytes().to_vec()))));
        all.sort_by_key(|(name, _)| *name);
        all
    }
}

/// The diagnostic for a setting without effect: a warning if bpftrace has it and takes this value,
/// else an error.
fn no_effect(entry: &ConfigEntry, name: &str) -> Diagnostic {
    if let Some((_, takes, why)) = WITHOUT_EFFECT.iter().find(|(known, ..)| *known == name) {
        let refused = match takes {
            Takes::Number => number(entry, 0, u64::MAX).err(),
            Takes::Boolean => boolean(entry).err(),
            Takes::Word(known) => one_of(entry, known).err(),
            Takes::Anything => None,
        };
        let warning = || Diagnostic::warning(Code(908), entry.key.span, format!("`{name}` has no effect")).help(*why);
        return refused.unwrap_or_else(warning);
    }
    let help = match similar::nearest(name, KEYS.iter().copied(), 1).into_iter().next() {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known settings: {}", KEYS.join(", ")),
    };
    Diagnostic::error(Code(210), entry.key.span, format!("there is no setting called `{name}`")).help(help)
}

fn number(entry: &ConfigEntry, low: u64, high: u64) -> Result<u64, Diagnostic> {
    match entry.value.kind {
        ExprKind::Int(n) if (low..=high).contains(&n) => Ok(n),
        _ => {
            let limits = if high == u64::MAX { String::new() } else { format!(" from {low} to {high}") };
            let message = format!("`{}` takes a number{limits}", entry.key.text);
            Err(Diagnostic::error(Code(311), entry.value.span, message))
        }
    }
}

fn boolean(entry: &ConfigEntry) -> Result<bool, Diagnostic> {
    match entry.value.kind {
        ExprKind::Bool(b) => Ok(b),
        ExprKind::Int(n) => Ok(n != 0),
        _ => {
            let message = format!("`{}` takes true or false", entry.key.text);
            Err(Diagnostic::error(Code(311), entry.value.span, message))
        }
    }
}

fn text(entry: &ConfigEntry) -> Result<String, Diagnostic> {
    match &entry.value.kind {
        ExprKind::Str(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        ExprKind::Name(name) => Ok(name.clone()),
        ExprKind::Int(number) => Ok(number.to_string()),
        _ => {
            let message = format!("`{}` takes a string", entry.key.text);
            Err(Diagnostic::error(Code(311), entry.value.span, message))
        }
    }
}

/// The index of the given value among the known ones.
fn one_of(entry: &ConfigEntry, known: &[&str]) -> Result<usize, Diagnostic> {
    let given = text(entry).unwrap_or_default();
    known.iter().position(|word| *word == given).ok_or_else(|| {
        let message = format!("`{}` can only be `{}`", entry.key.text, known.join("` or `"));
        Diagnostic::error(Code(311), entry.value.span, message)
    })
}
