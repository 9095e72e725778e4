//! Probes on kernel functions: counts, arguments and results against workloads with known answers.
//!
//! In: each kind of probe that the kernel offers for functions. Out: exact counts. A test prints
//! which kind the kernel lacks.

use super::machine::{self, Directory, Ended, run, skip, workload};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Runs `profiler ARGUMENTS`; returns its standard output and standard error.
fn profiler(arguments: &[&str]) -> (String, String) {
    let output = Command::new(super::machine::PROFILER).args(arguments).output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Whether this kernel lacks a kind of probe; prints the profiler's explanation.
pub fn lacks(kind: &str) -> bool {
    let (_, errors) = profiler(&["check", "-e", &format!("{kind}:vfs_read {{ exit(); }}")]);
    let reason = errors.lines().find_map(|line| line.strip_prefix("error[E0410]: "));
    if let Some(reason) = reason {
        println!("SKIPPED: {reason}");
    }
    reason.is_some()
}

/// Runs a script against a workload; both must succeed.
fn against(script: &str, work: &str) -> Ended {
    let ended = run(&["--strict", "-e", script, "-c", &format!("{} {work}", workload())]);
    assert_eq!(ended.code(), 0, "{script}\n{}", ended.stderr);
    ended
}

/// The value of a map entry; 0 if it is not printed.
fn entry(ended: &Ended, key: &str) -> u64 {
    let line = ended.stdout.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    line.map_or(0, |number| number.parse().expect("a number"))
}

fn attached(ended: &Ended) -> usize {
    let line = ended.stderr.lines().find_map(|line| line.strip_prefix("Attached "));
    line.and_then(|line| line.split(' ').next()?.parse().ok()).expect("a number of probes")
}

/// Since 6.7, the kernel reports how many runs a link missed.
const SAYS_WHAT_LINKS_MISSED: (u32, u32) = (6, 7);

/// Whether the kernel has this version or a later one.
pub fn is_since(version: (u32, u32)) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(version.0), Some(version.1))
}

/// Taking a stack calls a kernel function that is probed too. Its kprobe cannot run inside the
/// first one.
#[test]
fn calls_of_functions_within_another_probe_are_missing_and_reported() {
    if skip() || lacks("kprobe") || !is_since(SAYS_WHAT_LINKS_MISSED) {
        return;
    }
    let script = "kprobe:__do_sys_getppid /pid == cpid/ { @stacks[kstack(3)] = count(); }
        kprobe:get_perf_callchain /pid == cpid/ { @chains = count(); } END { clear(@stacks); }";
    let ended = run(&["-q", "--strict", "-e", script, "-c", &format!("{} getppid 700", workload())]);
    assert_eq!(ended.code(), 4, "{}{}", ended.stdout, ended.stderr);
    // Samples of another tracer may take a stack of this process too.
    assert!(entry(&ended, "@chains") < 700, "{}{}", ended.stdout, ended.stderr);
    let line = "  runs of kprobe:get_perf_callchain: skipped by the kernel: ";
    let missed = ended.stderr.lines().find_map(|found| found.strip_prefix(line)?.parse::<u64>().ok());
    assert!(missed >= Some(700), "{}", ended.stderr);
}

