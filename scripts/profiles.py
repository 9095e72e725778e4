"""Compares profiles of real servers with those of independent tools, and measures what they cost.

In: PROFILER, the binary; PostgreSQL, Redis, their clients and perf from PATH.
Out: Markdown tables: CPU shares by function beside perf's of the same run, with the difference in standard
errors; the states of `wall/threads` beside /proc/PID/task/TID/schedstat; costs. Exit code 1 if a state is off
by more than a goal below.
Guarantee: servers listen on loopback and keep their files in a temporary directory. Load is bounded in time.
Only processes started here are terminated.
"""

import argparse
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent / "servers.d"))
from kinds import PostgreSQL, Redis
from report import table

ROOT = Path(__file__).resolve().parent.parent
PROFILER = os.environ.get("PROFILER", str(ROOT / "target/release/profiler"))
# Samples a second on each CPU, seconds of a comparison, and functions in a table.
HERTZ, SECONDS, FUNCTIONS = 499, 20, 10
# A goal for each state of a process: part of the truth in percent.
STATE_PERCENT = 1
# Pairs of a run without and one with the tool, and the requests of a run.
PAIRS, REQUESTS, ROUND_TRIPS = 6, 30_000, 100_000
# A thousand threads that sleep; says when all have begun.
SLEEPERS = """
import threading, time
for _ in range(1000): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print(flush=True)
time.sleep(600)
"""
CPUS = os.cpu_count()


class RedisLoad(Redis):
    comm = "redis-server"

    def load(self, seconds):
        one = f"timeout {seconds} redis-benchmark -p {self.port} -c 8 -n 100000000 -q -r 10000 -t "
        return ["sh", "-c", f"{one} set & {one} get & {one} zadd & wait"]


class PostgresLoad(PostgreSQL):
    comm = "postgres"

    def start(self):
        super().start()
        subprocess.run(["pgbench", "-i", "-q", "-s", "5", *self.login()], check=True, capture_output=True)

    def login(self):
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "postgres"]

    def load(self, seconds):
        return ["pgbench", "-c", "8", "-T", str(seconds), *self.login()]


class Loaded:
    """A server under load for some seconds."""

    def __init__(self, kind, seconds):
        self.kind, self.seconds = kind, seconds

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="profiler-profiles-")
        Path(self.directory.name).chmod(0o755)
        self.server = self.kind(self.directory.name)
        self.server.start()
        self.server.wait_until_it_answers()
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.client = subprocess.Popen(self.server.load(self.seconds), start_new_session=True, **silent)
        time.sleep(3)
        return self.server

    def __exit__(self, *_):
        self.client.kill()
        self.client.wait()
        self.server.stop()
        self.directory.cleanup()


def profile(arguments, seconds):
    """Runs a recipe; returns its documents."""
    command = [PROFILER, "-q", "-f", "json", "--stats", *arguments, "--duration", f"{seconds}s"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)}: {ended.stderr}")
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]


def view(documents, title):
    return next(document["data"] for document in documents if document["type"] == "view" and document["data"]["view"] == title)


def cost(documents):
    """The part of one CPU that the programs took, in percent."""
    return sum(row["cpu_percent"] for row in documents[-1]["data"]["cost"])


def plain(function):
    """A function's name without what the tools write differently; code without symbols is one function."""
    function = re.sub(r"(@@?[A-Z].*|\.(isra|part|constprop|cold)(\.\d+)*)$", "", function.removesuffix("_[k]"))
    return "[no symbol]" if function.startswith("[") else function


def skipped(documents):
    """How many samples the kernel left out, because another traced program ran on that CPU."""
    missing = documents[-1]["data"].get("missing", [])
    return sum(row["count"] for row in missing if row["what"].startswith("ticks of"))


