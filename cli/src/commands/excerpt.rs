//! Source lines for a diagnostic.
//!
//! In: a [`Source`] and the spans to point at, most important first. Out: an [`Excerpt`]: few,
//! short, sanitized lines with the columns that each span covers.
//! Guarantee: any span of any text works, even past the end or inside a character; lines are cut at
//! the requested width; no terminal control character survives.

use std::borrow::Cow;
use std::ops::Range;

use profiler_compiler::source::{Source, Span};
use profiler_model::text::controls::is_harmless;
use unicode_width::UnicodeWidthStr;

/// Limit in characters of a shown line.
pub(super) const WIDTH: usize = 200;
/// Characters kept before the span when a line is cut.
const BEFORE: usize = 60;
const TAB: &str = "    ";
const CUT: char = '…';

/// Lines of a script to show.
#[derive(Debug, Default)]
pub(super) struct Excerpt {
    /// Lines in which a span begins or ends, in script order.
    pub lines: Vec<Line>,
    /// Indices of the spans in parts that are not shown.
    pub hidden: Vec<usize>,
}

/// A line to show.
#[derive(Debug)]
pub(super) struct Line {
    /// Line number in the script, from 1.
    pub number: usize,
    /// The shown text.
    pub text: String,
    /// Spans to point at.
    pub marks: Vec<Mark>,
}

/// The part of a span in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// Index of the span.
    pub span: usize,
    /// Terminal columns, from 0; never empty.
    pub columns: Range<usize>,
    /// Whether the span ends in this line.
    pub is_last: bool,
}

/// The part of a span in a line, in bytes of the script.
struct Part {
    span: usize,
    bytes: Range<usize>,
    is_last: bool,
}

/// The lines in which `spans` begin and end, each cut to `width` characters.
pub(super) fn excerpt(source: &Source, spans: &[Span], width: usize) -> Excerpt {
    let text = source.text.as_str();
    let mut lines: Vec<(Range<usize>, Vec<Part>)> = Vec::new();
    let mut out = Excerpt::default();
    let file = spans.first().map(|span| source.file_at(span.start).1);
    for (span, place) in spans.iter().map(|span| place(text, *span)).enumerate() {
        // Only lines of one file are shown together.
        if Some(source.file_at(spans[span].start).1) != file {
            out.hidden.push(span);
            continue;
        }
        for (line, part) in parts(text, span, &place) {
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, parts)) => parts.push(part),
                None => lines.push((line, vec![part])),
            }
        }
    }
    lines.sort_by_key(|(line, _)| line.start);
    for (line, parts) in lines {
        let number = source.line_column(line.start as u32).0 as usize;
        let focus = parts.iter().min_by_key(|part| part.span).map_or(line.start, |part| part.bytes.start);
        let (text, marks) = show(text, &window(text, line, focus, width), &parts);
        let is_hidden = |part: &&Part| !marks.iter().any(|mark| mark.span == part.span);
        out.hidden.extend(parts.iter().filter(is_hidden).map(|part| part.span));
        out.lines.push(Line { number, text, marks });
    }
    out
}

/// Clamps a span to valid character boundaries, without trailing blanks. A span after all text is
/// moved to the end of the last word, where something is missing.
pub(super) fn place(text: &str, span: Span) -> Range<usize> {
    let floor = |at: u32| {
        let at = (at as usize).min(text.len());
        (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
    };
    let start = floor(span.start);
    let end = floor(span.end).max(start);
    if text[start..].trim().is_empty() {
        let last = text.trim_end().len().min(start);
        return last..last;
    }
    start..start + text[start..end].trim_end().len()
}

/// The line of a place, or its first and last lines, each with the part of the place in it.
fn parts(text: &str, span: usize, place: &Range<usize>) -> Vec<(Range<usize>, Part)> {
    let first = line_at(text, place.start);
    // Neither part begins after the last character of its line, where there may be a carriage
    // return.
    let start = place.start.min(first.end);
    if place.end <= first.end.max(start) {
        return vec![(first, Part { span, bytes: start..place.end.max(start), is_last: true })];
    }
    let last = line_at(text, place.end);
    if last == first {
        let bytes = start..first.end;
        return vec![(first, Part { span, bytes, is_last: true })];
    }
    let indent = text[last.clone()].len() - text[last.clone()].trim_start().len();
    let begin = Part { span, bytes: start..first.end, is_last: false };
    let end = Part { span, bytes: last.start + indent..place.end.min(last.end), is_last: true };
    vec![(first, begin), (last, end)]
}

/// The bytes of the line around a position, without the line ending.
fn line_at(text: &str, at: usize) -> Range<usize> {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
    start..start + text[start..end].trim_end_matches('\r').len()
}

/// The visible part of a line.
struct Window {
    bytes: Range<usize>,
    cut_left: bool,
    cut_right: bool,
}

fn window(text: &str, line: Range<usize>, focus: usize, width: usize) -> Window {
    let is_short = text[line.clone()].chars().nth(width).is_none();
    if is_short {
        return Window { bytes: line, cut_left: false, cut_right: false };
    }
    let before = text[line.start..focus].char_indices();
    let start = before.rev().nth(BEFORE.min(width / 2) - 1).map_or(line.start, |(at, _)| line.start + at);
    let end = text[start..line.end].char_indices().nth(width).map_or(line.end, |(at, _)| start + at);
    Window { cut_left: start > line.start, cut_right: end < line.end, bytes: start..end }
}

/// The text of a line and the columns of its parts. A part that extends past a cut ends at the cut.
fn show(text: &str, window: &Window, parts: &[Part]) -> (String, Vec<Mark>) {
    let mut shown = String::new();
    let mut starts = vec![None; parts.len()];
    let mut ends = vec![None; parts.len()];
    if window.cut_left {
        shown.push(CUT);
    }
    let mut note = |at: usize, column: usize| {
        for (index, part) in parts.iter().enumerate() {
            let is_cut = window.cut_right && at == window.bytes.end;
            if part.bytes.start == at && !is_cut {
                starts[index] = Some(column);
            }
            if starts[index].is_some() && ends[index].is_none() && (part.bytes.end == at || is_cut) {
                ends[index] = Some(column);
            }
        }
    };
    for (offset, c) in text[window.bytes.clone()].char_indices() {
        note(window.bytes.start + offset, shown.width());
        shown.push_str(&harmless(c));
    }
    note(window.bytes.end, shown.width());
    if window.cut_right {
        shown.push(CUT);
    }
    let columns = starts.into_iter().zip(ends);
    let marks = parts.iter().zip(columns).filter_map(|(part, (start, end))| {
        let start = start?;
        Some(Mark { span: part.span, columns: start..end.unwrap_or(start).max(start + 1), is_last: part.is_last })
    });
    let marks = marks.collect();
    (shown, marks)
}

/// The sanitized form of a character: itself, unless a terminal would interpret it.
fn harmless(c: char) -> Cow<'static, str> {
    match c {
        '\t' => TAB.into(),
        '\0'..='\x1f' => char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}').to_string().into(),
        '\x7f' => "␡".into(),
        // They would make the line read differently.
        '\u{2028}' | '\u{2029}' => "\u{fffd}".into(),
        _ if !is_harmless(c) => "\u{fffd}".into(),
        _ => c.to_string().into(),
    }
}

