//! `PROBE unless OTHER`: a substitute for a probe that not every kernel has.
//!
//! In: the attach points of a script. Out: which of them are replaced by another on this machine,
//! and diagnostics about `unless`.
//! Guarantee: of a probe and its substitutes, exactly the first that exists here is attached.

use crate::ast::{AttachPoint, Script};
use crate::check::{Env, LeftOut, Points, Seed, UsedNames};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;

/// Diagnostics that mean that a probe is unavailable on this machine: it does not exist, it is
/// forbidden, its kind does not work here, or its arguments cannot be passed. All others are errors
/// on any machine.
const NOT_HERE: [Code; 4] = [Code(405), Code(406), Code(410), Code(412)];

/// Collects the probes that have substitutes, and checks each `unless`.
pub(super) fn declare(script: &Script, env: &mut Env<'_>) {
    let in_stages = script.spans.iter().flat_map(|span| &span.stages).flat_map(|stage| &stage.points);
    let points: Vec<&AttachPoint> = script.blocks.iter().flat_map(|block| &block.points).chain(in_stages).collect();
    for (point, other) in points.iter().flat_map(|point| point.unless.iter().map(move |other| (*point, other))) {
        env.replaceable.push(other.clone());
        let problem = wrong_pair(point, other, &points, env);
        env.report.extend(problem);
    }
}

/// The diagnostic for an invalid `point unless other` in a script with these attach points.
fn wrong_pair(point: &AttachPoint, other: &AttachPoint, all: &[&AttachPoint], env: &mut Env<'_>) -> Option<Diagnostic> {
    if let Some(event) = [point, other].into_iter().find(|it| env.spans.has(&it.kind.text)) {
        let message = "the events of a span exist wherever the span does";
        let help = "put `unless` after a probe in the span's own stages";
        return Some(Diagnostic::error(Code(416), event.span, message).help(help));
    }
    if is_everywhere(other, env) {
        let message = "this probe exists on every machine, so the other is never attached";
        return Some(Diagnostic::error(Code(416), other.span, message).help("leave out one of the two"));
    }
    if same_probe(point, other, env) {
        return Some(Diagnostic::error(Code(416), other.span, "a probe cannot stand in for itself"));
    }
    let is_named = |it: &&AttachPoint| point.unless.iter().any(|named| same_probe(named, it, env));
    // For each attachment of `other`: a probe for which it is a substitute itself, and which
    // `point` does not name.
    let attached: Vec<Option<&AttachPoint>> = all
        .iter()
        .filter(|it| same_probe(it, other, env))
        .map(|it| it.unless.iter().find(|further| !is_named(further)))
        .collect();
    if attached.is_empty() {
        let message = "nothing in this script is attached to this probe, so nothing can stand in for it";
        let help = "give it a block of its own, or leave out `unless`";
        return Some(Diagnostic::error(Code(415), other.span, message).help(help));
    }
    let further = attached.into_iter().collect::<Option<Vec<_>>>()?.into_iter().next()?;
    let message = "this probe is itself a substitute for another";
    let help = "each probe names all that come before it: `c unless b unless a`";
    Some(Diagnostic::error(Code(416), other.span, message).related(further.span, "for this one").help(help))
}

/// Whether a probe exists on every machine: one of the script's own, or a timer.
fn is_everywhere(point: &AttachPoint, env: &mut Env<'_>) -> bool {
    let is_own = |seed: &Seed| {
        matches!(
            seed.attach,
            Attach::Begin
                | Attach::End
                | Attach::Test { .. }
                | Attach::Bench { .. }
                | Attach::Signal
                | Attach::Timer { .. }
        )
    };
    quietly(point, env).0.iter().any(is_own)
}

/// Whether two attach points denote the same probe as written; aliases of the kind are equal.
pub(super) fn same_probe(a: &AttachPoint, b: &AttachPoint, env: &Env<'_>) -> bool {
    let kind = |point: &AttachPoint| env.catalogue.probe(&point.kind.text).map(crate::catalogue::ProbeKind::name);
    let texts = |point: &AttachPoint| point.parts.iter().map(|part| part.text.clone()).collect::<Vec<_>>();
    kind(a) == kind(b) && texts(a) == texts(b)
}

/// Whether two attach points denote the same probe, with the same `unless`.
pub(super) fn same_attachment(a: &AttachPoint, b: &AttachPoint, env: &Env<'_>) -> bool {
    same_probe(a, b, env)
        && a.unless.len() == b.unless.len()
        && a.unless.iter().zip(&b.unless).all(|(a, b)| same_probe(a, b, env))
}

impl Points<'_, '_> {
    /// Whether another probe of the script is attached instead of this one on this machine.
    pub(super) fn is_left_to_another(&mut self, point: &AttachPoint) -> bool {
        let is_replaceable = self.env.replaceable.iter().any(|it| same_probe(it, point, self.env));
        let is_left =
            point.unless.iter().any(|other| exists(other, self.env)) || is_replaceable && !exists(point, self.env);
        if is_left {
            let what = format!("`{}`", point.kind.text);
            self.env.left_out.push(LeftOut { has_stand_in: true, ..LeftOut::new(point.span, &what, None) });
        }
        is_left
    }
}

/// Whether a probe is available on this machine. An invalid probe counts as available, so that its
/// block reports the error.
fn exists(point: &AttachPoint, env: &mut Env<'_>) -> bool {
    let (seeds, problems) = quietly(point, env);
    seeds.iter().any(|seed| !seed.is_absent()) || problems.iter().any(|code| !NOT_HERE.contains(code))
}

/// The programs that a probe would need, and the codes of its diagnostics, without reporting them.
fn quietly(point: &AttachPoint, env: &mut Env<'_>) -> (Vec<Seed>, Vec<Code>) {
    let (reported, left_out) = (std::mem::take(&mut env.report), env.left_out.len());
    let missing = env.missing_in_files.len();
    let mut points = Points::new(env, UsedNames::default());
    points.only_asks = true;
    let seeds = points.programs(point);
    env.left_out.truncate(left_out);
    env.missing_in_files.truncate(missing);
    let report = std::mem::replace(&mut env.report, reported);
    (seeds, report.finish().into_iter().map(|problem| problem.code).collect())
}
