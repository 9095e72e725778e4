//! Each view of a recipe has a sentence for the case that nothing was seen.
//!
//! In: the recipes. Out: a line for each view without the clause `empty`.
//! Guarantee: a view ends at the first line that is only a brace, as the formatter writes it.

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

#[test]
fn a_silent_view_is_found() {
    let text = "pub view \"a\" {\n\tof @a\n\tempty \"none\"\n}\nview \"b\" {\n\tof @b\n}\n";
    let file = File { path: "x.prof".into(), text: text.into() };
    assert_eq!(silent_views(&file), ["x.prof:5: view \"b\" {"]);
}
