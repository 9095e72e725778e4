//! The check stage: a syntax tree becomes a typed program.
//!
//! In: the tree, the words, the target, the options. Out: [`typed::Program`] and diagnostics.
//! Guarantee: without an error among the diagnostics, the program lowers. Nothing here names a word of the language.
//!
//! Order: settings and constants; every attach point expanded to programs ([`Seed`]s); then all bodies, again and again
//! until the types of maps and variables no longer change. Only the last round's diagnostics are kept.

mod assign;
mod body;
mod calls;
mod config;
mod constant;
mod declarations;
mod definitions;
mod elements;
mod errors;
mod expr;
mod facts;
mod fields;
mod header_constants;
mod hoist;
mod literals;
mod loops;
mod maps;
mod module_types;
mod named;
mod names;
mod operators;
pub mod parameters;
mod params;
mod points;
mod records;
mod spans;
mod states;
mod statistics;
mod types;
mod units;
mod views;

use std::collections::BTreeMap;

pub use body::Body;
pub use config::MissingProbes;
pub use constant::constant;
pub use declarations::{in_pages, no_length};
pub use definitions::define;
pub use errors::Report;
pub use expr::truncate;
pub use facts::Facts;
pub use header_constants::user_constant;
pub use maps::{MapInfo, Maps};
pub use module_types::module_types;
pub use named::ProbeFilter;
pub use params::{declared_params, given_params};
pub use points::{ArgField, Points, Seed};
pub use spans::{SpanInfo, Spans};
pub use statistics::only_printed;
pub use types::{named_int, unify, widest};
pub use units::strict_units;

use crate::ast;
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;
use crate::params::Param;
use crate::source::Span;
use crate::target::Target;
use crate::typed;
use crate::types::StackMode;
use crate::words::Catalogue;

/// What a user asked for on the command line.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Only this process.
    pub pid: Option<u32>,
    /// The process of `-c`.
    pub child_pid: Option<u32>,
    /// `$1`, `$2`, ….
    pub positional: Vec<String>,
    /// `--name=value` behind `--`; a switch has no value.
    pub named: Vec<(String, Option<String>)>,
    /// Whether functions that change the system may be used.
    pub allow_unsafe: bool,
    /// Settings of the environment: names in small letters, without `BPFTRACE_`.
    pub settings: Vec<(String, String)>,
    /// Whether reads that fail and keys that are missing are reported.
    pub report_failures: bool,
    /// Only probes whose names it takes; `begin`, `end` and `self` are never left out.
    pub probe_filter: Option<ProbeFilter>,
    /// What to do about functions and static probes of programs that do not exist here, unless the script says.
    pub missing_in_programs: MissingProbes,
}

/// What all bodies of a script share while they are checked.
#[derive(Debug)]
pub struct Env<'a> {
    /// The machine.
    pub target: &'a dyn Target,
    /// The command line.
    pub options: &'a Options,
    /// The words.
    pub catalogue: &'a Catalogue,
    /// `#define`d constants.
    pub defines: BTreeMap<String, ast::Expr>,
    /// The maps.
    pub maps: Maps,
    /// The spans.
    pub spans: Spans,
    /// Room of a string that the script does not size.
    pub max_strlen: u32,
    /// How stacks are printed that do not say how.
    pub stack_mode: StackMode,
    /// What scripts see of the settings.
    pub settings: Vec<(&'static str, parameters::Value)>,
    /// The script's parameters, with their values.
    pub params: Vec<Param>,
    /// What is wrong.
    pub report: Report,
    /// What to do about probes that do not exist here, when the script says.
    pub missing: Option<MissingProbes>,
    /// Probes that were left out.
    pub left_out: Vec<LeftOut>,
    /// Whether a type changed in this round.
    pub changed: bool,
    /// Whether an operand of which nothing is known takes the other side's type: the last resort.
    pub guesses: bool,
}

/// Most rounds of inference; widths only grow, so real scripts need three.
const MAX_ROUNDS: usize = 16;

/// Most BPF programs of one script, as in bpftrace.
const MAX_PROGRAMS: usize = 1024;

