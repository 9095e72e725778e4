//! `uprobe:BINARY:FILE:LINE`, or `uprobe:BINARY@FILE:LINE`: a line of a program's source.
//!
//! In: a binary, the end of a source file's path, a line. Out: programs for the code of the line.
//! Guarantee: the sites are the first instructions of the line in each copy of the function that
//! contains it.

use crate::ast::Ident;
use crate::check::{Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Site;
use crate::source::Span;
use crate::target::{LineSite, TargetError, shown_path};
use crate::words::probes::described::{self, Place};
use crate::words::probes::uprobe;

/// The programs of a line: one per file, or per site if the block uses `args`, which each copy of a
/// function may have in other places.
pub(super) fn expand(
    cx: &mut Points<'_, '_>,
    span: Span,
    [binary, file, line]: [&Ident; 3],
    (kind, at_return): (&str, bool),
) -> Vec<Seed> {
    if at_return {
        let help = "probe the function's return, or a line with `uprobe`";
        cx.error(Diagnostic::error(Code(407), span, "a line has no return").help(help));
        return Vec::new();
    }
    let Some(paths) = uprobe::files(cx, binary) else { return Vec::new() };
    let mut seeds = Vec::new();
    let mut refusal = None;
    let number = line.text.parse().unwrap_or(0);
    for path in &paths {
        match cx.env.target.line_sites(path, &file.text, number) {
            Ok(sites) => {
                let shown = shown_path(&binary.text, path);
                let name = format!("{}:{}", file.text, line.text);
                let size = if cx.facts.uses("args") { 1 } else { sites.len().max(1) };
                for part in sites.chunks(size) {
                    let sites = numbered(part, &name);
                    let mut seed = uprobe::program(cx, (kind, false), path.clone(), sites);
                    seed.functions = functions(part);
                    seed.names = vec![format!("{kind}:{shown}:{name}"); seed.functions.len()];
                    described::describe(cx, &mut seed, Place::Line(part));
                    seeds.push(seed);
                }
            }
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    if seeds.is_empty() {
        let what = format!("line {} of `{}` in `{}`", line.text, file.text, binary.text);
        let error = refusal.unwrap_or(TargetError::Missing { near: Vec::new() });
        cx.refused_in_program(file.span.to(line.span), (&what, &binary.text), error);
    }
    seeds
}

/// The binary, file and line of bpftrace's form `BINARY@FILE:LINE`. A file's name has a dot, which
/// tells it from the rest of a path that contains `@`, and the line from an address.
pub(super) fn after_at(parts: &[Ident]) -> Option<[Ident; 3]> {
    let [whole, line] = parts else { return None };
    let (binary, file) = whole.text.rsplit_once('@')?;
    let is_line = !line.text.is_empty() && line.text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_line || binary.is_empty() || !file.contains('.') {
        return None;
    }
    let at = whole.span.start + binary.len() as u32;
    let part = |text: &str, start, end| Ident { text: text.to_owned(), span: Span { start, end } };
    let binary = part(binary, whole.span.start, at);
    Some([binary, part(file, at + 1, whole.span.end), line.clone()])
}

/// The functions that contain the sites, in the order of their first sites.
fn functions(sites: &[LineSite]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for site in sites {
        if !names.contains(&site.function) {
            names.push(site.function.clone());
        }
    }
    names
}

/// The sites with cookies that number their functions.
fn numbered(sites: &[LineSite], name: &str) -> Vec<Site> {
    let functions = functions(sites);
    let cookie = |site: &LineSite| functions.iter().position(|known| *known == site.function).unwrap_or(0) as u64;
    let site = |site: &LineSite| Site {
        file_offset: site.at.file_offset,
        name: name.to_owned(),
        cookie: cookie(site),
        semaphore_offset: 0,
    };
    sites.iter().map(site).collect()
}
