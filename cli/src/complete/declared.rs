//! Top-level declarations of a script: parameters, modules and their public names.
//!
//! In: a possibly incomplete text. Out: names with descriptions.
//! Guarantee: every text has an answer; a declaration counts as soon as its name follows the
//! keyword, at the start of a line or after `;`.

use profiler_compiler::params::Type;

use super::{Candidate, Known, candidate};

/// The parameters that a text declares, with sigil, and those of the modules that it uses.
pub fn params(text: &str, known: Known<'_>) -> Vec<Candidate> {
    let own = declarations(text, "param").filter_map(|rest| param(rest, ""));
    let of_modules = uses(text).into_iter().flat_map(|of| {
        let text = known.modules.iter().find(|(path, _)| *path == of.path).map_or("", |(_, text)| *text);
        let given = declarations(text, "pub").filter_map(|rest| rest.strip_prefix("param "));
        given.filter_map(|rest| param(rest, &format!("{}.", of.name))).collect::<Vec<_>>()
    });
    own.chain(of_modules).collect()
}

/// Parses `slow: duration = 1ms "help"`.
fn param(rest: &str, module: &str) -> Option<Candidate> {
    let (name, rest) = rest.split_once(':')?;
    let name = name.trim();
    is_name(name).then_some(())?;
    let rest = rest.lines().next()?.trim();
    let ty = rest.split([' ', '=']).next()?;
    let help = rest.split('"').nth(1).unwrap_or_default();
    let about = if help.is_empty() { ty.to_owned() } else { format!("{ty}: {help}") };
    Some(candidate(format!("${module}{name}"), about))
}

/// The public names of a module in an expression such as `@exits`, `$exits` or `exits` before a
/// dot.
pub(super) fn of_module(text: &str, expression: &str, known: Known<'_>) -> Vec<Candidate> {
    let name = expression.trim_start_matches(['@', '$']);
    let Some(of) = uses(text).into_iter().find(|of| of.name == name) else { return Vec::new() };
    let Some((_, text)) = known.modules.iter().find(|(path, _)| *path == of.path) else { return Vec::new() };
    let given = declarations(text, "pub").filter_map(|rest| match &expression[..expression.len() - name.len()] {
        "@" => {
            let rest = rest.strip_prefix("let ").unwrap_or(rest).strip_prefix('@')?;
            Some(candidate(&rest[..name_end(rest)], "a map of the module"))
        }
        "$" => {
            let found = param(rest.strip_prefix("param ")?, "")?;
            Some(candidate(found.text.trim_start_matches('$'), found.about))
        }
        _ => {
            let rest = rest.strip_prefix("macro ")?;
            Some(candidate(
                format!("{}(", &rest[..name_end(rest)]),
                rest.split(['{', '=']).next().unwrap_or_default().trim(),
            ))
        }
    });
    given.filter(|found| !found.text.is_empty()).collect()
}

/// Completions in a partial `use` or `param`; `None` for other items.
pub(super) fn item(written: &str, known: Known<'_>) -> Option<Vec<Candidate>> {
    if let Some(path) = written.strip_prefix("use ") {
        let found = known.modules.iter().filter(|(known, _)| known.starts_with(path.trim_start()));
        return Some(found.map(|(path, text)| candidate(format!("use {path}"), first_line(text))).collect());
    }
    let rest = written.strip_prefix("param ").or_else(|| written.strip_prefix("pub param "))?;
    let (_, ty) = rest.split_once(':')?;
    let (ahead, ty) = written.split_at(written.len() - ty.trim_start().len());
    let types = Type::names().filter(|known| known.starts_with(ty));
    Some(types.map(|known| candidate(format!("{ahead}{known}"), "")).collect())
}

/// The first sentence of the comment at the start of a module.
pub fn first_line(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default().trim_start_matches("//").trim();
    line.split_once(". ").map_or(line, |(sentence, _)| sentence)
}

struct Use<'a> {
    path: &'a str,
    name: String,
}

fn uses(text: &str) -> Vec<Use<'_>> {
    let used = declarations(text, "use").filter_map(|rest| {
        let mut words = rest.split_whitespace();
        let path = words.next()?.trim_end_matches(';');
        let name = match (words.next(), words.next()) {
            (Some("as"), Some(name)) => name.trim_end_matches(';').to_owned(),
            _ => path.rsplit('/').next()?.replace('-', "_"),
        };
        Some(Use { path, name })
    });
    used.collect()
}

/// The rest of each line or `;`-separated part that begins with a keyword, ignoring a preceding
/// `pub`.
fn declarations<'a>(text: &'a str, word: &'static str) -> impl Iterator<Item = &'a str> {
    let behind = move |line: &'a str| {
        let line = line.trim_start();
        let line = if word == "pub" { line } else { line.strip_prefix("pub ").unwrap_or(line) };
        line.strip_prefix(word)?.strip_prefix([' ', '\t']).map(str::trim_start)
    };
    text.split(['\n', ';']).filter_map(behind)
}

fn name_end(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && name_end(text) == text.len()
}

#[cfg(test)]
mod tests {
    use super::{Known, first_line, item, of_module, params};

    const MODULE: &str = "// Ends. And more.\npub param name: string = any \"whose\"\nparam own: int = 1\npub @codes\npub macro code_of(status) { status }\n";
    const MODULES: &[(&str, &str)] = &[("lock/futex", "// Waits.\n"), ("proc/exits", MODULE)];

    fn known() -> Known<'static> {
        Known { modules: MODULES, ..Known::default() }
    }

    fn texts(found: &[super::Candidate]) -> Vec<&str> {
        found.iter().map(|found| found.text.as_str()).collect()
    }

    #[test]
    fn parameters_come_with_type_and_help() {
        let text = "param slow: duration = 1ms \"waits\"; param n:int\nuse proc/exits as ended\nBEGIN { $param = 1 }";
        let found = params(text, known());
        assert_eq!(texts(&found), ["$slow", "$n", "$ended.name"]);
        assert_eq!(found[0].about, "duration: waits");
    }

    #[test]
    fn a_module_gives_what_is_public() {
        let text = "use proc/exits\n";
        assert_eq!(texts(&of_module(text, "@exits", known())), ["codes"]);
        assert_eq!(texts(&of_module(text, "$exits", known())), ["name"]);
        assert_eq!(texts(&of_module(text, "exits", known())), ["code_of("]);
        assert!(of_module(text, "args", known()).is_empty() && of_module("", "@exits", known()).is_empty());
    }

    #[test]
    fn items_are_gone_on_with() {
        assert_eq!(texts(&item("use lo", known()).expect("an item")), ["use lock/futex"]);
        assert_eq!(texts(&item("param x: du", known()).expect("an item")), ["param x: duration"]);
        assert_eq!(item("kprobe:x", known()), None);
        assert_eq!(first_line(MODULE), "Ends");
    }
}
