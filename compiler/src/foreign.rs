//! Names of `DTrace`, `SystemTap` and SQL, with their equivalents here.
//!
//! In: a name that the catalogue lacks. Out: the language it belongs to, and what to write instead.
//! Guarantee: consulted only if the catalogue lacks the name, so no word of ours is ever hidden.

/// A name of another language.
#[derive(Debug, Clone, Copy)]
pub struct Foreign {
    word: &'static str,
    pub language: &'static str,
    /// What to write instead.
    pub instead: &'static str,
}

const fn dtrace(word: &'static str, instead: &'static str) -> Foreign {
    Foreign { word, language: "DTrace", instead }
}

const fn systemtap(word: &'static str, instead: &'static str) -> Foreign {
    Foreign { word, language: "SystemTap", instead }
}

const NAMES: &[Foreign] = &[
    dtrace("caller", "write `kstack(1)`"),
    dtrace("curpsinfo", "write `comm`, `pid` or `curtask`"),
    dtrace("curthread", "write `curtask`, which is a `struct task_struct *`"),
    dtrace("errno", "a call that fails returns it: `args.ret` at `tracepoint:syscalls:sys_exit_NAME` is `-errno`"),
    dtrace("execname", "write `comm`"),
    dtrace("probefunc", "write `func`, or `probe` for the whole name"),
    dtrace("probemod", "write `probe`, the whole name of the probe"),
    dtrace("probename", "write `probe`, the whole name of the probe"),
    dtrace("probeprov", "write `probetype`"),
    dtrace("self", "for thread-local data, use a map keyed by thread id: `@ts[tid]`"),
    dtrace("stack", "write `kstack`"),
    dtrace("this", "for block-local data, use a variable: `$x`"),
    dtrace("timestamp", "write `nsecs`"),
    dtrace("ucaller", "write `ustack(1)`"),
    dtrace("vtimestamp", "no clock counts a thread's own time; take `nsecs` at its `sched` tracepoints"),
    dtrace("walltimestamp", "write `strftime(\"%H:%M:%S\", nsecs)` for the time of day"),
];

const FUNCTIONS: &[Foreign] = &[
    dtrace("copyin", "write `buf(pointer, length)`"),
    dtrace("copyinstr", "write `str(pointer)`"),
    dtrace("jstack", "write `ustack`"),
    dtrace("llquantize", "write `hist(value, 2)`: the second number makes the buckets finer"),
    dtrace("lquantize", "write `lhist(value, min, max, step)`"),
    dtrace("normalize", "divide when it is printed: `print(@x, 0, divisor)`"),
    dtrace("ntohl", "write `bswap(value)`"),
    dtrace("ntohs", "write `bswap(value)`"),
    dtrace("printa", "write `print(@x)`"),
    dtrace("quantize", "write `hist(value)`, assigned to a map: `@x = hist(…)`"),
    dtrace("stack", "write `kstack`"),
    dtrace("stddev", "write `stats(value)` for count, average and total, or `hist(value)`"),
    dtrace("stringof", "write `str(pointer)`; strings such as `comm` need no conversion"),
    dtrace("strjoin", "write `str_concat(a, b)`"),
    dtrace("trace", "write `print(value)`"),
    dtrace("tracemem", "write `printf(\"%rx\", buf(pointer, length))`"),
    dtrace("trunc", "write `print(@x, top)`, or `clear(@x)` for all"),
    dtrace("ufunc", "write `usym(address)`"),
    systemtap("gettimeofday_ns", "write `nsecs`"),
    systemtap("kernel_string", "write `str(pointer)`"),
    systemtap("pp", "write `probe`"),
    systemtap("print_backtrace", "write `print(kstack)`"),
    systemtap("print_ubacktrace", "write `print(ustack)`"),
    systemtap("println", "write `print(value)`"),
    systemtap("user_string", "write `str(pointer)`"),
];

const PROBES: &[Foreign] = &[
    dtrace("dtrace", "write `BEGIN` or `END`"),
    dtrace("fbt", "write `kprobe:FUNCTION` and `kretprobe:FUNCTION`, or `fentry:` and `fexit:`"),
    dtrace("io", "write `tracepoint:block:block_rq_issue`; `profiler list 'tracepoint:block:*'` shows others"),
    dtrace("ip", "write a tracepoint: `profiler list 'tracepoint:net:*'` shows them"),
    dtrace("lockstat", "write a tracepoint: `profiler list 'tracepoint:lock:*'` shows them"),
    dtrace("pid", "write `uprobe:BINARY:FUNCTION` and `uretprobe:BINARY:FUNCTION`"),
    dtrace("proc", "write `tracepoint:sched:sched_process_exec`; `profiler list 'tracepoint:sched:*'` shows others"),
    dtrace("sched", "write `tracepoint:sched:sched_switch`; `profiler list 'tracepoint:sched:*'` shows others"),
    dtrace("sdt", "write a tracepoint: `profiler list 'tracepoint:*'` shows them"),
    dtrace("syscall", "write `tracepoint:syscalls:sys_enter_NAME` and `tracepoint:syscalls:sys_exit_NAME`"),
    dtrace("tcp", "write a tracepoint: `profiler list 'tracepoint:tcp:*'` shows them"),
    dtrace("tick", "write `interval:s:1`"),
    dtrace("vminfo", "write a tracepoint: `profiler list 'tracepoint:vmscan:*'` shows them"),
    systemtap("process", "write `uprobe:BINARY:FUNCTION`"),
    systemtap("timer", "write `interval:s:1`, or `profile:hz:99` for samples of every CPU"),
];

/// The foreign value with this name.
pub fn name(name: &str) -> Option<&'static Foreign> {
    find(NAMES, name)
}

/// The foreign function with this name.
pub fn function(name: &str) -> Option<&'static Foreign> {
    find(FUNCTIONS, name)
}

/// The foreign probe kind with this name; `pid1234` counts as `pid`.
pub fn probe(name: &str) -> Option<&'static Foreign> {
    find(PROBES, name.trim_end_matches(|c: char| c.is_ascii_digit()))
}

fn find(words: &'static [Foreign], name: &str) -> Option<&'static Foreign> {
    words.iter().find(|foreign| foreign.word == name)
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, NAMES, PROBES};
    use crate::words::CATALOGUE;

    #[test]
    fn no_word_of_ours_is_foreign_and_the_lists_are_sorted() {
        for words in [NAMES, FUNCTIONS, PROBES] {
            let mut sorted: Vec<(&str, &str)> = words.iter().map(|foreign| (foreign.language, foreign.word)).collect();
            sorted.sort_unstable();
            assert!(words.iter().map(|foreign| (foreign.language, foreign.word)).eq(sorted));
        }
        assert!(NAMES.iter().all(|foreign| CATALOGUE.builtin(foreign.word).is_none()));
        assert!(FUNCTIONS.iter().all(|foreign| CATALOGUE.function(foreign.word).is_none()));
        assert!(PROBES.iter().all(|foreign| CATALOGUE.probe(foreign.word).is_none()));
    }
}