/// Checks a script.
pub fn check(
    script: &ast::Script,
    catalogue: &Catalogue,
    target: &dyn Target,
    options: &Options,
) -> (typed::Program, Vec<Diagnostic>) {
    let settings = config::read(&script.config, &options.settings);
    let mut env = Env {
        target,
        options,
        catalogue,
        defines: script.defines.iter().map(|d| (d.name.text.clone(), d.value.clone())).collect(),
        maps: Maps::collect(script),
        spans: Spans::default(),
        max_strlen: settings.max_strlen,
        stack_mode: settings.stack_mode,
        settings: settings.constants(),
        params: Vec::new(),
        report: Report::default(),
        missing: settings.missing_probes,
        left_out: Vec::new(),
        changed: false,
        guesses: false,
    };
    env.report.extend(settings.diagnostics);
    env.params = params::declare(script, options, target, &mut env.report);
    parameters::check(script, options, &env.params, &mut env.report);
    states::declare(script, &mut env);
    records::collect(script, &mut env.maps);
    declarations::apply(script, options, &mut env.maps, &mut env.report);
    let mut program = typed::Program {
        config: settings.runtime,
        max_map_keys: settings.max_map_keys,
        ring_size_bytes: settings.ring_size_bytes,
        reports_failures: options.report_failures,
        max_map_memory_bytes: settings.max_map_memory_bytes,
        ..typed::Program::default()
    };
    spans::collect(script, &mut env);
    let work = expand(script, &mut env, &mut program.probe_names);
    limit_probes(&work, settings.max_probes, &mut env);
    // The blocks whose probes exist are checked even when others do not, so that all mistakes are told at once; but a map may
    // get its value in a block that could not be checked.
    named::require_one(script, &work, &mut env);
    let is_whole = !env.report.has_errors();
    program.probes = infer(&work, &mut env);
    if is_whole {
        program.maps = env.maps.finish(&mut env.report);
        program.spans = env.spans.finish(catalogue);
    }
    program.params = env.params;
    params::check_regexes(&program.params, &mut env.report);
    if is_whole && !env.report.has_errors() {
        program.views = views::check(script, &program.maps, &mut program.params, target, &mut env.report);
    }
    (program, env.report.finish())
}

/// One program, and what it is for.
#[derive(Debug)]
struct Work<'a> {
    subject: Subject<'a>,
    seed: Seed,
}

/// What a program is for.
#[derive(Debug)]
enum Subject<'a> {
    /// A block.
    Block(&'a ast::ProbeBlock),
    /// Stages of a span, or its sweep.
    Span(spans::Part<'a>),
}

impl Subject<'_> {
    /// All of it, as written.
    fn whole(&self) -> Span {
        match self {
            Subject::Block(block) => block.span,
            Subject::Span(part) => part.definition.span,
        }
    }

    /// The first attach point, as written.
    fn place(&self) -> Span {
        match self {
            Subject::Block(block) => block.points.first().map_or(block.span, |point| point.span),
            Subject::Span(part) => part.span,
        }
    }
}

/// Turns every attach point into the programs that it needs.
fn expand<'a>(script: &'a ast::Script, env: &mut Env<'_>, probe_names: &mut Vec<String>) -> Vec<Work<'a>> {
    let mut work = Vec::new();
    for part in spans::parts(script, env) {
        let (left_out, programs) = (env.left_out.len(), work.len());
        for mut seed in part.seeds(env) {
            name_probes(&mut seed, None, probe_names);
            work.push(Work { subject: Subject::Span(part.clone()), seed });
        }
        if too_many_programs(&work, part.span, env) {
            return Vec::new();
        }
        env.say_what_is_left_out(left_out, work.len() == programs);
    }
    for block in &script.blocks {
        let facts = Facts::of(block);
        let (left_out, programs) = (env.left_out.len(), work.len());
        for point in &block.points {
            if env.spans.has(&point.kind.text) {
                continue;
            }
            for mut seed in Points::new(env, facts.clone()).expand(point) {
                if !named::keep(&mut seed, block.name.as_ref(), env.options.probe_filter.as_ref()) {
                    continue;
                }
                name_probes(&mut seed, block.name.as_ref(), probe_names);
                work.push(Work { subject: Subject::Block(block), seed });
            }
            if too_many_programs(&work, point.span, env) {
                return Vec::new();
            }
        }
        env.say_what_is_left_out(left_out, work.len() == programs);
    }
    work
}

