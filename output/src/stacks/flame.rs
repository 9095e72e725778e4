//! Draws flame graphs.
//!
//! In: folded stacks. Out: an SVG file.
//! Guarantee: the same stacks give the same file. It contains everything that it needs.

use std::io::{self, Write};

use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{Options, from_lines};

use super::Folded;
use super::fold::{INLINED, JIT, KERNEL};

/// Notes below the title are cut after this many characters: more do not fit.
const MAX_NOTE_CHARS: usize = 160;
const WHITE: (u8, u8, u8) = (255, 255, 255);

pub(super) fn write(folded: &Folded, title: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut options = options(title);
    options.subtitle = Some(subtitle(folded));
    let mut colours = colours(folded);
    options.palette_map = Some(&mut colours);
    let lines: Vec<String> = folded.rows.iter().map(|(stack, number)| format!("{stack} {number}")).collect();
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
    options.name_type = "Function:".into();
    options.bgcolors = Some(BackgroundColor::Flat(WHITE.into()));
    options
}

/// A colour for each frame. inferno's own palettes guess the kind of code from the name.
fn colours(folded: &Folded) -> PaletteMap {
    let mut colours = PaletteMap::default();
    // The frame of all stacks has no name.
    colours.insert("", colour("["));
    for frame in folded.rows.keys().flat_map(|stack| stack.split(';')) {
        colours.insert(frame, colour(frame));
    }
    colours
}

/// The hue is that of the kind of code, the shade that of the name.
fn colour(frame: &str) -> Color {
    let shade = |from: u8, width: u8| from + (hash(frame) % u32::from(width)) as u8;
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

fn subtitle(folded: &Folded) -> String {
    let mut text = format!("{} in {} stacks", folded.total(), folded.rows.len());
    for note in &folded.notes {
        text += "; ";
        text += note.trim();
    }
    if text.chars().count() > MAX_NOTE_CHARS {
        text = text.chars().take(MAX_NOTE_CHARS - 1).chain(['…']).collect();
    }
    text
}
