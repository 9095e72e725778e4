//! Definitions typed at the prompt, which later lines can use, and all lines as one script.
//!
//! In: typed texts. Out: definitions by name; a program with the definitions that it needs; a
//! script for `:save`.
//! Guarantee: malformed text is one item that defines nothing; strings and comments are never taken
//! for code.

use std::collections::BTreeSet;

/// A definition: `span`, `state`, `macro`, `param`, `let @x`, `use`, `struct`, `#define` and
/// similar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    /// The defined name, with its sigil.
    pub name: String,
    /// As it was typed.
    pub text: String,
    /// Whether it must precede everything else, as types and constants must.
    is_first: bool,
}

/// An item of a script.
#[derive(Debug, PartialEq, Eq)]
struct Item<'a> {
    text: &'a str,
    definition: Option<Definition>,
}

/// The definitions in a text.
pub(super) fn definitions(text: &str) -> Vec<Definition> {
    items(text).into_iter().filter_map(|item| item.definition).collect()
}

/// The first map of a text that consists of views.
pub(super) fn map_of_views(text: &str) -> Option<&str> {
    let items = items(text);
    let is_view = |item: &Item<'_>| head(&item.text[comments(item.text)..]).0 == "view";
    let mut first = None;
    each_word(text, |_, word| first = first.or(Some(word).filter(|word| word.starts_with('@'))));
    first.filter(|_| !items.is_empty() && items.iter().all(is_view))
}

/// Adds to a program the known definitions that it uses, transitively. Its own lines keep their
/// positions where possible.
pub(super) fn completed(text: &str, known: &[Definition]) -> String {
    let mut taken: BTreeSet<String> = definitions(text).into_iter().map(|own| own.name).collect();
    let mut needed: Vec<&Definition> = Vec::new();
    let mut open = vec![text];
    while let Some(using) = open.pop() {
        let words = words(using);
        // The last definition of a name wins.
        for definition in known.iter().rev() {
            let is_variable = definition.name.starts_with('$') && using.contains(&format!("{} =", definition.name));
            if words.contains(definition.name.as_str()) && !is_variable && taken.insert(definition.name.clone()) {
                needed.push(definition);
                open.push(&definition.text);
            }
        }
    }
    let part = |is_first: bool| needed.iter().filter(move |it| it.is_first == is_first).map(|it| it.text.as_str());
    let (before, after): (Vec<&str>, Vec<&str>) = (part(true).collect(), part(false).collect());
    [before, vec![text], after].concat().join("\n")
}

/// Joins several programs into one script: definitions and modules once, then the probes. A map
/// name used by several programs gets a separate name in each but the first, because at the prompt
/// each program has its own maps.
pub(super) fn joined(programs: &[(u32, String, String)], known: &[Definition]) -> String {
    let (mut first, mut second, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
    let (mut defined, mut maps) = (BTreeSet::new(), BTreeSet::new());
    for (number, heading, text) in programs {
        let whole = completed(text, known);
        let mut body = Vec::new();
        for item in items(&whole) {
            match item.definition {
                Some(definition) if !defined.insert(definition.name.clone()) => {}
                Some(definition) if definition.is_first => first.push(definition.text),
                Some(definition) => second.push(definition.text),
                None => body.push(item.text.trim()),
            }
        }
        let mut body = body.join("\n");
        for map in words(&body).into_iter().filter(|word| word.starts_with('@')).map(str::to_owned).collect::<Vec<_>>()
        {
            if !maps.contains(&map) {
                maps.insert(map);
                continue;
            }
            let mut new = if map == "@" { format!("@of_{number}") } else { format!("{map}_{number}") };
            while maps.contains(&new) {
                new.push('_');
            }
            body = renamed(&body, &map, &new);
            body.insert_str(0, &format!("// {map} of program {number}\n"));
            maps.insert(new);
        }
        let parts: Vec<&str> = [heading.as_str(), &body].into_iter().filter(|text| !text.is_empty()).collect();
        bodies.push(parts.join("\n"));
    }
    let head = [first, second].concat().join("\n");
    let parts = std::iter::once(head).chain(bodies).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n\n")
}

/// The length of the string or comment that a text starts with.
fn skipped(rest: &str) -> Option<usize> {
    let after = |opening: usize, closing: &str| {
        rest[opening..].find(closing).map_or(rest.len(), |at| opening + at + closing.len())
    };
    match rest.as_bytes() {
        [b'"', ..] => {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = (c == '"' && !escaped) || c == '\n';
                escaped = c == '\\' && !escaped;
                ends
            });
            Some(end.map_or(rest.len(), |end| end + 2))
        }
        [b'/', b'*', ..] => Some(after(2, "*/")),
        [b'/', b'/', ..] => Some(after(2, "\n")),
        _ => None,
    }
}

/// The names in a text, with their sigils.
fn words(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    each_word(text, |_, word| {
        found.insert(word);
    });
    found
}

fn each_word<'a>(text: &'a str, mut visit: impl FnMut(usize, &'a str)) {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if let Some(length) = skipped(&text[at..]) {
            at += length;
            continue;
        }
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let sigil = usize::from(matches!(c, '@' | '$'));
        if sigil == 0 && !is_of_name(c) {
            at += c.len_utf8();
            continue;
        }
        let end = text[at + sigil..].find(|c| !is_of_name(c)).map_or(text.len(), |end| at + sigil + end);
        visit(at, &text[at..end]);
        at = end.max(at + 1);
    }
}

fn renamed(text: &str, old: &str, new: &str) -> String {
    let (mut out, mut done) = (String::new(), 0);
    each_word(text, |at, word| {
        if word == old {
            out.extend([&text[done..at], new]);
            done = at + word.len();
        }
    });
    out + &text[done..]
}

