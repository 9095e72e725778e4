//! Suggestions for misspelled names.
//!
//! In: an unknown name, the known names. Out: the nearest few. Guarantee: a suggestion contains the
//! name, or differs from it in at most a third of its characters (one edit for very short names).

/// Maximum length of names that are compared. Two mangled names of hundreds of characters are not
/// typos of each other.
const MAX_LEN: usize = 64;

/// The candidates nearest to a name, best first, at most `max`, without duplicates.
///
/// Candidates are ranked by the number of insertions, deletions, substitutions and transpositions
/// of adjacent characters, ignoring case. Candidates that begin with or contain the whole name come
/// after these.
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
            .then(|| strsim::osa_distance(&name, &lower))
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

#[cfg(test)]
mod tests {
    use super::nearest;

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
