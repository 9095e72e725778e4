//! The formatter: writes a script in its canonical form.
//!
//! In: a script's text. Out: the same tokens and comments with canonical blanks and line breaks.
//! Guarantee: the result means the same, has the same comments in the same order, and formats to
//! itself; text within strings, comments and directive lines does not change. An item of unknown
//! kind keeps its text, and so does a span with a comment inside a stage.

mod declarations;
mod form;
mod gaps;
mod item;
mod params;
mod printer;
mod probes;
mod roles;
mod spans;
mod stages;
mod statements;
mod tokens;
mod writer;

use crate::diagnostic::{Code, Diagnostic};
use crate::parse;
use crate::source::Source;
use tokens::{Between, Pieces, Tokens, pieces};

/// The parser's error for a file without probes. It is ignored, because the file may be meant to be
/// imported.
const NO_PROBES: Code = Code(101);

/// The script in canonical form, or its syntax errors.
pub fn format(source: &Source) -> Result<String, Vec<Diagnostic>> {
    if let Err(problems) = parse::parse(source)
        && problems.iter().any(|problem| problem.code != NO_PROBES)
    {
        return Err(problems);
    }
    Ok(canonical(&source.text))
}

fn canonical(text: &str) -> String {
    let before = pieces(text);
    let kept = |written: &String| same(text, &before, written);
    let tokens = Tokens { text, pieces: &before };
    let whole = |with_structure| printer::script(tokens, with_structure);
    // Changed pieces are a bug of the formatter. Then items keep their text, and if that also
    // fails, the whole script does.
    Some(whole(true)).filter(kept).or_else(|| Some(whole(false)).filter(kept)).unwrap_or_else(|| text.to_owned())
}

/// Whether two texts have the same tokens and comments in the same order.
fn same(text: &str, before: &Pieces, written: &str) -> bool {
    let after = pieces(written);
    let tokens = |text: &str, pieces: &Pieces| -> Vec<String> {
        pieces.tokens.iter().map(|(_, span)| text[span.start as usize..span.end as usize].to_owned()).collect()
    };
    let between = |text: &str, pieces: &Pieces| -> Vec<(Between, String)> {
        let words = |at: &str| at.split_whitespace().collect::<Vec<_>>().join(" ");
        let found = pieces.between.iter();
        found.map(|(what, span)| (*what, words(&text[span.start as usize..span.end as usize]))).collect()
    };
    before.items == after.items
        && tokens(text, before) == tokens(written, &after)
        && between(text, before) == between(written, &after)
}
