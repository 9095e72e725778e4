//! Perf events that are counted: `hardware` and `software`.
//!
//! In: an attach point, the table of a kind's events. Out: the program that it needs; listings.
//! Guarantee: an unknown event is a diagnostic with the nearest names.

use super::point::{full_name, whole_number};
use crate::ast::AttachPoint;
use crate::catalogue::ProbeKind;
use crate::check::{PidFilter, Points, Seed};
use crate::target::TargetError;
use crate::typed::ContextKind;
use crate::words::probes::listing;

/// The probe of a counted perf event: `number` is the kernel's type, `events` a table of (name,
/// number, default count).
pub(super) fn perf_seeds(
    kind: &dyn ProbeKind,
    cx: &mut Points<'_, '_>,
    point: &AttachPoint,
    number: u32,
    events: &[(&str, u64, u64)],
) -> Vec<Seed> {
    let Some(attach) = perf_event(cx, point, number, events) else { return Vec::new() };
    let mut seed = Seed::new(full_name(kind.name(), point), "perf_event".into(), ContextKind::PerfEvent, attach);
    seed.pid_filter = PidFilter::OptionOrCommand;
    vec![seed]
}

fn perf_event(
    cx: &mut Points<'_, '_>,
    point: &AttachPoint,
    kind: u32,
    events: &[(&str, u64, u64)],
) -> Option<crate::object::Attach> {
    let form = format!("{}:EVENT:COUNT", point.kind.text);
    let (event, count) = match point.parts.as_slice() {
        [event] => (event, None),
        // As listings write it.
        [event, count] if count.text.is_empty() => (event, None),
        [event, count] => match whole_number(&count.text) {
            Some(count) if count > 0 => (event, Some(count)),
            _ => {
                cx.wrong_form(point, &form);
                return None;
            }
        },
        _ => {
            cx.wrong_form(point, &form);
            return None;
        }
    };
    let Some((_, config, default)) = events.iter().find(|(name, _, _)| *name == event.text) else {
        let near = crate::similar::nearest(&event.text, events.iter().map(|(name, _, _)| *name), 3);
        cx.refused(event.span, &format!("event `{}`", event.text), crate::target::TargetError::Missing { near });
        return None;
    };
    let rate = crate::object::Rate::Period(count.unwrap_or(*default));
    Some(crate::object::Attach::PerfEvent { kind, config: *config, rate })
}

/// The names in such a table that match a pattern, before their counts.
pub(super) fn events(events: &[(&str, u64, u64)], pattern: &str) -> Result<Vec<String>, TargetError> {
    let mut names: Vec<String> = events.iter().map(|(name, _, _)| format!("{name}:")).collect();
    names.sort_unstable();
    listing::select(&names.iter().map(String::as_str).collect::<Vec<_>>(), pattern)
}
