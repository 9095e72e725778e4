use std::process::Command;
use std::time::Instant;

use profiler_compiler::target::Target;

use super::{Completion, Known, complete};
use profiler_runtime::host::Host;

fn at_end(text: &str) -> Completion {
    complete(text, text.len(), &Host::new(), Known::default())
}

fn texts(text: &str) -> Vec<String> {
    at_end(text).candidates.into_iter().map(|found| found.text).collect()
}

fn has_types() -> bool {
    let has = Host::new().btf().is_some() && Host::new().tracefs().is_ok();
    if !has {
        println!("SKIPPED: the kernel's types or its tracepoints cannot be read");
    }
    has
}

#[test]
fn kinds_of_probes_come_first() {
    assert_eq!(texts("trace"), ["tracepoint"]);
    assert_eq!(texts("BEGIN { } inter"), ["interval"]);
    assert!(texts("").contains(&"uprobe".to_owned()));
    assert_eq!(at_end("BEGIN { }  trace").start, 11);
    let about = &at_end("interv").candidates[0].about;
    assert!(!about.is_empty());
}

#[test]
fn a_probe_may_stand_in_for_another() {
    assert_eq!(texts("kprobe:a unl"), ["unless"]);
    assert_eq!(at_end("kprobe:a unl").start, 9);
    assert!(texts("kprobe:a unless f").contains(&"fentry".to_owned()));
    assert!(texts("uprobe:/bin/x:\"a unl").is_empty());
    assert!(texts("macro unl").is_empty());
    if has_types() {
        assert_eq!(texts("kprobe:a unless rawtracepoint:sched_switc"), ["rawtracepoint:sched_switch"]);
        assert_eq!(texts("rawtracepoint:sched_switch unless fentry:x { @ = args.pree"), ["preempt"]);
    }
}

#[test]
fn probes_are_those_of_this_kernel_part_by_part() {
    if !has_types() {
        return;
    }
    assert_eq!(texts("tracepoint:sche"), ["tracepoint:sched:"]);
    let switches = texts("tracepoint:sched:sched_sw");
    assert!(switches.contains(&"tracepoint:sched:sched_switch".to_owned()), "{switches:?}");
    assert_eq!(texts("rawtracepoint:sched_switc"), ["rawtracepoint:sched_switch"]);
    assert_eq!(texts("software:page"), ["software:page-faults:"]);
}

#[test]
fn arguments_come_with_their_types() {
    if !has_types() {
        return;
    }
    let found = at_end("tracepoint:sched:sched_switch / args.next_p");
    let rows: Vec<(&str, &str)> = found.candidates.iter().map(|c| (c.text.as_str(), c.about.as_str())).collect();
    assert_eq!(rows, [("next_pid", "pid_t"), ("next_prio", "int")]);
    assert_eq!(texts("rawtracepoint:sched_switch { @ = args.pree"), ["preempt"]);
}

#[test]
fn members_follow_pointers_casts_and_variables() {
    if !has_types() {
        return;
    }
    for text in [
        "BEGIN { @ = curtask->grou",
        "BEGIN { @ = ((struct task_struct *)arg0).grou",
        "BEGIN { $t = (struct task_struct *)curtask; @ = $t->real_parent->grou",
        "rawtracepoint:sched_switch { @ = args.next->grou",
        "BEGIN { $t = curtask; @ = $t.grou",
    ] {
        assert!(texts(text).contains(&"group_leader".to_owned()), "{text}: {:?}", texts(text));
    }
    assert_eq!(texts("BEGIN { @ = $unknown->grou"), Vec::<String>::new());
}

