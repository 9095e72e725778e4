"""Measures what recipes cost their loads, and writes stdlib/std/costs.tsv.

In: PROFILER, the binary, with `workload` beside it; recipes to measure instead of all.
Out: a line for each recipe that has a load here: the mean time of its programs for an event, with what the
kernel needs to call them where that is known, and how much more CPU time the load takes.
Guarantee: runs without and with the recipe alternate; figures are medians. A load is a loop of the events that
the recipe is about, so its slow-down is more than that of a program that also does something else. Lines of
other kernels, and of recipes that are not measured, stay as they are.
"""

import argparse
import atexit
import functools
import json
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROFILER = os.environ.get("PROFILER", str(ROOT / "target/release/profiler"))
WORKLOAD = str(Path(PROFILER).with_name("workload"))
FILE = ROOT / "stdlib/std/costs.tsv"
RUNS = 3
# What begins and ends a run is no event.
NO_EVENTS = ("BEGIN", "END", "iter:", "interval:")

OF_LOAD = ["--pid", "PID"]
CALLS, SWITCHES, READS, COMPUTES = "getppid 300000", "act pingpong 30000", "reads 200000 64", "functions 200000000"
SCRIPTS = ROOT / "tests/runtimes"
# A server and its client.
REDIS = (
    "redis-server --port 7391 --save '' & server=$!; until redis-cli -p 7391 ping; do sleep 0.1; done; "
    "redis-benchmark -p 7391 -n 100000 -t get -q; kill $server; wait $server; true"
)
POSTGRES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), Path("/usr/bin"))
QUERIES = (
    f"chown 65534 DIR; cd DIR; as() {{ setpriv --reuid=65534 --clear-groups \"$@\"; }}; "
    f"as {POSTGRES}/initdb -D DIR/data -A trust -N -U postgres; "
    f"as {POSTGRES}/postgres -D DIR/data -k DIR -c listen_addresses= -c fsync=off & server=$!; "
    "until psql -h DIR -U postgres -c 'select 1'; do sleep 0.1; done; pgbench -h DIR -U postgres -i -q postgres; "
    "pgbench -h DIR -U postgres -n -S -t 20000 postgres; kill -INT $(head -n 1 DIR/data/postmaster.pid); wait $server; true"
)
# What is compiled once, and where: PROGRAMS in a load and in its selection.
COMPILED = (
    f"GOCACHE=PROGRAMS/cache go build -o PROGRAMS/pauses {SCRIPTS}/pauses.go; "
    f"cc -O2 -shared -fPIC {ROOT}/tests/gpu/stub.c -o PROGRAMS/libcuda.so.1 -Wl,-soname,libcuda.so.1; "
    f"cc -O2 -shared -fPIC {ROOT}/tests/gpu/stub.c -DRUNTIME PROGRAMS/libcuda.so.1 -o PROGRAMS/libcudart.so.12 "
    "-Wl,-soname,libcudart.so.12 -Wl,-rpath,'$ORIGIN'; "
    f"cc -O2 -pthread -o PROGRAMS/load {ROOT}/tests/gpu/load.c PROGRAMS/libcudart.so.12 -Wl,-rpath,'$ORIGIN'"
)
OF_GPU = [*OF_LOAD, "--lib", "PROGRAMS/libcuda*"]
# The load of a recipe, and how the recipe selects it: loads that start processes are not selected by number.
# A load that begins with `$` is for the shell, others are of `workload`; DIR is a directory on a disk.
LOADS = {
    "cpu/hot-functions": (COMPUTES, OF_LOAD),
    "db/postgres": (f"$ {QUERIES}", ["--program", f"{POSTGRES}/postgres", "--comm", "^postgres"]),
    "db/tls": (f"$ /usr/bin/python3 {SCRIPTS}/tls.py DIR", ["--comm", "^python3"]),
    "gpu/launches": ("$ exec PROGRAMS/load 200", OF_GPU),
    "wall/gpu": ("$ exec PROGRAMS/load 200", OF_GPU),
    "runtime/go": ("$ exec PROGRAMS/pauses", ["--go", "PROGRAMS/pauses", *OF_LOAD]),
    "runtime/identify": ("act pingpong 30000", []),
    "db/redis": (f"$ {REDIS}", ["--comm", "^redis-server$"]),
    "db/sqlite": (f"$ /usr/bin/python3 {SCRIPTS}/statements.py DIR/db", ["--comm", "^python3"]),
    "host/overview": (SWITCHES, []),
    "host/steal": (COMPUTES, []),
    "io/block": ("act direct DIR/data 2000 8192", []),
    "io/fsync": ("act file DIR/data 500 4096", OF_LOAD),
    "io/page-cache": ("act cached DIR/data 20000", OF_LOAD),
    "lock/condvar": ("conditions 2000 20 20", OF_LOAD),
    "lock/convoy": ("contend 4 5000 20", OF_LOAD),
    "lock/kernel": ("act pipelock 50 2", OF_LOAD),
    "lock/rwlock": ("rwlock 3 5000 10", OF_LOAD),
    "mem/growth": ("act leaks 2000 1000000", OF_LOAD),
    "mem/oom": ("act oom", []),
    "mem/reclaim": ("act reclaim DIR/data 64", []),
    "net/dns": ("$ for i in $(seq 50); do getent ahosts localhost; done", ["--comm", "^getent$"]),
    "net/requests": ("pool 4 8 400 3 100", OF_LOAD),
    "pool/utilisation": ("act crew both 4 100", OF_LOAD),
    "proc/capabilities": ("act privileges 50000", OF_LOAD),
    "runtime/jvm": (f"$ java -Xmx64m {SCRIPTS}/Pauses.java", []),
    "runtime/node": (f"$ node {SCRIPTS}/loop.js", []),
    "runtime/python": (f"$ /usr/bin/python3 {SCRIPTS}/gil.py", []),
    "cpu/offcpu": (SWITCHES, OF_LOAD),
    "cpu/profile": (COMPUTES, OF_LOAD),
    "io/by-file": (READS, OF_LOAD),
    "io/files": (READS, OF_LOAD),
    "io/slow": (READS, OF_LOAD + ["--min", "1m"]),
    "lock/futex": ("contend 4 5000 20", OF_LOAD),
    "lock/latency": ("contend 1 20000 0", OF_LOAD),
    "mem/alloc": ("act leaks 50000 100", OF_LOAD),
    "mem/faults": ("touches 50000", OF_LOAD),
    "mem/leaks": ("act leaks 50000 100", OF_LOAD),
    "net/accept-queue": ("act dials 1000", OF_LOAD),
    "net/sockets": ("act dials 1000", OF_LOAD),
    "net/tcp": ("act dials 1000", OF_LOAD),
    "pool/queue-depth": ("pool 4 8 400 3 100", OF_LOAD),
    "proc/exec": ("execs 200 1 1", []),
    "proc/exits": ("execs 200 1 1", []),
    "proc/life": ("execs 200 1 1", []),
    "proc/opens": ("files 100000", OF_LOAD + ["--path", "^/none"]),
    "proc/signals": ("act signals 50000", OF_LOAD),
    "proc/threads": ("sleepers 1000 1", OF_LOAD),
    "sched/affinity": ("act moves 10000", OF_LOAD),
    "sched/runq": (SWITCHES, OF_LOAD),
    "sched/runq-length": (COMPUTES, []),
    "sched/switches": (SWITCHES, OF_LOAD),
    "sched/wakers": (SWITCHES, OF_LOAD),
    "syscall/counts": (CALLS, OF_LOAD),
    "syscall/errors": ("closes 5000 305000", OF_LOAD),
    "syscall/latency": (CALLS, OF_LOAD),
    "syscall/slow": (CALLS, OF_LOAD + ["--min", "1m"]),
    "wall/profile": (SWITCHES, OF_LOAD),
    "wall/threads": (SWITCHES, OF_LOAD),
}


