//! `let @x = kind(entries)`: declared storage of maps.
//!
//! In: the declarations. Out: a [`Declared`] for each map that has one.
//! Guarantee: a kind that does not fit what the map holds, and a size that is not constant, are
//! diagnostics.

use crate::ast::{Expr, ExprKind, MapDeclaration, Script};
use crate::check::{Maps, Options, Report};
use crate::diagnostic::{Code, Diagnostic};
use crate::similar;
use crate::source::Span;
use crate::typed::{Declared, DeclaredKind, MapValue};

/// bpftrace's names.
const KINDS: [(&str, DeclaredKind); 4] = [
    ("hash", DeclaredKind { per_cpu: false, evicts: false }),
    ("lruhash", DeclaredKind { per_cpu: false, evicts: true }),
    ("percpuhash", DeclaredKind { per_cpu: true, evicts: false }),
    ("percpulruhash", DeclaredKind { per_cpu: true, evicts: true }),
];

/// Maximum number of entries of a map. The kernel would allow more, but memory does not.
const MAX_ENTRIES: u64 = 1 << 26;

/// Applies a script's map declarations.
pub(super) fn apply(script: &Script, options: &Options, maps: &mut Maps, report: &mut Report) {
    for declaration in &script.maps {
        let name = &declaration.name;
        let span = name.span;
        let Some(at) = maps.list.iter().position(|map| map.id == name.text) else {
            let message = format!("`@{}` is declared, and no probe uses it", name.text);
            report.push(Diagnostic::warning(Code(902), span, message).help("remove the declaration"));
            continue;
        };
        if let Some(first) = maps.list[at].declared.as_ref().map(|declared| declared.span) {
            let message = format!("`@{}` is declared twice", name.text);
            report.push(Diagnostic::error(Code(214), span, message).related(first, "declared here"));
            continue;
        }
        match read(declaration, script, options) {
            Ok(declared) => maps.list[at].declared = Some(declared),
            Err(diagnostic) => report.push(diagnostic),
        }
    }
}

fn read(declaration: &MapDeclaration, script: &Script, options: &Options) -> Result<Declared, Diagnostic> {
    let kind = &declaration.kind;
    let Some((_, known)) = KINDS.iter().find(|(name, _)| *name == kind.text) else {
        let near = similar::nearest(&kind.text, KINDS.iter().map(|(name, _)| *name), 1);
        let help = match near.first() {
            Some(near) => format!("did you mean `{near}`?"),
            None => "the kinds are hash, lruhash, percpuhash and percpulruhash".into(),
        };
        let message = format!("there is no kind of map called `{}`", kind.text);
        return Err(Diagnostic::error(Code(214), kind.span, message).help(help));
    };
    let entries = constant(&declaration.entries, script, options).filter(|n| (1..=MAX_ENTRIES).contains(n));
    let Some(entries) = entries else {
        let message = format!("the capacity of a map must be a number from 1 to {MAX_ENTRIES}");
        return Err(Diagnostic::error(Code(215), declaration.entries.span, message)
            .help("write it as a number, a `#define`d name or a parameter: `let @x = hash(1000);`"));
    };
    let span = declaration.name.span.to(declaration.entries.span);
    Ok(Declared { kind: *known, max_entries: entries as u32, span })
}

fn constant(expr: &Expr, script: &Script, options: &Options) -> Option<u64> {
    match &expr.kind {
        ExprKind::Int(number) => Some(*number),
        ExprKind::Positional(index) => options.positional.get(*index as usize - 1)?.parse().ok(),
        ExprKind::Name(name) => {
            let define = script.defines.iter().rev().find(|define| define.name.text == *name)?;
            // A `#define` that refers to another name is not resolved: it could be recursive.
            matches!(define.value.kind, ExprKind::Int(_)).then(|| constant(&define.value, script, options))?
        }
        _ => None,
    }
}

/// Checks that a map's storage fits its contents, once these are known.
pub(super) fn check(declared: &Declared, name: &str, has_key: bool, value: &MapValue, report: &mut Report) {
    let error = |message: String, help: &str| Diagnostic::error(Code(215), declared.span, message).help(help);
    let is_aggregate = matches!(value, MapValue::Aggregate { .. });
    if !has_key {
        let help = "a map without a key is one value; only maps with keys have a kind and a size";
        report.push(error(format!("`{name}` has no key"), help));
    } else if declared.kind.evicts && value.pages().is_some() {
        let message = format!("`{name}` would drop parts of its distributions");
        let help = "a distribution is complete or refused and counted; write percpuhash";
        report.push(Diagnostic::error(Code(398), declared.span, message).help(help));
    } else if is_aggregate != declared.kind.per_cpu {
        let message = if is_aggregate {
            format!("`{name}` holds an aggregation, which each CPU keeps for itself")
        } else {
            format!("`{name}` holds assigned values, which all CPUs share")
        };
        let help = if is_aggregate { "write percpuhash or percpulruhash" } else { "write hash or lruhash" };
        report.push(error(message, help));
    }
}

/// The diagnostic for counting the entries of a map that stores each value in several entries.
pub fn in_pages(name: &str, span: Span) -> Diagnostic {
    let message = format!("the entries of `{name}` cannot be counted inside a program");
    Diagnostic::error(Code(398), span, message)
        .help("a distribution takes an entry for each power of two of its values; count keys in a map of their own")
}

/// The diagnostic for counting the entries of a map that evicts its oldest entries.
pub fn no_length(name: &str, span: Span) -> Diagnostic {
    Diagnostic::error(Code(215), span, format!("the entries of `{name}` cannot be counted"))
        .help("it is declared to drop its oldest entries when it is full; declare it `hash` to know its length")
}
