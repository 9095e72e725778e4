//! Sessions as transcripts: `> ` is typed, `< ` is news of the programs, other lines are effects.
//! Of the maps of an attached program, `@x+` was kept and `@x-` starts empty; `view`: it has views.

use std::fmt::Write as _;

use super::{Effect, Loading, News, Repl};

fn is_recipe(word: &str) -> bool {
    ["lock/latency", "opensnoop"].contains(&word)
}

/// Replays a transcript and returns it with the actual effects.
fn replay(transcript: &str) -> String {
    let (mut repl, mut out) = (Repl::new(is_recipe), String::new());
    for line in transcript.lines().map(str::trim) {
        let effects = if let Some(typed) = line.strip_prefix("> ") {
            repl.submit(typed)
        } else if let Some(news) = line.strip_prefix("< ") {
            repl.receive(read_news(news))
        } else {
            continue;
        };
        let _ = writeln!(out, "{line}");
        for effect in effects {
            out.push_str(&shown(&effect));
        }
    }
    out
}

fn read_news(text: &str) -> News {
    let words: Vec<&str> = text.split(' ').collect();
    let number = words[1].parse().unwrap_or(0);
    match words[0] {
        "attached" => News::Attached {
            number,
            probes: words[2].parse().expect("a number of probes"),
            maps: {
                let maps = words[3..].iter().filter(|word| word.starts_with('@'));
                maps.map(|map| map.trim_end_matches(['+', '-']).to_owned()).collect()
            },
            has_views: words[3..].contains(&"view"),
            carried: {
                let marked =
                    |mark: char| words[3..].iter().filter_map(move |map| Some(map.strip_suffix(mark)?.to_owned()));
                Some((marked('+').collect(), marked('-').collect()))
            },
        },
        "refused" => News::Refused { number, message: format!("{}\n", words[2..].join(" ")) },
        "ended" => News::Ended { number, code: words.get(2).map(|code| code.parse().expect("a code")) },
        "read" => News::Read { file: loading(words[1]), text: Ok(words[2..].join(" ")) },
        "unreadable" => News::Read { file: loading(words[1]), text: Err(format!("{}\n", words[2..].join(" "))) },
        "edited" => News::Edited { number, text: Some(words[2..].join(" ")).filter(|text| !text.is_empty()) },
        other => panic!("{other}"),
    }
}

/// Parses `FILE`, or `FILE,OPTION,VALUE`.
fn loading(text: &str) -> Loading {
    let mut words = text.split(',').map(str::to_owned);
    Loading { path: words.next().unwrap_or_default(), words: words.collect() }
}

fn shown(effect: &Effect) -> String {
    match effect {
        Effect::Say(said) => said.lines().flat_map(|line| ["  | ", line, "\n"]).collect(),
        other => format!("  {other:?}\n"),
    }
}

fn holds(transcript: &str) {
    let expected: String =
        transcript.trim().lines().map(|line| line.strip_prefix("        ").unwrap_or(line).to_owned() + "\n").collect();
    let replayed = replay(transcript);
    assert_eq!(replayed, expected, "\n{replayed}");
}

#[test]
fn several_programs_live_at_once() {
    holds(
        r#"
        > kprobe:a { @x = count(); }
          Attach { number: 1, source: "kprobe:a { @x = count(); }", replaces: None, file: None }
        < attached 1 1 @x
          | [1] 1 probe
        > kprobe:b* { @y = count(); }
          Attach { number: 2, source: "kprobe:b* { @y = count(); }", replaces: None, file: None }
        < attached 2 7 @y
          | [2] 7 probes
        > @x
          Print { number: 1, map: "@x" }
        > @y sort p99 top 3
          Show { number: 2, text: "view \"@y\" { of @y sort p99 top 3 }" }
        > :ps
          Status([(1, "kprobe:a { @x = count(); }"), (2, "kprobe:b* { @y = count(); }")])
        > :stop 1
          Detach(1)
        < ended 1
          | [1] stopped
        > @x
          | there is no map `@x`; did you mean `@y`?
        > :stop all
          Detach(2)
        < ended 2 0
          | [2] ended
        > :ps
          | no program is running
        "#,
    );
}

