//! Decides from the accounting of spans whether the numbers of a view are reliable.
//!
//! In: a view, the accounting. Out: why it is not shown; which maps have no rates, and sentences
//! that say so.
//! Guarantee: for everything that a view omits for this reason, the reason is given with the
//! counts.

use profiler_model::output::{Cell, SpanLedger};
use profiler_model::view::{Measure, Source, View};

use super::formula::Inputs;

/// Why no row of a view is shown: a condition of `where` that applies to the whole view does not
/// hold.
pub(super) fn withheld(view: &View, spans: &[SpanLedger]) -> Option<String> {
    let inputs = Inputs { cell: &|_| Cell::Missing, one_or_count: &|_| Cell::Missing, spans };
    let failed = view.requires.iter().find(|requirement| !inputs.holds(&requirement.formula))?;
    let named = spans.iter().filter(|ledger| names(&failed.text, &ledger.name));
    let counts = named.map(|ledger| format!("span {}: {}", ledger.name, ledger.summary()));
    let why = format!("not shown, because `{}` does not hold", failed.text);
    Some(std::iter::once(why).chain(counts).collect::<Vec<_>>().join("; "))
}

/// Whether a condition names a span, as in `matched(NAME)`.
fn names(condition: &str, span: &str) -> bool {
    condition.contains(&format!("({span})"))
}

/// Whether a view has a column with a rate of this map.
fn shows_rate(view: &View, map: usize) -> bool {
    let mut sources = view.columns.iter().flat_map(|column| view.sources(column.source));
    sources.any(|source| source == Source::Measure { map, measure: Measure::Rate })
}

/// The maps of a view, by index, whose span has more broken than matched starts, and a sentence for
/// each such span.
pub(super) fn broken(view: &View, spans: &[SpanLedger]) -> (Vec<usize>, Vec<String>) {
    let (mut maps, mut notes) = (Vec::new(), Vec::new());
    for fed in &view.fed {
        let Some(ledger) = spans.get(fed.span) else { continue };
        let replaced = if fed.replaced_is_broken { ledger.replaced } else { 0 };
        let broken =
            replaced + ledger.expired + ledger.evicted.unwrap_or(0) + ledger.ended.unwrap_or(0) + ledger.lost();
        if broken <= ledger.matched {
            continue;
        }
        maps.push(fed.map);
        if view.by_function {
            maps.push(fed.map + 1);
        }
        let without = if shows_rate(view, fed.map) { "no rate is shown, and the other" } else { "the" };
        let note = format!(
            "most starts of span {} broke ({}): {without} numbers are of the matched pairs only",
            ledger.name,
            ledger.summary()
        );
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    (maps, notes)
}
