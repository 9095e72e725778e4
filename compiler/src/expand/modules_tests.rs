//! Tests of linking modules: names, collisions, visibility.

use crate::ast_print;
use crate::expand::expand;
use crate::parse::parse;
use crate::source::Source;

/// A script with modules, given as pairs of path and text.
fn source(text: &str, modules: &[(&str, &str)]) -> Source {
    let mut source = Source::new("s", text);
    for (path, text) in modules {
        source.append_module(format!("{path}.prof"), text, *path);
    }
    source
}

fn tree(text: &str, modules: &[(&str, &str)]) -> String {
    let mut script = expand(parse(&source(text, modules)).expect("it parses")).expect("it expands");
    script.macros.clear();
    ast_print::print(&script)
}

fn refused(text: &str, modules: &[(&str, &str)]) -> Vec<String> {
    let source = source(text, modules);
    let problems = expand(parse(&source).expect("it parses")).expect_err("a refusal");
    problems
        .iter()
        .map(|problem| {
            let file = source.file_at(problem.span.start).0;
            format!("{file} {} {}; {}", problem.code, problem.message, problem.help.as_deref().unwrap_or(""))
        })
        .collect()
}

const COUNTS: &str = "
    #define STEP 2
    pub param pid: pid = any \"whose\"
    param quiet: bool = true \"own\"
    pub @calls
    pub macro bump(@m, k) { @m[k] += STEP; note(k); }
    macro note(k) { @seen[k] = $quiet; }
    BEGIN /pid == $pid/ { @calls[STEP] = 1; $x = 1; bump(@calls, 1); }";

#[test]
fn names_of_a_module_get_its_name() {
    let tree = tree(
        "use a/counts; BEGIN { counts.bump(@mine, 3); print(@counts.calls[1]); @calls = $counts.pid == 1; }",
        &[("a/counts", COUNTS)],
    );
    for name in
        ["@counts.calls", "@counts'seen", "$counts'quiet", "$counts.pid", "counts'STEP", "@mine", "@calls", "$x"]
    {
        assert!(tree.contains(name), "{name} is not in\n{tree}");
    }
    assert!(!tree.contains("use ") && !tree.contains("module "), "{tree}");
}

#[test]
fn a_module_is_there_once_whoever_uses_it_and_comes_first() {
    let modules = [
        ("a", "use c\nBEGIN { @a = c.one(); }"),
        ("b", "use c as see\nuse a\nBEGIN { @b = see.one(); }"),
        ("c", "pub macro one() { 1 } BEGIN { @c = 1; }"),
    ];
    let tree = tree("use a\nuse b as bee\nBEGIN { @s = 1; }", &modules);
    let order: Vec<usize> = ["@c'c", "@a'a", "@bee'b", "@s"].iter().map(|name| tree.find(name).expect(name)).collect();
    assert!(order.is_sorted(), "{order:?}\n{tree}");
    assert_eq!(tree.matches("probe").count(), 4, "{tree}");
}

#[test]
fn names_of_two_modules_never_clash() {
    let one = "pub @n\n#define X 1\npub macro f() { X } BEGIN { @n = f(); @p = 1; }";
    let two = "pub @n\n#define X 2\npub macro f() { X } BEGIN { @n = f(); @p = \"s\"; }";
    let tree = tree("use a/x\nuse b/x as y\nBEGIN { @n = x.f() + y.f(); @p = 1; }", &[("a/x", one), ("b/x", two)]);
    for name in ["@x.n", "@y.n", "@x'p", "@y'p", "@n", "@p"] {
        assert!(tree.contains(&format!("{name}\n")), "{name} is not in\n{tree}");
    }
    assert!(
        refused("use a/x\nuse b/x\nBEGIN { }", &[("a/x", one), ("b/x", two)])[0]
            .starts_with("s E0224 two modules are called `x` here")
    );
}

#[test]
fn what_a_macro_is_given_is_not_the_modules() {
    let module = "pub param k: int = 1 \"k\"\npub macro f($k, @m, STEP) { $k = STEP; @m = $k; }\n#define STEP 9\nBEGIN { @m = STEP; }";
    let tree = tree("use m\nBEGIN { $a = 1; m.f($a, @own, 7); }", &[("m", module)]);
    assert!(tree.contains("@own") && tree.contains("$a") && tree.contains("int 7"), "{tree}");
    assert!(!tree.contains("$m.k"), "{tree}");
}

#[test]
fn names_in_probes_are_renamed_too() {
    let module =
        "pub param lib: path = \"libc\" \"which\"\nparam fn: string = \"f\" \"own\"\nuprobe:$lib:$fn { @x = 1; }";
    let tree = tree("use m\nuprobe:/opt/$m.lib.so:g { }", &[("m", module)]);
    assert!(tree.contains("at uprobe:$m.lib:$m'fn\n") && tree.contains("at uprobe:/opt/$m.lib.so:g\n"), "{tree}");
}

