//! Static probes of programs (USDT): what a file's notes say of them.
//!
//! In: the section `.note.stapsdt`, and the text of a probe's arguments. Out: [`Note`]s and [`Argument`]s.
//! Guarantee: any bytes and any text give an answer, never a panic; what cannot be understood is marked as such, so that it is
//! refused only where it is used.

mod arguments;
mod notes;

pub use arguments::{Address, Argument, Place, Register, arguments};
pub use notes::{Note, notes};
