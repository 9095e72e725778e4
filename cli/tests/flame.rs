//! `profiler flame`: pictures of files of folded lines.
//!
//! In: small files. Out: SVG text, or errors.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A directory that is removed at the end of the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("profiler-flame-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).expect("written");
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Exit code, standard output, standard error.
fn flame(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_profiler")).arg("flame").args(arguments).output().expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_file_of_folded_lines_is_drawn() {
    let directory = Directory::new("one");
    let file = directory.file("a.folded", "main;work 3\nmain;idle with space 1\n\n");
    let (code, svg, errors) = flame(&[&file]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    for title in ["work (3 in total, 75.00%)", "idle with space (1 in total, 25.00%)", "main (4 in total, 100.00%)"] {
        assert!(svg.contains(title), "{title}");
    }
}

#[test]
fn an_icicle_has_functions_below_their_callers() {
    let directory = Directory::new("icicle");
    let file = directory.file("a.folded", "main;work 3\nmain;idle 1\n");
    let (code, text, errors) = flame(&[&file, "--icicle"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let lines: Vec<&str> = text.lines().skip(1).collect();
    let columns = "|work 75.0 %".len();
    let expected = format!("|work 75.0 %{}|idle 25.0 %", " ".repeat(90 - columns));
    assert_eq!(lines, ["|all 100.0 %", "|main 100.0 %", &expected]);
}

#[test]
fn a_difference_is_normalised_by_the_total() {
    let directory = Directory::new("two");
    let before = directory.file("before", "main;a 10\nmain;b 10\n");
    let after = directory.file("after", "main;a 150\nmain;c 50\n");
    let picture = directory.0.join("d.svg").to_string_lossy().into_owned();
    let (code, output, errors) = flame(&["diff", &before, &after, "-o", &picture]);
    assert_eq!((code, output.as_str(), errors.as_str()), (Some(0), "", ""));
    let svg = fs::read_to_string(&picture).expect("written");
    for title in ["a (150 in total, 75.00%; +25.00%)", "c (50 in total, 25.00%; +25.00%)"] {
        assert!(svg.contains(title), "{title}");
    }
    let legend = |svg: &str| {
        let (_, legend) = svg.split_once("<g id=\"legend\">").expect("a legend");
        ["(255,100,100)\"/>", "(100,100,255)\"/>"].map(|colour| {
            let (_, text) = legend.split_once(colour).expect(colour);
            text.split("</text>").next().and_then(|text| text.rsplit_once('>')).expect("a text").1.to_owned()
        })
    };
    let words = ["own share larger in AFTER", "own share smaller in AFTER"].map(str::to_owned);
    assert_eq!(legend(&svg), words);
    for line in [format!("BEFORE: {before}, 20 in 2 stacks<"), format!("AFTER: {after}, 200 in 2 stacks<")] {
        assert!(svg.contains(&line), "{line}");
    }
    let (_, reversed, _) = flame(&["diff", "--reverse", &before, &after]);
    for title in ["a (10 in total, 50.00%; +25.00%)", "b (10 in total, 50.00%; -50.00%)"] {
        assert!(reversed.contains(title), "{title}");
    }
    assert_eq!(legend(&reversed), words, "the same meaning");
}

#[test]
fn long_titles_and_remarks_are_not_cut() {
    let directory = Directory::new(&"long".repeat(30));
    let file = directory.file(&"name".repeat(50), "main;work 3\n");
    let (_, svg, _) = flame(&[&file]);
    let (_, title) = svg.split_once("id=\"title\"").expect("a title");
    let (title, _) = title.split_once("</text>").expect("its end");
    let (_, title) = title.split_once('>').expect("its text");
    let lines: Vec<&str> = title.split("</tspan>").filter_map(|line| line.rsplit('>').next()).collect();
    let first = title.split('<').next().expect("a line");
    assert!(title.matches("<tspan").count() >= 2 && lines.iter().all(|line| line.len() <= 100), "{title}");
    assert!(first.len() == 100 && file.starts_with(first), "{first}");
}

#[test]
fn busy_threads_are_those_with_something_to_do() {
    let directory = Directory::new("busy");
    let file = directory.file("wall", "a;poll;main 97\na;running;main 2\nb;lock;main;pthread_mutex_lock 1\n");
    let (code, text, errors) = flame(&["--busy", "--icicle", &file]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(text.contains(": 3 in 2 stacks\n") && text.ends_with("idle threads are left out: poll 97\n"), "{text}");
    let (code, svg, _) = flame(&["diff", "--busy", &file, &file]);
    assert!(code == Some(0) && !svg.contains("<title>poll"), "{svg}");
    for (text, words) in [("main;a 1\n", "have no states of threads"), ("a;poll;b 1\na;sleep;b 1\n", "are idle")] {
        let other = directory.file("other", text);
        let (code, _, errors) = flame(&["--busy", &other]);
        assert!(code == Some(1) && errors.contains(words) && errors.contains(&other), "{errors}");
    }
}

#[test]
fn an_unreadable_line_is_reported_with_its_place() {
    let directory = Directory::new("bad");
    let good = directory.file("good", "main 1\n");
    for (text, words) in [
        ("main;a 1\nmain;b\n", "line 2 of"),
        ("main 1.5\n", "line 1 of"),
        (" 7\n", "line 1 of"),
        ("main -3\n", "line 1 of"),
        ("main 99999999999999999999999\n", "line 1 of"),
        ("a 9223372036854775807\na 1\n", "line 2 of"),
        ("\n", "has no stacks"),
    ] {
        let bad = directory.file("bad", text);
        for arguments in [vec![bad.as_str()], vec!["diff", &good, &bad], vec!["diff", &bad, &good]] {
            let (code, output, errors) = flame(&arguments);
            assert_eq!((code, output.as_str()), (Some(1), ""), "{text:?}");
            assert!(errors.contains(words) && errors.contains(&bad), "{errors}");
        }
    }
    // Files without an end.
    for endless in ["/dev/zero", "/dev/urandom"] {
        let (code, _, errors) = flame(&[endless]);
        assert!(code == Some(1) && errors.contains("is not a stack with a number"), "{endless}: {errors}");
    }
    let (code, _, errors) = flame(&["/no/such"]);
    assert!(code == Some(1) && errors.contains("`/no/such` cannot be read"), "{errors}");
}
