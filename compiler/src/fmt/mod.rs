//! A script in its canonical form.
//!
//! In: a script's text. Out: the same tokens and comments with blanks and line breaks of their own.
//! Guarantee: the result means the same, has the same comments in the same order, and is its own canonical form; what a script's
//! text has inside of strings, comments and directive lines stays as it is. An item of a kind that is not known here keeps its
//! text, and so does a span with a comment inside of a stage.

mod declarations;
mod header;
mod printer;
mod roles;
mod spans;
mod statements;

use crate::diagnostic::{Code, Diagnostic};
use crate::parse;
use crate::parse::pieces::{Between, Pieces, pieces};
use crate::source::Source;
use printer::Printer;

/// What a file without probes gets from the parser: a file that others import may be one.
const NO_PROBES: Code = Code(101);

/// The script in canonical form; fails with what is wrong with its syntax.
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
    let whole = |with_structure| Printer::new(text, &before).script(with_structure);
    // An item whose pieces would change is a defect, and not one that a script should suffer from.
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