/// What ends an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The brace that closes its first one.
    Brace,
    /// A semicolon.
    Semicolon,
    /// A semicolon or the end of the line.
    Line,
}

fn items(text: &str) -> Vec<Item<'_>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';').len();
        if blank > 0 {
            at += blank;
            continue;
        }
        // A preceding comment belongs to the item after it.
        let comments = comments(rest);
        let code = &rest[comments..];
        let (keyword, name) = head(code);
        let end = match keyword {
            "param" | "use" | "import" | "let" | "#define" => End::Line,
            "struct" | "union" | "enum" | "typedef" => End::Semicolon,
            _ => End::Brace,
        };
        let length = (comments + length(code, end)).max(1);
        let whole = rest.get(..length).unwrap_or(rest);
        let definition = name.map(|name| {
            let is_first = matches!(keyword, "struct" | "union" | "enum" | "typedef" | "#define");
            Definition { name, text: whole.trim().to_owned(), is_first }
        });
        found.push(Item { text: whole, definition });
        at += whole.len();
    }
    found
}

fn comments(text: &str) -> usize {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start().len();
        match skipped(&rest[blank..]) {
            Some(length) if !rest[blank..].starts_with('"') => at += blank + length,
            _ => return at + blank,
        }
    }
}

/// The keyword of an item, without `pub`, and the name it defines.
fn head(code: &str) -> (&str, Option<String>) {
    let code = code.strip_prefix("pub ").map_or(code, str::trim_start);
    let end = code.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '#')).unwrap_or(code.len());
    let (keyword, rest) = code.split_at(end);
    let rest = rest.trim_start();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let sigil = usize::from(rest.starts_with(['@', '$']));
    let end = rest[sigil..].find(|c| !is_of_name(c)).map_or(rest.len(), |end| sigil + end);
    let name = &rest[..end];
    let line = rest.split(['\n', ';']).next().unwrap_or_default();
    let defined = match keyword {
        "span" | "state" | "macro" | "let" | "struct" | "union" | "enum" | "#define" => name.to_owned(),
        "param" => format!("${name}"),
        "typedef" => line.trim_end().rsplit(|c| !is_of_name(c)).next().unwrap_or_default().to_owned(),
        // `use a/b-c` defines `b_c`, `use a/b as c` defines `c`.
        "use" => line
            .split_whitespace()
            .next_back()
            .unwrap_or_default()
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .replace('-', "_"),
        _ => String::new(),
    };
    (keyword, Some(defined).filter(|name| !name.is_empty()))
}

fn length(code: &str, end: End) -> usize {
    let (mut at, mut depth) = (0, 0_u32);
    while let Some(c) = code[at..].chars().next() {
        if let Some(length) = skipped(&code[at..]) {
            at += length;
            continue;
        }
        at += c.len_utf8();
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && c == '}' && end == End::Brace {
                    return at;
                }
            }
            ';' if depth == 0 && end != End::Brace => return at,
            '\n' if depth == 0 && end == End::Line => return at,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::{completed, definitions, joined};

    #[test]
    fn definitions_are_found_between_probes() {
        let text = "#define N 3\nstruct a { int x; };\nparam slow: duration = 1ms \"x\"\n// one\nspan f by tid { start kprobe:a end kprobe:b }\n\
                    use lock/latency as l\nmacro m(x) { x + 1 } BEGIN { $s = \"span g by tid { }\"; }\nlet @x = hash(9); typedef int number;";
        let names: Vec<String> = definitions(text).into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["N", "a", "$slow", "f", "l", "m", "@x", "number"]);
        for odd in ["", "}", "{", "span", "span f by", "\"", "/*", "é", "#", "pub"] {
            let _ = definitions(odd);
        }
    }

    #[test]
    fn a_program_gets_what_it_uses_and_no_more() {
        let known = definitions(
            "span f by tid { start kprobe:a end kprobe:b / m(1) / }\nmacro m(x) { x + 1 }\nspan g by tid { start kprobe:c end kprobe:d }",
        );
        let program = "f:end { @ = dist(f.elapsed); }";
        let whole = completed(program, &known);
        assert!(whole.starts_with(program) && whole.contains("span f by tid") && whole.contains("macro m"), "{whole}");
        assert!(!whole.contains("span g"), "{whole}");
        let own = "span f by pid { start kprobe:x end kprobe:y } f:end { }";
        assert_eq!(completed(own, &known), own);
        assert_eq!(completed("BEGIN { print(\"f m g\"); /* f */ }", &known), "BEGIN { print(\"f m g\"); /* f */ }");
        let types = definitions("struct a { int x; };");
        assert_eq!(
            completed("BEGIN { print(sizeof(struct a)); }", &types),
            "struct a { int x; };\nBEGIN { print(sizeof(struct a)); }"
        );
    }

    #[test]
    fn programs_are_one_script_with_each_definition_once() {
        let span = "span f by tid { start kprobe:a end kprobe:b }";
        let known = definitions(span);
        let programs = [
            (1, "", span),
            (2, "", "f:end { @x = dist(f.elapsed); }"),
            (4, "// x.prof --slow 1ms", "kprobe:c { @x = count(); @ = 1; print(\"@x\"); }"),
        ];
        let programs = programs.map(|(number, heading, text)| (number, heading.to_owned(), text.to_owned()));
        let text = joined(&programs, &known);
        assert_eq!(
            text,
            "span f by tid { start kprobe:a end kprobe:b }\n\nf:end { @x = dist(f.elapsed); }\n\n// x.prof --slow 1ms\n\
             // @x of program 4\nkprobe:c { @x_4 = count(); @ = 1; print(\"@x\"); }"
        );
    }
}
