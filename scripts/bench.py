"""Measures profiler and bpftrace side by side and prints a Markdown table.

In: the release binaries of this repository (PROFILER=path for another one) and bpftrace from the PATH.
Out: one row a figure: goal, profiler, bpftrace.
Guarantee: tools alternate, so that a busy machine disturbs both alike; every figure is the median of its runs; a run whose
output shows that the tool missed events is an error, not a figure.

bpftrace 0.17 prints "couldn't set RLIMIT_MEMLOCK" where the limit may not be raised and then works all the same, because
kernels since 5.11 charge BPF memory to the cgroup: nothing has to be faked for it.
"""

import argparse
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

# The programs whose cost per event is measured: words of the row, goal in ns, text, what its output proves.
# bpftrace 0.17 knows `args->id` only; profiler gets `args.id`.
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
        "the same as `span c by tid`, which lives in the thread",
        "≤ 120",
        f"span c by tid {{ start {ENTER} end {EXIT} }} c:end {{ @ = hist(c.elapsed); }}",
        "hist",
    ),
    (
        "the same as `span c by (pid, n: 1)`, which lives in a hash",
        "≤ 240",
        f"span c by (pid, n: 1) {{ start {ENTER} end {EXIT} }} c:end {{ @ = hist(c.elapsed); }}",
        "hist",
    ),
    ("`@[kstack] = count()`", "≤ 760", f"{ENTER} {{ @[kstack] = count(); }}", "sum"),
    ("`@[ustack] = count()`", "≤ 1,700", f"{ENTER} {{ @[ustack] = count(); }}", "sum"),
    ("`printf` of two values", "≤ 85", f'{GETPPID} {{ printf("%d %d\\n", pid, tid); }}', None),
]


