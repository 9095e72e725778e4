//! Whether output is coloured.
//!
//! In: the environment, the terminal. Out: display options.
//! Guarantee: only a terminal gets colours, and only if the user has not refused them.

use std::io::IsTerminal as _;

use profiler_runtime::sys::terminal;

use super::diagnostics::Look;

/// Whether results are coloured: they go to a terminal that supports colours.
pub(super) fn results_are_coloured(to_file: bool) -> bool {
    !to_file && colours_allowed() && std::io::stdout().is_terminal()
}

/// Whether standard error is coloured.
pub(super) fn colour_wanted() -> bool {
    colours_allowed() && std::io::stderr().is_terminal()
}

/// Display options for diagnostics on standard error.
pub(super) fn look() -> Look {
    let width = std::io::stderr().is_terminal().then(terminal::size).flatten().map(|(columns, _)| columns);
    Look { colour: colour_wanted(), width }
}

/// Whether colours may be sent to a terminal: `NO_COLOR` (<https://no-color.org>) is unset or
/// empty, and the terminal supports them.
pub(super) fn colours_allowed() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !refused && !dumb
}
