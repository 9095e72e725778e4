//! The word at the beginning of a span's value: the start's time above four bits of stage.
//!
//! In: nothing. Out: its constants; the table in [`super`] says what they mean.
//! Guarantee: plain data.

/// Number of stage bits below the time.
pub(super) const STAGE_BITS: i64 = 4;
/// Mask of the stage bits.
pub(super) const STAGE_MASK: i64 = 15;
/// The stage of an element that a mark is writing.
pub(super) const MARKING: i64 = 15;
/// The stage of a start.
pub(super) const STARTED: i64 = 1;
/// Smaller words mean that the element is not open.
pub(super) const FIRST_OPEN: i64 = 16;
/// The word of an element that is left over.
pub(super) const LEFT_OVER: i64 = 1;