#[test]
fn a_map_of_several_programs_is_printed_for_each() {
    holds(
        r#"
        > kprobe:a { @ = count(); }
          Attach { number: 1, source: "kprobe:a { @ = count(); }", replaces: None, file: None }
        < attached 1 1 @
          | [1] 1 probe
        > kprobe:b { @ = count(); }
          Attach { number: 2, source: "kprobe:b { @ = count(); }", replaces: None, file: None }
        < attached 2 1 @
          | [2] 1 probe
        > @
          | [1]
          Print { number: 1, map: "@" }
          | [2]
          Print { number: 2, map: "@" }
        "#,
    );
}

#[test]
fn a_refused_program_leaves_nothing_behind() {
    holds(
        r#"
        > kprobe:nosuch { }
          Attach { number: 1, source: "kprobe:nosuch { }", replaces: None, file: None }
        < refused 1 error: there is no function
          | error: there is no function
        > :stop 1
          | there is no program 1: none is running
        > :dump ir
          | no program is running
        > :save x
          | no program is running
        "#,
    );
}

#[test]
fn an_edited_program_takes_the_place_of_the_old_one_once_it_is_attached() {
    holds(
        r#"
        > kprobe:a { @x = count(); }
          Attach { number: 1, source: "kprobe:a { @x = count(); }", replaces: None, file: None }
        < attached 1 1 @x
          | [1] 1 probe
        > :edit 1
          Edit { number: 1, text: "kprobe:a { @x = count(); }" }
        < edited 1 kprobe:a { @x = cuont(); }
          Attach { number: 2, source: "kprobe:a { @x = cuont(); }", replaces: Some(1), file: None }
        < refused 2 error: there is no function
          | error: there is no function
        > @x
          Print { number: 1, map: "@x" }
        > :edit 1 kprobe:b { @x = count(); }
          Attach { number: 3, source: "kprobe:b { @x = count(); }", replaces: Some(1), file: None }
        < ended 1
        < attached 3 1 @x+ @y-
          | [3] 1 probe, replaces [1]; kept @x; empty @y
        > @x
          Print { number: 3, map: "@x" }
        > :edit 3
          Edit { number: 3, text: "kprobe:b { @x = count(); }" }
        < edited 3
          | no changes
        > :edit 9 BEGIN { }
          | there is no program 9; running: 3
        > :edit 3 kprobe:c { }
          Attach { number: 4, source: "kprobe:c { }", replaces: Some(3), file: None }
        < ended 3
        < refused 4 error: no room
          | error: no room
          | [3] has already been detached
        "#,
    );
}

#[test]
fn expressions_are_done_once() {
    holds(
        r#"
        > nsecs
          Attach { number: 1, source: "BEGIN { print(nsecs); }", replaces: None, file: None }
        < attached 1 1
        < ended 1 0
        > printf("%d\n", pid)
          Attach { number: 2, source: "BEGIN { printf(\"%d\\n\", pid); }", replaces: None, file: None }
        < attached 2 1
        < ended 2 0
        > :type curtask->comm
          Type("curtask->comm")
        "#,
    );
}

#[test]
fn scripts_are_saved_and_loaded() {
    holds(
        r#"
        > :load x.prof
          Read(Loading { path: "x.prof", words: [] })
        < unreadable x.prof error: there is no such file
          | error: there is no such file
        > :load y.prof --slow 1ms
          Read(Loading { path: "y.prof", words: ["--slow", "1ms"] })
        < read y.prof,--slow,1ms kprobe:a { @x = count(); }
          Attach { number: 1, source: "kprobe:a { @x = count(); }", replaces: None, file: Some(Loading { path: "y.prof", words: ["--slow", "1ms"] }) }
        < attached 1 1 @x
          | [1] 1 probe
        > :ps
          Status([(1, "y.prof --slow 1ms")])
        > :save z.prof
          Write { path: "z.prof", text: "// y.prof --slow 1ms\nkprobe:a { @x = count(); }\n" }
        > :edit 1 kprobe:b { @x = count(); }
          Attach { number: 2, source: "kprobe:b { @x = count(); }", replaces: Some(1), file: Some(Loading { path: "y.prof", words: ["--slow", "1ms"] }) }
        < ended 1
        < attached 2 1 @x+
          | [2] 1 probe, replaces [1]; kept @x
        > :watch @x 2s
          Watch(Some(Watch { number: 2, map: "@x", period: 2s }))
        > :watch off
          Watch(None)
        > :clear @x
          Clear { number: 2, map: "@x" }
        > :quit
          Quit
        "#,
    );
}

