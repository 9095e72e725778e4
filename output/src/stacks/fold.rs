//! Entries of a map as folded stacks.
//!
//! In: a snapshot of a map. Out: its stacks, with the outermost frame first.
//! Guarantee: frames contain neither `;` nor control characters. Entries without a stack are left
//! out, and so are values that do not add up, such as averages.

use profiler_model::output::MapSnapshot;
use profiler_model::statistics::{Number, Statistic};
use profiler_model::text::write_value;
use profiler_model::types::Space;
use profiler_model::value::{Location, Stack, Symbols, Value};

use super::Folded;

/// Suffixes of frames by the kind of their code, which tools for flame graphs know. Native code has
/// none.
pub(super) const KERNEL: &str = "_[k]";
pub(super) const JIT: &str = "_[j]";
pub(super) const INLINED: &str = "_[i]";

/// The stacks of a map. The parts of a key that are not stacks come first, then the user stack,
/// then the kernel stack, whatever their order in the key.
pub(super) fn fold(map: &MapSnapshot, symbols: &dyn Symbols) -> Folded {
    let mut folded = Folded::default();
    for (key, value) in &map.entries {
        let Some((key, number)) = key.as_ref().zip(weight(value)) else { continue };
        let mut frames = Frames::default();
        frames.add(key, symbols);
        if frames.has_stack && number > 0 {
            let all = [frames.names, frames.user, frames.kernel].concat();
            folded.add(if all.is_empty() { "[no stack]".to_owned() } else { all.join(";") }, number);
        }
    }
    folded
}

/// What a value adds to the width of its stack.
fn weight(value: &Value) -> Option<u64> {
    let of = |statistic| match value.statistic(&statistic) {
        Some(Number::Integer(number)) => u64::try_from(number).ok(),
        _ => None,
    };
    match value {
        Value::Uint(number) => Some(*number),
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Stats { .. } | Value::Distribution(_) => of(Statistic::Sum),
        Value::Histogram(_) => of(Statistic::Count),
        _ => None,
    }
}

/// The frames of a key.
#[derive(Default)]
struct Frames {
    names: Vec<String>,
    user: Vec<String>,
    kernel: Vec<String>,
    has_stack: bool,
}

impl Frames {
    fn add(&mut self, part: &Value, symbols: &dyn Symbols) {
        match part {
            Value::Stack(stack) => {
                self.has_stack = true;
                let frames = frames(stack, symbols);
                let into = if stack.space == Space::User { &mut self.user } else { &mut self.kernel };
                into.extend(frames);
            }
            Value::Tuple(parts) | Value::Array(parts) => parts.iter().for_each(|part| self.add(part, symbols)),
            Value::Record(fields) => fields.iter().for_each(|(_, part)| self.add(part, symbols)),
            other => {
                let mut text = Vec::new();
                write_value(other, symbols, &mut text);
                self.names.push(clean(&String::from_utf8_lossy(&text)));
            }
        }
    }
}

/// The frames of a stack, outermost first.
fn frames(stack: &Stack, symbols: &dyn Symbols) -> Vec<String> {
    let mut frames = Vec::new();
    for (location, address) in symbols.locate_stack(stack).iter().zip(&stack.frames) {
        match location {
            Location::Symbol(symbol, origin) => {
                frames.extend(origin.inlined.iter().map(|inlined| clean(&inlined.name) + INLINED));
                let kind = match (stack.space, symbol.module.as_deref()) {
                    (Space::Kernel, _) => KERNEL,
                    (Space::User, Some(module)) if is_jit(module) => JIT,
                    (Space::User, _) => "",
                };
                frames.push(clean(&symbol.name) + kind);
            }
            Location::Module(..) => frames.push(module_frame(location)),
            Location::NoCode => {
                frames.push(format!("[stack ends here: {address:#x} is not code]"));
                break;
            }
            Location::Unknown => frames.push("[unknown]".into()),
        }
    }
    frames.extend(stack.end.map(|end| format!("[stack ends here: {}]", end.reason())));
    frames.reverse();
    frames
}

/// Code without a name: its file.
fn module_frame(location: &Location) -> String {
    match location {
        Location::Module(path, _) => format!("[{}]", clean(path.rsplit('/').next().unwrap_or(path))),
        _ => "[unknown]".into(),
    }
}

/// Whether a symbol is from a list that a just-in-time compiler writes.
fn is_jit(module: &str) -> bool {
    let name = module.rsplit('/').next().unwrap_or(module);
    let is = |prefix, suffix| name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix)).is_some();
    is("perf-", ".map") || is("jit-", ".dump")
}

fn clean(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { ':' } else { c }).collect()
}
