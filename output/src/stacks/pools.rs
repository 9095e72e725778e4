//! Threads of a pool as one: their names differ only in numbers.
//!
//! In: folded stacks that know which frame is the name of a thread. Out: folded stacks.
//! Guarantee: the total stays the same. A name that no other resembles stays, and so do the names
//! of threads that the key keeps apart by a number.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Folded;

/// The stacks of one or more pictures with the threads of each pool under one name, which is the
/// same in all of them.
pub(super) fn merged<const PICTURES: usize>(pictures: [&Folded; PICTURES]) -> [Cow<'_, Folded>; PICTURES] {
    let names = pictures.iter().flat_map(|folded| folded.rows.keys().filter_map(|stack| name(folded, stack)));
    let patterns = patterns(names);
    pictures
        .map(|folded| if patterns.is_empty() { Cow::Borrowed(folded) } else { Cow::Owned(renamed(folded, &patterns)) })
}

/// The name of the thread of a stack.
fn name<'a>(folded: &Folded, stack: &'a str) -> Option<&'a str> {
    stack.split(';').nth(*folded.names.get(stack)?)
}

/// For each name of a pool the name of the pool: `worker-*` for `worker-1` and `worker-2`.
fn patterns<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, String> {
    let mut pools: BTreeMap<Vec<&str>, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for name in names {
        let numbers: Vec<&str> = parts(name).filter(|part| is_number(part)).collect();
        let shape: Vec<&str> = parts(name).map(|part| if is_number(part) { "" } else { part }).collect();
        if !numbers.is_empty() && numbers.len() < shape.len() {
            pools.entry(shape).or_default().insert(name, numbers);
        }
    }
    let mut patterns = BTreeMap::new();
    for pool in pools.into_values().filter(|pool| pool.len() > 1) {
        let is_same = |index: usize| {
            let mut numbers = pool.values().map(|numbers| numbers.get(index));
            let first = numbers.next();
            numbers.all(|number| Some(number) == first)
        };
        for name in pool.keys() {
            let mut index = 0..;
            let shown = parts(name).map(|part| {
                let differs = is_number(part) && !index.next().is_some_and(is_same);
                if differs { "*" } else { part }
            });
            patterns.insert(*name, shown.collect());
        }
    }
    patterns
}

/// The numbers of a name, and the texts between them.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.as_bytes().chunk_by(|byte, next| byte.is_ascii_digit() == next.is_ascii_digit()).scan(0, move |start, part| {
        let from = *start;
        *start += part.len();
        name.get(from..*start)
    })
}

fn is_number(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_digit())
}

fn renamed(folded: &Folded, patterns: &BTreeMap<&str, String>) -> Folded {
    let mut renamed = Folded { unit: folded.unit, notes: folded.notes.clone(), ..Folded::default() };
    for (stack, number) in &folded.rows {
        let mut frames: Vec<&str> = stack.split(';').collect();
        let frame = folded.names.get(stack).and_then(|depth| frames.get_mut(*depth));
        if let Some((pattern, frame)) = frame.and_then(|frame| Some((patterns.get(*frame)?, frame))) {
            *frame = pattern;
        }
        let frames = frames.join(";");
        renamed.states.extend(folded.states.get(stack).map(|placed| (frames.clone(), *placed)));
        renamed.add(frames, *number);
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_numbers_are_a_pool() {
        let of = |names: &[&str]| patterns(names.iter().copied()).into_values().collect::<Vec<_>>();
        assert_eq!(of(&["worker-1", "worker-12", "main"]), ["worker-*", "worker-*"]);
        assert_eq!(of(&["http-8080-1", "http-8080-2"]), ["http-8080-*", "http-8080-*"], "the port is the same");
        assert_eq!(of(&["kworker/0:1H", "kworker/1:2H"]), ["kworker/*:*H", "kworker/*:*H"]);
        for apart in
            [&["worker-1"][..], &["a1", "1a"], &["4711", "4712"], &["worker1", "reader1"], &["é1", "è1"], &[""]]
        {
            assert!(of(apart).is_empty(), "{apart:?}");
        }
    }
}
