"""Programs with known calls of an allocator and known waits, and what the recipes say about them.

In: PROFILER, the binary; a C compiler, musl-gcc, and the allocators' libraries; a directory.
Out: rows of a table, and what did not hold. Guarantee: a program has been running before the tool, which has
attached its probes before the program works, and stops after that. So all counts are exact.
"""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parent / "known.c"
PLAIN = ["-O1", "-g", "-fno-builtin", "-Wno-return-type", "-o"]
# How each is compiled. The static library of musl leaves out functions like valloc.
PROGRAMS = {
    "glibc": ["cc", "-DHAS_VALLOC", "-pthread"],
    "glibc, static": ["cc", "-DHAS_VALLOC", "-pthread", "-static"],
    "musl": ["musl-gcc", "-DHAS_VALLOC"],
    "musl, static": ["musl-gcc", "-DHAS_VALLOC", "-static"],
    "jemalloc": ["cc", "-DHAS_VALLOC", "-pthread", "-l:libjemalloc.so"],
    "jemalloc, static": ["cc", "-DHAS_VALLOC", "-pthread", "-static", "-l:libjemalloc.a", "-lm"],
    "tcmalloc": ["cc", "-DHAS_VALLOC", "-pthread", "-l:libtcmalloc_minimal.so"],
    "mimalloc": ["cc", "-DHAS_VALLOC", "-pthread", "-l:libmimalloc.so"],
}
HEAD = ["program", "`mem/alloc`: allocations", "bytes", "frees", "`mem/leaks`: blocks", "bytes",
        "`lock/latency`: acquired", "waits", "condition", "semaphore", "`lock/futex`: waits"]
# The waits of a table by holder are in another table too.
HOLDERS = "lock holders at the start of each wait (0: unknown)"


def build(name, directory):
    compiler, *options = PROGRAMS[name]
    program = Path(directory, name.replace(", ", "-"))
    libraries = [option for option in options if option.startswith("-l")]
    others = [option for option in options if not option.startswith("-l")]
    subprocess.run([compiler, *others, *PLAIN, str(program), str(SOURCE), *libraries], check=True)
    return program


def attached(profiler, recipe, pid, directory):
    """Starts a recipe, and returns when all of its probes are attached."""
    path = Path(directory, "ready")
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
        ready.bind(str(path))
        ready.settimeout(60)
        command = [profiler, "run", "-q", "-f", "json", recipe, "--pid", str(pid)]
        environment = {**os.environ, "NOTIFY_SOCKET": str(path)}
        tool = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            ready.recv(64)
        except TimeoutError:
            tool.kill()
            raise RuntimeError(f"{' '.join(command)}: {tool.communicate()[1]}") from None
        return tool


def beside(program, profiler, recipe, directory):
    """What the program says of itself, and the recipe's views by title."""
    with subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        if load.stdout.readline() != "ready\n":
            raise RuntimeError(f"{program} ended before it was ready")
        tool = attached(profiler, recipe, load.pid, directory)
        load.stdin.write("\n")
        load.stdin.flush()
        truth = {}
        while "done" not in truth:
            name, value = load.stdout.readline().split()
            truth[name] = int(value)
        tool.send_signal(signal.SIGINT)
        out, error = tool.communicate()
        load.stdin.close()
    if tool.returncode != 0:
        raise RuntimeError(f"{recipe}: {error}")
    documents = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return truth, {each["data"]["view"]: each["data"]["rows"] for each in documents if each["type"] == "view"}


def total(rows, column, **keys):
    return sum(row[column] or 0 for row in rows if all(row[key] == value for key, value in keys.items()))


def compare(name, profiler, directory, misses):
    """Measures a program; returns its row of the table, in which `ours / theirs` are different."""
    program = build(name, directory)
    cells = []

    def cell(recipe, what, ours, theirs):
        cells.append(f"{ours:,}" if ours == theirs else f"{ours:,} / {theirs:,}")
        if ours != theirs:
            misses.append(f"{name}: {recipe}: {what} {ours:,}, the program counts {theirs:,}")

    # By name: only a recipe of the binary does without functions that a library lacks.
    ask = lambda recipe: beside(program, profiler, recipe, directory)
    truth, views = ask("mem/alloc")
    for column in ("allocations", "bytes", "frees"):
        cell("mem/alloc", column, total(views["allocations"], column), truth[column])
    truth, views = ask("mem/leaks")
    for column, known in (("blocks", "kept"), ("bytes", "kept_bytes")):
        cell("mem/leaks", column, total(views["memory that was not freed"], column), truth[known])
    truth, views = ask("lock/latency")
    of_lock = {column: total(views["waits for locks"], column, lock=truth["lock"]) for column in ("acquired", "waits")}
    cell("lock/latency", "acquired", of_lock["acquired"], truth["acquired"])
    cell("lock/latency", "waits", of_lock["waits"], truth["waits"])
    cell("lock/latency", "waits for the condition",
         total(views["waits for condition variables"], "waits", condition=truth["condition"]), truth["waits"])
    cell("lock/latency", "waits for the semaphore",
         total(views["waits for semaphores"], "waits", semaphore=truth["semaphore"]), truth["waits"])
    truth, views = ask("lock/futex")
    rows = [row for title in views for row in views[title] if title != HOLDERS and row.get("word") == truth["word"]]
    cell("lock/futex", "waits", total(rows, "waits"), truth["waits"])
    return [name, *cells]
