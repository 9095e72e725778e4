//! `usdt:BINARY:PROVIDER:NAME`: a static probe, compiled into a program or library.
//!
//! One program per file: all sites of all matching probes are one attachment. A site's cookie
//! identifies its probe and the location of its arguments.

use std::collections::HashMap;

use crate::ast::{AttachPoint, Ident};
use crate::catalogue::{Files, InFile, Listing, Nature, ProbeKind, SelfTest};
use crate::check::{Points, Seed};
use crate::object::{Attach, Site};
use crate::scope::Scope;
use crate::source::Span;
use crate::target::{StaticProbe, Target, TargetError, shown_path};
use crate::typed::ContextKind;
use crate::types::Space;
use crate::usdt::Argument;
use crate::words::probes::listing;

use super::uprobe::{self, binaries};

/// `usdt`.
#[derive(Debug)]
pub(super) struct Usdt;

const FORM: &str = "usdt:BINARY:PROVIDER:NAME";

impl ProbeKind for Usdt {
    word!("usdt", "probes/usdt");

    fn aliases(&self) -> &'static [&'static str] {
        &["U"]
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
        let wanted = StaticProbePattern {
            binary: whose_files.to_string(),
            provider: all_if_empty(provider),
            name: all_if_empty(name),
        };
        let span = if binary.text.is_empty() { point.span } else { binary.span };
        let Some(paths) = binaries(cx, span, &wanted.binary) else { return Vec::new() };
        wanted.seeds(cx, &paths, if name.text.is_empty() { point.span } else { name.span })
    }

    fn listing(&self) -> Listing {
        Listing::ByName(names)
    }

    fn files(&self) -> Files {
        Files::Always(InFile::StaticProbes)
    }

    fn arguments(&self, target: &dyn Target, name: &str) -> Vec<String> {
        locations(target, name)
    }

    fn nature(&self, _name: &str) -> Nature {
        Nature {
            what: "static probe, placed by the program's author",
            lasts: "name and arguments are meant to survive changes to the code",
            way: "a trap into the kernel: about 170 ns, microseconds on other machines; almost nothing while not attached",
        }
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        Vec::new()
    }
}

/// The static probe that an attach point names.
struct StaticProbePattern {
    binary: String,
    provider: String,
    name: String,
}

impl StaticProbePattern {
    fn seeds(&self, cx: &mut Points<'_, '_>, paths: &[String], span: Span) -> Vec<Seed> {
        let mut seeds = Vec::new();
        let mut refusal = TargetError::Missing { near: Vec::new() };
        for path in paths {
            match cx.env.target.static_probes(path, &self.provider, &self.name) {
                Ok(probes) => seeds.push(seed(cx, &shown_path(&self.binary, path), path, &probes)),
                // With several files, a file without the probe is not an error.
                Err(error) if paths.len() == 1 => refusal = error,
                Err(_) => {}
            }
        }
        if seeds.is_empty() {
            let provider = if self.provider == "*" { String::new() } else { format!("{}:", self.provider) };
            let what = format!("static probe `{provider}{}` in `{}`", self.name, self.binary);
            cx.refused_in_program(span, (&what, &self.binary), refusal);
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
    let attach = Attach::Uprobe {
        path: path.to_string(),
        at_return: false,
        sites,
        multi,
        scope: Scope::of(&cx.env.processes()),
    };
    let mut seed = Seed::new(String::new(), section.to_string(), ContextKind::Registers, attach);
    seed.names = names;
    seed.points = probes.len() as u32;
    seed.pointer_space = Space::User;
    seed.context.preemptible = true;
    seed.context.static_arguments = lists;
    seed.no_args = "static probes have arg0, arg1, …";
    seed
}

/// `PATH:PROVIDER:NAME`, each with optional wildcards; the provider is optional.
fn names(target: &dyn Target, rest: &str) -> Result<Vec<String>, TargetError> {
    let mut parts: Vec<&str> = rest.splitn(3, ':').collect();
    if parts.len() == 2 {
        parts.insert(1, "*");
    }
    let part = |index: usize| parts.get(index).copied().filter(|part| !part.is_empty()).unwrap_or("*");
    listing::each_file(target, part(0), |path| {
        let probes = target.static_probes(path, part(1), part(2))?;
        Ok(probes.into_iter().map(|probe| format!("{}:{}", probe.provider, probe.name)).collect())
    })
}

/// The location of each argument, as in the notes of the program; sites may differ.
fn locations(target: &dyn Target, name: &str) -> Vec<String> {
    let mut parts = name.rsplitn(3, ':');
    let (Some(name), Some(provider), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let probes = target.static_probes(path, provider, name).unwrap_or_default();
    let mut lines: Vec<String> = Vec::new();
    for site in probes.iter().flat_map(|probe| &probe.sites) {
        let place = |(index, argument): (usize, &Argument)| {
            let sign = if argument.signed { "int" } else { "uint" };
            format!("{sign}{} arg{index}  {}", u32::from(argument.size_bytes) * 8, argument.text)
        };
        let line = site.arguments.iter().enumerate().map(place).collect::<Vec<_>>().join(", ");
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}
