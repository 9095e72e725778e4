//! `uprobe:BINARY:FUNCTION`: the entry of a function of a program or library.

use crate::ast::{AttachPoint, Ident};
use crate::check::{Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::glob;
use crate::object::{Attach, Site};
use crate::target::TargetError;
use crate::typed::ContextKind;
use crate::types::Space;
use crate::words::{Doc, ProbeKind};

/// `uprobe`.
#[derive(Debug)]
pub struct Uprobe;

/// Since 6.6: one link for any number of sites.
const MULTI_SINCE: (u32, u32) = (6, 6);

impl ProbeKind for Uprobe {
    fn name(&self) -> &'static str {
        "uprobe"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["u"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "uprobe:BINARY:FUNCTION[+OFFSET]",
            summary: "the entry of a function of a program or library",
            page: include_str!("../../../../spec/words/probes/uprobe.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        expand(cx, point, self.name(), false)
    }
}

/// The programs of a uprobe or uretprobe: one a file.
pub fn expand(cx: &mut Points<'_, '_>, point: &AttachPoint, kind: &str, at_return: bool) -> Vec<Seed> {
    let [binary, function] = point.parts.as_slice() else {
        cx.wrong_form(point, &format!("{kind}:BINARY:FUNCTION"));
        return Vec::new();
    };
    if at_return && let Some((name, _)) = function.text.split_once('+') {
        let help = format!("write `{name}` alone");
        cx.error(Diagnostic::error(Code(407), function.span, "a return has no offset").help(help));
        return Vec::new();
    }
    let pid = cx.env.options.pid;
    let paths = match cx.env.target.binaries(&binary.text, pid) {
        Ok(paths) => paths,
        Err(error) => {
            cx.refused(binary.span, &format!("`{}`", binary.text), error);
            return Vec::new();
        }
    };
    let mut seeds = Vec::new();
    let mut refusal = None;
    for path in &paths {
        match sites(cx, path, function) {
            Ok(sites) if sites.is_empty() => {}
            Ok(sites) => seeds.push(seed(cx, kind, path, sites, at_return)),
            Err(error) => refusal = Some(error),
        }
    }
    if seeds.is_empty() {
        let error = refusal.unwrap_or(TargetError::Missing { near: Vec::new() });
        cx.refused(function.span, &format!("function `{}` in `{}`", function.text, binary.text), error);
    }
    seeds
}

fn sites(cx: &Points<'_, '_>, path: &str, function: &Ident) -> Result<Vec<Site>, TargetError> {
    let text = function.text.as_str();
    if let Some(address) = number(text) {
        let offset = cx.env.target.file_offset(path, address)?;
        let offset = offset.ok_or_else(|| TargetError::Invalid("no code is at that address".into()))?;
        return Ok(vec![Site { file_offset: offset, name: text.to_string(), cookie: 0 }]);
    }
    let (name, distance) = match text.split_once('+') {
        Some((name, distance)) => (name, number(distance)),
        None => (text, Some(0)),
    };
    let Some(distance) = distance else {
        return Err(TargetError::Invalid("an offset is a number, such as `+0x10`".into()));
    };
    let found = cx.env.target.functions(path, name)?;
    let single = !glob::is_pattern(name);
    let mut sites: Vec<Site> = Vec::with_capacity(found.len());
    for symbol in found {
        if single && distance != 0 && symbol.size_bytes != 0 && distance >= symbol.size_bytes {
            return Err(TargetError::Invalid(format!("the function is only {} bytes long", symbol.size_bytes)));
        }
        let file_offset = symbol.file_offset + distance;
        // Names that share code are one site: two probes there would count twice.
        if sites.iter().all(|s| s.file_offset != file_offset) {
            sites.push(Site { file_offset, name: symbol.name, cookie: sites.len() as u64 });
        }
    }
    Ok(sites)
}

/// A number in decimal or, behind `0x`, hexadecimal digits.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn seed(cx: &Points<'_, '_>, kind: &str, path: &str, sites: Vec<Site>, at_return: bool) -> Seed {
    let multi = cx.env.target.kernel() >= MULTI_SINCE;
    let names: Vec<String> = sites.iter().map(|s| format!("{kind}:{path}:{}", s.name)).collect();
    let functions = sites.iter().map(|s| s.name.clone()).collect();
    let points = sites.len() as u32;
    let section = if multi { format!("{kind}.multi") } else { kind.to_string() };
    let pid = cx.env.options.pid;
    let attach = Attach::Uprobe { path: path.to_string(), at_return, sites, multi, pid };
    let mut seed = Seed::new(String::new(), section, ContextKind::Registers, attach);
    seed.names = names;
    seed.functions = functions;
    seed.points = points;
    seed.pointer_space = Space::User;
    seed.context.preemptible = true;
    seed.no_args = "functions have arg0, arg1, … and, at their return, retval";
    seed
}
