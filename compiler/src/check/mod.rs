//! The check stage: a syntax tree becomes a typed program.
//!
//! In: the tree, the catalogue, the target, the options. Out: [`typed::Program`] and diagnostics.
//! Guarantee: if no diagnostic is an error, the program lowers. Nothing here names a function or
//! builtin of the language.
//!
//! Order: settings and constants; then each attach point is expanded to programs ([`Seed`]s); then
//! all bodies are checked repeatedly until the types of maps and variables stop changing. Only the
//! diagnostics of the last round are kept.

mod assign;
mod body;
mod calls;
mod conditions;
mod config;
mod declarations;
mod definitions;
mod elements;
mod env;
mod errors;
mod expr;
mod fields;
pub mod getopt;
mod header_constants;
mod hoist;
mod literals;
mod loops;
mod maps;
mod module_types;
mod named;
mod names;
mod nesting;
mod operators;
mod options;
mod params;
mod pinned;
mod points;
mod program;
mod program_types;
mod reached;
mod records;
mod scope;
mod spans;
pub mod stacks;
mod statements;
mod states;
mod statistics;
mod tuples;
mod turns;
mod type_names;
mod types;
mod units;
mod unless;
mod unread;
mod used_names;
mod variables;
mod views;
pub mod visited;

use std::collections::{BTreeMap, BTreeSet};

pub use body::Body;
pub(crate) use calls::argument_of;
pub use config::MAX_STRING_BYTES;
pub use declarations::{in_pages, no_length};
pub use definitions::define;
pub use env::{Env, LeftOut};
pub use errors::Report;
pub use fields::retarget;
pub use header_constants::user_constant;
pub use maps::{InferredMap, Maps};
pub use module_types::module_types;
pub use options::{Dialect, MissingProbes, Options, Origin, PidFilter, ProbeFilter, Succession};
pub use params::{declared_params, with_values};
pub(crate) use pinned::writes_to_a_sequence;
pub use points::{ArgField, Points, Seed};
pub(crate) use records::exchange;
pub use spans::{InferredSpan, Spans};
pub use statistics::only_printed;
pub use types::{named_int, unify, widest, with_text};
pub use units::strict_units;
pub use used_names::UsedNames;

use crate::ast;
use crate::catalogue::Catalogue;
use crate::check::reached::Reached;
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;
use crate::source::Span;
use crate::target::Target;
use crate::typed;

/// Maximum number of inference rounds; widths only grow, so real scripts need three.
const MAX_ROUNDS: usize = 16;

/// Maximum number of BPF programs per script, as in bpftrace.
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
        typedefs: definitions::typedefs(script),
        maps: Maps::collect(script),
        spans: Spans::default(),
        max_strlen: settings.max_strlen,
        stack_mode: settings.stack_mode,
        settings: settings.constants(),
        params: Vec::new(),
        report: Report::default(),
        missing: settings.missing_probes,
        replaceable: Vec::new(),
        left_out: Vec::new(),
        probed_files: BTreeSet::new(),
        missing_in_files: Vec::new(),
        undescribed: Vec::new(),
        round: 0,
        changed: false,
        guesses: false,
    };
    env.report.extend(settings.diagnostics);
    env.params = params::declare(script, options, target, &mut env.report);
    getopt::check(script, options, &env.params, &mut env.report);
    states::declare(script, &mut env);
    records::collect(script, &mut env.maps);
    declarations::apply(script, options, &mut env.maps, &mut env.report);
    let mut program = typed::Program {
        config: settings.runtime,
        max_map_keys: settings.max_map_keys,
        max_stacks: settings.max_stacks,
        ring_size_bytes: settings.ring_size_bytes,
        reports_failures: options.report_failures,
        reports_bounds: options.report_failures || options.dialect == Dialect::Bpftrace,
        max_map_memory_bytes: settings.max_map_memory_bytes,
        ..typed::Program::default()
    };
    spans::collect(script, &mut env);
    unless::declare(script, &mut env);
    let work = expand(script, &mut env, &mut program.probe_names);
    limit_probes(&work, settings.max_probes, &mut env);
    program.undescribed = std::mem::take(&mut env.undescribed);
    if !program.undescribed.is_empty() {
        return (program, env.report.finish());
    }
    // Blocks whose probes exist are checked even when others are missing, so that all errors are
    // reported at once. But a map may get its value in a block that could not be checked.
    named::require_one(script, &work, &mut env);
    pinned::require_alone(&work, &mut env);
    let is_whole = !env.report.has_errors();
    program.probes = infer(&work, &mut env);
    program.undescribed = std::mem::take(&mut env.undescribed);
    if !program.undescribed.is_empty() {
        return (program, env.report.finish());
    }
    // An interval of 0 is never.
    program.probes.retain(|probe| probe.attach != Attach::Timer { period_ns: 0 } && !points::is_absent(&probe.attach));
    if is_whole {
        program.maps = env.maps.finish(&mut env.report);
        program.spans = env.spans.finish(catalogue);
        program.leave_out_keys_of_threads();
    }
    program.params = env.params;
    params::check_patterns(&program.params, &mut env.report);
    if is_whole && !env.report.has_errors() {
        program.views = views::check(script, &mut program, (catalogue, target), &mut env.report);
        let unread = match options.succession {
            Succession::None => unread::of(script, &env.maps, catalogue),
            Succession::HandOver => BTreeSet::new(),
        };
        turns::insert(&mut program, catalogue, &unread);
    }
    (program, env.report.finish())
}

