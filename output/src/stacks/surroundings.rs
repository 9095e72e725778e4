//! What is around the frames of a flame graph: title, remarks, the button to search, a legend.
//!
//! In: the SVG text of inferno, in whose title and subtitle [`BREAK`] ends a line, and colours with
//! their names. Out: SVG text.
//! Guarantee: no line of text is wider than the narrowest picture, and no line covers another: the
//! frames are moved as one. A picture of another form stays as it is, without line breaks.

use std::fmt::Write as _;

/// Ends a line of a title or a subtitle.
pub(super) const BREAK: char = '\u{10ff80}';
/// Characters of a line of the title and of the subtitle. Both are then narrower than 1020 pixels,
/// and the title leaves space for the buttons beside it.
pub(super) const TITLE_CHARS: usize = 100;
pub(super) const SUBTITLE_CHARS: usize = 140;

/// Heights of further lines.
const TITLE_PX: usize = 22;
const SUBTITLE_PX: usize = 16;
const LEGEND_PX: usize = 22;
/// Edges of a square of colour.
const SQUARE_PX: usize = 10;
/// Where a line of the legend begins, as the frames do, and where it ends.
const LEFT_PX: usize = 10;
const RIGHT_PX: usize = 1190;
/// Width of a character of the font, and a bit more.
const CHARACTER_PX: usize = 8;

/// A colour as red, green and blue.
pub(super) type Rgb = (u8, u8, u8);

/// Lines of at most this many characters, ended by [`BREAK`], broken between words where possible.
pub(super) fn broken<'a>(lines: impl Iterator<Item = &'a str>, most: usize) -> String {
    let mut broken: Vec<String> = Vec::new();
    for line in lines {
        let mut current = String::new();
        for word in line.split_whitespace() {
            let mut rest: Vec<char> = word.chars().collect();
            let used = current.chars().count();
            if used > 0 && used + 1 + rest.len() > most {
                broken.push(std::mem::take(&mut current));
            } else if used > 0 {
                current.push(' ');
            }
            while rest.len() > most {
                broken.push(rest.drain(..most).collect());
            }
            current.extend(rest);
        }
        broken.push(current);
    }
    broken.join(&BREAK.to_string())
}

/// The picture with its lines of text, a visible button and a legend.
pub(super) fn complete(picture: &str, legend: &[(&str, Rgb)]) -> String {
    completed(picture, legend).unwrap_or_else(|| picture.replace(BREAK, " "))
}

fn completed(picture: &str, legend: &[(&str, Rgb)]) -> Option<String> {
    let height_px = number(picture, "<svg ", " height=\"")?;
    let title_px = TITLE_PX * breaks(picture, "id=\"title\"")?;
    let moved_px = title_px + SUBTITLE_PX * breaks(picture, "id=\"subtitle\"")?;
    let mut picture = picture.replacen("#search { text-anchor:end; opacity:0.1;", "#search { text-anchor:end;", 1);
    for (text, down_px) in [("id=\"subtitle\"", title_px), ("id=\"details\"", moved_px), ("id=\"matched\"", moved_px)] {
        let from_px = number(&picture, text, " y=\"")?;
        let (before, after) = picture.split_once(text)?;
        let place = |px: usize| format!(" y=\"{px}.00\"");
        picture = format!("{before}{text}{}", after.replacen(&place(from_px), &place(from_px + down_px), 1));
    }
    let legend = Legend::of(legend, height_px + moved_px);
    let taller_px = height_px + moved_px + legend.height_px;
    // Of the picture, and of its background.
    let picture = picture
        .replacen("<svg id=\"frames\"", &format!("<svg id=\"frames\" y=\"{moved_px}\""), 1)
        .replacen(&format!(" height=\"{height_px}\""), &format!(" height=\"{taller_px}\""), 2)
        .replacen(&format!(" {height_px}\" xmlns"), &format!(" {taller_px}\" xmlns"), 1);
    let picture = in_lines(&in_lines(&picture, "id=\"title\"", TITLE_PX)?, "id=\"subtitle\"", SUBTITLE_PX)?;
    let (body, end) = picture.rsplit_once("</svg>")?;
    Some(format!("{body}{}</svg>{end}", legend.text))
}

