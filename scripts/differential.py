"""Runs random scripts under bpftrace and under profiler, and compares what they print.

In: PROFILER, the binary, and BPFTRACE, the command of bpftrace 0.27; a number of scripts and a first seed.
Out: how many scripts were the same, the first scripts that were not with both outputs, and how many bpftrace
refused. Exit code 1 if an output differs, or if we refuse a script that bpftrace runs.
Guarantee: the same seed makes the same script. A script only writes its own maps and prints; it attaches
nothing but `BEGIN`.
"""

import argparse
import concurrent.futures
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROFILER = os.environ.get("PROFILER", str(ROOT / "target/release/profiler"))
BPFTRACE = shlex.split(os.environ.get("BPFTRACE", "bpftrace"))
# How long a script may take, on a machine that is busy.
LIMIT_S = 120

WORDS = ["", "a", "ab", "abc", "hello", "hello world", "x y", "tab\\tend", "0123456789abcdefghij"]
NUMBERS = [0, 1, 2, 3, 7, 10, 63, 64, 100, 127, 128, 255, 256, 1000, 32767, 32768, 65535, 65536, 2147483647, 2147483648, 4294967295, 4294967296, 1 << 40]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]


# Aggregations with arguments of their own.
TAKING = {"lhist": "lhist({}, 0, 100, 10)", "fine": "hist({}, 2)", "low": "lhist({}, 10, 500, 70)"}
MACROS = "macro add_one(x) { x + 1 }\nmacro larger(a, b) { (a) > (b) ? (a) : (b) }\n"