def ours(comm, directory):
    """Samples by function."""
    folded = Path(directory) / "folded"
    documents = profile(["cpu/profile", "--hz", str(HERTZ), "--comm", f"^{comm}$", "--folded", str(folded)], SECONDS)
    counts = Counter()
    for line in folded.read_text().splitlines():
        stack, count = line.rsplit(" ", 1)
        counts[plain(stack.split(";")[-1])] += int(count)
    return counts, documents


class Perf:
    """perf, which samples before, during and after our run."""

    def __init__(self, directory):
        self.data = Path(directory) / "perf.data"
        record = ["perf", "record", "-q", "-a", "-k", "CLOCK_REALTIME", "-F", str(HERTZ), "-e", "cpu-clock", "-o", str(self.data), "sleep", str(SECONDS + 6)]
        self.process = subprocess.Popen(record, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(2)

    def between(self, comm, start, end):
        """Samples by function."""
        _, complaint = self.process.communicate()
        if self.process.returncode != 0:
            sys.exit(f"perf: {complaint.decode()}")
        show = ["perf", "script", "-i", str(self.data), "--comms", comm, "-F", "time,ip,sym"]
        text = subprocess.run(show, check=True, capture_output=True, text=True).stdout
        samples = [line.split(maxsplit=2) for line in text.splitlines() if line.strip()]
        return Counter(plain(symbol.strip()) for at, _, symbol in samples if start <= float(at.rstrip(":")) <= end)


def moment(text):
    """Seconds since 1970 of a time in a result."""
    return time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone + float(text[19:-1])


def compare_shares(kind):
    """Both tools sample the same load at once, at times of their own; prints a table. Returns the differences."""
    with Loaded(kind, SECONDS + 20) as server, tempfile.TemporaryDirectory() as directory:
        other = Perf(directory)
        mine, documents = ours(server.comm, directory)
        # The end in the result is later: when it was read.
        start = moment(view(documents, "CPU time by process")["start"])
        perf = other.between(server.comm, start, start + SECONDS)
    n, m = mine.total(), perf.total()
    errors, rows = [], []
    for function, _ in (mine + perf).most_common(FUNCTIONS):
        p, q = mine[function] / n, perf[function] / m
        errors.append((p - q) / math.sqrt(p * (1 - p) / n + q * (1 - q) / m))
        margin = lambda share, count: f"{100 * share:.2f} ± {196 * math.sqrt(share * (1 - share) / count):.2f} %"
        rows.append([f"`{function}`", margin(p, n), margin(q, m), f"{errors[-1]:+.1f}"])
    print(f"{server.comm}: {n:,} samples, perf {m:,} in the same time; the kernel skipped {skipped(documents):,} of ours on all CPUs;"
          f" programs took {cost(documents):.3f} % of a CPU at {HERTZ} Hz\n")
    table(["function", "cpu/profile", "perf", "difference, standard errors"], rows)
    return math.sqrt(statistics.mean(error * error for error in errors))


class Schedstat(threading.Thread):
    """Reads the scheduler's figures of all threads of a server, often, with the times."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids, self.over, self.samples = pids, threading.Event(), []

    def run(self):
        while not self.over.is_set():
            before, sums = time.time(), {}
            for pid in self.pids:
                for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                    try:
                        ran, waited, _ = path.read_text().split()
                    except OSError:
                        continue
                    sums[path.parent.name] = (int(ran), int(waited))
            self.samples.append(((before + time.time()) / 2, sums))
            self.over.wait(0.02)

    def between(self, start, end):
        """Time on a CPU and ready for one, of all threads that were there all the time, in seconds."""
        first, last = self.at(start), self.at(end)
        return [sum(last[tid][i] - first[tid][i] for tid in first if tid in last) / 1e9 for i in (0, 1)]

    def at(self, moment):
        """The figures at a moment, between two readings."""
        for (t0, v0), (t1, v1) in zip(self.samples, self.samples[1:]):
            if t0 <= moment <= t1:
                part = (moment - t0) / (t1 - t0)
                return {tid: [a + (b - a) * part for a, b in zip(v0[tid], v1[tid])] for tid in v0 if tid in v1}
        raise ValueError("no reading around that time")


def compare_states(kind, misses):
    """Returns a row of the table of states."""
    with Loaded(kind, SECONDS + 15) as server:
        truth = Schedstat(server.pids())
        truth.start()
        time.sleep(0.5)
        documents = profile(["wall/threads", "--pid", ",".join(server.pids()), "--top", "1000"], SECONDS)
        time.sleep(0.5)
        truth.over.set()
        truth.join()
    threads = view(documents, "time by thread")
    start = moment(threads["start"])
    end = start + max(row["elapsed"] for row in threads["rows"]) / 1e9
    cells = [server.comm, str(len(threads["rows"]))]
    for state, true in zip(("running", "runnable"), truth.between(start, end)):
        measured = sum(row[state] for row in threads["rows"]) / 1e9
        off = 100 * (measured / true - 1)
        cells += [f"{true:.3f}", f"{measured:.3f}", f"{off:+.2f} %"]
        if abs(off) > STATE_PERCENT:
            misses.append(f"{server.comm}: {state} is {off:+.2f} % off")
    return cells


def switches():
    return int(re.search(r"^ctxt (\d+)", Path("/proc/stat").read_text(), re.M)[1])


def one_run(server, recipe):
    """CPU time that the server takes for a request, in microseconds; switches a second; our programs' costs."""
    tracer = None
    if recipe:
        command = [PROFILER, "-q", "-f", "json", "--stats", *recipe]
        tracer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        time.sleep(1)
    used = lambda: sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{server.process.pid}/task").glob("*/schedstat"))
    before, begun, began = switches(), used(), time.monotonic()
    client = ["redis-benchmark", "-p", str(server.port), "-c", "2", "-n", str(REQUESTS), "-q", "-t", "get"]
    subprocess.run(client, check=True, capture_output=True)
    rate, cpu_us = (switches() - before) / (time.monotonic() - began), (used() - begun) / REQUESTS / 1000
    if not tracer:
        return cpu_us, rate, None
    tracer.send_signal(2)
    documents = [json.loads(line) for line in tracer.communicate()[0].splitlines() if line.startswith("{")]
    return cpu_us, rate, documents[-1]["data"]["cost"]


def compare_costs():
    """What a request costs the server with and without a recipe, alternating; returns rows of the table of costs."""
    rows = []
    with Loaded(RedisLoad, 0.1) as server:
        mine = ["--pid", str(server.process.pid)]
        recipes = {"cpu/profile": ["cpu/profile"], "cpu/profile --pid": ["cpu/profile", *mine], "wall/threads": ["wall/threads"], "wall/threads --pid": ["wall/threads", *mine]}
        for name, recipe in recipes.items():
            ratios, rates, parts, event_ns = [], [], [], []
            for _ in range(PAIRS):
                without, _, _ = one_run(server, [])
                with_it, rate, costs = one_run(server, recipe)
                ratios.append(100 * (with_it / without - 1))
                rates.append(rate)
                event = {row["probe"]: row["mean_ns"] + row.get("trap_ns", 0) for row in costs}
                event_ns.append(event.get("rawtracepoint:sched_switch") or event["profile:hz:99"])
                parts.append(sum(row["cpu_percent"] for row in costs))
            low, median, high = statistics.quantiles(ratios, n=4)
            rows.append([name, f"{statistics.median(rates):,.0f}", f"{statistics.median(event_ns):,.0f}", f"{statistics.median(parts):.3f} %",
                         f"{median:+.1f} % ({low:+.1f} … {high:+.1f})"])
    return rows


def switch_ns():
    """What a switch takes two processes on one CPU that wait for each other at pipes: the best of three runs."""
    bench = ["taskset", "-c", str(CPUS - 1), "perf", "bench", "-f", "simple", "sched", "pipe", "-l", str(ROUND_TRIPS)]
    seconds = min(float(subprocess.run(bench, check=True, capture_output=True, text=True).stdout) for _ in range(3))
    return seconds * 1e9 / ROUND_TRIPS / 2


def compare_switches():
    """What a recipe adds to a switch and the wake-up before it, alternating; returns rows of a table."""
    other = ["--pid", str(os.getpid())]
    recipes = {"wall/threads": ["wall/threads"], "wall/threads --pid OTHER": ["wall/threads", *other], "wall/profile": ["wall/profile"], "cpu/offcpu": ["cpu/offcpu"]}
    rows = []
    for name, recipe in recipes.items():
        pairs = []
        for _ in range(PAIRS):
            without = switch_ns()
            tracer = subprocess.Popen([PROFILER, "-q", *recipe], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(1)
            pairs.append((without, switch_ns()))
            tracer.send_signal(2)
            tracer.wait()
        low, added, high = statistics.quantiles((b - a for a, b in pairs), n=4)
        rows.append([name, f"{statistics.median(a for a, _ in pairs):,.0f}", f"{added:+,.0f} ({low:+,.0f} … {high:+,.0f})", f"{added * 50_000 / 1e7 / CPUS:.2f} %"])
    return rows


def visits():
    """What `wall:hz:20` takes of one CPU while a thousand threads sleep; returns a row of a table."""
    sleepers = subprocess.Popen(["python3", "-c", SLEEPERS], stdout=subprocess.PIPE)
    sleepers.stdout.readline()
    command = [PROFILER, "-q", "-f", "json", "--stats", "--duration", "10s", "-e", "wall:hz:20 { @[state] = count(); }"]
    rows = []
    for scope in ([], ["-p", str(sleepers.pid)]):
        parts = []
        for _ in range(3):
            output = subprocess.run(command + scope, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            documents = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
            counts = next(document["data"]["@"] for document in documents if document["type"] == "map")
            cost = documents[-1]["data"]["cost"][0]
            parts.append((sum(row["value"] for row in counts) / 200, cost["cpu_percent"]))
        threads, percent = (statistics.median(column) for column in zip(*parts))
        rows.append([" ".join(["wall:hz:20", *scope[:1]]), f"{threads:,.0f}", f"{percent:.2f} %"])
    sleepers.terminate()
    sleepers.wait()
    return rows


def machine():
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    load = os.getloadavg()[0]
    return f"{time.strftime('%Y-%m-%d')}, Linux {platform.release()}, {CPUS} CPUs ({model[1] if model else platform.machine()}), load {load:.1f} before"


def main():
    parser = argparse.ArgumentParser(description="Compares profiles of real servers with those of independent tools.")
    parser.add_argument("parts", nargs="*", help="shares, states, costs [default: all]")
    chosen = parser.parse_args().parts
    misses = []
    print(f"{machine()}\n")
    if not chosen or "shares" in chosen:
        for kind in (RedisLoad, PostgresLoad):
            spread = compare_shares(kind)
            print(f"Root mean square of the differences: {spread:.1f} standard errors (1 if both sample the same, and samples are independent)\n")
    if not chosen or "states" in chosen:
        rows = [compare_states(kind, misses) for kind in (RedisLoad, PostgresLoad)]
        table(["server", "threads", "on a CPU, s (schedstat)", "running", "off", "ready, s (schedstat)", "runnable", "off"], rows)
    if not chosen or "costs" in chosen:
        table(["recipe", "switches/s", "a sample or switch, ns", "programs, of one CPU", "the server's CPU time for a request (quartiles)"], compare_costs())
        table(["recipe", "a switch without it, ns", "added (quartiles)", "of all CPUs, at 50,000 switches/s"], compare_switches())
        table(["probe", "threads", "of one CPU"], visits())
    for miss in misses:
        print(f"goal missed: {miss}")
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