#[test]
fn a_kprobe_counts_each_call_and_sees_its_arguments() {
    if skip() || lacks("kprobe") {
        return;
    }
    let script = "kprobe:vfs_read /pid == cpid && arg2 == 640/ { @calls = count(); @typed = sum(args.count);
          @who[func, probe, comm] = count(); @name[str(((struct file *)arg0).f_path.dentry.d_name.name)] = count();
          @same = sum(reg(\"dx\") == arg2); }
        kprobe:vfs_read+0 /pid == cpid && arg2 == 640/ { @again = count(); }
        kprobe:__do_sys_getppid /pid == cpid/ { @getppid = count(); }";
    let ended = against(script, "reads 1000 640");
    assert_eq!(attached(&ended), 3);
    for key in ["@calls", "@again", "@same", "@who[vfs_read, kprobe:vfs_read, workload]", "@name[zero]"] {
        assert_eq!(entry(&ended, key), 1000, "{key}: {}", ended.stdout);
    }
    assert_eq!((entry(&ended, "@typed"), entry(&ended, "@getppid")), (640_000, 0), "{}", ended.stdout);
    assert_eq!(entry(&against(script, "getppid 3000 2"), "@getppid"), 6000);
}

#[test]
fn a_kretprobe_sees_what_came_back() {
    if skip() || lacks("kretprobe") {
        return;
    }
    let script = "kprobe:vfs_read /pid == cpid/ { @count[tid] = arg2; }
        kretprobe:vfs_read /@count[tid] == 640/ { @bytes = sum(retval); @who[func, probe] = count(); }
        kretprobe:vfs_* /pid == cpid && retval == 640/ { @many[func, probe] = sum(retval); }";
    let ended = against(script, "reads 1000 640");
    assert_eq!(entry(&ended, "@bytes"), 640_000, "{}", ended.stdout);
    assert_eq!(entry(&ended, "@who[vfs_read, kretprobe:vfs_read]"), 1000, "{}", ended.stdout);
    assert_eq!(entry(&ended, "@many[vfs_read, kretprobe:vfs_read]"), 640_000, "{}", ended.stdout);
}

#[test]
fn a_wildcard_counts_each_function_under_its_name() {
    if skip() || lacks("kprobe") {
        return;
    }
    let ended = against(
        "kprobe:vfs_* /pid == cpid/ { @[func] = count(); @all = count(); @name[probe] = count(); }",
        "files 100",
    );
    let (listed, _) = profiler(&["list", "kprobe:vfs_*"]);
    assert_eq!(attached(&ended), listed.lines().count());
    let mut sum = 0;
    for name in ["vfs_read", "vfs_open", "vfs_statx", "vfs_write", "vfs_fstat", "vfs_getattr_nosec", "vfs_fstatat"] {
        assert_eq!(entry(&ended, &format!("@[{name}]")), entry(&ended, &format!("@name[kprobe:{name}]")));
    }
    for line in ended.stdout.lines().filter_map(|line| line.strip_prefix("@[")?.split_once("]: ")) {
        sum += line.1.parse::<u64>().expect("a number");
        assert!(listed.lines().any(|listed| listed == format!("kprobe:{}", line.0)), "{}", line.0);
    }
    assert_eq!(sum, entry(&ended, "@all"), "{}", ended.stdout);
    // Compares functions of the wildcard with separate probes, in one run: how often the loader
    // reads depends on where the kernel maps the program.
    let beside = against(
        "kprobe:vfs_* /pid == cpid/ { @[func] = count(); }
         kprobe:vfs_open /pid == cpid/ { @open = count(); } kprobe:vfs_read /pid == cpid/ { @read = count(); }",
        "files 100",
    );
    assert_eq!(entry(&beside, "@[vfs_open]"), entry(&beside, "@open"), "{}", beside.stdout);
    assert_eq!(entry(&beside, "@[vfs_read]"), entry(&beside, "@read"), "{}", beside.stdout);
    assert!(entry(&beside, "@open") >= 100, "{}", beside.stdout);
}

#[test]
fn fentry_and_fexit_have_typed_arguments_and_the_result() {
    if skip() || lacks("fentry") {
        return;
    }
    let script = "fentry:vfs_read /pid == cpid && args.count == 640/ { @in = count(); @raw = sum(arg2); @who[func, probe] = count();
          @name[str(args.file.f_path.dentry.d_name.name)] = count(); $p = args.buf; @odd[($p + (uint64)pid) > $p] = count(); }
        fexit:vfs_read /pid == cpid && args.count == 640/ { @out = sum(retval); @less[retval < 0] = count(); }
        kretfunc:vfs_open /pid == cpid && retval < 0/ { @failed = count(); }";
    let ended = against(script, "reads 1000 640");
    for key in ["@in", "@who[vfs_read, fentry:vfs_read]", "@name[zero]", "@odd[true]", "@less[false]"] {
        assert_eq!(entry(&ended, key), 1000, "{key}: {}", ended.stdout);
    }
    assert_eq!((entry(&ended, "@raw"), entry(&ended, "@out")), (640_000, 640_000), "{}", ended.stdout);
    assert_eq!(attached(&ended), 3);
    let many = against(
        "f:vfs_* /pid == cpid/ { @[func, probe] = count(); } kprobe:vfs_* /pid == cpid/ { @k[func] = count(); }",
        "reads 1000 640",
    );
    for line in many.stdout.lines().filter_map(|line| line.strip_prefix("@[")?.split_once("]: ")) {
        let (function, probe) = line.0.split_once(", ").expect("two keys");
        assert_eq!(probe, format!("fentry:{function}"));
        assert_eq!(line.1.parse(), Ok(entry(&many, &format!("@k[{function}]"))), "{}", many.stdout);
    }
    assert!(entry(&many, "@[vfs_read, fentry:vfs_read]") >= 1000, "{}", many.stdout);
}

#[test]
fn fn_means_the_same_by_whatever_way() {
    if skip() || lacks("fn") {
        return;
    }
    let script = "fn:vfs_read /pid == cpid && args.count == 640 && arg2 == 640/ { @one[probe, func] = count(); }
        fn:vfs_r* /pid == cpid && arg2 == 640/ { @many[probe, func] = count(); }";
    let ended = against(script, "reads 1000 640");
    for map in ["@one", "@many"] {
        assert_eq!(entry(&ended, &format!("{map}[fn:vfs_read, vfs_read]")), 1000, "{map}: {}", ended.stdout);
    }
    let (_, said) = profiler(&["check", "-v", "-e", "fn:vfs_read { exit(); }"]);
    assert!(said.starts_with("fn:vfs_read: as fentry\n") || said.starts_with("fn:vfs_read: as kprobe\n"), "{said}");
}

/// The kernel has two functions `load_elf_binary`, one for 32-bit programs. It asks both about a
/// file that is no program.
#[test]
fn a_name_of_several_functions_is_each_of_them() {
    if skip() || lacks("kprobe") {
        return;
    }
    let junk = std::env::temp_dir().join(format!("profiler-no-program-{}", std::process::id()));
    std::fs::write(&junk, "true\n").expect("a file");
    std::fs::set_permissions(&junk, PermissionsExt::from_mode(0o755)).expect("an executable file");
    // Other processes execute files too.
    let script = "kprobe:load_elf_binary /OURS/ { @at[reg(\"ip\")] = count(); @calls[func] = count(); }
        kretprobe:load_elf_binary /OURS && (int32)retval == -8/ { @refused[probe] = count(); }
        fn:load_elf_binary /OURS/ { @fn = count(); } kprobe:load_elf_binar* /OURS/ { @pattern[func] = count(); }
        kprobe:vmlinux:load_elf_binar* /OURS/ { @own = count(); }
        END { @addresses = len(@at); }"
        .replace("OURS", "(pid == cpid || ppid == cpid)");
    let ended = run(&["--strict", "-e", &script, "-c", &format!("sh -c '{} || true'", junk.display())]);
    std::fs::remove_file(&junk).expect("the file");
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let expected = [("@addresses", 2), ("@refused[kretprobe:load_elf_binary]", 2)];
    for (key, value) in expected {
        assert_eq!(entry(&ended, key), value, "{key}: {}", ended.stdout);
    }
    let calls = entry(&ended, "@calls[load_elf_binary]");
    assert!(calls >= 3, "{}", ended.stdout);
    assert_eq!((entry(&ended, "@fn"), entry(&ended, "@pattern[load_elf_binary]")), (calls, calls), "{}", ended.stdout);
    assert_eq!(entry(&ended, "@own"), calls, "{}", ended.stdout);
    let (_, errors) = profiler(&["check", "-e", "fentry:load_elf_binary { exit(); }"]);
    assert!(lacks("fentry") || errors.contains("error[E0411]"), "{errors}");
}

#[test]
fn an_address_is_probed_if_that_is_allowed() {
    if skip() || lacks("kprobe") {
        return;
    }
    let symbols = std::fs::read_to_string("/proc/kallsyms").expect("symbols");
    let address = symbols.lines().find_map(|line| line.strip_suffix(" T vfs_read")).expect("a function");
    let script = format!(
        "kprobe:0x{address} /pid == cpid && arg2 == 640/ {{ @[func] = count(); }}
        kretprobe:0x{address} /pid == cpid && retval == 640/ {{ @back[probe] = count(); }}"
    );
    let work = format!("{} reads 1000 640", workload());
    let ended = run(&["--strict", "--unsafe", "-e", &script, "-c", &work]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    for key in [format!("@[0x{address}]"), format!("@back[kretprobe:0x{address}]")] {
        assert_eq!(entry(&ended, &key), 1000, "{key}: {}", ended.stdout);
    }
    let ended = run(&["-e", &script, "-c", &work]);
    assert!(ended.code() != 0 && ended.stderr.contains("error[E0601]"), "{}", ended.stderr);
}

/// A connection has two sockets, and each of them is closed.
#[test]
fn a_socket_has_the_number_that_the_kernel_keeps_in_it() {
    if skip() || lacks("fentry") {
        return;
    }
    let script =
        "fexit:tcp_sendmsg /pid == cpid/ { @sent[socket_cookie(args.sk) == args.sk.__sk_common.skc_cookie.counter,
            socket_cookie(args.sk) > 0] = count(); }
        fentry:tcp_close /pid == cpid/ { @closed[socket_cookie(args.sk)] = count(); }
        END { @sockets = len(@closed); }";
    let ended = against(script, "act connect 4096");
    assert_eq!(entry(&ended, "@sent[true, true]"), 1, "{}", ended.stdout);
    // One more listens.
    assert_eq!(entry(&ended, "@sockets"), 3, "{}", ended.stdout);
}