const SPANS: &str = "
    pub span call by tid { start interval:1s { who = 1; } end interval:2s expire 5s }
    span own by tid { start call:start end call:end }
    call:end { @all = call.elapsed; } own:end { @own = inflight(own); }
    pub view \"calls\" { of @all } view \"own\" { of @own }";

#[test]
fn public_spans_and_views_are_there_for_those_who_use_the_module() {
    let tree = tree(
        "use a/m as see\nsee.call:end { @n = see.call.elapsed; @m = inflight(see.call); }\nspan mine by tid { start see.call:start end see.call:expire }",
        &[("a/m", SPANS)],
    );
    for name in ["span see.call\n", "span see.own\n", "at see.call:end\n", "at see.own:end\n", "at see.call:expire\n"] {
        assert!(tree.contains(name), "{name} is not in\n{tree}");
    }
    assert_eq!(
        tree.matches("at see.call:end\n").count(),
        3,
        "the script's, the module's, and that of its span\n{tree}"
    );
    assert!(tree.contains("view \"calls\"") && !tree.contains("view \"own\""), "{tree}");
}

#[test]
fn views_show_the_public_maps_of_modules() {
    let module = [("m", "pub @n\nbegin { @n[1] = count(); @own = 1; }")];
    let tree = tree("use m\nview \"v\" { of @m.n show key, @m.n.count sort @m.n.count desc }", &module);
    assert!(tree.contains("of @m.n"), "{tree}");
    assert_eq!(tree.matches("field .count\n        map @m.n").count(), 2, "{tree}");
    assert_eq!(
        refused("use m\nview \"v\" { of @m.own }", &module),
        ["s E0226 the module `m` has no public map `own`; it has `@m.n`"]
    );
}

#[test]
fn conditions_of_views_name_the_spans_of_their_module() {
    let module = [(
        "m",
        "pub span s by tid { start begin end end }\npub @n\ns:end { @n[1] = count(); }\npub view \"v\" { of @n where matched(s) > 0 && count > 1 }",
    )];
    let tree = tree("use m\nview \"w\" { of @m.n where open(m.s) == 0 }", &module);
    assert_eq!(tree.matches("name m.s").count(), 2, "{tree}");
    assert!(tree.contains("name count"), "columns keep their names\n{tree}");
}

#[test]
fn spans_that_are_not_public_are_refused_wherever_they_are_named() {
    assert_eq!(
        refused(
            "use m\nm.own:end { @a = 1; }\nm.cal:end { @a = m.own.elapsed; @b = inflight(m.own); }\nn.call:end { @a = 1; }\nspan x by tid { start m.own:start end m.call:end }",
            &[("m", SPANS), ("n", SPANS)]
        ),
        [
            "s E0226 the module `m` has no public span `own`; it has `m.call`",
            "s E0226 the module `m` has no public span `own`; it has `m.call`",
            "s E0226 the module `m` has no public span `cal`; did you mean `m.call`?",
            "s E0226 the module `m` has no public span `own`; it has `m.call`",
            "s E0226 the module `m` has no public span `own`; it has `m.call`",
            "s E0226 there is no module called `n` here; the events of a module's span are those of a module that is used: `use a/n`",
        ]
    );
}

#[test]
fn what_cannot_be_is_said_where_it_stands() {
    assert_eq!(
        refused("use a\nBEGIN { }", &[("a", "use b\nBEGIN { }"), ("b", "use c\nBEGIN { }"), ("c", "use a\nBEGIN { }")]),
        ["c.prof E0227 the module `a` uses itself; a → b → c → a: put what they share into a module that uses neither"]
    );
    let module = "pub @waits\n@x = 1;".replace("@x = 1;", "BEGIN { @waits = 1; @own = 1; print($1); @ = 1; }");
    assert_eq!(
        refused("use m\nBEGIN { print(@m.wait); print(@m.own); m.f(); print($m.x); }", &[("m", &module)]),
        [
            "m.prof E0228 a module cannot use `$1` and `$#`: they belong to the script; declare a parameter: `pub param limit: int = 10 \"…\"`",
            "m.prof E0228 a map of a module must have a name; write `@name`; without a name it would be confused with the script's own",
            "s E0226 the module `m` has no public map `wait`; did you mean `@m.waits`?",
            "s E0226 the module `m` has no public map `own`; it has `@m.waits`",
            "s E0226 the module `m` has no public macro `f`; it has no public macro at all: `pub` makes one public",
            "s E0226 the module `m` has no public parameter `x`; it has no public parameter at all: `pub` makes one public",
        ]
    );
    assert!(refused("use none/such\nBEGIN { }", &[])[0].starts_with("s E0226 there is no module `none/such`"));
}
