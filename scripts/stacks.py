"""Measures user stacks of programs from Debian's packages under load.

In: PROFILER, the binary; the programs, their clients and perf from PATH.
Out: Markdown tables: per program, the share of complete stacks, reasons of the others, frames, the cost of a
sample, the first complete stack of a new process; perf's figures beside it; memory; names of many addresses.
Exit code 1 if a program misses a goal.
Guarantee: programs listen on loopback and keep their files in a temporary directory. Load is bounded in time.
Only processes started here are terminated.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent / "servers.d"))
from kinds import Nginx, PostgreSQL, Redis, Server
from report import table

ROOT = Path(__file__).resolve().parent.parent
PROFILER = os.environ.get("PROFILER", str(ROOT / "target/release/profiler"))
SECONDS, PERF_SECONDS, STARTS = 5, 2, 7
COMPLETE_PERCENT, ADDRESSES = 99, 10_000
# perf prints these where a thread begins.
OUTERMOST = {"_start", "__clone3", "clone3", "__clone", "clone", "start_thread", "__libc_start_main_impl", "__libc_start_main@@GLIBC_2.34"}


class Loaded:
    """A program under load, whose threads have the name `comm`."""

    name, comm, first_goal_ms = "", "", 50
    # A command that starts the program anew and ends by itself.
    fresh = None

    def __init__(self, directory):
        self.directory, self.processes = Path(directory), []

    def run(self, command, **options):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True, cwd=self.directory, **options)
        self.processes.append(process)
        return process

    def start(self, seconds):
        """Starts the program and a load that lasts for this many seconds."""
        raise NotImplementedError

    def stop(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


class OfServer(Loaded):
    """One of the servers of scripts/servers, with a load that keeps it busy."""

    kind = Server

    def start(self, seconds):
        self.server = self.kind(self.directory)
        self.server.start()
        self.server.wait_until_it_answers()
        self.run(["timeout", str(seconds), "sh", "-c", f"while :; do {self.client()}; done"])

    def client(self):
        raise NotImplementedError

    def stop(self):
        super().stop()
        self.server.stop()


class RedisServer(OfServer):
    name, comm, kind = "redis-server", "redis-server", Redis
    fresh = ["timeout", "0.3", "redis-server", "--port", "0", "--save", ""]

    def client(self):
        return f"redis-benchmark -p {self.server.port} -c 8 -n 20000 -q -r 10000 -t set,get,lpush,sadd,zadd,hset,lrange_100"


class Postgres(OfServer):
    name, comm, kind = "postgres", "postgres", PostgreSQL

    def start(self, seconds):
        super().start(seconds)
        self.fresh = [str(self.server.bin / "postgres"), "--describe-config"]

    def client(self):
        login = f"-h 127.0.0.1 -p {self.server.port} -U postgres postgres"
        return f"pgbench -i -s 2 -q {login}; pgbench -c 4 -T 4 {login}; pgbench -S -c 4 -T 4 {login}"


class NginxServer(OfServer):
    name, comm = "nginx", "nginx"
    fresh = ["nginx", "-V"]

    class kind(Nginx):
        def start(self):
            super().start()

    def client(self):
        # Requests beyond the limit are answered at once.
        return f"wrk -t1 -c8 -d5s http://127.0.0.1:{self.server.port}/"


class Script(Loaded):
    """A program that runs a script of ours until its time is over."""

    program, text = "", ""

    def start(self, seconds):
        script = self.directory / "script"
        script.write_text(self.text)
        self.run(["timeout", str(seconds), *self.command(script)])
        self.fresh = ["timeout", "0.6", *self.command(script)]

    def command(self, script):
        return [self.program, str(script)]


class Python(Script):
    name, comm, program = "python3", "python3", "/usr/bin/python3"
    text = """
import hashlib, json, re, zlib
def walk(tree, depth):
    return sum(walk(child, depth + 1) for child in tree) + depth if isinstance(tree, list) else tree
tree = [[i, [i + 1, [i + 2]]] for i in range(200)]
while True:
    walk(tree, 0); text = json.dumps(tree); json.loads(text)
    re.findall(r'(\\d+), \\[(\\d+)', text); sorted(text.split(','), key=len)
    hashlib.sha256(text.encode()).hexdigest(); zlib.compress(text.encode())
"""


class Node(Script):
    name, comm, program, first_goal_ms = "node", "node", "node", 500
    text = """
