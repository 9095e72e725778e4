//! What recipes cost, as `scripts/costs` has measured it.
//!
//! In: `stdlib/std/costs.tsv`, which is built in: a line for each recipe and kernel. Out: what
//! `profiler list recipes -v` says about a recipe.
//! Guarantee: a recipe without a line was not measured, and that is what is said.

/// Recipe, kernel, nanoseconds an event, slow-down in percent, date, and the load, separated by
/// tabs; the two numbers are `-` where processors are emulated. Lines that begin with `#` are
/// comments.
const MEASURED: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../stdlib/std/costs.tsv"));

/// A line of the file.
#[derive(Debug, PartialEq, Eq)]
struct Cost<'a> {
    recipe: &'a str,
    kernel: &'a str,
    event_ns: Option<&'a str>,
    slow_down_percent: Option<&'a str>,
    date: &'a str,
    load: &'a str,
}

fn cost(line: &str) -> Option<Cost<'_>> {
    let known = |field| Some(field).filter(|field: &&str| *field != "-");
    let [recipe, kernel, event_ns, slow_down_percent, date, load] = *line.split('\t').collect::<Vec<_>>() else {
        return None;
    };
    let cost =
        Cost { recipe, kernel, event_ns: known(event_ns), slow_down_percent: known(slow_down_percent), date, load };
    Some(cost).filter(|_| !line.starts_with('#'))
}

fn of(recipe: &str) -> impl Iterator<Item = Cost<'static>> {
    MEASURED.lines().filter_map(cost).filter(move |cost| cost.recipe == recipe)
}

/// The cells of a recipe in the columns [`HEAD`].
pub(super) fn cells(recipe: &str) -> [String; 2] {
    let measured = of(recipe).find_map(|cost| Some((cost.event_ns?, cost.slow_down_percent?)));
    match measured {
        Some((event_ns, percent)) => [format!("{event_ns} ns"), format!("{percent} %")],
        None => ["not measured".into(), String::new()],
    }
}

/// The names of the columns.
pub(super) const HEAD: [&str; 2] = ["an event", "slow-down"];

/// Where a recipe was measured, and the kernels on which it was loaded.
pub(super) fn places(recipe: &str) -> Vec<String> {
    let place = |cost: &Cost<'_>| match cost.event_ns {
        Some(_) => format!("measured on Linux {}, {}, by {}", cost.kernel, cost.date, cost.load),
        None => format!("loads and runs on Linux {}, {}", cost.kernel, cost.date),
    };
    of(recipe).map(|cost| place(&cost)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Cost, MEASURED, cells, cost, places};
    use crate::commands::script::modules;

    #[test]
    fn each_line_is_of_a_recipe_and_has_numbers_or_none() {
        for line in MEASURED.lines().filter(|line| !line.starts_with('#')) {
            let Cost { recipe, event_ns, slow_down_percent, date, .. } = cost(line).unwrap_or_else(|| panic!("{line}"));
            assert!(modules::recipes().any(|(path, _)| *path == recipe), "there is no recipe: {line}");
            assert!(event_ns.is_none_or(|number| number.parse::<u64>().is_ok()), "{line}");
            assert!(slow_down_percent.is_none_or(|number| number.parse::<f64>().is_ok()), "{line}");
            assert_eq!((date.len(), date.matches('-').count()), (10, 2), "{line}");
        }
    }

    #[test]
    fn what_was_not_measured_says_so() {
        assert_eq!(cells("no/such"), ["not measured".to_owned(), String::new()]);
        assert!(places("no/such").is_empty());
        assert_eq!(cost("# a\tb\tc\td\te\tf"), None);
        assert_eq!(cost("a\tb"), None);
    }
}
