//! Draws flame graphs.
//!
//! In: folded stacks. Out: an SVG file.
//! Guarantee: the same stacks give the same file. It contains everything that it needs.

use std::collections::BTreeSet;
use std::io::{self, Write};

use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{Options, TextTruncateDirection, from_lines};

use profiler_model::units::Unit;

use super::difference::Difference;
use super::fold::{INLINED, JIT, KERNEL};
use super::states::{OffCpu, Zone};
use super::surroundings::{Rgb, SUBTITLE_CHARS, TITLE_CHARS, broken, complete};
use super::{Folded, pools};

/// Characters for private use, at the ends of names while inferno draws, which has one colour for
/// each name: of frames outside of states, and from the next one on, of those in each state.
const MARKS: std::ops::RangeInclusive<char> = '\u{10ff00}'..='\u{10ff7f}';
const WHITE: Rgb = (255, 255, 255);
const LIGHT_GREY: Rgb = (225, 225, 225);
/// inferno's colours of the largest changes, and of none.
const CHANGES: [(&str, Rgb); 3] = [
    ("own share larger in AFTER", (255, 100, 100)),
    ("own share smaller in AFTER", (100, 100, 255)),
    ("no change", (250, 250, 250)),
];

pub(super) fn write(folded: &Folded, title: &str, out: &mut dyn Write) -> io::Result<()> {
    let [folded] = &pools::merged([folded]);
    let stacks: Vec<(String, u64)> =
        folded.rows.iter().map(|(stack, number)| (shown(folded, stack), *number)).collect();
    let mut options = options(title, &[&[folded.total_text()][..], &folded.notes].concat());
    if folded.unit == Unit::Duration {
        options.factor = 1e-3;
        options.count_name = "µs".into();
    }
    let mut colours = colours(&stacks);
    options.palette_map = Some(&mut colours);
    let lines: Vec<String> = stacks.iter().map(|(stack, number)| format!("{stack} {number}")).collect();
    let picture = drawn(&mut options, &lines)?;
    let picture: String = picture.chars().filter(|c| !MARKS.contains(c)).collect();
    out.write_all(complete(&picture, &legend(folded)).as_bytes())
}

/// Draws stacks whose colours are the change of each function's own share.
pub(super) fn write_difference(difference: &Difference<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut options = options(&difference.title(), &difference.remarks());
    options.negate_differentials = difference.is_reversed;
    // Frames without a change are white.
    options.bgcolors = Some(BackgroundColor::Flat(LIGHT_GREY.into()));
    let picture = drawn(&mut options, &difference.lines())?;
    out.write_all(complete(&picture, &CHANGES).as_bytes())
}

fn drawn(options: &mut Options<'_>, lines: &[String]) -> io::Result<String> {
    let mut picture = Vec::new();
    from_lines(options, lines.iter().map(String::as_str), &mut picture).map_err(io::Error::other)?;
    Ok(String::from_utf8_lossy(&picture).into_owned())
}

fn options(title: &str, remarks: &[String]) -> Options<'static> {
    let mut options = Options::default();
    options.title = broken([title].into_iter(), TITLE_CHARS);
    options.subtitle = Some(broken(remarks.iter().map(String::as_str), SUBTITLE_CHARS));
    options.count_name = "in total".into();
    // The beginning of a name says more than its end.
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.name_type = "Function:".into();
    options.bgcolors = Some(BackgroundColor::Flat(WHITE.into()));
    options
}

/// A stack whose frames are marked.
fn shown(folded: &Folded, stack: &str) -> String {
    let frames: Vec<String> = folded.frames(stack).map(|(frame, zone)| marked(frame, zone)).collect();
    frames.join(";")
}

/// A frame with the mark of its zone before its suffix, which inferno leaves out.
fn marked(frame: &str, zone: Zone) -> String {
    let number = match zone {
        Zone::OnCpu => return frame.to_owned(),
        Zone::Thread => 0,
        Zone::Waiting(OffCpu(index)) => u32::from(index) + 1,
    };
    let mark = char::from_u32(u32::from(*MARKS.start()) + number).unwrap_or(*MARKS.start());
    let suffix = [KERNEL, JIT, INLINED].into_iter().find(|suffix| frame.ends_with(suffix)).unwrap_or_default();
    format!("{}{mark}{suffix}", &frame[..frame.len() - suffix.len()])
}

/// The zone that a frame is marked with.
fn zone(frame: &str) -> Zone {
    let Some(mark) = frame.chars().rev().find(|c| MARKS.contains(c)) else { return Zone::OnCpu };
    match (u32::from(mark) - u32::from(*MARKS.start())).checked_sub(1) {
        Some(index) => Zone::Waiting(OffCpu(index as u8)),
        None => Zone::Thread,
    }
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

/// The hue is that of the kind of code, or of the state of a thread off the CPU; the shade that of
/// the name.
fn colour(frame: &str) -> Color {
    let shade = |from: u8, width: u8| from + (hash(frame) % u32::from(width)) as u8;
    let (r, g, b) = match (zone(frame), frame.get(frame.len().saturating_sub(KERNEL.len())..)) {
        (Zone::Waiting(state), _) => {
            // Less than what tones differ by, and enough to tell neighbours apart.
            let (darker, (r, g, b)) = (shade(0, 3) * 8, state.rgb());
            (r.saturating_sub(darker), g.saturating_sub(darker), b.saturating_sub(darker))
        }
        (Zone::OnCpu, Some(KERNEL)) => (shade(220, 30), shade(130, 50), 30),
        (Zone::OnCpu, Some(JIT)) => (shade(80, 50), shade(190, 40), shade(80, 50)),
        (Zone::OnCpu, Some(INLINED)) => (shade(80, 50), shade(180, 40), shade(190, 40)),
        // Code without a name, and the ends of stacks.
        (Zone::OnCpu, _) if frame.starts_with('[') => grey(shade(185, 30)),
        (Zone::Thread, _) => grey(shade(205, 30)),
        (Zone::OnCpu, _) => (shade(225, 25), shade(90, 50), shade(75, 40)),
    };
    Color { r, g, b }
}

fn grey(shade: u8) -> Rgb {
    (shade, shade, shade)
}

/// What is in the picture, with its colours: the kinds of code that runs, and the states.
fn legend(folded: &Folded) -> Vec<(&'static str, Rgb)> {
    let (mut kinds, mut states) = ([false; 5], BTreeSet::new());
    for (frame, zone) in folded.rows.keys().flat_map(|stack| folded.frames(stack)) {
        let kind = [KERNEL, INLINED, JIT].iter().position(|suffix| frame.ends_with(suffix));
        let kind = kind.or_else(|| frame.starts_with('[').then_some(3));
        match zone {
            Zone::OnCpu => kinds[kind.map_or(0, |kind| kind + 1)] = true,
            Zone::Waiting(state) => {
                states.insert(state);
            }
            Zone::Thread => {}
        }
    }
    let kind = |name, suffix: &str| {
        let Color { r, g, b } = colour(suffix);
        (name, (r, g, b))
    };
    let kinds = kinds.into_iter().zip([
        kind("program", ""),
        kind("kernel", KERNEL),
        kind("inlined", INLINED),
        kind("just-in-time code", JIT),
        kind("without a name", "["),
    ]);
    let kinds = kinds.filter_map(|(is_there, kind)| is_there.then_some(kind));
    kinds.chain(states.into_iter().map(|state| (state.name(), state.rgb()))).collect()
}

/// FNV-1a: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
