//! Stages that are attached to events of other spans.
//!
//! In: all spans. Out: diagnostics for invalid chains.
//! Guarantee: without an error, no event leads back to itself, so that each expands to code of
//! finite length.

use std::collections::BTreeMap;

use crate::ast::{AttachPoint, Script};
use crate::check::Env;
use crate::diagnostic::{Code, Diagnostic};

/// A stage's event, and the event that the stage is attached to.
struct Link<'a> {
    point: &'a AttachPoint,
    from: (&'a str, &'a str),
    to: (&'a str, &'a str),
}

/// Reports cycles, stages on events that have no thread context, and chains that are too large;
/// returns whether there are any.
pub(super) fn check(script: &Script, env: &mut Env<'_>) -> bool {
    let links = links(script, env);
    let mut is_wrong = false;
    for (at, link) in links.iter().enumerate() {
        let problem = if link.from.1 == "expire" {
            let message = format!("no stage can attach to `{}:expire`, which runs from a timer", link.from.0);
            Diagnostic::error(Code(439), link.point.span, message).help("give this span its own `expire`")
        } else if link.from.1 == "evict" {
            let message =
                format!("no stage can attach to `{}:evict`, which does not belong to the current thread", link.from.0);
            Diagnostic::error(Code(439), link.point.span, message).help("give this span its own `limit`")
        } else if leads_to(&links, link.to, link.from) && first_of_circle(&links, at) {
            let message = format!("`{}:{}` leads back to itself", link.from.0, link.from.1);
            Diagnostic::error(Code(439), link.point.span, message)
                .help("a stage can attach to another span's event unless that event depends on the stage")
        } else {
            continue;
        };
        is_wrong = true;
        env.report.push(problem);
    }
    is_wrong || is_too_large(&links, env)
}

/// Maximum number of stages that one event may expand to; about 760 of the smallest fill a program.
const MOST_PIECES: u64 = 1024;

/// Reports the first event that expands to too much code. Each stage attached to it is expanded
/// together with everything attached to that stage's events, so a few chained spans can grow to any
/// size.
fn is_too_large(links: &[Link<'_>], env: &mut Env<'_>) -> bool {
    let mut known = BTreeMap::new();
    let is_first = |(at, link): &(usize, &Link<'_>)| !links[..*at].iter().any(|before| before.from == link.from);
    let firsts = links.iter().enumerate().filter(is_first).map(|(_, link)| link);
    let sizes = firsts.map(|link| (link, pieces(links, link.from, &mut known)));
    // The event with the smallest count is closest to where the limit is first exceeded.
    let Some((link, count)) = sizes.filter(|(_, count)| *count > MOST_PIECES).min_by_key(|(_, count)| *count) else {
        return false;
    };
    let message = format!("the code attached to `{}:{}` is too large for a BPF program", link.from.0, link.from.1);
    let diagnostic = Diagnostic::error(Code(510), link.point.span, message)
        .label(format!("{count} stages, counting each as often as events lead to it; the limit is {MOST_PIECES}"))
        .help("attach fewer stages to events of other spans, or give them probes of their own");
    env.report.push(diagnostic);
    true
}

/// The number of stages that an event leads to, counted once for each path; there are no cycles.
fn pieces<'a>(links: &[Link<'a>], event: (&'a str, &'a str), known: &mut BTreeMap<(&'a str, &'a str), u64>) -> u64 {
    if let Some(count) = known.get(&event) {
        return *count;
    }
    let mut count: u64 = 0;
    for link in links.iter().filter(|link| link.from == event) {
        count = count.saturating_add(1).saturating_add(pieces(links, link.to, known));
    }
    known.insert(event, count);
    count
}

fn links<'a>(script: &'a Script, env: &Env<'_>) -> Vec<Link<'a>> {
    let mut links = Vec::new();
    for definition in &script.spans {
        for stage in &definition.stages {
            for point in stage.points.iter().filter(|point| env.spans.has(&point.kind.text)) {
                if let [event] = point.parts.as_slice() {
                    let from = (point.kind.text.as_str(), event.text.as_str());
                    let to = (definition.name.text.as_str(), stage.kind.event());
                    links.push(Link { point, from, to });
                    // A start may replace an open one, which is an event too.
                    if to.1 == "start" {
                        links.push(Link { point, from, to: (to.0, "replace") });
                    }
                }
            }
        }
    }
    links
}

/// Whether one event leads to another or equals it.
fn leads_to(links: &[Link<'_>], from: (&str, &str), to: (&str, &str)) -> bool {
    let mut reached = vec![from];
    let mut at = 0;
    while let Some(event) = reached.get(at).copied() {
        for link in links.iter().filter(|link| link.from == event) {
            if !reached.contains(&link.to) {
                reached.push(link.to);
            }
        }
        at += 1;
    }
    reached.contains(&to)
}

/// Whether no earlier link is in the same cycle: one message is enough.
fn first_of_circle(links: &[Link<'_>], at: usize) -> bool {
    !links[..at]
        .iter()
        .any(|other| leads_to(links, links[at].to, other.from) && leads_to(links, other.to, links[at].from))
}
