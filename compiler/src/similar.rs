//! Names that someone may have meant.
//!
//! In: a name that does not exist, names that do. Out: the nearest few. Guarantee: nothing is proposed that differs in more
//! than a third of its characters.

/// Longest name that is compared: two mangled names of hundreds of characters are no typing errors of each other.
const MAX_LEN: usize = 64;

/// The candidates that are nearest to a name, best first, at most `max`, each once.
///
/// A candidate counts by the number of characters to insert, remove, replace or swap with their neighbour; upper and lower
/// case count as alike, and a candidate that begins with or contains the whole name comes behind the near ones.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>, max: usize) -> Vec<String> {
    let name = name.to_lowercase();
    if name.is_empty() || name.len() > MAX_LEN {
        return Vec::new();
    }
    let allowed = (name.len() / 3).max(1);
    let mut found: Vec<(usize, &str)> = Vec::new();
    for candidate in candidates {
        let lower = candidate.to_lowercase();
        let near = (lower.len().abs_diff(name.len()) <= allowed && lower.len() <= MAX_LEN)
            .then(|| distance(name.as_bytes(), lower.as_bytes()))
            .filter(|distance| *distance <= allowed);
        let part = || (name.len() >= 3 && lower.contains(&name)).then_some(allowed + lower.len());
        if let Some(rank) = near.or_else(part) {
            found.push((rank, candidate));
        }
    }
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(max).map(|(_, candidate)| candidate.to_owned()).collect()
}

/// Edits from one text to the other: insertions, removals, replacements, and swaps of neighbours.
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = last[j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn counts_edits() {
        for (a, b, expected) in
            [("", "", 0), ("abc", "abc", 0), ("abc", "acb", 1), ("kitten", "sitting", 3), ("", "ab", 2), ("ab", "", 2)]
        {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} to {b}");
        }
    }

    #[test]
    fn proposes_near_names_only() {
        let names = ["sched_switch", "sched_wakeup", "sys_enter_open", "sched_switch", "sched_swtich"];
        assert_eq!(nearest("sched_swich", names, 3), ["sched_switch", "sched_swtich"]);
        assert_eq!(nearest("SCHED_WAKEUP", names, 3), ["sched_wakeup"]);
        assert_eq!(nearest("open", names, 3), ["sys_enter_open"]);
        assert!(nearest("zzz", names, 3).is_empty() && nearest("", names, 3).is_empty());
        assert_eq!(nearest("sched", names, 1).len(), 1);
    }
}
