"""Starts collections of bpftrace's scripts under the name `bpftrace`, beside bpftrace itself.

In: a directory with a subdirectory per collection; PROFILER, the binary; bpftrace from PATH, which may be missing.
Out: Markdown tables: results per collection; scripts that are not accepted, with the reason.
Exit code 1 if bpftrace accepts a script that we refuse for another reason than the machine's.
Guarantee: no script runs: `--dry-run` loads and attaches its probes and ends, bpftrace's `-d` compiles only.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PROFILER = os.environ.get("PROFILER", "target/release/profiler")
LIMIT_S = 120

# What this machine lacks: tracepoints, functions, probe kinds; members, types and variables of the kernel.
KERNEL = {"E0322", "E0343", "E0402", "E0403", "E0405", "E0406", "E0410"}
# These name the kernel too, if their message does.
OF_KERNEL = {"E0205": "in this kernel", "E0324": "`tracepoint:"}
# The message for a script that needs words after its name.
PARAMETER = re.compile(r"there is no parameter|the parameter `\$\w+` is not given")
# A program or a library that is not installed, or has not the function; headers that are not installed.
PROGRAM, HEADER = {"E0605"}, {"E0154"}

RESULTS = ["accepted", "kernel", "program", "header", "parameter", "script", "ours"]
MEANING = {
    "accepted": "loaded and attached",
    "kernel": "this kernel lacks what it names",
    "program": "the program that it probes is missing",
    "header": "its own header is missing",
    "parameter": "it names its probes by parameters, which were not given",
    "script": "bpftrace refuses it too",
    "ours": "only we refuse it",
}


def run(command):
    """Exit code and standard error of a command; code 124 if it does not end in time."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return 124, "no result in time"
    return done.returncode, done.stderr.decode(errors="replace")


def reason_of(code, said):
    """The kind of a refusal by our drop-in, and the message that decides it."""
    errors = re.findall(r"^error\[(E\d+)\]: (.*)$", said, re.MULTILINE)
    if not errors:
        is_machine = "to a perf event" in said or "has only tests and benchmarks" in said
        return ("kernel" if is_machine else "script"), said.strip().split("\n")[0] or f"exit code {code}"
    for number, message in errors:
        if PARAMETER.match(message):
            return "parameter", f"{number}: {message}"
        if number in KERNEL or (number in OF_KERNEL and OF_KERNEL[number] in message):
            continue
        kind = "program" if number in PROGRAM else "header" if number in HEADER else "script"
        return kind, f"{number}: {message}"
    return "kernel", f"{errors[0][0]}: {errors[0][1]}"


def theirs_of(code, said):
    """bpftrace's verdict: accepted, or its first error."""
    if code == 0:
        return "accepted"
    lines = [line for line in said.splitlines() if "RLIMIT_MEMLOCK" not in line]
    errors = [line for line in lines if "error:" in line or "ERROR:" in line]
    return re.sub(r"^.*?(error|ERROR): ", "", errors[0]) if errors else f"exit code {code}"


def examine(path, ours, bpftrace):
    """(kind of result, our reason, bpftrace's verdict) of a script."""
    code, said = run([ours, "--unsafe", "--dry-run", str(path)])
    kind, reason = ("accepted", "") if code == 0 else reason_of(code, said)
    theirs = theirs_of(*run([bpftrace, "--unsafe", "-d", str(path)])) if bpftrace else "not run"
    return ("ours" if kind == "script" and theirs == "accepted" else kind), reason, theirs


def cell(text):
    """Text as a cell of a Markdown table."""
    return text.replace("|", "\\|").strip()


def report(results):
    """The tables; `results` maps (collection, path below it) to what `examine` returns."""
    per = collections.defaultdict(collections.Counter)
    for (name, _), (kind, _, theirs) in results.items():
        per[name][kind] += 1
        per[name]["bpftrace"] += theirs == "accepted"
    print("| collection | scripts | " + " | ".join(RESULTS) + " | bpftrace accepts |")
    print("|---|" + "---|" * (len(RESULTS) + 2))
    total = sum(per.values(), collections.Counter())
    for name, counts in [*sorted(per.items()), ("all", total)]:
        figures = [sum(counts[kind] for kind in RESULTS), *(counts[kind] for kind in RESULTS), counts["bpftrace"]]
        print(f"| {name} | " + " | ".join(str(figure) for figure in figures) + " |")
    print("\n" + "; ".join(f"{kind}: {MEANING[kind]}" for kind in RESULTS) + ".\n")
    print("| script | result | reason | bpftrace |\n|---|---|---|---|")
    for (name, path), (kind, reason, theirs) in sorted(results.items()):
        if kind != "accepted":
            print(f"| {name}/{path} | {kind} | {cell(reason)} | {cell(theirs)} |")
    return total["ours"]


def main():
    parser = argparse.ArgumentParser(description="Starts collections of bpftrace's scripts.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=Path, help="a file for one tab-separated line per script")
    wanted = parser.parse_args()
    found = next((place for place in ("/usr/bin/bpftrace", "/usr/local/bin/bpftrace") if os.path.exists(place)), None)
    paths = sorted(wanted.directory.glob("*/**/*.bt"))
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(os.cpu_count()) as pool:
        ours = f"{directory}/bpftrace"
        os.symlink(os.path.realpath(PROFILER), ours)
        examined = list(pool.map(lambda path: examine(path, ours, found), paths))
    names = [path.relative_to(wanted.directory) for path in paths]
    results = {(name.parts[0], "/".join(name.parts[1:])): result for name, result in zip(names, examined)}
    if wanted.rows:
        lines = ["\t".join([*name, *result]) for name, result in results.items()]
        wanted.rows.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if report(results) else 0


if __name__ == "__main__":
    sys.exit(main())