class Script:
    """Makes one script."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.names, self.lines, self.depth = 0, [], 1
        # Names in scope, by type.
        self.scopes = [{"int": [], "str": [], "pair": []}]
        self.maps = {
            "@n": ([], "int"), "@k": (["int"], "int"), "@s": (["str"], "int"), "@t": (["int", "str"], "int"),
            "@w": (["int"], "str"), "@p": (["int"], "pair"), "@c": (["int"], "count"), "@sum": ([], "sum"),
            "@min": (["str"], "min"), "@max": (["int"], "max"), "@avg": (["int"], "avg"), "@stats": ([], "stats"),
            "@hist": (["int"], "hist"), "@lhist": ([], "lhist"), "@fine": ([], "fine"), "@low": (["str"], "low"),
            "@b": (["int"], "bool"), "@deep": (["pair", "int"], "deep"),
        }

    def one(self, of):
        return self.dice.choice(of)

    def chance(self, part):
        return self.dice.random() < part

    def variable(self, kind):
        names = [name for scope in self.scopes for name in scope[kind]]
        return self.one(names) if names else None

    def line(self, text):
        self.lines.append("  " * self.depth + text)

    # Expressions.

    def int(self, depth=3):
        if depth <= 0 or self.chance(0.2):
            name = self.variable("int")
            return name if name and self.chance(0.6) else self.number()
        pick = self.dice.randrange(18)
        a = lambda: self.int(depth - 1)
        if pick < 4:
            op = self.one(["+", "-", "*"])
            return f"((int64)({a()}) {op} {a()})" if op == "*" else f"({a()} {op} {a()})"
        if pick == 4:
            return f"((uint64)({a()}) {self.one(['/', '%'])} {self.one([1, 2, 3, 7, 10, 1000])})"
        if pick == 5:
            return f"({a()} {self.one(['&', '|', '^'])} {a()})"
        if pick == 6:
            bits = self.one([0, 1, 3, 8, 31])
            return self.one([f"({a()} << {bits})", f"((uint64)({a()}) >> {bits})"])
        if pick == 7:
            return f"({self.one(INTEGERS)})({a()})"
        if pick == 8:
            return self.one([f"-((int64)({a()}))", f"~((int64)({a()}))"])
        if pick == 9:
            return f"({self.condition(depth - 1)} ? {a()} : {a()})"
        if pick == 10:
            return self.read("int")
        if pick == 11:
            pair = self.pair(depth - 1)
            return f"{pair}.0" if pair.startswith("(") else f"({pair}).0"
        if pick == 12:
            return f"strlen({self.str(depth - 1)})"
        if pick == 13:
            return self.one([f"(int64)@c[{a()}]", "(int64)@sum", f"(int64)@max[{a()}]", f"len({self.one(['@k', '@t', '@c', '@w'])})"])
        if pick == 14:
            return f"strncmp({self.str(depth - 1)}, {self.str(depth - 1)}, {self.one([1, 2, 5])})"
        if pick > 15:
            return self.other()
        return a()

    def other(self):
        """A number that few scripts use."""
        text = lambda: self.str(1)
        return self.one([
            # What is not found is at -2 in 0.27.1, against its documentation.
            lambda: f"(strstr({text()}, {text()}) + 1 > 0)",
            lambda: f"bswap(({self.one(['uint16', 'uint32', 'uint64'])})({self.int(1)}))",
            lambda: f"add_one({self.int(1)})",
            lambda: f"{{ $b{self.new()} = (int64)({self.int(1)}); $b{self.names} + 1 }}",
            lambda: f"larger({self.int(1)}, {self.int(1)})",
            lambda: f"(x={self.int(1)}, y={text()}).x",
            lambda: f"((int64)1, ({text()}, (int64)({self.int(1)}))).1.1",
            lambda: f"(int64)({self.pair(1)} == {self.pair(1)})",
        ])()

    def word(self):
        return self.one([f"signal_name({self.one([1, 2, 9, 15])})", f"strerror({self.one([1, 2, 13])})", f"syscall_name({self.one([0, 1, 59])})", f"ntop({self.one([0, 0x0100007f])})"])

    def new(self):
        self.names += 1
        return self.names

    def number(self):
        value = self.one(NUMBERS)
        return self.one([str(value), str(value), hex(value), f"-{value}" if value < 1 << 62 else str(value)])

    def str(self, depth=2):
        name = self.variable("str")
        if name and self.chance(0.4):
            return name
        pick = self.dice.randrange(8) if depth > 0 else 0
        if pick == 5:
            return f"({self.condition(depth - 1)} ? {self.str(depth - 1)} : {self.str(depth - 1)})"
        if pick == 6:
            return self.read("str")
        if pick == 7:
            return f"{self.pair(depth - 1)}.1"
        if pick == 4:
            # bpftrace counts a NUL in `size`, but not if it can compute the text before the script runs.
            text = self.variable("str") or '"' + self.one(WORDS) + '"'
            return f"str({text}, {self.one([1, 3, 8])})"
        return '"' + self.one(WORDS) + '"'

    def pair(self, depth=2):
        name = self.variable("pair")
        return name if name and self.chance(0.5) else f"({self.int(depth - 1)}, {self.str(depth - 1)})"

    def condition(self, depth=2):
        pick = self.dice.randrange(9) if depth > 0 else 0
        if pick < 4:
            return f"({self.int(depth - 1)} {self.one(COMPARISONS)} {self.int(depth - 1)})"
        if pick == 4:
            return f"({self.str(depth - 1)} {self.one(['==', '!='])} {self.str(depth - 1)})"
        if pick == 5:
            return f"({self.condition(depth - 1)} {self.one(['&&', '||'])} {self.condition(depth - 1)})"
        if pick == 6:
            return f"!({self.condition(depth - 1)})"
        if pick == 7:
            return f"strcontains({self.str(depth - 1)}, {self.str(depth - 1)})"
        name = self.one(["@k", "@t", "@c", "@s"])
        return f"has_key({name}, {self.key(name)})"

    def value(self, kind, depth=2):
        return {"int": self.int, "str": self.str, "pair": self.pair, "bool": self.condition}[kind](depth)

    def keys(self, name):
        # Few keys, so that they meet.
        return ", ".join(str(self.dice.randrange(4)) if kind == "int" and self.chance(0.8) else self.value(kind, 1) for kind in self.maps[name][0])

    def key(self, name):
        keys = self.keys(name)
        return f"({keys})" if len(self.maps[name][0]) > 1 else keys

    def place(self, name):
        keys = self.keys(name)
        return f"{name}[{keys}]" if keys else name

    def read(self, kind):
        return self.place(self.one([name for name, (_, holds) in self.maps.items() if holds == kind]))

    # Statements.

    def statement(self):
        pick = self.dice.randrange(20)
        if pick < 4:
            self.declare()
        elif pick < 8:
            self.write()
        elif pick < 11:
            self.printf()
        elif pick == 11:
            self.line(f"print({self.value(self.one(['int', 'str', 'pair', 'bool']))});")
        elif pick == 12:
            self.line(self.one([f"print({self.one(list(self.maps))});", f"print({self.place(self.one(['@k', '@s', '@w', '@t']))});"]))
        elif pick == 13:
            name = self.one(["@k", "@s", "@t", "@w", "@c", "@max"])
            key = self.key(name)
            self.line(self.one([f"if (has_key({name}, {key})) {{ delete({name}, {key}); }}", f"clear({name});", "zero(@c);"]))
        elif pick == 14 and self.depth < 4:
            self.nest(f"if {self.condition()} {{", "} else {" if self.chance(0.5) else None)
        elif pick == 15 and self.depth < 4:
            self.loop()
        elif pick == 16:
            name = self.variable("int")
            if name:
                step = self.one(["++", "--"])
                self.line(self.one([f"{name}{step};", f"{step}{name};", f"{name} {self.one(['+=', '-=', '*=', '|=', '&=', '^='])} {self.int(1)};"]))
        elif pick == 17:
            place = self.place(self.one(["@n", "@k", "@s"]))
            self.line(self.one([f"{place}++;", f"{place} += {self.int(1)};", f"{place} -= {self.int(1)};"]))
        elif pick == 18:
            self.over_map()
        else:
            self.write()

    def declare(self):
        kind = self.one(["int", "int", "str", "pair"])
        known = self.variable(kind)
        if known and self.chance(0.3) and kind != "pair":
            value = self.value(kind)
            self.line(f"{known} = {'(int64)(' + value + ')' if kind == 'int' else value};")
            return
        self.names += 1
        name, value = f"$v{self.names}", self.value(kind)
        self.line(f"{name} = {'(int64)(' + value + ')' if kind == 'int' else value};")
        self.scopes[-1][kind].append(name)

    def write(self):
        name = self.one(list(self.maps))
        holds, place = self.maps[name][1], self.place(name)
        number = self.int(2)
        if holds in ("int", "str", "pair"):
            value = self.value(holds)
            self.line(f"{place} = {'(int64)(' + value + ')' if holds == 'int' else value};")
        elif holds == "count":
            self.line(f"{place} = count();")
        elif holds in TAKING:
            self.line(f"{place} = {TAKING[holds].format(number)};")
        elif holds == "bool":
            self.line(f"{place} = {self.condition()};")
        elif holds == "deep":
            self.line(f"{place} = ((int64)({number}), ({self.str(1)}, (int64)({self.int(1)})), {self.condition(1)});")
        else:
            self.line(f"{place} = {holds}((int64)({number}));")

    def printf(self):
        parts, values = [], []
        for _ in range(self.dice.randrange(1, 5)):
            form, kind = self.one([("%d", "int"), ("%d", "int"), ("%lld", "int"), ("%5d", "int"), ("%-6d|", "int"), ("%x", "int"), ("%llx", "int"), ("%u", "int"), ("%llu", "int"), ("%08x", "int"), ("%c", "char"), ("%s", "word"), ("%rx", "buf"), ("%r", "buf"),
                                   ("%s", "str"), ("%s", "str"), ("%10s", "str"), ("%-12s|", "str")])
            parts.append(form)
            values.append(self.str() if kind == "str" else self.word() if kind == "word" else f'buf("{self.one(WORDS[3:6])}", {self.one([1, 3])})' if kind == "buf" else str(self.dice.randrange(65, 90)) if kind == "char" else self.int())
        self.line(f'printf("{" ".join(parts)}\\n", {", ".join(values)});')

    def nest(self, head, middle=None):
        self.line(head)
        for part in range(2 if middle else 1):
            if part:
                self.line(middle)
            self.depth += 1
            self.scopes.append({"int": [], "str": [], "pair": []})
            for _ in range(self.dice.randrange(1, 4)):
                self.statement()
            self.scopes.pop()
            self.depth -= 1
        self.line("}")

    def loop(self):
        self.names += 1
        name = f"$i{self.names}"
        kind = self.one(["for", "while", "unroll"])
        if kind == "for":
            self.nest(f"for {name} : 0..{self.dice.randrange(1, 5)} {{")
        elif kind == "unroll":
            self.nest(f"unroll({self.dice.randrange(1, 4)}) {{")
        else:
            self.line(f"{name} = 0;")
            self.line(f"while ({name} < {self.dice.randrange(1, 5)}) {{")
            self.line(f"  {name}++;")
            if self.chance(0.3):
                self.line(f"  if ({name} == 2) {{ {self.one(['break', 'continue'])}; }}")
            head = len(self.lines)
            self.nest("{")
            del self.lines[head]
            self.lines.pop()
            self.line("}")

    def over_map(self):
        self.names += 1
        name = f"$kv{self.names}"
        of, form = self.one([("@k", '"%d %d\\n", {0}.0, {0}.1'), ("@s", '"%s %d\\n", {0}.0, {0}.1'), ("@t", '"%d %s %d\\n", {0}.0.0, {0}.0.1, {0}.1'), ("@w", '"%d %s\\n", {0}.0, {0}.1')])
        self.line(f"for ({name} : {of}) {{ printf({form.format(name)}); }}")

    def text(self):
        # Each map has its type before it is read.
        for name, (keys, holds) in self.maps.items():
            word = '"a long enough word for all"'
            first = {"int": "(int64)1", "str": word, "pair": f"((int64)1, {word})", "count": "count()", "bool": "true", "deep": f"((int64)1, ({word}, (int64)1), true)"}
            first |= {holds: form.format(5) for holds, form in TAKING.items()}
            key = f"[{', '.join(first[kind] for kind in keys)}]" if keys else ""
            self.line(f"{name}{key} = {first.get(holds, holds + '((int64)3)')};")
        for _ in range(self.dice.randrange(6, 22)):
            self.statement()
        return MACROS + "BEGIN\n{\n" + "\n".join(self.lines) + "\n  exit();\n}\n"


def run(command, path):
    """The exit code, the lines in order of their text, and the complaints."""
    try:
        ended = subprocess.run([*command, path], capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return 124, [], "it did not end"
    lines = [line.rstrip() for line in ended.stdout.decode(errors="replace").splitlines() if line.strip() and not line.startswith("Attach")]
    return ended.returncode, sorted(filter(None, map(ordered, lines))), ended.stderr.decode(errors="replace")


def ordered(line):
    """A line of JSON with its members in order of their names; without what bpftrace says of helpers that did not fail."""
    if not line.startswith('{"type"'):
        return line
    document = json.loads(line)
    return None if document["type"] == "helper_error" and not document["retcode"] else json.dumps(document, sort_keys=True)


def compare(seed, directory):
    text = Script(seed).text()
    path = str(Path(directory) / f"{seed}.bt")
    Path(path).write_text(text)
    # Every third script in JSON.
    form = ["-f", "json"] if seed % 3 == 0 else []
    theirs = run([*BPFTRACE, *form], path)
    mine = run([str(Path(directory) / "bpftrace"), *form], path)
    if theirs[0] != 0:
        return ("bpftrace refuses it" if mine[0] != 0 else "only bpftrace refuses it"), seed, text, mine, theirs
    if mine[0] != 0:
        return "only profiler refuses it", seed, text, mine, theirs
    return ("same" if mine[1] == theirs[1] else "different"), seed, text, mine, theirs


def show(kind, seed, text, mine, theirs):
    print(f"== seed {seed}: {kind}\n{text}")
    for who, (code, lines, complaint), other in (("profiler", mine, theirs[1]), ("bpftrace", theirs, mine[1])):
        only = Counter(lines) - Counter(other)
        print(f"-- only {who} (exit {code}):")
        print("\n".join(sorted(only.elements())[:12]))
        if code:
            print(complaint[:1500])


def main():
    parser = argparse.ArgumentParser(description="Compares what random scripts print under bpftrace and under profiler.")
    parser.add_argument("count", nargs="?", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="the first seed [default: 1]")
    parser.add_argument("--show", type=int, default=5, help="how many differences are shown [default: 5]")
    options = parser.parse_args()
    version = subprocess.run([*BPFTRACE, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    results, shown = Counter(), 0
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        # Under bpftrace's name, we read scripts as bpftrace does.
        (Path(directory) / "bpftrace").symlink_to(PROFILER)
        seeds = range(options.seed, options.seed + options.count)
        for result in pool.map(lambda seed: compare(seed, directory), seeds):
            results[result[0]] += 1
            if result[0] in ("different", "only profiler refuses it") and shown < options.show:
                shown += 1
                show(*result)
    print(f"{options.count} scripts beside {version}: " + ", ".join(f"{count} {kind}" for kind, count in results.most_common()))
    sys.exit(1 if results["different"] or results["only profiler refuses it"] or not results["same"] else 0)


if __name__ == "__main__":
    main()
