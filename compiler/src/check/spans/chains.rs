//! Stages that hang on events of other spans.
//!
//! In: all spans. Out: what is wrong with how they hang together.
//! Guarantee: without an error, no event leads back to itself, so that each is a piece of code of finite length.

use crate::ast::{AttachPoint, Script};
use crate::check::Env;
use crate::diagnostic::{Code, Diagnostic};

/// A stage's event, and the event that it hangs on.
struct Link<'a> {
    point: &'a AttachPoint,
    from: (&'a str, &'a str),
    to: (&'a str, &'a str),
}

/// Reports circles, and stages on events that no program of a thread has; whether there are any.
pub(super) fn check(script: &Script, env: &mut Env<'_>) -> bool {
    let links = links(script, env);
    let mut is_wrong = false;
    for (at, link) in links.iter().enumerate() {
        let problem = if link.from.1 == "expire" {
            let message = format!("no stage can hang on `{}:expire`, which a timer finds", link.from.0);
            Diagnostic::error(Code(439), link.point.span, message).help("end it by its own `expire`")
        } else if link.from.1 == "evict" {
            let message = format!(
                "no stage can hang on `{}:evict`, which happens to another than the present thread",
                link.from.0
            );
            Diagnostic::error(Code(439), link.point.span, message).help("bound it by its own `limit`")
        } else if leads_to(&links, link.to, link.from) && first_of_circle(&links, at) {
            let message = format!("`{}:{}` leads back to itself", link.from.0, link.from.1);
            Diagnostic::error(Code(439), link.point.span, message)
                .help("a stage may hang on another span's event if that one does not hang on it in turn")
        } else {
            continue;
        };
        is_wrong = true;
        env.report.push(problem);
    }
    is_wrong
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
                    // A start may replace another, which is an event too.
                    if to.1 == "start" {
                        links.push(Link { point, from, to: (to.0, "replace") });
                    }
                }
            }
        }
    }
    links
}

/// Whether one event leads to another, or is it.
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

/// Whether no link before this one is in a circle with it: one message is enough.
fn first_of_circle(links: &[Link<'_>], at: usize) -> bool {
    !links[..at]
        .iter()
        .any(|other| leads_to(links, links[at].to, other.from) && leads_to(links, other.to, links[at].from))
}
