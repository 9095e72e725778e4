//! Adds a line that explains the colours to a flame graph.
//!
//! In: the SVG text of inferno, colours with their names. Out: SVG text.
//! Guarantee: nothing of the picture moves. A picture of another form stays as it is.

use std::fmt::Write as _;

/// Height of the line.
const LINE_PX: usize = 22;
/// Edges of a square of colour.
const SQUARE_PX: usize = 10;
/// Where the line begins, as the frames do.
const LEFT_PX: usize = 10;
/// Width of a character of the font, and a bit more.
const CHARACTER_PX: usize = 8;

/// The picture with the line below it.
pub(super) fn below(picture: &str, colours: &[(&str, (u8, u8, u8))]) -> String {
    let higher =
        height_px(picture).and_then(|height_px| {
            let (body, end) = picture.rsplit_once("</svg>")?;
            let taller = height_px + LINE_PX;
            // Of the picture, and of its background.
            let body = body
                .replacen(&format!(" height=\"{height_px}\""), &format!(" height=\"{taller}\""), 2)
                .replacen(&format!(" {height_px}\" xmlns"), &format!(" {taller}\" xmlns"), 1);
            Some(format!("{body}{}</svg>{end}", line(colours, height_px)))
        });
    higher.unwrap_or_else(|| picture.to_owned())
}

fn height_px(picture: &str) -> Option<usize> {
    let (_, rest) = picture.split_once("<svg ")?;
    let (_, rest) = rest.split_once(" height=\"")?;
    rest.split_once('"')?.0.parse().ok()
}

fn line(colours: &[(&str, (u8, u8, u8))], top_px: usize) -> String {
    let mut line = "<g id=\"legend\">".to_owned();
    let mut left_px = LEFT_PX;
    for (name, (r, g, b)) in colours {
        let text_px = left_px + SQUARE_PX + SQUARE_PX / 2;
        // Writing into a string does not fail.
        let _ = write!(
            line,
            "<rect x=\"{left_px}\" y=\"{top_px}\" width=\"{SQUARE_PX}\" height=\"{SQUARE_PX}\" \
             fill=\"rgb({r},{g},{b})\"/><text x=\"{text_px}\" y=\"{}\">{name}</text>",
            top_px + SQUARE_PX
        );
        left_px = text_px + name.len() * CHARACTER_PX + SQUARE_PX;
    }
    line + "</g>"
}