#[test]
fn words_maps_and_variables_are_those_in_reach() {
    assert!(texts("BEGIN { @x = cou").contains(&"count(".to_owned()));
    assert!(texts("BEGIN { pri").contains(&"printf(".to_owned()));
    assert!(texts("BEGIN / com").contains(&"comm".to_owned()));
    assert_eq!(texts("BEGIN { @reads = 1; @writes = 2; print(@r"), ["@reads"]);
    assert_eq!(texts("BEGIN { $time = 1; $t"), ["$time"]);
    let maps = ["@other".to_owned()];
    let text = "interval:s:1 { print(@";
    let found = complete(text, text.len(), &Host::new(), Known { maps: &maps, ..Known::default() });
    assert_eq!(found.candidates.iter().map(|c| c.text.as_str()).collect::<Vec<_>>(), ["@other"]);
}

#[test]
fn nothing_is_proposed_where_nothing_helps() {
    for text in ["BEGIN { printf(\"tra", "// tra", "nokind:x", "tracepoint:nosuch"] {
        assert_eq!(texts(text), Vec::<String>::new(), "{text}");
    }
    // A cursor inside a character is not a valid position.
    assert_eq!(complete("\u{e4}", 1, &Host::new(), Known::default()), Completion::default());
}

#[test]
fn any_cursor_in_any_text_has_an_answer() {
    let text = "tracepoint:sched:sched_switch /args.next_pid == 1/ { @a[comm] = hist($x->b); printf(\"%d\", ((struct a *)b).c); }";
    let host = Host::new();
    let start = Instant::now();
    for cursor in 0..=text.len() {
        complete(text, cursor, &host, Known::default());
    }
    // Printed, not asserted: machines are shared.
    println!("{} completions took {:?}", text.len() + 1, start.elapsed());
}

#[test]
fn programs_and_libraries_are_found_by_path_and_by_name() {
    let own = std::env::current_exe().expect("a path");
    let own = own.to_str().expect("text");
    assert_eq!(texts(&format!("uprobe:{}", &own[..own.len() - 3])), [format!("uprobe:{own}:")]);
    let directory = own.rsplit_once('/').expect("absolute").0;
    assert_eq!(texts(&format!("usdt:{}", &directory[..directory.len() - 1])), [format!("usdt:{directory}/")]);
    assert_eq!(texts("uprobe:/etc/passw"), Vec::<String>::new());
    // Without a linker cache, libraries are found by their full names only.
    assert!(
        Host::new().completion().libraries().is_empty()
            || texts("uretprobe:lib").contains(&"uretprobe:libc:".to_owned())
    );
    assert!(texts("uprobe:libc:mallo").contains(&"uprobe:libc:malloc".to_owned()));
}

/// A function that is in this program however it was compiled.
#[inline(never)]
fn lighthouse(light: u32) -> u32 {
    std::hint::black_box(light)
}

#[test]
fn functions_of_programs_are_symbols_or_names_in_quotes() {
    assert_eq!(lighthouse(1), 1);
    let own = std::env::current_exe().expect("a path");
    let own = own.display();
    assert!(texts(&format!("uprobe:{own}:mai")).contains(&format!("uprobe:{own}:main")));
    let crate_alone = texts(&format!("BEGIN {{ }} uretprobe:{own}:profiler_cl"));
    assert_eq!(crate_alone, [format!("uretprobe:{own}:\"profiler_cli::")]);
    let module = format!("uprobe:{own}:\"profiler_cli::complete::");
    assert_eq!(texts(&format!("{module}tes")), [format!("{module}tests::")]);
    assert_eq!(texts(&format!("{module}tests::lightho")), [format!("{module}tests::lighthouse\"")]);
    let without_quote = texts(&format!("fn:{own}:profiler_cli::complete::tes"));
    assert_eq!(without_quote, [format!("fn:{own}:\"profiler_cli::complete::tests::")]);
    let rust = format!("uprobe:{own}:rust:\"profiler_cli::complete::tests::lightho");
    assert_eq!(texts(&rust), [format!("{rust}use\"")]);
}