#[test]
fn a_path_is_said_where_the_kernel_allows_it() {
    if skip() || lacks("fentry") {
        return;
    }
    let script = "fentry:security_file_open /pid == cpid/ { @opened[path(args.file.f_path)] = count(); }";
    let ended = against(script, "act open /proc/version");
    assert_eq!(entry(&ended, "@opened[/proc/version]"), 1, "{}", ended.stdout);
}

/// The number that follows a name in the descriptors of a process.
fn described(pid: u32, name: &str) -> Vec<String> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("a process").flatten();
    let texts = open.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    texts.filter_map(|text| Some(text.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned())).collect()
}

#[test]
fn programs_of_others_are_probed() {
    if skip() || lacks("fentry") || lacks("kprobe") {
        return;
    }
    let mut other = Command::new(super::machine::PROFILER)
        .args(["run", "-e", "kprobe:__do_sys_getppid { @ = count(); }"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut lines = BufReader::new(other.stderr.take().expect("a pipe")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with("Attached"))));
    let ids = described(other.id(), "prog_id:");
    let (listed, _) = profiler(&["list", "fentry:bpf:*"]);
    let is_its = |line: &&str| line.split(':').nth(2).is_some_and(|id| ids.iter().any(|of| of == id));
    let probe = listed.lines().find(is_its).unwrap_or_else(|| panic!("{ids:?} are not in {listed}"));
    let exit = probe.replace("fentry", "fexit");
    let script = format!(
        "{probe} /pid == cpid/ {{ @in[probe, func] = count(); }} {exit} /pid == cpid/ {{ @out[probe] = count(); }}"
    );
    let ended = run(&["--strict", "-e", &script, "-c", &format!("{} getppid 1000", workload())]);
    let refused = profiler(&["check", "-e", &format!("{exit} {{ print(retval); }}")]).1;
    let logs = profiler(&["run", "-d", "verifier", "-e", &format!("{probe} {{ @ = count(); }}")]).0;
    other.kill().expect("it runs");
    other.wait().expect("it ends");
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let function = probe.rsplit(':').next().unwrap_or_default();
    for key in [format!("@in[{probe}, {function}]"), format!("@out[{exit}]")] {
        assert_eq!(entry(&ended, &key), 1000, "{key}: {}", ended.stdout);
    }
    assert!(refused.contains("error[E0413]"), "{refused}");
    assert!(logs.contains("program p0:\n"), "{logs}");
}