/// The whole number that follows these two texts.
fn number(picture: &str, first: &str, second: &str) -> Option<usize> {
    let (_, rest) = picture.split_once(first)?;
    let (_, rest) = rest.split_once(second)?;
    rest.split(['"', '.']).next()?.parse().ok()
}

/// The content of a text, with what is before and after it.
fn content<'a>(picture: &'a str, text: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let start = picture.find(text)?;
    let start = start + picture.get(start..)?.find('>')? + 1;
    let (before, rest) = picture.split_at_checked(start)?;
    let (content, after) = rest.split_at_checked(rest.find("</text>")?)?;
    Some((before, content, after))
}

fn breaks(picture: &str, text: &str) -> Option<usize> {
    Some(content(picture, text)?.1.matches(BREAK).count())
}

/// The picture with line breaks in a text that is centred.
fn in_lines(picture: &str, text: &str, line_px: usize) -> Option<String> {
    let (before, content, after) = content(picture, text)?;
    let mut lines = content.split(BREAK);
    let mut content = lines.next()?.to_owned();
    for line in lines {
        // Writing into a string does not fail.
        let _ = write!(content, "<tspan x=\"50%\" dy=\"{line_px}\">{line}</tspan>");
    }
    Some(format!("{before}{content}{after}"))
}

/// What the colours mean.
struct Legend {
    text: String,
    height_px: usize,
}

impl Legend {
    fn of(colours: &[(&str, Rgb)], top_px: usize) -> Legend {
        let mut text = "<g id=\"legend\">".to_owned();
        let (mut left_px, mut line_px) = (LEFT_PX, 0);
        for (name, (r, g, b)) in colours {
            let width_px = SQUARE_PX + SQUARE_PX / 2 + name.len() * CHARACTER_PX;
            if left_px > LEFT_PX && left_px + width_px > RIGHT_PX {
                (left_px, line_px) = (LEFT_PX, line_px + LEGEND_PX);
            }
            let y = top_px + line_px;
            let _ = write!(
                text,
                "<rect x=\"{left_px}\" y=\"{y}\" width=\"{SQUARE_PX}\" height=\"{SQUARE_PX}\" \
                 stroke=\"rgb(160,160,160)\" fill=\"rgb({r},{g},{b})\"/><text x=\"{}\" y=\"{}\">{name}</text>",
                left_px + SQUARE_PX + SQUARE_PX / 2,
                y + SQUARE_PX
            );
            left_px += width_px + SQUARE_PX;
        }
        Legend { text: text + "</g>", height_px: line_px + LEGEND_PX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        let of = |lines: &[&str]| broken(lines.iter().copied(), 8).replace(BREAK, "|");
        assert_eq!(of(&["one two three", "  four"]), "one two|three|four");
        assert_eq!(of(&["a 0123456789abcdefg b"]), "a|01234567|89abcdef|g b");
        assert_eq!(of(&["äöüäöüäö x"]), "äöüäöüäö|x");
        assert_eq!(of(&[""]), "");
    }

    #[test]
    fn a_long_legend_has_several_lines() {
        let colours = [("0123456789", (0, 0, 0)); 40];
        let legend = Legend::of(&colours, 100);
        let squares = legend.text.split("<rect x=\"").skip(1);
        for x in squares.map(|rest| rest.split('"').next().expect("its end").parse::<usize>().expect("a number")) {
            assert!(x + SQUARE_PX / 2 + SQUARE_PX + 10 * CHARACTER_PX <= RIGHT_PX, "{}", legend.text);
        }
        assert!(legend.height_px > 3 * LEGEND_PX && legend.text.contains(&format!("y=\"{}\"", 100 + LEGEND_PX)));
    }

    #[test]
    fn another_picture_stays() {
        for picture in ["", "<svg></svg>", "<svg  height=\"5\"><text id=\"title\">a"] {
            assert_eq!(complete(picture, &[]), picture);
        }
    }
}
