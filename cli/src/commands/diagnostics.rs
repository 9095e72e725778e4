//! Renders diagnostics as text, in the style of rustc.
//!
//! In: a script and its diagnostics, or a message without a location. Out: text, with or without
//! colour.
//! Guarantee: sorted by position; line and column are those of the script, even if the shown line
//! was cut; at most 20 diagnostics in full and the number of the others.

use profiler_compiler::diagnostic::{Code, Diagnostic, Severity};
use profiler_compiler::source::{Source, Span};

use super::excerpt::{Excerpt, Line, Mark, WIDTH, excerpt, harmless_text, place};

/// Limit of diagnostics shown in full: after the first few, most are consequences.
const SHOWN: usize = 20;

/// Columns for a line number, its frame, and the marks that the line was cut.
const FRAME: usize = 8;

/// Text is not wrapped to fewer columns than this.
const NARROWEST: usize = 10;

/// Style of a piece of text on a terminal with colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Bold,
    Error,
    Warning,
    /// Line numbers, frames and related locations.
    Frame,
}

impl Style {
    fn of(severity: Severity) -> Style {
        match severity {
            Severity::Error => Style::Error,
            Severity::Warning => Style::Warning,
        }
    }

    fn escape(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Bold => "\x1b[1m",
            Style::Error => "\x1b[1;31m",
            Style::Warning => "\x1b[1;33m",
            Style::Frame => "\x1b[1;34m",
        }
    }
}

/// Display options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// Use colours.
    pub colour: bool,
    /// Columns of the terminal; `None` does not wrap lines.
    pub width: Option<usize>,
}

impl From<bool> for Look {
    fn from(colour: bool) -> Look {
        Look { colour, width: None }
    }
}

/// Output under construction.
struct Page {
    text: String,
    look: Look,
}

impl Page {
    fn put(&mut self, style: Style, words: &str) -> &mut Page {
        let styled = self.look.colour && style != Style::Plain && !words.is_empty();
        let (before, after) = if styled { (style.escape(), "\x1b[0m") } else { ("", "") };
        for part in [before, words, after] {
            self.text.push_str(part);
        }
        self
    }

    /// Ends the line and strips trailing blanks.
    fn end(&mut self) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
    }
}

/// Renders all diagnostics, sorted by position, and a closing line with the number of errors.
pub fn render(source: &Source, diagnostics: &[Diagnostic], look: impl Into<Look>) -> String {
    let mut sorted: Vec<&Diagnostic> = diagnostics.iter().collect();
    sorted.sort_by_key(|d| (d.span.start, d.span.end, d.code));
    sorted.dedup();
    let mut page = Page { text: String::new(), look: look.into() };
    for diagnostic in sorted.iter().take(SHOWN) {
        render_one(&mut page, source, diagnostic);
        page.end();
    }
    let hidden = sorted.len().saturating_sub(SHOWN);
    if hidden > 0 {
        page.put(Style::Bold, &format!("… and {hidden} more")).end();
        page.end();
    }
    let errors = sorted.iter().filter(|d| d.is_error()).count();
    if errors > 1 {
        page.put(Style::Error, "error")
            .put(Style::Bold, &format!(": `{}` has {errors} errors", harmless_text(&source.name)))
            .end();
    }
    page.text
}

/// Renders a message without a location.
pub fn render_message(code: Option<Code>, words: &str, help: Option<&str>, look: impl Into<Look>) -> String {
    let mut page = Page { text: String::new(), look: look.into() };
    title(&mut page, Severity::Error, code, words);
    if let Some(help) = help {
        footer(&mut page, 1, "help", help);
    }
    page.text
}

fn title(page: &mut Page, severity: Severity, code: Option<Code>, words: &str) {
    let kind = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let code = code.map(|code| format!("[{code}]")).unwrap_or_default();
    page.put(Style::of(severity), &format!("{kind}{code}"));
    let ahead = kind.len() + code.len() + ": ".len();
    page.put(Style::Bold, &format!(": {}", aligned(words, 0, ahead, page.look.width))).end();
}

/// Writes `  = help: …`; further lines are aligned under the first.
fn footer(page: &mut Page, number_width: usize, kind: &str, words: &str) {
    let margin = " ".repeat(number_width + 1);
    page.put(Style::Frame, &format!("{margin}= ")).put(Style::Bold, kind);
    let indent = number_width + kind.len() + 5;
    page.put(Style::Plain, &format!(": {}", aligned(words, indent, indent, page.look.width))).end();
}