/// Reports the limit; what is beyond it is not looked at, for there is no end to what a script may ask for.
fn too_many_programs(work: &[Work<'_>], span: Span, env: &mut Env<'_>) -> bool {
    if work.len() > MAX_PROGRAMS {
        let message = format!("this script needs {} BPF programs up to here, the limit is {MAX_PROGRAMS}", work.len());
        let help = "narrow the wildcards; system calls by wildcard share one program unless they use `args`";
        env.report.push(Diagnostic::error(Code(501), span, message).help(help));
    }
    work.len() > MAX_PROGRAMS
}

/// Reports the first probe that is one too many, and scripts of which no probe is left.
fn limit_probes(work: &[Work<'_>], most: u32, env: &mut Env<'_>) {
    let mut count = 0;
    for item in work {
        count += item.seed.points;
        if count > most {
            let span = item.subject.place();
            let message = format!("this script has {count} probes up to here, `max_probes` is {most}");
            let help = "narrow the wildcards, or raise the setting";
            env.report.push(Diagnostic::error(Code(501), span, message).help(help));
            return;
        }
    }
    // Who asks for it may have a script of `BEGIN` alone.
    let is_nothing = |item: &Work<'_>| env.missing.is_none() && matches!(item.seed.attach, Attach::Begin | Attach::End);
    if let Some(first) = env.left_out.first().filter(|_| work.iter().all(is_nothing))
        && !env.report.has_errors()
    {
        env.report.push(Diagnostic::error(Code(605), first.span, "none of this script's probes exists here"));
    }
}

/// A probe that does not exist here and need not.
#[derive(Debug)]
pub struct LeftOut {
    /// Where it stands.
    pub span: Span,
    /// What is missing, with its name in quotes first.
    pub what: String,
    /// What to use instead; then a block without any of its probes is an error. A library may lack a function that another
    /// version has; what is gone from the kernel is what the script is about.
    pub instead: Option<String>,
}

/// Most missing things that a warning names.
const MOST_NAMED: usize = 8;

impl Env<'_> {
    /// Warns of the probes of one block that were left out, which are those from `first` on.
    fn say_what_is_left_out(&mut self, first: usize, is_whole_block: bool) {
        let Some([LeftOut { span, what, instead }, more @ ..]) =
            self.left_out.get(first..).filter(|_| self.missing != Some(MissingProbes::Ignore))
        else {
            return;
        };
        let message = match more.len() {
            0 => format!("{what} does not exist here"),
            more => format!("{what} and {more} more do not exist here"),
        };
        if let Some(instead) = instead.as_ref().filter(|_| is_whole_block && self.missing.is_none()) {
            self.report.push(Diagnostic::error(Code(405), *span, message).help(instead.clone()));
            return;
        }
        let label = if is_whole_block { "the whole block is left out" } else { "left out" };
        let mut warning = Diagnostic::warning(Code(903), *span, message).label(label);
        if !more.is_empty() {
            // What is missing is described with its name in quotes first.
            let name = |it: &LeftOut| it.what.split('`').nth(1).unwrap_or(&it.what).to_string();
            let named: Vec<String> = more.iter().take(MOST_NAMED).map(name).collect();
            let dots = if more.len() > MOST_NAMED { ", …" } else { "" };
            warning = warning.help(format!("also missing: {}{dots}", named.join(", ")));
        }
        self.report.push(warning);
    }
}

/// Gives a program's probes (and functions) their numbers. A block's own name is that of all its probes.
fn name_probes(seed: &mut Seed, own_name: Option<&ast::Ident>, probe_names: &mut Vec<String>) {
    seed.context.first_name = probe_names.len() as u32;
    probe_names.extend(seed.names.iter().map(|name| own_name.map_or(name, |own| &own.text).clone()));
    seed.first_function = probe_names.len() as u32;
    probe_names.extend(seed.functions.iter().cloned());
}

/// Checks all bodies until no type changes any more.
fn infer(work: &[Work<'_>], env: &mut Env<'_>) -> Vec<typed::Probe> {
    let mut vars: Vec<Vec<typed::Var>> = vec![Vec::new(); work.len()];
    for _ in 0..MAX_ROUNDS {
        env.changed = false;
        let mark = env.report.mark();
        let mut probes = Vec::with_capacity(work.len());
        for (item, vars) in work.iter().zip(&mut vars) {
            let body = Body::new(env, &item.seed, std::mem::take(vars));
            let probe = match &item.subject {
                Subject::Block(block) => body.check(block),
                Subject::Span(part) => body.check_span(part),
            };
            vars.clone_from(&probe.vars);
            probes.push(probe);
        }
        let have_unknown = env.maps.have_unknown() || env.spans.have_unknown();
        let is_settled = !env.changed && (env.guesses || !have_unknown);
        // A map that only blocks which are left out assign to is empty.
        if is_settled && (env.left_out.is_empty() || !env.maps.assume_integers()) {
            return probes;
        }
        // `@x = @x + 1` says nothing else of what `@x` holds.
        env.guesses |= !env.changed;
        env.report.rewind(mark);
    }
    let span = work.first().map_or(Span::default(), |w| w.subject.whole());
    env.report.push(
        Diagnostic::error(
            Code(310),
            span,
            "the types of this script's maps and variables depend on each other in a circle",
        )
        .help("give one of them a type with a cast, such as `(uint64)`"),
    );
    Vec::new()
}