/// One program and its purpose.
#[derive(Debug)]
struct Work<'a> {
    subject: Subject<'a>,
    seed: Seed,
}

/// What a program implements.
#[derive(Debug)]
enum Subject<'a> {
    /// A block.
    Block(&'a ast::ProbeBlock),
    /// Stages of a span, or its sweep program.
    Span(spans::Part<'a>),
}

impl Subject<'_> {
    /// The source range of the whole block or definition.
    fn whole(&self) -> Span {
        match self {
            Subject::Block(block) => block.span,
            Subject::Span(part) => part.definition.span,
        }
    }

    /// The source range of the first attach point.
    fn place(&self) -> Span {
        match self {
            Subject::Block(block) => block.points.first().map_or(block.span, |point| point.span),
            Subject::Span(part) => part.span,
        }
    }
}

/// Expands each attach point to the programs that it needs.
fn expand<'a>(script: &'a ast::Script, env: &mut Env<'_>, probe_names: &mut Vec<String>) -> Vec<Work<'a>> {
    let mut work = Vec::new();
    let mut reached: BTreeMap<(usize, Vec<u32>), Reached> = BTreeMap::new();
    for part in spans::parts(script, env) {
        let (left_out, programs) = (env.left_out.len(), work.len());
        let stages = part.stages.iter().map(|stage| stage.span.start).collect();
        let reached = reached.entry((part.index, stages)).or_default();
        for mut seed in part.seeds(env) {
            if !reached.keep(&mut seed, env.target) {
                continue;
            }
            name_probes(&mut seed, None, probe_names);
            work.push(Work { subject: Subject::Span(part.clone()), seed });
        }
        if too_many_programs(&work, part.span, env) {
            return Vec::new();
        }
        env.say_what_is_left_out(left_out, work.len() == programs);
    }
    for block in &script.blocks {
        let facts = UsedNames::of(block);
        let mut reached = Reached::default();
        let (left_out, programs) = (env.left_out.len(), work.len());
        for point in &block.points {
            if env.spans.has(&point.kind.text) {
                continue;
            }
            for mut seed in seeds_of(point, &facts, env) {
                if !named::keep(&mut seed, block.name.as_ref(), env.options.probe_filter.as_ref())
                    || !reached.keep(&mut seed, env.target)
                {
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

/// The programs of an attach point. If it is reported, a stand-in has the body checked, so that all
/// errors are reported at once.
fn seeds_of(point: &ast::AttachPoint, facts: &UsedNames, env: &mut Env<'_>) -> Vec<Seed> {
    let mark = env.report.mark();
    let mut seeds = Points::new(env, facts.clone()).expand(point);
    if seeds.is_empty() && env.report.has_errors_since(mark) {
        seeds.extend(Points::new(env, facts.clone()).stand_in(point));
    }
    seeds
}

/// Reports more than `MAX_PROGRAMS` programs. Expansion stops there, because a script can ask for
/// any number.
fn too_many_programs(work: &[Work<'_>], span: Span, env: &mut Env<'_>) -> bool {
    if work.len() > MAX_PROGRAMS {
        let message = format!("this script needs {} BPF programs up to here, the limit is {MAX_PROGRAMS}", work.len());
        let help = "narrow the wildcards; system calls by wildcard share one program unless they use `args`";
        env.report.push(Diagnostic::error(Code(501), span, message).help(help));
    }
    work.len() > MAX_PROGRAMS
}

/// Reports the first probe above the limit, and a script that has no probe left.
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
    report_files_without_functions(env);
    // With an explicit `missing_probes` setting, a script may consist of `BEGIN` alone.
    // Programs that the runtime triggers for a span do nothing without its stages.
    let is_nothing = |item: &Work<'_>| match item.seed.attach {
        Attach::Begin | Attach::End => env.missing.is_none(),
        Attach::Ended { .. } | Attach::Sweep { .. } => true,
        _ => item.seed.is_absent(),
    };
    if let Some(first) = env.left_out.iter().find(|it| !it.has_stand_in).filter(|_| work.iter().all(is_nothing))
        && !env.report.has_errors()
    {
        env.report.push(Diagnostic::error(Code(605), first.span, "none of this script's probes exists here"));
    }
}

/// Reports the first missing function of each file in which none was found.
fn report_files_without_functions(env: &mut Env<'_>) {
    let mut said = std::mem::take(&mut env.probed_files);
    for (file, diagnostic) in std::mem::take(&mut env.missing_in_files) {
        if said.insert(file) {
            env.report.push(diagnostic);
        }
    }
}

/// Assigns indices to a program's probe and function names. The name of a named block replaces
/// those of all its probes.
fn name_probes(seed: &mut Seed, own_name: Option<&ast::Ident>, probe_names: &mut Vec<String>) {
    seed.context.first_name = probe_names.len() as u32;
    probe_names.extend(seed.names.iter().map(|name| own_name.map_or(name, |own| &own.text).clone()));
    seed.first_function = probe_names.len() as u32;
    probe_names.extend(seed.functions.iter().cloned());
}

/// Checks all bodies repeatedly until no type changes.
fn infer(work: &[Work<'_>], env: &mut Env<'_>) -> Vec<typed::Probe> {
    let mut vars: Vec<Vec<typed::Var>> = vec![Vec::new(); work.len()];
    for round in 0..MAX_ROUNDS {
        (env.round, env.changed) = (round, false);
        let mark = env.report.mark();
        let mut probes = Vec::with_capacity(work.len());
        for (item, vars) in work.iter().zip(&mut vars) {
            let mark = env.report.mark();
            let body = Body::new(env, &item.seed, std::mem::take(vars));
            let probe = match &item.subject {
                Subject::Block(block) => program::of_block(body, block),
                Subject::Span(part) => spans::check(body, part),
            };
            if item.seed.is_absent() {
                // It may use what only a function that exists has.
                env.report.rewind(mark);
            }
            vars.clone_from(&probe.vars);
            probes.push(probe);
        }
        // Bodies will be checked again with what they have asked for.
        if !env.undescribed.is_empty() {
            return probes;
        }
        env.changed |= env.spans.end_round();
        let have_unknown = env.maps.have_unknown() || env.spans.have_unknown();
        let is_settled = !env.changed && (env.guesses || !have_unknown);
        // A map that is assigned only in left-out blocks is empty.
        if is_settled && (env.left_out.is_empty() || !env.maps.assume_integers()) {
            return probes;
        }
        // `@x = @x + 1` gives no other hint about the type of `@x`.
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