/// Wraps text at the width of the terminal; the first line follows `ahead` characters, the others
/// are indented.
fn aligned(words: &str, indent: usize, ahead: usize, width: Option<usize>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in words.lines().map(harmless_text) {
        let Some(width) = width else {
            lines.push(line);
            continue;
        };
        let room =
            |lines: &[String]| width.saturating_sub(if lines.is_empty() { ahead } else { indent }).max(NARROWEST);
        let mut current = String::new();
        for word in line.split(' ') {
            if !current.is_empty() && current.chars().count() + 1 + word.chars().count() > room(&lines) {
                lines.push(std::mem::take(&mut current));
            } else if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

/// Whether a diagnostic is about something that is not in the script: a header of `--include`, or a
/// setting in the environment.
pub fn is_outside(diagnostic: &Diagnostic) -> bool {
    matches!(diagnostic.code, Code(154 | 212)) && diagnostic.span == Span::default()
}

fn render_one(page: &mut Page, source: &Source, diagnostic: &Diagnostic) {
    if is_outside(diagnostic) {
        title(page, diagnostic.severity, Some(diagnostic.code), &diagnostic.message);
        diagnostic.help.iter().for_each(|help| footer(page, 1, "help", help));
        return;
    }
    let mut spans = vec![diagnostic.span];
    spans.extend(diagnostic.related.iter().map(|(span, _)| *span));
    // A line is preceded by its number and a frame, and has marks at its ends if it was cut; both
    // are known to be short.
    let width = page.look.width.map_or(WIDTH, |width| width.saturating_sub(FRAME).clamp(NARROWEST, WIDTH));
    let Excerpt { lines, hidden } = excerpt(source, &spans, width);
    let number_width = lines.last().map_or(1, |line| line.number.to_string().len());
    let margin = " ".repeat(number_width);

    title(page, diagnostic.severity, Some(diagnostic.code), &diagnostic.message);
    let position = position(source, diagnostic.span);
    page.put(Style::Frame, &format!("{margin}--> ")).put(Style::Plain, &position).end();
    page.put(Style::Frame, &format!("{margin} |")).end();
    let mut last_number = None;
    for line in &lines {
        if last_number.is_some_and(|last| last + 1 < line.number) {
            page.put(Style::Frame, "...").end();
        }
        last_number = Some(line.number);
        page.put(Style::Frame, &format!("{:>number_width$} | ", line.number)).put(Style::Plain, &line.text).end();
        for row in rows(line, diagnostic) {
            page.put(Style::Frame, &format!("{margin} | "));
            row.print(page);
        }
    }
    let has_footer = diagnostic.help.is_some() || !hidden.is_empty();
    if has_footer {
        page.put(Style::Frame, &format!("{margin} |")).end();
    }
    for index in hidden {
        let Some((span, words)) = index.checked_sub(1).and_then(|index| diagnostic.related.get(index)) else {
            continue;
        };
        footer(page, number_width, "note", &format!("{}: {words}", self::position(source, *span)));
    }
    if let Some(help) = &diagnostic.help {
        footer(page, number_width, "help", help);
    }
}

fn position(source: &Source, span: Span) -> String {
    let start = place(&source.text, span).start as u32;
    let (line, column) = source.line_column(start);
    format!("{}:{line}:{column}", harmless_text(source.file_at(start).0))
}

/// A row below a source line: characters by column, each with its style.
#[derive(Default)]
struct Row {
    cells: Vec<(char, Style)>,
}

impl Row {
    fn set(&mut self, column: usize, letter: char, style: Style) {
        if self.cells.len() <= column {
            self.cells.resize(column + 1, (' ', Style::Plain));
        }
        self.cells[column] = (letter, style);
    }

    fn write(&mut self, column: usize, words: &str, style: Style) {
        for (offset, letter) in words.chars().enumerate() {
            self.set(column + offset, letter, style);
        }
    }

    fn print(&self, page: &mut Page) {
        for run in self.cells.chunk_by(|a, b| a.1 == b.1) {
            page.put(run[0].1, &run.iter().map(|(letter, _)| *letter).collect::<String>());
        }
        page.end();
    }
}

/// The underlines of a line and their labels. The rightmost label follows its underline, the others
/// are on rows below their own.
fn rows(line: &Line, diagnostic: &Diagnostic) -> Vec<Row> {
    let mut underline = Row::default();
    // The main span is drawn last, on top of the others.
    for mark in line.marks.iter().rev() {
        let letter = if mark.span == 0 { '^' } else { '-' };
        for column in mark.columns.clone() {
            underline.set(column, letter, style(mark, diagnostic));
        }
    }
    let mut worded: Vec<(&Mark, String)> = line
        .marks
        .iter()
        .filter(|mark| mark.is_last)
        .map(|mark| (mark, words(mark, diagnostic)))
        .filter(|(_, words)| !words.is_empty())
        .collect();
    worded.sort_by_key(|(mark, _)| (mark.columns.start, mark.columns.end, std::cmp::Reverse(mark.span)));
    let rightmost_end = line.marks.iter().map(|mark| mark.columns.end).max().unwrap_or(0);
    if let Some((mark, words)) = worded.pop_if(|(mark, _)| mark.columns.end == rightmost_end) {
        underline.write(rightmost_end + 1, &words, style(mark, diagnostic));
    }
    let mut rows = vec![underline];
    if !worded.is_empty() {
        rows.push(connectors(&worded, diagnostic));
    }
    while let Some((mark, words)) = worded.pop() {
        let mut row = connectors(&worded, diagnostic);
        row.write(mark.columns.start, &words, style(mark, diagnostic));
        rows.push(row);
    }
    rows
}

/// A `|` under the start of each mark.
fn connectors(worded: &[(&Mark, String)], diagnostic: &Diagnostic) -> Row {
    let mut row = Row::default();
    for (mark, _) in worded {
        row.set(mark.columns.start, '|', style(mark, diagnostic));
    }
    row
}

fn style(mark: &Mark, diagnostic: &Diagnostic) -> Style {
    if mark.span == 0 { Style::of(diagnostic.severity) } else { Style::Frame }
}

fn words(mark: &Mark, diagnostic: &Diagnostic) -> String {
    let words = match mark.span.checked_sub(1) {
        None => &diagnostic.label,
        Some(index) => diagnostic.related.get(index).map_or(&diagnostic.label, |(_, words)| words),
    };
    harmless_text(words)
}

#[cfg(test)]
mod tests {
    use super::{Look, render};
    use profiler_compiler::diagnostic::{Code, Diagnostic};
    use profiler_compiler::source::{Source, Span};

    fn at(text: &str, words: &str) -> Span {
        let start = text.find(words).expect("in the text");
        Span::new(start, start + words.len())
    }

    /// Compares line by line; `expected` is dedented by this file's margin.
    fn shows(text: &str, diagnostics: &[Diagnostic], expected: &str) {
        let rendered = render(&Source::new("x.prof", text), diagnostics, false);
        let expected: Vec<&str> =
            expected.trim_start_matches('\n').lines().map(|l| l.get(12..).unwrap_or("")).collect();
        assert_eq!(rendered.trim_end().lines().collect::<Vec<_>>(), expected[..expected.len() - 1], "\n{rendered}");
    }

    #[test]
    fn lines_fit_the_terminal_and_the_underline_stands_below_its_words() {
        let text = "tracepoint:sched:sched_switch { @a[comm, args.next_comm] = count(); @b[args.next_pdi] = count(); }";
        let diagnostic = Diagnostic::error(Code(324), at(text, "next_pdi"), "the probe has no argument `next_pdi`")
            .help("did you mean `next_pid`? It has: prev_comm, prev_pid, prev_prio, next_comm, next_pid, next_prio");
        for width in [30, 40, 80] {
            let look = Look { colour: false, width: Some(width) };
            let rendered = render(&Source::new("x", text), std::slice::from_ref(&diagnostic), look);
            assert!(rendered.lines().all(|line| line.chars().count() <= width), "{width}:\n{rendered}");
            let column = |words: &str| {
                let line = rendered.lines().find(|line| line.contains(words) && line.contains('|')).expect("a line");
                line.find(words).map(|at| line[..at].chars().count())
            };
            assert_eq!(column("next_pdi]"), column("^^^^^^^^"), "{width}:\n{rendered}");
        }
    }

    #[test]
    fn one_place_with_its_words_and_help() {
        let text = "BEGIN {\n\t$x = cuont();\n}\n";
        let diagnostic = Diagnostic::error(Code(201), at(text, "cuont"), "there is no function `cuont`")
            .label("not a function")
            .help("write `@ = count()`\nor name a function");
        shows(
            text,
            &[diagnostic],
            r"
            error[E0201]: there is no function `cuont`
             --> x.prof:2:7
              |
            2 |     $x = cuont();
              |          ^^^^^ not a function
              |
              = help: write `@ = count()`
                      or name a function
            ",
        );
    }

    #[test]
    fn several_places_in_a_line() {
        let text = "BEGIN { $x = \"é→a\" + cuont(); }";
        let diagnostic = Diagnostic::error(Code(301), at(text, "+"), "a string and a number cannot be added")
            .label("here")
            .related(at(text, "\"é→a\""), "this is a string")
            .related(at(text, "cuont()"), "this is a number");
        shows(
            text,
            &[diagnostic],
            r#"
            error[E0301]: a string and a number cannot be added
             --> x.prof:1:20
              |
            1 | BEGIN { $x = "é→a" + cuont(); }
              |              ----- ^ ------- this is a number
              |              |     |
              |              |     here
              |              this is a string
            "#,
        );
    }

    #[test]
    fn places_in_several_lines() {
        let text = "BEGIN {\n  $x = 1;\n\n\n\n\n\n\n\n  print($y);\n}\n";
        let diagnostic = Diagnostic::error(Code(202), at(text, "$y"), "`$y` has no value")
            .label("read here")
            .related(at(text, "$x"), "did you mean this one?");
        shows(
            text,
            &[diagnostic],
            r"
            error[E0202]: `$y` has no value
              --> x.prof:10:9
               |
             2 |   $x = 1;
               |   -- did you mean this one?
            ...
            10 |   print($y);
               |         ^^ read here
            ",
        );
    }

    #[test]
    fn a_block_is_marked_at_its_beginning_and_end() {
        let text = "BEGIN {\n  @a = 1;\n  @b = 2;\n}\n";
        shows(
            text,
            &[Diagnostic::warning(Code(901), Span::new(0, text.len()), "this block does nothing").label("all of it")],
            r"
            warning[W0901]: this block does nothing
             --> x.prof:1:1
              |
            1 | BEGIN {
              | ^^^^^^^
            ...
            4 | }
              | ^ all of it
            ",
        );
    }

    #[test]
    fn several_are_sorted_counted_and_shown_once() {
        let text = "a b";
        let errors = [
            Diagnostic::error(Code(102), at(text, "b"), "second"),
            Diagnostic::error(Code(101), at(text, "a"), "first"),
            Diagnostic::error(Code(102), at(text, "b"), "second"),
        ];
        shows(
            text,
            &errors,
            r"
            error[E0101]: first
             --> x.prof:1:1
              |
            1 | a b
              | ^

            error[E0102]: second
             --> x.prof:1:3
              |
            1 | a b
              |   ^

            error: `x.prof` has 2 errors
            ",
        );
        let many: Vec<Diagnostic> = (0..50).map(|n| Diagnostic::error(Code(n), Span::new(0, 1), "x")).collect();
        assert!(render(&Source::new("x", "a"), &many, false).contains("\n… and 30 more\n"));
    }

    #[test]
    fn the_end_of_a_script_is_behind_its_last_word() {
        let text = "BEGIN { exit();\n\n";
        shows(
            text,
            &[Diagnostic::error(Code(103), Span::new(text.len(), text.len()), "expected `}`").label("before this")],
            r"
            error[E0103]: expected `}`
             --> x.prof:1:16
              |
            1 | BEGIN { exit();
              |                ^ before this
            ",
        );
    }

    #[test]
    fn a_cut_line_keeps_its_true_position() {
        let long = "x".repeat(500_000);
        let text = format!("BEGIN {{ {long} @bad = 1; {long} }}");
        let diagnostic = Diagnostic::error(Code(301), at(&text, "@bad"), "a type clash")
            .label("a number")
            .related(Span::new(0, 5), "in this probe");
        let rendered = render(&Source::new("x.prof", text.as_str()), &[diagnostic], false);
        let lines: Vec<&str> = rendered.lines().collect();
        assert_eq!(lines[1], " --> x.prof:1:500010");
        assert!(lines[3].starts_with("1 | …xxx") && lines[3].ends_with("xxx…"), "{}", lines[3]);
        assert_eq!(lines[3].find("@bad").map(|at| at - "…".len() + 1), lines[4].find("^^^^ a number"));
        assert_eq!(lines[6], "  = note: x.prof:1:1: in this probe");
        assert!(rendered.len() < 1000);
    }

    #[test]
    fn colours_surround_words_and_nothing_else_changes() {
        let text = "BEGIN { \x1b[31m }";
        let diagnostic = Diagnostic::error(Code(101), at(text, "["), "odd").label("here").help("drop it");
        let source = Source::new("x.prof", text);
        let coloured = render(&source, std::slice::from_ref(&diagnostic), true);
        assert!(coloured.starts_with("\x1b[1;31merror[E0101]\x1b[0m\x1b[1m: odd\x1b[0m\n"), "{coloured}");
        let mut plain = coloured;
        for escape in ["\x1b[0m", "\x1b[1m", "\x1b[1;31m", "\x1b[1;34m"] {
            plain = plain.replace(escape, "");
        }
        let blank_free: Vec<&str> = plain.lines().map(str::trim_end).collect();
        assert_eq!(
            blank_free.join("\n"),
            render(&source, &[diagnostic], false).trim_end_matches('\n').to_owned() + "\n"
        );
    }
}
