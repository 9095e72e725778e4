"""Compares the results of the queue and lock recipes with the figures of real servers and their clients.

In: PROFILER, the binary; nginx, Redis, PostgreSQL, Python, Node.js, Java and their clients from PATH; compilers.
Out: Markdown tables of queues and of latencies (theirs, ours, difference), one of locks, one of pools that
a lock blocks, one of programs with known calls, and exit code 1 if a difference exceeds the error bounds below,
a verdict is wrong, or a count of those programs is not exact.
Guarantee: servers listen on loopback and keep their data in a temporary directory. Servers and
connections exist before the tool starts. Load is bounded in clients and time, and runs with real-time
priority (SCHED_RR). Only processes started here are terminated.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent / "servers.d"))
import known
from kinds import CLIENTS, LOCKED, SERVERS, LockedPostgreSQL
from report import table

ROOT = Path(__file__).resolve().parent.parent
PROFILER = os.environ.get("PROFILER", str(ROOT / "target/release/profiler"))
SECONDS = 5
# Error bounds. The client's latency includes the time until the client runs again: a fraction of a
# millisecond on an idle machine.
RATE_PERCENT = 3
LATENCY_PERCENT, LATENCY_MS = 10, 0.5
# Mean number of waiting threads. The sampler needs a CPU itself and misses waits of microseconds.
LOCK_THREADS, OTHER_THREADS = 0.05, 0.25


class Sampler(threading.Thread):
    """Calls a function periodically and records its results with timestamps."""

    def __init__(self, ask, every):
        super().__init__(daemon=True)
        self.ask, self.every, self.samples, self.over = ask, every, [], threading.Event()

    def run(self):
        while not self.over.is_set():
            before = time.time()
            value = self.ask()
            self.samples.append(((before + time.time()) / 2, value))
            self.over.wait(self.every)

    def stop(self):
        self.over.set()
        self.join()

    def at(self, moment):
        """The value at a moment, interpolated between two samples."""
        for (t0, v0), (t1, v1) in zip(self.samples, self.samples[1:]):
            if t0 <= moment <= t1:
                return v0 + (v1 - v0) * (moment - t0) / (t1 - t0)
        raise ValueError("no samples around that time")


def profile(recipe, pids):
    """Runs a recipe; returns its views by title, and its start and end times."""
    command = [PROFILER, "run", "-q", "-f", "json", str(ROOT / f"stdlib/{recipe}.prof"), "--pid", ",".join(pids), "--duration", f"{SECONDS}s"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)}: {ended.stderr}")
    documents = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    for document in documents:
        if document["type"] != "view" and document["type"] != "span":
            print(f"{recipe}: {document}", file=sys.stderr)
    views = {document["data"]["view"]: document["data"] for document in documents if document["type"] == "view"}
    first = next(iter(views.values()))
    seconds = lambda text: time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone + float(text[19:-1])
    return {title: view["rows"] for title, view in views.items()}, seconds(first["start"]), seconds(first["end"])


def loaded(server, work, seconds, has_figures=True):
    """Calls `work` under the client's load; returns its result and the client's figures, for which it runs to its end."""
    client = subprocess.Popen(server.client(seconds), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        time.sleep(2)
        result = work()
        if client.poll() is not None:
            sys.exit(f"{server.name}: the client exited before the tool, with {client.returncode}: {client.communicate()[0]}")
        return result, server.client_says(client.communicate()[0]) if has_figures else None
    finally:
        if client.poll() is None:
            client.kill()
            client.wait()


def mean(rows, column, count):
    total = sum(row[count] or 0 for row in rows)
    return sum((row[column] or 0) * (row[count] or 0) for row in rows) / total if total else 0


def latencies(server, counter, outcome, inside, misses):
    """The server's row of the latency table: what net/requests says about its port."""
    views, start, end = outcome
    rows = [row for row in views["requests by port"] if row["port"] == server.port]
    theirs = counter.at(end) - counter.at(start)
    ours, took = sum(row["requests"] or 0 for row in rows), mean(rows, "latency", "requests") / 1e6
    latency = inside * (end - start) / theirs
    off, late = (ours / theirs - 1) * 100, took - latency
    if abs(off) > RATE_PERCENT or abs(late) > latency * LATENCY_PERCENT / 100 + LATENCY_MS:
        misses.append(f"{server.name}, net/requests: {off:+.1f} % of the requests, {late:+.2f} ms of the latency")
    return [server.name, f"{theirs:,.0f}", f"{ours:,}", f"{off:+.1f} %", f"{latency:.2f}", f"{took:.2f}", f"{late:+.2f}"]


