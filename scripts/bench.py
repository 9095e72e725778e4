"""Measures profiler and bpftrace and prints a Markdown table that compares them.

In: the release binaries of this repository (PROFILER=path measures another one) and bpftrace from PATH.
Out: one row per measurement: goal, profiler, bpftrace.
Guarantee: the tools alternate, so that other load affects both equally; every figure is the median of
its runs; a run whose output shows that the tool missed events is an error, not a figure.

bpftrace 0.17 prints "couldn't set RLIMIT_MEMLOCK" if the limit cannot be raised, but works anyway:
since Linux 5.11, BPF memory is charged to the cgroup.
"""

import argparse
import contextlib
import datetime
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORKLOAD = str(ROOT / "target/release/workload")
ENTER = "tracepoint:raw_syscalls:sys_enter"
EXIT = "tracepoint:raw_syscalls:sys_exit"
GETPPID = "tracepoint:syscalls:sys_enter_getppid"

# Programs whose cost per event is measured: label, goal in ns, text, and how to count the events in the
# output. bpftrace 0.17 accepts only `args->id`; profiler gets `args.id`.
COSTS = [
    ("`@ = count()`", "≤ 45", f"{ENTER} {{ @ = count(); }}", "sum"),
    ("`@[tid] = count()`", "≤ 50", f"{ENTER} {{ @[tid] = count(); }}", "sum"),
    ("`@[comm] = count()`", "≤ 65", f"{ENTER} {{ @[comm] = count(); }}", "sum"),
    ("`@ = hist(args.id)`", "≤ 45", f"{ENTER} {{ @ = hist(args->id); }}", "hist"),
    ("`@ = dist(args.id)`", "≤ 59", f"{ENTER} {{ @ = dist(args->id); }}", "hist"),
    (
        "`@s[tid] = nsecs` on entry, `@ = hist(nsecs - @s[tid])` and `delete` on exit",
        "≤ 240",
        f"{ENTER} {{ @s[tid] = nsecs; }} {EXIT} /@s[tid]/ {{ @ = hist(nsecs - @s[tid]); delete(@s[tid]); }}",
        "hist",
    ),
    (
        "the same as `span c by tid`, in task storage",
        "≤ 120",
        f"span c by tid {{ start {ENTER} end {EXIT} }} c:end {{ @ = hist(c.elapsed); }}",
        "hist",
    ),
    (
        "the same as `span c by (pid, n: 1)`, in a hash map",
        "≤ 240",
        f"span c by (pid, n: 1) {{ start {ENTER} end {EXIT} }} c:end {{ @ = hist(c.elapsed); }}",
        "hist",
    ),
    (
        "three members of `curtask`",
        "≤ 50",
        f"{ENTER} {{ @a = sum(((struct task_struct *)curtask)->prio); @b = sum(((struct task_struct *)curtask)->static_prio);"
        " @c = sum(((struct task_struct *)curtask)->flags); }",
        "sum",
    ),
    ("`@[kstack] = count()`", "≤ 760", f"{ENTER} {{ @[kstack] = count(); }}", "sum"),
    ("`@[ustack] = count()`", "≤ 1,700", f"{ENTER} {{ @[ustack] = count(); }}", "sum"),
    ("`printf` of two values", "≤ 85", f'{GETPPID} {{ printf("%d %d\\n", pid, tid); }}', None),
]


class Tool:
    """A tracer: its name, binary, version and command line."""

    def __init__(self, name, binary, version):
        self.name, self.binary, self.version = name, binary, version

    def command(self, program, output=None):
        if self.name == "profiler":
            program = program.replace("args->", "args.")
        words = [self.binary, "run"] if self.name == "profiler" else [self.binary]
        return words + (["-o", output] if output else []) + ["-e", program]


def say(words):
    print(words, file=sys.stderr, flush=True)