const crypto = require('crypto'), zlib = require('zlib');
function walk(tree, depth) { return Array.isArray(tree) ? tree.reduce((sum, child) => sum + walk(child, depth + 1), depth) : tree; }
const tree = Array.from({length: 200}, (_, i) => [i, [i + 1, [i + 2]]]);
for (;;) {
  walk(tree, 0); const text = JSON.stringify(tree); JSON.parse(text);
  text.match(/(\\d+),\\[(\\d+)/g); text.split(',').sort((a, b) => a.length - b.length);
  crypto.createHash('sha256').update(text).digest('hex'); zlib.deflateSync(text);
}
"""


class Rust(Script):
    name, comm = "ripgrep (Rust)", "rg"
    fresh = ["rg", "-c", "(fn|struct) +[a-z_]+[0-9]", "/usr/share/perl"]

    def start(self, seconds):
        self.run(["timeout", str(seconds), "sh", "-c", "while :; do rg -c '(use|sub) +[A-Za-z_]+[0-9]' /usr/share /usr/include /usr/lib/python3; done"])


class Static(Script):
    program = "bash-static"
    name, comm, text = "bash (static C)", "bash-static", """
walk() { local i; for ((i = 0; i < 3; i++)); do (($1 == 0)) || walk $(($1 - 1)); done; words=(${text//[aeiou]/ }); }
text=$(head -c 4000 /usr/include/stdio.h); while :; do walk 4; [[ $text =~ (int +[a-z]+)+ ]]; printf -v line '%s:%d' "${words[0]}" ${#words[@]}; done
"""


PROGRAMS = [RedisServer, Postgres, NginxServer, Python, Node, Rust, Static]


def documents(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def trace(script, seconds, *options):
    """Runs a script; returns its output as documents."""
    command = [PROFILER, "run", "-q", "-f", "json", "--stats", *options, "-e", script, "--duration", f"{seconds}s"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)}: {ended.stderr}")
    return documents(ended.stdout)


def stacks(found):
    """Pairs of a stack and its count in the result of `@[ustack] = count()`."""
    for document in found:
        if document["type"] == "map":
            for row in document["data"].get("@", []):
                yield row["key"][0], row["value"]


def sampled(program):
    """Samples a program; returns the figures of its stacks."""
    found = trace(f'profile:hz:999 / comm == "{program.comm}" / {{ @[ustack] = count(); }}', SECONDS)
    total, complete, frames, reasons = 0, 0, 0, {}
    for stack, count in stacks(found):
        total += count
        frames += len(stack["frames"]) * count
        if "end" in stack:
            reasons[stack["end"]] = reasons.get(stack["end"], 0) + count
        else:
            complete += count
    quality = next(document["data"] for document in found if document["type"] == "quality")
    return total, complete, frames / max(total, 1), reasons, quality


def perf(program):
    """Samples a program with perf's dwarf mode; returns samples, complete ones, and frames per stack."""
    data = program.directory / "perf.data"
    record = ["perf", "record", "-q", "-a", "-F", "999", "-e", "cpu-clock", "--call-graph", "dwarf,16384", "-o", str(data), "sleep", str(PERF_SECONDS)]
    subprocess.run(record, check=True, capture_output=True)
    show = ["perf", "script", "-i", str(data), "--comms", program.comm, "--no-inline", "-F", "comm,ip,sym"]
    text = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    data.unlink()
    total, complete, frames = 0, 0, 0
    for sample in text.split("\n\n"):
        # Frames of the kernel come first.
        user = [line.split(maxsplit=1) for line in sample.splitlines()[1:] if line.strip() and not line.strip().startswith("ffff")]
        if user:
            total += 1
            frames += len(user)
            complete += user[-1][-1].strip() in OUTERMOST
    return total, complete, frames / max(total, 1)


def first_stack_ms(program):
    """Milliseconds from the exec of a new process to its first complete stack; None if it had none."""
    script = f"""tracepoint:sched:sched_process_exec / comm == "{program.comm}" / {{ printf("%d exec %llu\\n", pid, nsecs); }}
        profile:hz:999 / comm == "{program.comm}" / {{ print((pid, nsecs, ustack)); }}"""
    tracer = subprocess.Popen([PROFILER, "run", "-q", "-f", "json", "-e", script, "--duration", "2s"], stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    new = subprocess.Popen(program.fresh, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=program.directory, **program_user(program))
    new.wait()
    execs, first = {}, None
    for document in documents(tracer.communicate()[0]):
        if document["type"] == "printf":
            pid, _, at = document["data"].split()
            execs[int(pid)] = int(at)
        elif document["type"] == "value":
            pid, at, stack = document["data"]
            if pid in execs and "end" not in stack and first is None:
                first = (int(at) - execs[pid]) / 1e6
    return first


def program_user(program):
    server = getattr(program, "server", None)
    return {"user": server.uid} if server is not None and server.uid is not None else {}


def measure(kind, misses):
    """Measures a program; returns its row of the table."""
    with tempfile.TemporaryDirectory(prefix="profiler-stacks-") as directory:
        Path(directory).chmod(0o755)
        program = kind(directory)
        try:
            program.start(SECONDS + PERF_SECONDS + 30)
            time.sleep(1)
            total, complete, frames, reasons, quality = sampled(program)
            theirs, theirs_complete, theirs_frames = perf(program)
        finally:
            program.stop()
        firsts = [first for first in (first_stack_ms(program) for _ in range(STARTS)) if first is not None]
    share = 100 * complete / max(total, 1)
    first = statistics.median(firsts) if firsts else float("nan")
    if share < COMPLETE_PERCENT or not first <= program.first_goal_ms:
        misses.append(f"{program.name}: {share:.2f} % complete, first stack after {first:.1f} ms")
    cost = next((row["mean_ns"] for row in quality.get("cost", [])), float("nan"))
    tables = quality.get("unwind_tables", {})
    said = ", ".join(f"{reason}: {count}" for reason, count in sorted(reasons.items())) or "–"
    return [program.name, f"{total:,}", f"{share:.2f} %", said, f"{frames:.1f}", f"{theirs:,}", f"{100 * theirs_complete / max(theirs, 1):.1f} %",
            f"{theirs_frames:.1f}", f"{cost:,}", f"{first:.1f} ms ({len(firsts)} of {STARTS})", json.dumps(tables)]


def names(misses):
    """Time and memory of naming many addresses of one process, cold; prints a sentence."""
    target = subprocess.Popen([sys.executable, "-c", "import time\nwhile True: time.sleep(0.01)"], stdin=subprocess.DEVNULL)
    try:
        time.sleep(0.2)
        maps = Path(f"/proc/{target.pid}/maps").read_text()
        start, end = next((int(a, 16), int(b, 16)) for a, b in re.findall(r"^(\w+)-(\w+) r-xp .*libc", maps, re.M))
        step = (end - start) // ADDRESSES
        figures = []
        for count in [1, ADDRESSES] * 5:
            script = f"tracepoint:raw_syscalls:sys_enter / pid == {target.pid} / {{ for $i : 0..{count} {{ @[usym((uint64){start} + (uint64)$i * {step})] = (uint64)1; }} exit(); }}"
            script = f"config = {{ max_map_keys = 20000 }} {script}"
            before = time.monotonic()
            ended = subprocess.Popen([PROFILER, "run", "-q", "-e", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            rows = ended.stdout.read().count(b"\n@")
            complaint = ended.stderr.read().decode()
            _, status, usage = os.wait4(ended.pid, 0)
            if status:
                sys.exit(f"{script}: {complaint}")
            figures.append((count, (time.monotonic() - before) * 1000, usage.ru_maxrss / 1024, rows))
    finally:
        target.kill()
        target.wait()
    few, many = ([figure for figure in figures if figure[0] == count] for count in (1, ADDRESSES))
    time_ms = statistics.median(f[1] for f in many) - statistics.median(f[1] for f in few)
    memory = max(f[2] for f in many)
    print(f"{ADDRESSES:,} addresses of libc named, cold: {time_ms:.0f} ms more than one, {memory:.0f} MB at the peak; {many[0][3]:,} rows\n")
    if time_ms > 200 or memory > 60:
        misses.append(f"names of addresses: {time_ms:.0f} ms, {memory:.0f} MB")


def main():
    parser = argparse.ArgumentParser(description="Measures user stacks of programs from Debian's packages under load.")
    parser.add_argument("programs", nargs="*", help="the beginnings of names: redis, postgres, nginx, python, node, ripgrep, bash, names [default: all]")
    chosen = parser.parse_args().programs
    wanted = lambda name: not chosen or any(name.startswith(choice) for choice in chosen)
    misses = []
    # First, because a child's peak memory begins with that of this process.
    if wanted("names"):
        names(misses)
    rows = [measure(kind, misses) for kind in PROGRAMS if wanted(kind.name)]
    if rows:
        table(["program", "samples", "complete", "others", "frames", "perf's samples", "complete", "frames", "a sample, ns", "first complete stack", "tables"], rows)
    for miss in misses:
        print(f"goal missed: {miss}")
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