#[test]
fn parameters_and_modules_are_those_in_reach() {
    let modules = [("proc/exits", "// Ends.\npub param name: string = any \"whose\"\npub @codes\n")];
    let at_end = |text: &str| {
        let known = Known { modules: &modules, ..Known::default() };
        let found = complete(text, text.len(), &Host::new(), known).candidates;
        found.into_iter().map(|found| found.text).collect::<Vec<_>>()
    };
    assert_eq!(at_end("use pro"), ["use proc/exits"]);
    assert_eq!(at_end("param slow: duration = 1ms\nBEGIN { $old = 1; $s"), ["$slow"]);
    assert_eq!(at_end("use proc/exits\nEND { print(@exits."), ["codes"]);
    assert_eq!(at_end("use proc/exits\nEND { print($exits.n"), ["name"]);
    assert_eq!(at_end("pa"), ["param"]);
}
#[test]
fn arguments_of_several_points_are_those_that_all_have() {
    if !has_types() {
        return;
    }
    assert_eq!(texts("tracepoint:sched:sched_switch, tracepoint:sched:sched_wakeup { @ = args."), Vec::<String>::new());
    let found = texts("tracepoint:sched:sched_wakeup* { @ = args.");
    assert!(found.contains(&"target_cpu".to_owned()), "{found:?}");
    assert_eq!(texts("fentry:vmlinux:vfs_read { @ = args.coun"), ["count"]);
    assert_eq!(texts("kretprobe:vfs_read { @ = args."), Vec::<String>::new());
    assert_eq!(texts("iter:task { @ = ctx.task->group_lead"), ["group_leader"]);
    assert_eq!(texts("fentry:vfs_read { @ = ((struct file *)args.file)->f_fla"), ["f_flags"]);
    let comm = at_end("tracepoint:sched:sched_switch { @ = args.next_com").candidates;
    assert_eq!(comm[0].about, "char[16]");
}

#[test]
fn programs_with_debug_information_have_arguments_results_and_types() {
    let program = std::env::temp_dir().join(format!("profiler-complete-{}", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/dwarf/server.c");
    let compiled = Command::new("cc").args(["-g", "-O1", source, "-o"]).arg(&program).status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("SKIPPED: there is no C compiler");
        return;
    }
    let path = program.display();
    let request = format!("uprobe:{path}:handle_request");
    let found = at_end(&format!("{request} {{ @ = args.")).candidates;
    let rows: Vec<(&str, &str)> = found.iter().map(|c| (c.text.as_str(), c.about.as_str())).collect();
    assert_eq!(rows, [("conn", "struct conn *"), ("len", "int32"), ("text", "char *")]);
    for (text, members) in [
        (format!("{request} {{ @ = args.conn->pe"), &["peer"][..]),
        (format!("{request} {{ @ = args.conn->peer.by"), &["bytes"]),
        (format!("{request} {{ $c = args.conn; @ = $c->next->la"), &["label"]),
        (format!("{request} {{ @ = ((struct conn *)arg0)->cor"), &["corners"]),
        (format!("{request} {{ $a = (struct address *)arg1; @ = $a->po"), &["port"]),
        (format!("uretprobe:{path}:handle_request {{ @ = retval->sec"), &["secure"]),
        (format!("uretprobe:{path}:handle_request {{ @ = args."), &[]),
        (format!("uprobe:{path}:server.c:66 {{ @ = args.l"), &["len"]),
        ("uprobe:/no/such:file { @ = args.".to_owned(), &[]),
    ] {
        assert_eq!(texts(&text), members, "{text}");
    }
    let probe = format!("uprobe:{path}:server.c:");
    assert_eq!(texts(&probe[..probe.len() - 4]), [probe.as_str()]);
    let lines = texts(&format!("{probe}6"));
    assert!(lines.contains(&format!("{probe}66")) && !lines.contains(&format!("{probe}6")), "{lines:?}");
    assert!(texts(&format!("uprobe:{path}:other.c:")).is_empty());
    let _ = std::fs::remove_file(program);
}