def queue(server, requests, misses):
    """Measures a server; returns its row of the queue table and adds one to the latency table.

    The client reports means over its whole run, of which each recipe sees a part. The client always has as many open
    requests, so its latency in a part follows from the rate that the server counted then (Little's law).
    """
    counter = Sampler(server.count, 0.2)

    def work():
        counter.start()
        time.sleep(0.5)
        results = profile("pool/queue-depth", server.pids()), profile("net/requests", server.pids())
        time.sleep(0.5)
        counter.stop()
        return results

    ((views, start, end), by_port), (rate, latency) = loaded(server, work, 2 * SECONDS + 20)
    rows = views["queue and service"]
    theirs = (counter.at(end) - counter.at(start)) / (end - start)
    ours = sum(row["requests"] or 0 for row in rows) / (end - start)
    queued, served = mean(rows, "queued", "requests") / 1e6, mean(rows, "served", "requests") / 1e6
    depth = views["waiting and busy requests"]
    inside = sum((row["waiting"] or 0) + (row["busy"] or 0) for row in depth)
    open_ms = rate * latency
    off, late = (ours / theirs - 1) * 100, queued + served - open_ms / theirs
    if abs(off) > RATE_PERCENT or abs(late) > latency * LATENCY_PERCENT / 100 + LATENCY_MS:
        misses.append(f"{server.name}: {off:+.1f} % of the rate, {late:+.2f} ms of the latency")
    requests.append(latencies(server, counter, by_port, open_ms, misses))
    return [server.name, f"{theirs:,.0f}", f"{ours:,.0f}", f"{off:+.1f} %", f"{rate:,.0f}", f"{open_ms / theirs:.2f}",
            f"{queued:.2f}", f"{served:.2f}", f"{late:+.2f}", f"{open_ms / 1000:.1f}", f"{inside:.1f}"]


def threads_in_futex(pids):
    """Numbers of threads that wait for locks and for other futexes, from /proc/PID/task/*/syscall."""
    locks = others = 0
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/syscall"):
            try:
                words = path.read_text().split()
            except OSError:
                continue
            # futex(word, operation, value, …) is 202 on x86-64.
            if words[0] == "202":
                if int(words[2], 16) & 127 in (6, 13) or int(words[3], 16) == 2:
                    locks += 1
                else:
                    others += 1
    return locks, others


def locks(server, misses):
    """Measures a server; returns its row of the lock table."""

    def work():
        # Some servers have a process for each client.
        pids = server.pids()
        sampler = Sampler(lambda: threads_in_futex(pids), 0.01)
        sampler.start()
        futex = profile("lock/futex", pids)
        sampler.stop()
        return sampler, futex, profile("lock/latency", pids)

    (sampler, (futex, start, end), (latency, *_)), _ = loaded(server, work, 2 * SECONDS + 170, has_figures=False)
    inside = [value for moment, value in sampler.samples if start <= moment <= end]
    lock, other = (sum(value[part] for value in inside) / len(inside) for part in (0, 1))
    waited = lambda title: sum(row["waited"] or 0 for row in futex[title]) / 1e9 / (end - start)
    ours, idle = waited("waits for locks"), waited("other waits: condition variables, semaphores, other locks, idle threads")
    rows = latency["waits for locks"]
    held = max((row["held max"] or 0 for row in rows), default=0) / 1e6
    calls = sum(row["waits"] or 0 for row in rows)
    conditions = sum(row["waited"] or 0 for row in latency["waits for condition variables"]) / 1e9 / SECONDS
    if abs(ours - lock) > LOCK_THREADS or idle > other + OTHER_THREADS:
        misses.append(f"{server.name}: {ours:.3f} threads wait for locks and {idle:.2f} for others; /proc shows {lock:.3f} and {other:.2f}")
    return [server.name, f"{lock:.3f}", f"{ours:.3f}", f"{other:.2f}", f"{idle:.2f}", f"{calls:,}",
            f"{sum(row['waited'] or 0 for row in rows) / 1e9 / SECONDS:.3f}", f"{held:.2f}", f"{conditions:.2f}"]


