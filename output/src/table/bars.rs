//! Bars for the shares of a table's rows.
//!
//! In: a grid that fits the width, and its table. Out: the grid with one more column.
//! Guarantee: the table stays within the width; without space for bars that can be compared, there
//! are none. The longest bar is the largest share of the table.

use profiler_model::output::{Cell, Table};
use profiler_model::statistics::Number;
use profiler_model::view::Quantity;

use super::{GAP, Grid};

/// The longest bar, in columns.
const MOST_COLUMNS: usize = 20;
/// With fewer columns, bars are left out.
const FEWEST_COLUMNS: usize = 8;
/// Parts of a column: one to eight eighths of a block.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Adds a bar to the first line of each row.
pub(super) fn add(grid: &mut Grid, table: &Table, width: usize) {
    let Some(at) = table.headers.iter().position(|header| header.quantity == Some(Quantity::Share)) else { return };
    let used = grid.widths.iter().sum::<usize>() + GAP.len() * grid.widths.len();
    let columns = width.saturating_sub(used).min(MOST_COLUMNS);
    let shares: Vec<f64> = table.rows.iter().map(|row| share(row.get(at))).collect();
    let largest = shares.iter().copied().fold(0.0, f64::max);
    if columns < FEWEST_COLUMNS || !grid.left_out.is_empty() || largest <= 0.0 {
        return;
    }
    grid.heads.push(String::new());
    grid.numbers.push(false);
    grid.widths.push(columns);
    let mut bars = shares.iter().map(|share| bar(share / largest, columns));
    for (row, begins) in grid.rows.iter_mut().zip(&grid.begins) {
        let bar = if *begins { bars.next() } else { None };
        row.push(bar.unwrap_or_default());
    }
    grid.rest.iter_mut().for_each(|rest| rest.push(String::new()));
}

/// A share; 0 if there is none.
fn share(cell: Option<&Cell>) -> f64 {
    match cell {
        Some(Cell::Number(Number::Real(share))) => *share,
        _ => 0.0,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a part of a few columns, from 0 to 1"
)]
fn bar(part: f64, columns: usize) -> String {
    let eighths = (part.clamp(0.0, 1.0) * (columns * EIGHTHS.len()) as f64).round() as usize;
    let whole = EIGHTHS[EIGHTHS.len() - 1].to_string().repeat(eighths / EIGHTHS.len());
    let last = (eighths % EIGHTHS.len()).checked_sub(1).map(|at| EIGHTHS[at]);
    whole.chars().chain(last).collect()
}
