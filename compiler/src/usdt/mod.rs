//! Static probes of programs (USDT), parsed from the notes of a file.
//!
//! In: the section `.note.stapsdt`, and the text of a probe's arguments. Out: [`Note`]s and
//! [`Argument`]s.
//! Guarantee: never panics, for any bytes and any text. Anything that is not understood is marked
//! as such, so that it is rejected only where it is used.

mod arguments;
mod notes;

pub use arguments::{Address, Argument, ArgumentLocation, Register, arguments};
pub use notes::{Note, notes};
