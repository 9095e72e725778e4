//! Probe kinds: what the stages, listings, completion, `:probe` and `doctor` ask of one.
//!
//! In: one file per kind. Out: the trait that they implement.
//! Guarantee: nothing outside a kind's file compares its name; a method without a default is one
//! that no kind may forget.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use super::Doc;
use crate::ast;
use crate::btf::{Btf, BtfId};
use crate::check;
use crate::glob;
use crate::target::{ProgramType, Target, TargetError};

/// A kind of probe: `tracepoint`, `interval`.
pub trait ProbeKind: Debug + Sync {
    /// The full name.
    fn name(&self) -> &'static str;
    /// Short names.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }
    /// The name in listings.
    fn listed_name(&self) -> &'static str {
        self.name()
    }
    /// Its documentation.
    fn doc(&self) -> Doc;
    /// The programs that an attach point needs, with wildcards expanded and files and events
    /// resolved.
    fn expand(&'static self, cx: &mut check::Points<'_, '_>, point: &ast::AttachPoint) -> Vec<check::Seed>;
    /// A program that is never generated, for checking the body of a block whose attach point was
    /// reported; `None` if what the body may read depends on the probe.
    fn stand_in(&'static self, _cx: &mut check::Points<'_, '_>, _point: &ast::AttachPoint) -> Option<check::Seed> {
        None
    }
    /// The kernel modules whose types an attach point needs.
    fn kernel_modules(&self, _target: &dyn Target, _point: &ast::AttachPoint) -> Vec<String> {
        Vec::new()
    }
    /// How its probes are listed.
    fn listing(&self) -> Listing;
    /// Whether the names of its probes begin with a file.
    fn files(&self) -> Files {
        Files::Never
    }
    /// Whether the last part of a probe is a rate or a count, which is not part of its name.
    fn ends_with_rate(&self) -> bool {
        false
    }
    /// Types and names of the arguments of the probe with this name, as C declares them.
    fn arguments(&self, _target: &dyn Target, _name: &str) -> Vec<String> {
        Vec::new()
    }
    /// The same for many probes.
    fn all_arguments(&self, target: &dyn Target, names: &[&str]) -> Vec<Vec<String>> {
        names.iter().map(|name| self.arguments(target, name)).collect()
    }
    /// What a block of the probe with this name can read, by the debug information of its program,
    /// which also has the types with these names.
    fn described(&self, _target: &dyn Target, _name: &str, _types: &BTreeSet<ProgramType>) -> Option<DescribedProbe> {
        None
    }
    /// How a block reads the arguments.
    fn reads(&self) -> Reads {
        Reads::Members("args")
    }
    /// What the probe with this name is.
    fn nature(&self, name: &str) -> Nature;
    /// How `doctor` tests it; empty if it needs no test of its own.
    fn self_tests(&self) -> Vec<SelfTest>;
}

/// A probe in a program that has debug information.
#[derive(Debug)]
pub struct DescribedProbe {
    /// The kernel's types, and those of the program.
    pub types: Btf,
    /// The types that were asked for.
    pub named: BTreeMap<ProgramType, BtfId>,
    /// The members of `args`.
    pub arguments: Vec<(String, BtfId)>,
    /// The type of `retval`.
    pub result: Option<BtfId>,
}

/// Names of probes, as written after the kind, that match a pattern; sorted.
pub type Names = fn(&dyn Target, &str) -> Result<Vec<String>, TargetError>;

/// How a probe kind is listed.
#[derive(Debug, Clone, Copy)]
pub enum Listing {
    /// In every listing. An empty name means the kind itself.
    Always(Names),
    /// Only if the pattern names the kind: there are many, or they need a file.
    ByName(Names),
    /// Its probes cannot be enumerated: its form is listed, if the pattern names the kind.
    Form,
}

/// Whether the names of a kind's probes begin with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// They are not in files.
    Never,
    /// Some do: the kind also means functions of the kernel.
    Sometimes(InFile),
    /// All do.
    Always(InFile),
}

/// What is probed in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFile {
    /// Its functions.
    Functions,
    /// The static probes that its author has put there.
    StaticProbes,
}

/// How a block reads the arguments of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// As members of this builtin.
    Members(&'static str),
    /// As this text explains.
    Text(&'static str),
}

/// Description of a probe, for `:probe`.
#[derive(Debug, Clone, Copy)]
pub struct Nature {
    /// What it is.
    pub what: &'static str,
    /// How stable it is.
    pub lasts: &'static str,
    /// How the kernel gets to the block, as measured on x86-64 under Linux 6.18; empty if that is
    /// not measured.
    pub way: &'static str,
}

/// A probe whose event `doctor` causes and waits for.
#[derive(Debug, Clone, Copy)]
pub struct SelfTest {
    /// What is tested.
    pub title: &'static str,
    /// The probe, with placeholders `PID` and `ADDRESS`.
    pub probe: &'static str,
    /// What causes the event.
    pub trigger: Trigger,
    /// Whether almost nothing works without it.
    pub is_needed: bool,
    /// Whether the script is run for one process (`-p`).
    pub is_for_process: bool,
    /// What to do if it fails.
    pub advice: Advice,
}

/// What the process that runs a self-test does to cause an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Nothing: the event comes by itself.
    Nothing,
    /// Calls `getppid`.
    GetParent,
    /// Calls `getpid` of libc.
    GetPid,
    /// Sleeps.
    Sleep,
    /// Reads a file.
    Read,
    /// Uses a processor.
    Compute,
    /// Touches memory for the first time.
    Touch,
    /// Stores at `ADDRESS`.
    Store,
}

/// What to do if a self-test fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// This; may be empty.
    Text(&'static str),
    /// Probe functions of the kernel by whatever else this kernel has.
    OtherFunctionProbes,
}

impl SelfTest {
    /// A test that must succeed.
    pub const fn needed(title: &'static str, probe: &'static str, trigger: Trigger, advice: &'static str) -> SelfTest {
        SelfTest { title, probe, trigger, is_needed: true, is_for_process: false, advice: Advice::Text(advice) }
    }

    /// A test that may fail.
    pub const fn optional(title: &'static str, probe: &'static str, trigger: Trigger, advice: Advice) -> SelfTest {
        SelfTest { title, probe, trigger, is_needed: false, is_for_process: false, advice }
    }
}

impl dyn ProbeKind {
    /// Whether this is its name in listings or one of its short names.
    pub fn is_called(&self, name: &str) -> bool {
        name == self.name() || name == self.listed_name() || self.aliases().contains(&name)
    }

    /// Whether it is listed only if the pattern names it.
    pub fn is_listed_by_name(&self) -> bool {
        !matches!(self.listing(), Listing::Always(_))
    }

    /// Names of its probes that match a pattern, as written after the kind.
    pub fn names(&self, target: &dyn Target, pattern: &str) -> Result<Vec<String>, TargetError> {
        match self.listing() {
            Listing::Always(names) | Listing::ByName(names) => names(target, pattern),
            Listing::Form if glob::is_pattern(pattern) => Ok(vec![self.form().to_owned()]),
            Listing::Form => Ok(vec![pattern.to_owned()]),
        }
    }

    /// The part of its signature after the kind: `ADDRESS:LENGTH:MODE`.
    pub fn form(&self) -> &'static str {
        self.doc().signature().split_once(':').map_or("", |(_, form)| form)
    }
}