def blocked(server, misses):
    """Measures a server whose workers wait for one lock; returns its row of the table of verdicts."""
    (views, *_), (rate, _) = loaded(server, lambda: profile("pool/utilisation", server.pids()), SECONDS + 10)
    # Of PostgreSQL, each process is a row, and those without a client are idle.
    pools = [row for row in views["pools"] if row["idle %"] < 50]
    verdicts = sorted({row["verdict"] for row in pools})
    waits = sorted(views["what busy workers wait for"], key=lambda row: row["blocked"])
    call = waits[-1]["call"] if waits else "-"
    workers = sum(row["workers"] for row in pools)
    share = lambda column: sum(row[column] * row["workers"] for row in pools) / workers if workers else 0
    if verdicts != ["blocked"] or workers < CLIENTS or call != server.waits_in:
        misses.append(f"{server.name}: {workers} workers, {', '.join(verdicts)} in {call} instead of blocked in {server.waits_in}")
    shares = [f"{share(column):.1f}" for column in ("running %", "blocked %", "idle %", "unclear %")]
    return [server.name, f"{rate:,.0f}", str(workers), *shares, ", ".join(verdicts), call]


def section(title, head, rows):
    """Prints a table below its title, if any such server was measured."""
    if rows:
        print(title + "\n")
        table(head, rows)


def main():
    parser = argparse.ArgumentParser(description="Compares the queue and lock recipes with the figures of real servers.")
    parser.add_argument("servers", nargs="*", help="nginx, redis, postgresql, python, node, java; locked for those with one lock; known for programs with known calls [default: all]")
    names = parser.parse_args().servers
    chosen = [server for server in SERVERS if not names or server.name in names]
    # Otherwise the clients' latencies include the time that their processes wait for a CPU.
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    locked = list(LOCKED) if not names or "locked" in names else []
    queues, requests, waits, verdicts, misses = [], [], [], [], []
    with tempfile.TemporaryDirectory(prefix="profiler-servers-") as directory:
        for kind in [*chosen, *locked]:
            Path(directory, kind.name).mkdir()
            server = kind(Path(directory, kind.name))
            try:
                server.start()
                server.wait_until_it_answers()
                if kind in LOCKED:
                    verdicts.append(blocked(server, misses))
                    # Its clients count transactions of several requests.
                    if kind is not LockedPostgreSQL:
                        queues.append(queue(server, requests, misses))
                else:
                    queues.append(queue(server, requests, misses))
                    waits.append(locks(server, misses))
            finally:
                server.stop()
        counts = [known.compare(name, PROFILER, directory, misses) for name in known.PROGRAMS if not names or "known" in names]
    section(f"`pool/queue-depth`, {CLIENTS} clients, {SECONDS} s; mean times in ms",
            ["server", "requests/s (server)", "ours", "error", "requests/s (client)", "latency (client)", "queued", "served",
             "difference", "open requests (client)", "ours"], queues)
    section("`net/requests`, the same load; mean times in ms",
            ["server", "requests (server)", "ours", "error", "latency (client)", "ours", "difference"], requests)
    section("`lock/futex` and `lock/latency`, compared with /proc/PID/task/*/syscall: mean number of waiting threads",
            ["server", "locks (/proc)", "ours", "others (/proc)", "ours", "lock calls", "threads in lock calls", "longest hold, ms",
             "threads in condition waits"], waits)
    section(f"`pool/utilisation` of servers with one lock, {CLIENTS} clients, {SECONDS} s",
            ["server", "requests/s (client)", "workers", "running %", "blocked %", "idle %", "unclear %", "verdict", "call"], verdicts)
    section("Programs with known calls: ours, and theirs where they differ", known.HEAD, counts)
    for miss in misses:
        print(f"error bound exceeded: {miss}")
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