#[test]
fn what_one_line_defines_the_next_ones_know() {
    holds(
        r#"
        > span f by tid { start kprobe:a end kprobe:b }
          Attach { number: 1, source: "span f by tid { start kprobe:a end kprobe:b }", replaces: None, file: None }
        < attached 1 2
          | [1] 2 probes
        > f:end { @x = count(); }
          Attach { number: 2, source: "f:end { @x = count(); }\nspan f by tid { start kprobe:a end kprobe:b }", replaces: None, file: None }
        < attached 2 2 @x
          | [2] 2 probes
        > kprobe:c { @x = count(); }
          Attach { number: 3, source: "kprobe:c { @x = count(); }", replaces: None, file: None }
        < attached 3 1 @x
          | [3] 1 probe
        > :save z.prof
          Write { path: "z.prof", text: "span f by tid { start kprobe:a end kprobe:b }\n\nf:end { @x = count(); }\n\n// @x of program 3\nkprobe:c { @x_3 = count(); }\n" }
        "#,
    );
}

#[test]
fn views_are_shown_when_asked_for() {
    holds(
        r#"
        > :views
          | no program has a view
        > kprobe:a { @x = count(); } view "v" { of @x }
          Attach { number: 1, source: "kprobe:a { @x = count(); } view \"v\" { of @x }", replaces: None, file: None }
        < attached 1 1 @x view
          | [1] 1 probe
        > kprobe:b { @y = count(); }
          Attach { number: 2, source: "kprobe:b { @y = count(); }", replaces: None, file: None }
        < attached 2 1 @y
          | [2] 1 probe
        > :views
          Views(1)
        > :views 2
          | [2] has no view
        > :views 3
          | there is no program 3; running: 1, 2
        > view "w" { of @y show count }
          Show { number: 2, text: "view \"w\" { of @y show count }" }
        > view "w" { of @z }
          | there is no map `@z`; did you mean `@x`?
        "#,
    );
}

#[test]
fn a_line_that_begins_with_a_recipe_runs_it() {
    holds(
        r#"
        >  lock/latency --pid 1 -c 'sleep 1'
          Recipe("lock/latency --pid 1 -c 'sleep 1'")
        > opensnoop
          Recipe("opensnoop")
        > print(opensnoop)
          Attach { number: 1, source: "BEGIN { print(opensnoop); }", replaces: None, file: None }
        "#,
    );
}

#[test]
fn whatever_is_typed_has_an_answer() {
    let mut repl = Repl::new(is_recipe);
    for text in [
        "",
        ":",
        "::",
        "{",
        "}",
        "@",
        "$",
        ":stop -1",
        ":edit",
        ":load",
        "\u{0}",
        "\"",
        "@\u{e4}",
        ":\u{e4} x",
        ":dump",
        "a\nb",
    ] {
        repl.submit(text);
    }
    assert_eq!(repl.submit(":help"), [Effect::Commands]);
}

#[test]
fn the_help_fits_its_terminal() {
    for columns in [20, 40, 60, 80, 120] {
        let text = super::help::text(columns);
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(text.contains(":quit") && longest <= Some(columns.max(40)), "{columns}: {text}");
    }
    assert_eq!(super::help::text(80).lines().filter(|line| line.contains(":stop N")).count(), 1);
}
