//! The words of the language: builtins, functions, aggregations and probe kinds.
//!
//! In: one file per word, and one line per word in the sorted registry of its kind. Out:
//! [`CATALOGUE`].
//! Guarantee: a word's file contains its signature, documentation, checking, lowering and decoding.

use crate::catalogue::Catalogue;

/// Defines a word's name and documentation, a page below `spec/words`, in the `impl` of its trait.
macro_rules! word {
    ($name:literal, $page:literal) => {
        fn name(&self) -> &'static str {
            $name
        }

        word!(page $page);
    };
    (page $page:literal) => {
        fn doc(&self) -> crate::catalogue::Doc {
            let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../spec/words/", $page, ".md"));
            crate::catalogue::Doc { page }
        }
    };
}

mod aggregations;
mod builtins;
mod functions;
mod probes;

/// The catalogue of the language.
pub const CATALOGUE: Catalogue = Catalogue {
    builtins: builtins::ALL,
    functions: functions::ALL,
    aggregations: aggregations::ALL,
    probes: probes::ALL,
    hidden_builtins: builtins::HIDDEN,
    of_thread: builtins::OF_THREAD,
    absent_probes: probes::ABSENT,
    absent_functions: functions::ABSENT,
};
