//! Values of options that have a fixed set of them.
//!
//! In: names as typed. Out: plain data.
//! Guarantee: each name means one value.

/// Output format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON document per line.
    Json,
    /// Like `Json`, with keyed maps as bpftrace writes them.
    BpftraceJson,
    /// Tables as comma-separated values.
    Csv,
}

/// A stage of the pipeline that `-d` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The syntax tree.
    Ast,
    /// The program with resolved names and types.
    Typed,
    /// The intermediate representation, optimised.
    Ir,
    /// The BPF instructions.
    Bpf,
    /// The object's sections, symbols and maps.
    Elf,
    /// The log of the kernel's verifier.
    Verifier,
}

impl Stage {
    /// Names of all stages, in pipeline order.
    pub(crate) const NAMES: [&'static str; 6] = ["ast", "typed", "ir", "bpf", "elf", "verifier"];

    /// The stage with this name.
    pub(crate) fn named(name: &str) -> Option<Stage> {
        let all = [Stage::Ast, Stage::Typed, Stage::Ir, Stage::Bpf, Stage::Elf, Stage::Verifier];
        Stage::NAMES.iter().position(|n| *n == name).and_then(|index| all.get(index).copied())
    }
}