/// Copies that the compiler has made have names of their own.
#[test]
fn parts_of_functions_are_probed_by_their_full_names() {
    if skip() || lacks("kprobe") {
        return;
    }
    let (listed, _) = profiler(&["list", "kprobe:vfs_statfs.*"]);
    let Some(part) = listed.lines().next() else {
        println!("SKIPPED: this kernel has no part of `vfs_statfs`");
        return;
    };
    let script = format!("{part} /pid == cpid/ {{ @[func] = count(); }}");
    let ended = against(&script, "act statfs /proc/sys");
    let name = part.trim_start_matches("kprobe:");
    assert!(entry(&ended, &format!("@[{name}]")) >= 1, "{}", ended.stdout);
}

#[test]
fn stacks_begin_at_the_function() {
    if skip() || lacks("kprobe") {
        return;
    }
    for kind in ["kprobe:vfs_read", "kprobe:vfs_rea*", "fentry:vfs_read"] {
        if kind.starts_with('f') && lacks("fentry") {
            continue;
        }
        let ended =
            against(&format!("{kind} /pid == cpid && arg2 == 640/ {{ print(kstack(2)); exit(); }}"), "reads 10 640");
        let frames: Vec<&str> = ended.stdout.lines().map(str::trim).filter(|line| line.contains('+')).collect();
        assert!(frames[0].starts_with("vfs_read+") && frames[1].starts_with("ksys_read+"), "{kind}: {}", ended.stdout);
    }
}