/// Text without terminal control characters, on one line.
pub(super) fn harmless_text(text: &str) -> String {
    text.chars().map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::{WIDTH, excerpt};
    use profiler_compiler::source::{Source, Span};

    type Numbered = Vec<(usize, String)>;

    /// The shown lines with their numbers, and the coverage of each mark, one letter per column.
    fn cut(text: &str, spans: &[(usize, usize)]) -> (Numbered, Numbered) {
        let source = Source::new("t", text);
        let spans: Vec<Span> = spans.iter().map(|(start, end)| Span::new(*start, *end)).collect();
        let out = excerpt(&source, &spans, WIDTH);
        let lines = out.lines.iter().map(|line| (line.number, line.text.clone())).collect();
        let covered = out.lines.iter().flat_map(|line| {
            let letters: Vec<char> = line.text.chars().chain([' ']).collect();
            line.marks.iter().map(move |mark| (mark.span, letters[mark.columns.clone()].iter().collect()))
        });
        (lines, covered.collect())
    }

    fn line(number: usize, text: &str) -> (usize, String) {
        (number, text.into())
    }

    #[test]
    fn only_lines_with_an_end_of_a_span_are_kept() {
        let (lines, covered) = cut("a\nbb cc\ndd\n  ee\n", &[(13, 15), (2, 4), (5, 15)]);
        assert_eq!(lines, [line(2, "bb cc"), line(4, "  ee")]);
        assert_eq!(covered, [line(1, "bb"), line(2, "cc"), line(0, "ee"), line(2, "ee")]);
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        let (lines, covered) = cut("\"héé→\" foo", &[(11, 14), (1, 9)]);
        assert_eq!(lines, [line(1, "\"héé→\" foo")]);
        assert_eq!(covered, [line(0, "foo"), line(1, "héé→")]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let source = Source::new("t", "\"日本\" x");
        let out = excerpt(&source, &[Span::new(1, 7), Span::new(9, 10)], WIDTH);
        assert_eq!(out.lines[0].marks.iter().map(|m| m.columns.clone()).collect::<Vec<_>>(), [1..5, 7..8]);
    }

    #[test]
    fn tabs_are_widened_and_commands_to_the_terminal_defused() {
        let (lines, covered) = cut("\tx\x1b[2Jy\u{202e}z\r\n", &[(1, 2), (6, 7)]);
        assert_eq!(lines, [line(1, "    x␛[2Jy\u{fffd}z")]);
        assert_eq!(covered, [line(0, "x"), line(1, "y")]);
    }

    #[test]
    fn a_line_of_a_megabyte_is_cut_around_the_first_span() {
        let long = "é".repeat(500_000);
        let text = format!("{long}bad{long}worse");
        let at = long.len();
        let spans = [Span::new(at, at + 3), Span::new(2 * at + 3, 2 * at + 8), Span::new(at, text.len())];
        let out = excerpt(&Source::new("t", &text), &spans, WIDTH);
        assert_eq!(out.lines[0].text.chars().count(), WIDTH + "……".chars().count());
        assert_eq!(out.hidden, [1]);
        let widths: Vec<usize> = out.lines[0].marks.iter().map(|mark| mark.columns.len()).collect();
        assert_eq!(widths, [3, 140]);
    }

    #[test]
    fn every_span_of_a_text_has_a_place() {
        let text = "a\té\r\n\n  \u{2028}b\nlast  \r\n\n";
        for start in 0..text.len() + 3 {
            for end in 0..text.len() + 3 {
                let (lines, covered) = cut(text, &[(start, end)]);
                assert!(!lines.is_empty() && covered.iter().all(|(_, words)| !words.is_empty()), "{start}..{end}");
                assert!(!covered.is_empty(), "{start}..{end} in {lines:?}");
            }
        }
    }

    #[test]
    fn the_end_of_the_text_is_behind_its_last_word() {
        let (lines, covered) = cut("BEGIN {\n  exit(\n\n\n", &[(17, 17)]);
        assert_eq!((lines, covered), (vec![line(2, "  exit(")], vec![line(0, " ")]));
        assert_eq!(cut("", &[(0, 0)]).0, [line(1, "")]);
    }
}
