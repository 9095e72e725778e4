//! `usdt:BINARY:PROVIDER:NAME`: a static probe, compiled into a program or library.
//!
//! One program a file: all sites of all its probes that match are one attachment. The cookie of a site says which probe it is,
//! and where its arguments are.

use std::collections::HashMap;

use crate::ast::{AttachPoint, Ident};
use crate::check::{Points, Seed};
use crate::object::{Attach, Site};
use crate::source::Span;
use crate::target::{StaticProbe, TargetError, shown_path};
use crate::typed::ContextKind;
use crate::types::Space;
use crate::usdt::Argument;
use crate::words::{Doc, ProbeKind};

use super::uprobe::{self, binaries};

/// `usdt`.
#[derive(Debug)]
pub struct Usdt;

const FORM: &str = "usdt:BINARY:PROVIDER:NAME";

impl ProbeKind for Usdt {
    fn name(&self) -> &'static str {
        "usdt"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["U"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "usdt:BINARY:[PROVIDER:]NAME",
            summary: "a static probe, compiled into a program or library",
            page: include_str!("../../../../spec/words/probes/usdt.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let nothing = Ident { text: String::new(), span: point.span };
        let (binary, provider, name) = match point.parts.as_slice() {
            [binary] => (binary, &nothing, &nothing),
            [binary, name] => (binary, &nothing, name),
            [binary, provider, name] => (binary, provider, name),
            _ => {
                cx.wrong_form(point, FORM);
                return Vec::new();
            }
        };
        let whose_files = if binary.text.is_empty() { "*" } else { &binary.text };
        if name.text.is_empty() && whose_files != "*" {
            cx.wrong_form(point, FORM);
            return Vec::new();
        }
        let all_if_empty = |part: &Ident| if part.text.is_empty() { "*".to_string() } else { part.text.clone() };
        let wanted =
            Wanted { binary: whose_files.to_string(), provider: all_if_empty(provider), name: all_if_empty(name) };
        let span = if binary.text.is_empty() { point.span } else { binary.span };
        let Some(paths) = binaries(cx, span, &wanted.binary) else { return Vec::new() };
        wanted.seeds(cx, &paths, if name.text.is_empty() { point.span } else { name.span })
    }
}

/// What an attach point asks for.
struct Wanted {
    binary: String,
    provider: String,
    name: String,
}

impl Wanted {
    fn seeds(&self, cx: &mut Points<'_, '_>, paths: &[String], span: Span) -> Vec<Seed> {
        let mut seeds = Vec::new();
        let mut refusal = TargetError::Missing { near: Vec::new() };
        for path in paths {
            match cx.env.target.static_probes(path, &self.provider, &self.name) {
                Ok(probes) => seeds.push(seed(cx, &shown_path(&self.binary, path), path, &probes)),
                // Among several files, those without the probe are no error.
                Err(error) if paths.len() == 1 => refusal = error,
                Err(_) => {}
            }
        }
        if seeds.is_empty() {
            let provider = if self.provider == "*" { String::new() } else { format!("{}:", self.provider) };
            let what = format!("static probe `{provider}{}` in `{}`", self.name, self.binary);
            cx.refused_in_program(span, &what, refusal);
        }
        seeds
    }
}

fn seed(cx: &Points<'_, '_>, shown: &str, path: &str, probes: &[StaticProbe]) -> Seed {
    let mut lists: Vec<Vec<Argument>> = Vec::new();
    let mut known: HashMap<&[Argument], u64> = HashMap::new();
    let mut sites: Vec<Site> = Vec::new();
    for (number, probe) in (0u64..).zip(probes) {
        for site in &probe.sites {
            let list = *known.entry(&site.arguments).or_insert_with(|| {
                lists.push(site.arguments.clone());
                lists.len() as u64 - 1
            });
            let name = format!("{}:{}", probe.provider, probe.name);
            let (file_offset, semaphore_offset) = (site.file_offset, site.semaphore_offset);
            sites.push(Site { file_offset, name, cookie: list << 32 | number, semaphore_offset });
        }
    }
    let names = probes.iter().map(|probe| format!("usdt:{shown}:{}:{}", probe.provider, probe.name)).collect();
    let multi = cx.env.target.kernel() >= uprobe::MULTI_SINCE;
    let section = if multi { "uprobe.multi" } else { "uprobe" };
    let attach = Attach::Uprobe { path: path.to_string(), at_return: false, sites, multi, pid: cx.env.options.pid };
    let mut seed = Seed::new(String::new(), section.to_string(), ContextKind::Registers, attach);
    seed.names = names;
    seed.points = probes.len() as u32;
    seed.pointer_space = Space::User;
    seed.context.preemptible = true;
    seed.context.static_arguments = lists;
    seed.no_args = "static probes have arg0, arg1, …";
    seed
}
