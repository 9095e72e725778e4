//! Each view of a recipe has a sentence for the case that nothing was seen, and the pages show its
//! columns as they are today.
//!
//! In: the recipes, and the pages with their output. Out: a line for each view without the clause
//! `empty`, and for each table of a page with other columns.
//! Guarantee: recipes are read as the formatter writes them: a view ends at the first line that is
//! only a brace, and a clause is continued by lines that are indented further.

use crate::expect_none;
use crate::tree::{File, files};

/// The views of a recipe that say nothing about having no rows.
fn silent_views(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(usize, &str, bool)> = None;
    for (number, line) in (1..).zip(file.text.lines()) {
        match &mut open {
            Some((_, _, is_said)) if line.starts_with("\tempty \"") => *is_said = true,
            Some((first, title, is_said)) if line == "}" => {
                if !*is_said {
                    found.push(format!("{}:{first}: {title}", file.path));
                }
                open = None;
            }
            None if line.starts_with("pub view ") || line.starts_with("view ") => open = Some((number, line, false)),
            _ => {}
        }
    }
    found
}

#[test]
fn views_of_recipes_say_what_was_not_seen() {
    let recipes: Vec<File> = files("stdlib").into_iter().filter(|file| file.has_extension("prof")).collect();
    assert!(recipes.len() > 50, "the recipes are elsewhere");
    expect_none(&recipes.iter().flat_map(silent_views).collect::<Vec<_>>(), "views without `empty`");
}

/// A view of a recipe: its title, and the headings of its columns.
type Shown = (String, Vec<String>);

/// The views of a recipe.
fn views(recipe: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut clause = String::new();
    let mut is_show = false;
    for line in recipe.lines() {
        if let Some(rest) = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("view \"") {
            found.push((rest.split('"').next().unwrap_or_default().to_owned(), Vec::new()));
        }
        let is_continued = line.starts_with("\t\t");
        if is_show && !is_continued {
            if let Some((_, headings)) = found.last_mut() {
                *headings = columns(&clause).iter().map(|column| heading(column)).collect();
            }
            is_show = false;
        }
        if let Some(first) = line.strip_prefix("\tshow ") {
            (clause, is_show) = (first.to_owned(), true);
        } else if is_show {
            clause.push(' ');
            clause.push_str(line.trim());
        }
    }
    found
}

/// The parts of a list between its commas, but for those in parentheses and strings.
fn columns(list: &str) -> Vec<String> {
    let (mut parts, mut depth, mut is_quoted) = (vec![String::new()], 0, false);
    for letter in list.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth -= 1,
            _ => {}
        }
        match parts.last_mut() {
            Some(_) if letter == ',' && depth == 0 && !is_quoted => parts.push(String::new()),
            Some(part) => part.push(letter),
            None => {}
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

/// `expression as "heading"`, or the heading alone.
fn heading(column: &str) -> String {
    column.rsplit_once(" as \"").map_or(column, |(_, heading)| heading.trim_end_matches('"')).to_owned()
}

/// Tables of a page with other columns than the views of the recipe above them. Second: how many
/// were compared.
fn outdated_tables(page: &File, recipe: impl Fn(&str) -> Option<String>) -> (Vec<String>, usize) {
    let (mut found, mut compared, mut shown) = (Vec::new(), 0, Vec::new());
    let lines: Vec<&str> = page.text.lines().collect();
    for (number, pair) in (1..).zip(lines.windows(2)) {
        if let Some(command) = pair[0].strip_prefix("$ profiler ") {
            let name = command.split(' ').find(|word| word.contains('/') && !word.starts_with('-'));
            shown = name.and_then(&recipe).map_or_else(Vec::new, |text| views(&text));
        }
        let is_titled =
            |title: &str| pair[0].strip_prefix(title).is_some_and(|rest| rest.is_empty() || rest.starts_with(", "));
        let Some((title, headings)) = shown.iter().find(|(title, _)| is_titled(title)) else { continue };
        compared += 1;
        let mut rest = pair[1];
        for heading in headings {
            match rest.split_once(heading.as_str()) {
                Some((_, after)) => rest = after,
                None => {
                    found.push(format!("{}:{number}: `{title}` has a column `{heading}`", page.path));
                    break;
                }
            }
        }
    }
    (found, compared)
}

fn readme() -> File {
    File { path: "README.md".into(), text: include_str!("../../README.md").into() }
}

#[test]
fn pages_show_the_columns_of_recipes() {
    let recipes = files("stdlib");
    let text = |name: &str| {
        let path = format!("stdlib/{name}.prof");
        recipes.iter().find(|file| file.path == path).map(|file| file.text.clone())
    };
    let pages = files("spec").into_iter().chain([readme()]).filter(|file| file.has_extension("md"));
    let (found, compared): (Vec<_>, Vec<_>) = pages.map(|page| outdated_tables(&page, text)).unzip();
    assert!(compared.iter().sum::<usize>() > 60, "the pages are elsewhere: {}", compared.iter().sum::<usize>());
    expect_none(&found.concat(), "tables of pages");
}

#[test]
fn an_outdated_table_is_found() {
    let recipe = "pub view \"counts\" {\n\tof @a\n\tshow key as \"a, b\", sum(x, y) as \"n\",\n\t\tshare\n\ttop 3\n}\n";
    let page =
        |header: &str| File { path: "x.md".into(), text: format!("$ profiler -q io/x\ncounts, 1 s\n{header}\n") };
    let tables = |header: &str| outdated_tables(&page(header), |name| (name == "io/x").then(|| recipe.into()));
    assert_eq!(tables("a, b   n  share"), (Vec::new(), 1));
    assert_eq!(tables("a, b  share"), (vec!["x.md:2: `counts` has a column `n`".into()], 1));
}

#[test]
fn a_silent_view_is_found() {
    let text = "pub view \"a\" {\n\tof @a\n\tempty \"none\"\n}\nview \"b\" {\n\tof @b\n}\n";
    let file = File { path: "x.prof".into(), text: text.into() };
    assert_eq!(silent_views(&file), ["x.prof:5: view \"b\" {"]);
}
