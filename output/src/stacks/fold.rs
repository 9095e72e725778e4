//! Samples as folded stacks.
//!
//! In: samples. Out: [`Folded`] stacks, with the outermost frame first.
//! Guarantee: frames contain neither `;` nor control characters.

use profiler_model::units::Unit;

use super::Folded;
use super::samples::{Frame, Kind, Samples, UnitName};
use super::states::{self, Placed};

/// Suffixes of frames by the kind of their code, which tools for flame graphs know. Native code has
/// none.
pub(super) const KERNEL: &str = "_[k]";
pub(super) const JIT: &str = "_[j]";
pub(super) const INLINED: &str = "_[i]";

/// The stacks of samples. The parts of a key that are not stacks come first. Stacks of several maps
/// begin with the name of their map.
pub(super) fn fold(samples: &Samples) -> Folded {
    fold_with(samples, &state_parts(samples))
}

/// The same, with the parts of keys that are states.
pub(super) fn fold_with(samples: &Samples, states: &[Option<usize>]) -> Folded {
    let is_time = samples.rows.keys().all(|site| site.unit == UnitName::Nanoseconds);
    let unit = if is_time { Unit::Duration } else { Unit::None };
    let mut folded = Folded { unit, ..Folded::default() };
    for (site, number) in &samples.rows {
        let map = samples.maps.get(site.map).filter(|_| samples.maps.len() > 1);
        let mut frames: Vec<String> = site.labels.iter().map(|label| clean(label)).collect();
        frames.extend(samples.stack(site).map(frame));
        if frames.is_empty() {
            frames.push("[no stack]".into());
        }
        frames.splice(0..0, map.map(|name| clean(name)));
        let stack = frames.join(";");
        let part = states.get(site.map).copied().flatten();
        let state = part.and_then(|part| Some((part, states::named(site.labels.get(part)?)?)));
        if let Some((part, state)) = state {
            let depth = part + usize::from(map.is_some());
            folded.states.insert(stack.clone(), Placed { state, depth });
        }
        let name = samples.name_part(site, part).map(|part| part + usize::from(map.is_some()));
        folded.names.extend(name.map(|depth| (stack.clone(), depth)));
        folded.add(stack, *number);
    }
    folded
}

/// For each map, the part of the key that is the state of a thread.
pub(super) fn state_parts(samples: &Samples) -> Vec<Option<usize>> {
    let labels = |map| samples.rows.keys().filter(move |site| site.map == map).map(|site| &site.labels);
    let rows = |map| labels(map).map(|labels| labels.iter().map(String::as_str).collect()).collect::<Vec<_>>();
    (0..samples.maps.len()).map(|map| states::position(&rows(map))).collect()
}

/// A frame as tools for flame graphs know it.
pub(super) fn frame(frame: &Frame) -> String {
    clean(&frame.name) + suffix(frame.kind)
}

/// The suffix of frames of a kind.
pub(super) fn suffix(kind: Kind) -> &'static str {
    match kind {
        Kind::Kernel => KERNEL,
        Kind::Jit => JIT,
        Kind::Inlined => INLINED,
        Kind::Native | Kind::Unnamed | Kind::End => "",
    }
}

fn clean(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { ':' } else { c }).collect()
}