#[test]
fn only_the_process_of_p_is_seen() {
    if skip() || lacks("kprobe") {
        return;
    }
    let own = std::process::id().to_string();
    let script = "kprobe:vfs_read { @[pid] = count(); } kretprobe:vfs_read { @[pid] = count(); } fn:vfs_write { @[pid] = count(); }
        interval:ms:300 { exit(); }";
    let ended = run(&["-q", "-p", &own, "-e", script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let others = ended.stdout.lines().filter(|line| line.starts_with("@[") && !line.starts_with(&format!("@[{own}]")));
    assert_eq!(others.count(), 0, "{}", ended.stdout);
}

#[test]
fn what_cannot_be_probed_is_explained() {
    if skip() || lacks("kprobe") {
        return;
    }
    let receive = |script: &str| profiler(&["check", "-e", script]).1;
    let missing = receive("kprobe:vfs_raed { exit(); }");
    assert!(missing.contains("error[E0405]") && missing.contains("vfs_read"), "{missing}");
    // An assembly function: it has a symbol, but ftrace cannot trace it.
    let forbidden = receive("kprobe:entry_SYSCALL_64 { exit(); }");
    assert!(forbidden.contains("error[E0406]: kernel function `entry_SYSCALL_64` cannot be probed"), "{forbidden}");
    // The offset is inside an instruction, which only the kernel can tell.
    let inside = run(&["-e", "kprobe:vfs_read+1 { exit(); }"]);
    assert!(inside.code() == 3 && inside.stderr.contains("in the middle of an instruction"), "{}", inside.stderr);
}

/// The disk driver is a module. The reads of the disk and their sectors are known.
#[test]
fn functions_of_modules_have_the_types_of_their_module() {
    if skip() || lacks("fentry") {
        return;
    }
    let (Ok(disk), true) =
        (std::env::var("PROFILER_DISK"), std::path::Path::new("/sys/kernel/btf/virtio_blk").exists())
    else {
        println!("SKIPPED: there is no disk whose driver is a module with types");
        return;
    };
    let script = "fentry:virtblk_add_req /pid == cpid/ { @sectors = sum(args.vbr->out_hdr.sector); }
        fexit:virtio_blk:virtblk_add_req /pid == cpid/ { @results[retval, probe] = count(); }
        fentry:virtio_blk:*blk_add_req /pid == cpid/ { @pattern = count(); }
        kprobe:virtio_blk:virtblk_add_req /pid == cpid/ { @cast = sum(((struct virtblk_req *)arg1)->out_hdr.sector); }
        fn:virtblk_add_req /pid == cpid/ { @best[func] = count(); }";
    let dd = format!("busybox dd if={disk} of=/dev/null bs=4096 count=200 iflag=direct");
    let ended = run(&["--strict", "-e", script, "-c", &dd]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    // 4,096 bytes are eight sectors.
    let sectors = 8 * (0..200).sum::<u64>();
    let expected = [
        ("@sectors", sectors),
        ("@cast", sectors),
        ("@results[0, fexit:virtio_blk:virtblk_add_req]", 200),
        ("@pattern", 200),
        ("@best[virtblk_add_req]", 200),
    ];
    for (key, value) in expected {
        assert_eq!(entry(&ended, key), value, "{key}: {}", ended.stdout);
    }
    let (listed, _) = profiler(&["list", "-v", "fentry:virtio_blk:virtblk_add_req"]);
    assert!(listed.contains("\n    struct virtblk_req * vbr\n"), "{listed}");
}

/// `EROFS`.
const READ_ONLY: i32 = 30;

/// The directory is made before and after, but not while the call is overridden for this process.
#[test]
fn a_function_that_is_overridden_does_not_run() {
    if skip() || lacks("kprobe") {
        return;
    }
    let directory = Directory::new("overridden");
    let make = |name: &str| std::fs::create_dir(directory.path(name)).map_err(|error| error.raw_os_error());
    assert_eq!(make("before"), Ok(()));
    let own = std::process::id();
    let script = format!("kprobe:__x64_sys_mkdir /pid == {own}/ {{ override(-{READ_ONLY}); @ = count(); }}");
    let (_, errors) = profiler(&["check", "--unsafe", "-e", &script]);
    if errors.contains("error[E0391]") {
        println!("SKIPPED: this kernel does not allow programs to override functions");
        return;
    }
    let running = machine::attached(&["-q", "--unsafe", "-e", &script]);
    assert_eq!(make("overridden"), Err(Some(READ_ONLY)));
    running.signal("INT");
    let ended = running.end();
    assert_eq!((ended.code(), entry(&ended, "@")), (0, 1), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(make("after"), Ok(()));
}
