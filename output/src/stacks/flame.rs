//! Draws flame graphs.
//!
//! In: folded stacks. Out: an SVG file.
//! Guarantee: the same stacks give the same file. It contains everything that it needs.

use std::io::{self, Write};

use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{Options, TextTruncateDirection, from_lines};

use profiler_model::units::Unit;

use super::Folded;
use super::fold::{INLINED, JIT, KERNEL};

/// Notes below the title are cut after this many characters: more do not fit.
const MAX_NOTE_CHARS: usize = 160;
/// The mark of frames of a thread off the CPU: a space without width.
const WAITING: char = '\u{200b}';
const WHITE: (u8, u8, u8) = (255, 255, 255);

pub(super) fn write(folded: &Folded, title: &str, out: &mut dyn Write) -> io::Result<()> {
    let stacks: Vec<(String, u64)> =
        folded.rows.iter().map(|(stack, number)| (shown(folded, stack), *number)).collect();
    let mut options = options(title);
    options.subtitle = Some(subtitle(folded));
    if folded.unit == Unit::Duration {
        options.factor = 1e-3;
        options.count_name = "µs".into();
    }
    let mut colours = colours(&stacks);
    options.palette_map = Some(&mut colours);
    let lines: Vec<String> = stacks.iter().map(|(stack, number)| format!("{stack} {number}")).collect();
    from_lines(&mut options, lines.iter().map(String::as_str), out).map_err(io::Error::other)
}

/// Draws lines with two numbers.
pub(super) fn write_difference(lines: &[String], title: &str, is_negated: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut options = options(title);
    options.negate_differentials = is_negated;
    from_lines(&mut options, lines.iter().map(String::as_str), out).map_err(io::Error::other)
}

fn options(title: &str) -> Options<'static> {
    let mut options = Options::default();
    title.clone_into(&mut options.title);
    options.count_name = "in total".into();
    // The beginning of a name says more than its end.
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.name_type = "Function:".into();
    options.bgcolors = Some(BackgroundColor::Flat(WHITE.into()));
    options
}

/// A stack whose frames are marked if its thread is off the CPU. inferno has one colour for each
/// name.
fn shown(folded: &Folded, stack: &str) -> String {
    if !folded.waiting.contains(stack) {
        return stack.to_owned();
    }
    let frames: Vec<String> = stack.split(';').map(marked).collect();
    frames.join(";")
}

/// A frame with a mark before its suffix, which inferno leaves out.
fn marked(frame: &str) -> String {
    let suffix = [KERNEL, JIT, INLINED].into_iter().find(|suffix| frame.ends_with(suffix)).unwrap_or_default();
    format!("{}{WAITING}{suffix}", &frame[..frame.len() - suffix.len()])
}

/// A colour for each frame. inferno's own palettes guess the kind of code from the name.
fn colours(stacks: &[(String, u64)]) -> PaletteMap {
    let mut colours = PaletteMap::default();
    // The frame of all stacks has no name.
    colours.insert("", colour("["));
    for frame in stacks.iter().flat_map(|(stack, _)| stack.split(';')) {
        colours.insert(frame, colour(frame));
    }
    colours
}

/// The hue is that of the kind of code, or of a thread off the CPU; the shade that of the name.
fn colour(frame: &str) -> Color {
    let shade = |from: u8, width: u8| from + (hash(frame) % u32::from(width)) as u8;
    if frame.contains(WAITING) {
        return Color { r: shade(90, 60), g: shade(150, 50), b: shade(215, 35) };
    }
    let (r, g, b) = match frame.get(frame.len().saturating_sub(KERNEL.len())..) {
        Some(KERNEL) => (shade(220, 30), shade(130, 50), 30),
        Some(JIT) => (shade(80, 50), shade(190, 40), shade(80, 50)),
        Some(INLINED) => (shade(80, 50), shade(180, 40), shade(190, 40)),
        // Code without a name, and the ends of stacks.
        _ if frame.starts_with('[') => (shade(185, 30), shade(185, 30), shade(185, 30)),
        _ => (shade(225, 25), shade(90, 50), shade(75, 40)),
    };
    Color { r, g, b }
}

/// FNV-1a: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn subtitle(folded: &Folded) -> String {
    let total = match folded.unit {
        // The name of the unit is in the text.
        Unit::Duration => Unit::Duration.text(folded.total() as f64),
        _ => folded.total().to_string(),
    };
    let mut text = format!("{total} in {} stacks", folded.rows.len());
    for note in &folded.notes {
        text += "; ";
        text += note.trim();
    }
    if text.chars().count() > MAX_NOTE_CHARS {
        text = text.chars().take(MAX_NOTE_CHARS - 1).chain(['…']).collect();
    }
    text
}