@functools.cache
def compiled():
    """The directory of the compiled programs; without a compiler, the loads that need one fail."""
    directory = tempfile.mkdtemp(dir="/var/tmp")
    atexit.register(shutil.rmtree, directory)
    subprocess.run(["sh", "-c", COMPILED.replace("PROGRAMS", directory)], capture_output=True, check=False)
    return directory


# What is shown of the loads that are long.
SHORT = {f"$ {REDIS}": "redis-benchmark -n 100000 -t get", f"$ {QUERIES}": "initdb, pgbench -i, pgbench -S -t 20000"}


def attached(recipe, arguments):
    """Starts a recipe and waits until its probes are attached."""
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
        ready.bind(f"{directory}/ready")
        ready.settimeout(120)
        command = [PROFILER, "run", "-q", "-f", "json", "--stats", recipe, *arguments]
        tracer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "NOTIFY_SOCKET": f"{directory}/ready"})
        ready.recv(100)
    return tracer


def one_run(load, recipe=None, selected=()):
    """CPU time of the load in seconds; with a recipe, also the mean time of an event in nanoseconds."""
    load = load.replace("PROGRAMS", compiled())
    selected = [word.replace("PROGRAMS", compiled()) for word in selected]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        command = load.removeprefix("$ ") if load.startswith("$ ") else f"exec {WORKLOAD} {load}"
        return measured_run(command.replace("DIR", directory), load, recipe, selected)