class Tool:
    """A tracer: how it is started, and what its text output looks like."""

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
    """The `name number` lines that the workload prints."""
    done = subprocess.run([WORKLOAD, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"workload {words[0]}: {done.stderr.strip()}")
    pairs = (line.split() for line in done.stdout.splitlines())
    return {name: float(number) for name, number in pairs}


def on_cpu(cpu, words):
    return ["taskset", "-c", str(cpu), *map(str, words)]


def alternate(tools, runs, measure):
    """Medians of `runs` measurements a tool, the tools taking turns."""
    seen = {tool.name: [] for tool in tools}
    for _ in range(runs):
        for tool in tools:
            seen[tool.name].append(measure(tool))
    return {name: statistics.median(values) for name, values in seen.items()}


def attempt(tools, words, measure_all):
    """A row's figures; a tool that cannot be measured says why on standard error and gets a dash."""
    say(f"… {words}")
    try:
        return measure_all(tools)
    except (RuntimeError, OSError, ValueError) as error:
        if len(tools) == 1:
            say(f"  {tools[0].name}: {error}")
            return {}
        figures = {}
        for tool in tools:
            figures |= attempt([tool], f"{words} ({tool.name} alone)", measure_all)
        return figures


def ended_well(figures):
    if figures["exit"] != 0:
        raise RuntimeError(f"the tool ended with {figures['exit']:.0f}")
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
    """A tool at work on CPU 0, from the time its probes are attached until it is interrupted."""

    def __init__(self, tool, program, settle_s):
        self.tool = tool
        self.folder = tempfile.TemporaryDirectory(dir=str(ROOT / "target"))
        self.path = os.path.join(self.folder.name, "out")
        self.child = subprocess.Popen(
            on_cpu(0, tool.command(program, self.path)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        time.sleep(settle_s)
        if self.child.poll() is not None:
            raise RuntimeError(f"the tool ended early: {self.child.stderr.read().strip()}")

    def __enter__(self):
        return self

    def stop(self):
        """Ends it in order; returns what it wrote and what it complained about."""
        self.child.send_signal(signal.SIGINT)
        complaints = self.child.communicate(timeout=120)[1]
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read(), complaints

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        self.folder.cleanup()


def counted(output, kind):
    """How many events the output accounts for."""
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
            traced = ns_per_call()
            output, _ = tracing.stop()
        if proof and counted(output, proof) < calls:
            raise RuntimeError(f"{counted(output, proof)} of {calls} events are in its output")
        return traced

    def measure_all(tools):
        # The untraced loop runs beside each traced one: the difference is taken within a round, then its median.
        return alternate(tools, runs, lambda tool: once(tool) - ns_per_call())

    return measure_all


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
        say(f"  {tool.name}: {produced} printed at {reached} a second, {received} received")
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
    """Prompt to prompt of a script that attaches to every system call and ends at once."""
    program = "tracepoint:syscalls:sys_enter_* { @ = count(); } BEGIN { exit(); }"
    return lambda tools: alternate(
        tools, runs, lambda tool: ended_well(numbers(["rss", *tool.command(program)]))["wall_ns"] / 1e6
    )


def long_script():
    """500 lines: 50 probes with filters, maps, histograms and output, as a large tool has them."""
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


def scripts(folder):
    """Name and file of what is compiled. tcplife's kprobe is put onto a raw tracepoint with the same first argument, for
    kernels without kprobes."""
    named = {}
    for name in ("opensnoop", "tcplife"):
        text = Path(f"/usr/sbin/{name}.bt").read_text(encoding="utf-8")
        named[name] = text.replace("kprobe:tcp_set_state", "rawtracepoint:inet_sock_set_state")
    named["a script of 500 lines"] = long_script()
    for name, text in named.items():
        path = Path(folder, name.replace(" ", "-") + ".bt")
        path.write_text(text, encoding="utf-8")
        yield name, path


def compiled(path, runs):
    """From the start of the command to the finished program, nothing loaded."""

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
    parser = argparse.ArgumentParser(description="Measures profiler beside bpftrace")
    parser.add_argument("--quick", action="store_true", help="few runs, for a first look")
    parser.add_argument("--only", choices=["profiler", "bpftrace"], help="one tool")
    parser.add_argument("--cpu-time", action="store_true", help="cost as processor time, on a machine that is not quiet")
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
    row("`BEGIN { exit(); }`, prompt to prompt, ms", "≤ 8", {n: f[0] for n, f in began.items()})
    row("peak memory of the same, MB", "≤ 6", {n: f[1] for n, f in began.items()})
    row("start to first event, ms", "≤ 10", attempt(tools, "first event", first_event(many)))
    row("SIGINT to prompt, one tracepoint, ms", "≤ 100", attempt(tools, "SIGINT", interrupted(runs, 1200)))
    row(
        "`sys_enter_*`, prompt to prompt, ms",
        "≪ 1,000",
        attempt(tools, "all system calls", attached_and_detached(1)),
        0,
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, path in scripts(folder):
            row(f"{name}, compiled, ms", "≤ 20", attempt(tools, f"compiling {name}", compiled(path, runs)))
    for words, goal, program, proof in COSTS:
        figures = attempt(tools, words, added_per_event(program, proof, runs, settle_s, calls, clock))
        row(f"ns added per event, {words}", goal, figures, 0)
    row(
        "`printf(\"%d %s\\n\", pid, comm)` a second to a file, none lost",
        "≥ 1,000,000",
        attempt(tools, "printf rate", printed_per_second(rates, 2, settle_s)),
        0,
    )
    sizes = {tool.name: os.path.getsize(tool.binary) / 1e6 for tool in tools}
    row("binary, MB (bpftrace: without its libraries)", "≤ 10", sizes)

    cost = "processor time" if wanted.cpu_time else "wall time"
    print(f"{datetime.date.today()}, {machine()}; {'; '.join(tool.version for tool in tools)}; medians; cost as {cost}.\n")
    print("| what | goal | " + " | ".join(tool.name for tool in tools) + " |")
    print("|---|---|" + "---|" * len(tools))
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
