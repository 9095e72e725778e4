//! What all bodies of a script share during the check.
//!
//! In: the settings, the script's declarations; uses, as bodies are checked. Out: what they
//! inferred, and the diagnostics.
//! Guarantee: a body changes nothing else.

use std::collections::{BTreeMap, BTreeSet};

use crate::ast;
use crate::catalogue::Catalogue;
use crate::check::spans::Spans;
use crate::check::{Maps, MissingProbes, Options, Origin, PidFilter, Report, getopt};
use crate::diagnostic::{Code, Diagnostic};
use crate::params::{Param, Type as ParamType, Value};
use crate::source::Span;
use crate::target::{ProgramQuestions, Target};
use crate::types::StackMode;

/// State shared by all bodies of a script during the check.
#[derive(Debug)]
pub struct Env<'a> {
    /// The kernel and machine that the script is checked for.
    pub target: &'a dyn Target,
    /// The command-line options.
    pub options: &'a Options,
    /// The catalogue of builtins, functions, aggregations and probe kinds.
    pub catalogue: &'a Catalogue,
    /// `#define`d constants.
    pub defines: BTreeMap<String, ast::Expr>,
    /// Names that the script defines for types, which go before those that exist anyway.
    pub typedefs: BTreeSet<String>,
    pub maps: Maps,
    pub spans: Spans,
    /// Capacity in bytes of a string that the script does not size.
    pub max_strlen: u32,
    /// How a stack is printed when the script does not specify a mode.
    pub stack_mode: StackMode,
    /// The settings that scripts can read.
    pub settings: Vec<(&'static str, getopt::Value)>,
    /// The script's parameters, with their values.
    pub params: Vec<Param>,
    /// The diagnostics.
    pub report: Report,
    /// How to treat probes that do not exist here, when the script says.
    pub missing: Option<MissingProbes>,
    /// Probes that have a substitute in the script (`unless`), which is attached where they are
    /// missing.
    pub replaceable: Vec<ast::AttachPoint>,
    /// Probes that were left out.
    pub left_out: Vec<LeftOut>,
    /// The files of programs in which a function was found, as the script names them.
    pub probed_files: BTreeSet<String>,
    /// What to report of functions that are missing in a file if no other was found there.
    pub missing_in_files: Vec<(String, Diagnostic)>,
    /// What the target has to read of debug information before the script can be checked.
    pub undescribed: Vec<ProgramQuestions>,
    /// How often all bodies were checked before.
    pub round: usize,
    /// Whether a type changed in this round.
    pub changed: bool,
    /// Last resort: an operand of unknown type takes the type of the other operand.
    pub guesses: bool,
}

/// A probe that was left out, usually because it does not exist here.
#[derive(Debug)]
pub struct LeftOut {
    /// Its place in the script.
    pub span: Span,
    /// The description of the missing probe, which begins with its name in backticks.
    pub what: String,
    /// Whether it exists, but cannot be probed.
    pub exists: bool,
    /// What to use instead. If it is set, a block with none of its probes left is an error. It is
    /// set for kernel functions, on which the script depends; a library may just be another
    /// version.
    pub instead: Option<String>,
    /// How to make it exist, for the help; unlike `instead`, it does not change what is reported.
    pub remedy: Option<String>,
    /// Whether it was left out in favor of another probe of the script (`unless`); then nothing is
    /// reported.
    pub has_stand_in: bool,
}

impl LeftOut {
    /// A probe that does not exist here.
    pub(super) fn new(span: Span, what: &str, instead: Option<String>) -> LeftOut {
        LeftOut { span, what: what.to_string(), exists: false, instead, remedy: None, has_stand_in: false }
    }

    /// What is the matter with it, as the end of a sentence about `count` such probes.
    fn reason(&self, count: usize) -> &'static str {
        match (self.exists, count) {
            (true, _) => "cannot be probed here",
            (false, 1) => "does not exist here",
            (false, _) => "do not exist here",
        }
    }
}

/// Maximum number of missing probes that a warning lists.
const MOST_NAMED: usize = 8;

impl Env<'_> {
    /// The processes that the command line selects: those of `-p`, else the command of `-c`. Empty:
    /// all. If a parameter has the processes, or a recipe has no such parameter and so is about the
    /// machine, the command only says how long the run lasts.
    pub fn processes(&self) -> Vec<u32> {
        let mut choices = self.params.iter().filter(|param| param.ty == ParamType::Pid).peekable();
        let is_about_machine = self.options.origin == Origin::Recipe && choices.peek().is_none();
        let is_chosen = choices.any(|param| matches!(param.value, Value::Set(_)));
        if self.options.pids.is_empty() && !is_about_machine && !is_chosen {
            return self.options.child_pid.into_iter().collect();
        }
        self.options.pids.clone()
    }

    /// The processes that a program must filter for itself. Empty: all.
    pub(super) fn filtered(&self, filter: PidFilter) -> Vec<u32> {
        match filter {
            PidFilter::Nothing => Vec::new(),
            PidFilter::Option => self.options.pids.clone(),
            PidFilter::OptionOrCommand => self.processes(),
        }
    }

    /// Warns about the probes of one block that were left out: those from index `first` on.
    pub(super) fn say_what_is_left_out(&mut self, first: usize, is_whole_block: bool) {
        let left_out = self.left_out.get(first..).unwrap_or_default();
        let left_out: Vec<&LeftOut> = left_out.iter().filter(|it| !it.has_stand_in).collect();
        let [first @ LeftOut { span, what, instead, remedy, .. }, more @ ..] = left_out.as_slice() else { return };
        if self.missing == Some(MissingProbes::Ignore) {
            return;
        }
        let message = match more.len() {
            0 => format!("{what} {}", first.reason(1)),
            more => format!("{what} and {more} more {}", first.reason(1 + more)),
        };
        if let Some(instead) = instead.as_ref().filter(|_| is_whole_block && self.missing.is_none()) {
            self.report.push(Diagnostic::error(Code(405), *span, message).help(instead.clone()));
            return;
        }
        let label = if is_whole_block { "the whole block is left out" } else { "left out" };
        let mut warning = Diagnostic::warning(Code(903), *span, message).label(label);
        if !more.is_empty() {
            // The description begins with the name in backticks.
            let name = |it: &&LeftOut| it.what.split('`').nth(1).unwrap_or(&it.what).to_string();
            let named: Vec<String> = more.iter().take(MOST_NAMED).map(name).collect();
            let dots = if more.len() > MOST_NAMED { ", …" } else { "" };
            warning = warning.help(format!("also missing: {}{dots}", named.join(", ")));
        }
        self.report.push(remedy.iter().cloned().fold(warning, Diagnostic::help));
    }
}