def measured_run(command, load, recipe, selected):
    """The same for a command of the shell."""
    waiting = subprocess.Popen(["sh", "-c", f"read _; {command}"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    arguments = [str(waiting.pid) if word == "PID" else word for word in selected]
    tracer = attached(recipe, arguments) if recipe else None
    waiting.stdin.write(b"\n")
    waiting.stdin.close()
    _, status, usage = os.wait4(waiting.pid, 0)
    waiting.returncode = status
    if status:
        raise RuntimeError(f"{load} ended with {status}")
    used = usage.ru_utime + usage.ru_stime
    if tracer is None:
        return used, None
    tracer.send_signal(signal.SIGINT)
    text = tracer.communicate()[0]
    if tracer.returncode != 0:
        raise RuntimeError(f"{recipe} ended with {tracer.returncode}")
    costs = [json.loads(line) for line in text.splitlines() if line.startswith('{"type": "quality"')][-1]["data"]["cost"]
    rows = [row for row in costs if row["runs"]]
    # Of a recipe that only looks around once, that is what it costs.
    events = [row for row in rows if not row["probe"].startswith(NO_EVENTS)] or rows
    spent = sum(row["runs"] * (row["mean_ns"] + row.get("trap_ns", 0)) for row in events)
    return used, spent / sum(row["runs"] for row in events)


def measure(recipe):
    """The line of a recipe."""
    load, selected = LOADS[recipe]
    slower, event_ns = [], []
    for _ in range(RUNS):
        without, _ = one_run(load)
        used, ns = one_run(load, recipe, selected)
        slower.append(100 * (used / without - 1))
        event_ns.append(ns)
    kernel = re.match(r"\d+\.\d+", platform.release())[0]
    shown = load.removeprefix("$ ").replace(f"{SCRIPTS}/", "") if load.startswith("$ ") else f"workload {load}"
    shown = SHORT.get(load, shown.replace("PROGRAMS/", "").removeprefix("exec "))
    return [recipe, kernel, f"{statistics.median(event_ns):.0f}", f"{statistics.median(slower):+.1f}", time.strftime("%Y-%m-%d"), shown]


def loaded_in_vm(version):
    """Lines of the recipes that run for a moment on another kernel."""
    recipes = " ".join(LOADS)
    loop = f"for r in {recipes}; do profiler -q $r --duration 50ms >/dev/null 2>&1 && echo ran $r; done; true"
    ended = subprocess.run([str(ROOT / "scripts/vm"), version, "--", "sh", "-c", loop], capture_output=True, text=True, check=False)
    ran = re.findall(r"^ran (\S+)", ended.stdout, re.M)
    if not ran:
        sys.exit(f"scripts/vm {version}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return [[recipe, version, "-", "-", time.strftime("%Y-%m-%d"), "-"] for recipe in ran]


def write(lines):
    """Replaces the lines of these recipes and kernels."""
    old = FILE.read_text().splitlines()
    comments = [line for line in old if line.startswith("#")]
    rows = {tuple(line.split("\t")[:2]): line.split("\t") for line in old if not line.startswith("#")}
    rows |= {tuple(line[:2]): line for line in lines}
    ordered = sorted(rows.values(), key=lambda row: (row[0], row[2] == "-", [int(part) for part in row[1].split(".")]))
    FILE.write_text("\n".join(comments + ["\t".join(row) for row in ordered]) + "\n")


def main():
    parser = argparse.ArgumentParser(description="Measures what recipes cost their loads.")
    parser.add_argument("recipes", nargs="*", help="these recipes [default: all that have a load]")
    parser.add_argument("--vm", metavar="VERSION", help="which recipes load and run on this kernel")
    options = parser.parse_args()
    if options.vm:
        write(loaded_in_vm(options.vm))
        return
    unknown = [recipe for recipe in options.recipes if recipe not in LOADS]
    if unknown:
        sys.exit(f"there is no load for {', '.join(unknown)}: these have one: {', '.join(LOADS)}")
    for recipe in options.recipes or LOADS:
        try:
            line = measure(recipe)
        except (RuntimeError, OSError) as error:
            print(f"{recipe}: {error}", file=sys.stderr)
            continue
        print(*line, sep="\t", flush=True)
        write([line])


if __name__ == "__main__":
    main()