def numbers(words):
    """Runs the workload and parses the `name number` lines that it prints."""
    done = subprocess.run([WORKLOAD, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"workload {words[0]}: {done.stderr.strip()}")
    pairs = (line.split() for line in done.stdout.splitlines())
    return {name: float(number) for name, number in pairs}


def on_cpu(cpu, words):
    return ["taskset", "-c", str(cpu), *map(str, words)]


def alternate(tools, runs, measure):
    """Medians of `runs` measurements per tool, with the tools alternating."""
    seen = {tool.name: [] for tool in tools}
    for _ in range(runs):
        for tool in tools:
            seen[tool.name].append(measure(tool))
    return {name: statistics.median(values) for name, values in seen.items()}


def attempt(tools, words, measure_all):
    """A row's figures. If a tool cannot be measured, the reason goes to standard error and its cell is a dash."""
    say(f"… {words}")
    try:
        return measure_all(tools)
    except (RuntimeError, OSError, ValueError) as error:
        if len(tools) == 1:
            say(f"  {tools[0].name}: {error}")
            return {}
        figures = {}
        for tool in tools:
            figures |= attempt([tool], f"{words} ({tool.name} only)", measure_all)
        return figures


def ended_well(figures):
    if figures["exit"] != 0:
        raise RuntimeError(f"the tool exited with {figures['exit']:.0f}")
    return figures


def startup(runs):
    def measure_all(tools):
        memory = {}

        def once(tool):
            figures = ended_well(numbers(["rss", *tool.command("BEGIN { exit(); }")]))
            memory[tool.name] = max(memory.get(tool.name, 0), figures["peak_rss_kb"])
            return figures["wall_ns"] / 1e6

        walls = alternate(tools, runs, once)
        return {name: (walls[name], memory[name] / 1024) for name in walls}

    return measure_all


def first_event(runs):
    program = GETPPID + ' { printf("x\\n"); exit(); }'
    return lambda tools: alternate(
        tools, runs, lambda tool: numbers(["first-event", *tool.command(program)])["first_event_ns"] / 1e6
    )


def interrupted(runs, settle_ms):
    program = GETPPID + " { @ = count(); }"
    return lambda tools: alternate(
        tools,
        runs,
        lambda tool: ended_well(numbers(["interrupt", settle_ms, *tool.command(program)]))["interrupt_to_end_ns"] / 1e6,
    )


class Tracing:
    """A tool that traces on CPU 0, from when its probes are attached until it gets SIGINT."""

    def __init__(self, tool, program, settle_s):
        self.tool = tool
        self.directory = tempfile.TemporaryDirectory(dir=str(ROOT / "target"))
        self.path = os.path.join(self.directory.name, "out")
        self.child = subprocess.Popen(
            on_cpu(0, tool.command(program, self.path)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        time.sleep(settle_s)
        if self.child.poll() is not None:
            raise RuntimeError(f"the tool exited early: {self.child.stderr.read().strip()}")

    def __enter__(self):
        return self

    def stop(self):
        """Stops it with SIGINT; returns its output and its standard error."""
        self.child.send_signal(signal.SIGINT)
        complaints = self.child.communicate(timeout=120)[1]
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read(), complaints

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        self.directory.cleanup()


# Number of calls that the scripts of `bystanders` must count. If they count fewer, the probes were
# attached too late and the measurement is invalid.
MARKS = 1000


def mark():
    for _ in range(MARKS):
        with contextlib.suppress(FileExistsError):
            os.mkdir("/")


def counted(output, kind):
    """Number of events that the output accounts for."""
    if kind == "marks":
        return sum(int(n) for n in re.findall(r"^@(?:enter_mkdir)?: (\d+)$", output, re.M))
    if kind == "hist":
        return sum(int(n) for n in re.findall(r"^[\[(].*[\])] +(\d+) \|", output, re.M))
    return sum(int(n) for n in re.findall(r"^(?:@.*|\s*\S*\]): (\d+)$", output, re.M))


def added_per_event(program, proof, runs, settle_s, calls, clock):
    loop = on_cpu(1, [WORKLOAD, "getppid", calls])

    def ns_per_call():
        done = subprocess.run(loop, capture_output=True, text=True, check=True)
        return float(re.search(rf"^{clock} (.*)$", done.stdout, re.M).group(1))

    def once(tool):
        with Tracing(tool, program, settle_s) as tracing:
            if proof == "marks":
                mark()
            traced = ns_per_call()
            output, _ = tracing.stop()
        expected = MARKS if proof == "marks" else calls
        if proof and counted(output, proof) < expected:
            raise RuntimeError(f"its output has {counted(output, proof)} of {expected} events")
        return traced

    def measure_all(tools):
        # Each traced run is followed by an untraced one; the figure is the median of their differences.
        return alternate(tools, runs, lambda tool: once(tool) - ns_per_call())

    return measure_all


def bystanders():
    """Scripts that trace other system calls than the measured one."""
    calls = ["openat", "close", "mmap", "munmap", "execve", "connect", "accept4", "unlink", "rename", "mkdir"]
    sides = {side: "".join(f"tracepoint:syscalls:sys_{side}_{call} {{ @{side}_{call} = count(); }}\n" for call in calls)
             for side in ("enter", "exit")}
    yield "one block", "tracepoint:syscalls:sys_enter_mkdir { @ = count(); }"
    yield "ten blocks on ten calls", sides["enter"]
    yield "ten pairs", sides["enter"] + sides["exit"]


def printed_per_second(rates, seconds, settle_s):
    program = GETPPID + ' { printf("%d %s\\n", pid, comm); }'

    def has_all(tool, rate):
        with Tracing(tool, program, settle_s) as tracing:
            done = subprocess.run(
                on_cpu(1, [WORKLOAD, "paced", rate, seconds]), capture_output=True, text=True, check=True
            )
            produced = int(done.stdout.split()[1])
            reached = int(done.stdout.split()[3])
            output, _ = tracing.stop()
        received = sum(1 for line in output.splitlines() if line.endswith(" workload"))
        say(f"  {tool.name}: {produced} printed at {reached} events/s, {received} received")
        return reached if received == produced else None

    def measure_all(tools):
        best = {tool.name: 0 for tool in tools}
        for tool in tools:
            for rate in rates:
                reached = has_all(tool, rate)
                if reached is None:
                    break
                best[tool.name] = max(best[tool.name], reached)
        return best

    return measure_all


def attached_and_detached(runs):
    """Wall time of a script that attaches to every system call and exits at once."""
    program = "tracepoint:syscalls:sys_enter_* { @ = count(); } BEGIN { exit(); }"
    return lambda tools: alternate(
        tools, runs, lambda tool: ended_well(numbers(["rss", *tool.command(program)]))["wall_ns"] / 1e6
    )


def long_script():
    """500 lines: 50 probes with filters, maps, histograms and output, like a large tool."""
    calls = ["read", "write", "openat", "close", "mmap", "munmap", "futex", "ioctl", "fcntl", "lseek"]
    blocks = []
    for n in range(50):
        call, way = calls[n % 10], ("enter", "exit")[n // 10 % 2]
        blocks.append(f"""tracepoint:syscalls:sys_{way}_{call}
/pid != {n} && comm != "x{n}"/
{{
	@start{n}[tid] = nsecs;
	$us = (nsecs - @start{n}[tid]) / 1000;
	if ($us > {n}) {{ @slow{n}[comm, pid] = count(); }}
	@us{n} = hist($us);
	printf("%-6d %-16s %d\\n", pid, comm, $us);
	delete(@start{n}[tid]);
}}
""")
    return "".join(blocks)


def scripts(directory):
    """Names and files of the scripts to compile. In tcplife, a raw tracepoint with the same first argument
    replaces the kprobe, for kernels without kprobes."""
    named = {}
    for name in ("opensnoop", "tcplife"):
        text = Path(f"/usr/sbin/{name}.bt").read_text(encoding="utf-8")
        named[name] = text.replace("kprobe:tcp_set_state", "rawtracepoint:inet_sock_set_state")
    named["a 500-line script"] = long_script()
    for name, text in named.items():
        path = Path(directory, name.replace(" ", "-") + ".bt")
        path.write_text(text, encoding="utf-8")
        yield name, path


def compiled(path, runs):
    """Wall time of compiling a script without loading it."""

    def once(tool):
        words = [tool.binary, "check"] if tool.name == "profiler" else [tool.binary, "-d"]
        return ended_well(numbers(["rss", *words, path]))["wall_ns"] / 1e6

    return lambda tools: alternate(tools, runs, once)


def shown(value, digits):
    return "–" if value is None else f"{value:,.{digits}f}"


def machine():
    cpus = os.cpu_count()
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return f"Linux {platform.release()}, {cpus} CPUs ({model.group(1) if model else platform.machine()})"


def tools_wanted(only):
    tools = []
    profiler = os.environ.get("PROFILER", str(ROOT / "target/release/profiler"))
    for name, binary in (("profiler", profiler), ("bpftrace", shutil.which("bpftrace"))):
        if only in (None, name) and binary and os.path.exists(binary):
            version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.strip()
            tools.append(Tool(name, binary, version))
    return tools


def main():
    parser = argparse.ArgumentParser(description="Compares profiler with bpftrace.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    parser.add_argument("--only", choices=["profiler", "bpftrace"], help="measure only this tool")
    parser.add_argument("--cpu-time", action="store_true", help="measure CPU time instead of wall time, for a machine under load")
    wanted = parser.parse_args()
    clock = "cpu_ns_per_call" if wanted.cpu_time else "ns_per_call"
    if os.geteuid() != 0:
        sys.exit("bench: loading BPF programs needs root: sudo ./scripts/bench")
    tools = tools_wanted(wanted.only)
    runs, many = (3, 5) if wanted.quick else (7, 21)
    settle_s, calls = 1.2, 300_000 if wanted.quick else 1_000_000
    rates = [1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 750_000, 1_000_000, 1_250_000, 1_500_000, 2_000_000]

    rows = []

    def row(words, goal, figures, digits=1):
        rows.append([words, goal] + [shown(figures.get(tool.name), digits) for tool in tools])

    began = attempt(tools, "startup", startup(many))
    row("wall time of `BEGIN { exit(); }`, ms", "≤ 8", {n: f[0] for n, f in began.items()})
    row("peak RSS of `BEGIN { exit(); }`, MB", "≤ 6", {n: f[1] for n, f in began.items()})
    row("time from start to first event, ms", "≤ 10", attempt(tools, "first event", first_event(many)))
    row("time from SIGINT to exit, one tracepoint, ms", "≤ 100", attempt(tools, "SIGINT", interrupted(runs, 1200)))
    row(
        "wall time to attach and detach `sys_enter_*`, ms",
        "≪ 1,000",
        attempt(tools, "all system calls", attached_and_detached(1)),
        0,
    )
    with tempfile.TemporaryDirectory() as directory:
        for name, path in scripts(directory):
            row(f"compile time of {name}, ms", "≤ 20", attempt(tools, f"compiling {name}", compiled(path, runs)))
    for words, goal, program, proof in COSTS:
        figures = attempt(tools, words, added_per_event(program, proof, runs, settle_s, calls, clock))
        row(f"cost per event, {words}, ns", goal, figures, 0)
    row(
        "`printf(\"%d %s\\n\", pid, comm)` to a file without loss, events/s",
        "≥ 1,000,000",
        attempt(tools, "printf rate", printed_per_second(rates, 2, settle_s)),
        0,
    )
    for words, program in bystanders():
        figures = attempt(tools, words, added_per_event(program, "marks", runs, settle_s, calls, clock))
        row(f"cost per system call that no block traces, {words}, ns", "–", figures, 0)
    sizes = {tool.name: os.path.getsize(tool.binary) / 1e6 for tool in tools}
    row("binary size, MB (bpftrace: without its libraries)", "≤ 10", sizes)

    cost = "CPU time" if wanted.cpu_time else "wall time"
    print(f"{datetime.date.today()}, {machine()}; {'; '.join(tool.version for tool in tools)}; medians; cost as {cost}.\n")
    print("| measurement | goal | " + " | ".join(tool.name for tool in tools) + " |")
    print("|---|---|" + "---|" * len(tools))
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
