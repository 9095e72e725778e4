//! Random well-typed scripts, as text.
//!
//! In: a seed. Out: a script of the core language. Guarantees: the same seed gives the same script; its types agree, so that
//! the checker refuses it only for a reason that the language documents (a size, a mixed use of a probe's context).

mod expressions;

use std::fmt::Write as _;

use crate::dice::Dice;

/// The types that the generator tells apart.
#[derive(Debug, Clone, PartialEq)]
pub enum Ty {
    Int,
    Str,
    Tuple(Vec<Ty>),
    /// `kstack`, `ustack`, `ksym(…)`, …: a value with one way to be made.
    Word(&'static str),
}

/// What a map holds.
#[derive(Debug, Clone)]
enum Held {
    Plain(Ty),
    Aggregate(String),
}

#[derive(Debug, Clone)]
struct MapShape {
    name: String,
    key: Option<Vec<Ty>>,
    held: Held,
}

/// A probe and what its context offers.
struct ProbeShape {
    point: String,
    ints: &'static [&'static str],
    strings: &'static [&'static str],
    stacks: bool,
}

const OPERATORS: &[&str] = &["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"];

const POINTS: &[ProbeEntry] = &[
    (&["BEGIN", "END", "interval:s:1", "interval:ms:100"], &[], &[], false),
    (
        &["tracepoint:sched:sched_switch"],
        &["args.prev_pid", "args.next_pid", "args.prev_state", "args.next_prio"],
        &["args.prev_comm", "args.next_comm"],
        true,
    ),
    (
        &["tracepoint:sched:sched_process_exec"],
        &["args.pid", "args.old_pid"],
        &["str(args.filename)", "str(args.filename, 30)"],
        true,
    ),
    (
        &["tracepoint:syscalls:sys_enter_openat"],
        &["args.dfd", "args.flags", "args.mode", "args.filename"],
        &["str(args.filename)", "str(args.filename, 17)", "str(args.filename, 200)"],
        true,
    ),
    (
        &["tracepoint:syscalls:sys_enter_write", "tracepoint:syscalls:sys_enter_read"],
        &["args.fd", "args.count", "args.buf"],
        &["str(args.buf)", "str(args.buf, 8)"],
        true,
    ),
    (
        &["tracepoint:syscalls:sys_exit_read", "tracepoint:syscalls:sys_exit_openat", "tracepoint:syscalls:sys_exit_*"],
        &["args.ret"],
        &[],
        true,
    ),
    (&["tracepoint:raw_syscalls:sys_enter"], &["args.id", "args.args[0]", "args.args[5]"], &[], true),
    (&["rawtracepoint:sched_switch", "rawtracepoint:sys_enter"], &["arg0", "arg1", "arg2"], &["str(arg1)"], true),
    (
        &["uprobe:libc:malloc", "uprobe:libc:read", "uprobe:libc:open*"],
        &["arg0", "arg1", "arg2", "reg(\"ip\")", "*(uint32 *)arg1", "*(int8 *)(arg0 + 3)"],
        &["str(arg1)", "str(arg0, 100)"],
        true,
    ),
    (&["uretprobe:libc:malloc", "uretprobe:libc:read"], &["retval", "*(uint16 *)retval"], &["str(retval, 32)"], true),
    (&["profile:hz:99", "software:page-faults:10", "software:cpu-clock:1000000"], &[], &[], true),
];

type ProbeEntry = (&'static [&'static str], &'static [&'static str], &'static [&'static str], bool);

/// The script of a seed.
pub fn script(seed: u64) -> String {
    let mut generator = Generator::new(seed, false);
    generator.script();
    generator.out
}

/// A script of one `BEGIN` whose maps end up the same in every run.
pub fn fixed_script(seed: u64) -> String {
    let mut generator = Generator::new(seed, true);
    generator.fixed_script();
    generator.out
}

struct Generator {
    dice: Dice,
    /// Whether the script may use nothing that differs from run to run.
    fixed: bool,
    out: String,
    /// Variables in reach.
    vars: Vec<(String, Ty)>,
    maps: Vec<MapShape>,
    here: Option<ProbeShape>,
    fresh: u32,
}

impl Generator {
    fn new(seed: u64, fixed: bool) -> Generator {
        let dice = Dice::new(seed);
        Generator { dice, fixed, out: String::new(), vars: Vec::new(), maps: Vec::new(), here: None, fresh: 0 }
    }

    fn fixed_script(&mut self) {
        if self.dice.one_in(2) {
            let size = self.dice.pick(&[16, 64, 200, 256, 1000]);
            let _ = writeln!(self.out, "config = {{ max_strlen = {size} }}");
        }
        self.make_maps();
        self.out.push_str("BEGIN {\n");
        for map in self.maps.clone() {
            self.write(&map);
        }
        for _ in 0..4 + self.dice.below(16) {
            self.statement(1);
        }
        self.out.push_str("}\n");
    }

    fn script(&mut self) {
        if self.dice.one_in(3) {
            let size = self.dice.pick(&[4, 16, 64, 200, 255, 256, 500, 1024, 2000, 4096, 16384]);
            let _ = writeln!(self.out, "config = {{ max_strlen = {size} }}");
        }
        self.make_maps();
        let probes = match self.dice.below(40) {
            0 => 100,
            1..=5 => 8,
            6..=20 => 3,
            _ => 1,
        };
        self.fill_maps();
        for _ in 0..probes {
            self.probe(if probes > 10 { 3 } else { 12 });
        }
    }

    fn make_maps(&mut self) {
        for index in 0..=self.dice.below(7) {
            let name = format!("@m{index}");
            let key = match self.dice.below(4) {
                0 => None,
                _ => Some((0..=self.dice.below(3)).map(|_| self.key_ty()).collect()),
            };
            let held = if self.dice.one_in(2) { Held::Plain(self.ty(2)) } else { Held::Aggregate(self.aggregation()) };
            self.maps.push(MapShape { name, key, held });
        }
    }

    /// Every map is given a value somewhere.
    fn fill_maps(&mut self) {
        self.out.push_str("tracepoint:sched:sched_wakeup {\n");
        for map in self.maps.clone() {
            self.write(&map);
        }
        self.out.push_str("}\n");
    }

    fn key_ty(&mut self) -> Ty {
        match self.dice.below(10) {
            0 if !self.fixed => {
                Ty::Word(self.dice.pick(&["kstack", "ustack", "kstack(perf, 5)", "ustack(3)", "probe", "username"]))
            }
            _ => self.ty(2),
        }
    }

    fn ty(&mut self, depth: u32) -> Ty {
        match self.dice.below(12) {
            0..=5 => Ty::Int,
            6..=8 => Ty::Str,
            9 if !self.fixed => Ty::Word(self.dice.pick(&[
                "ksym(curtask)",
                "usym(pid)",
                "ntop(pid)",
                "strftime(\"%H\", nsecs)",
                "probe",
                "true",
            ])),
            _ if depth > 0 => Ty::Tuple((0..2 + self.dice.below(3)).map(|_| self.ty(depth - 1)).collect()),
            _ => Ty::Int,
        }
    }

    fn aggregation(&mut self) -> String {
        match self.dice.below(14) {
            0 | 1 => "count()".into(),
            2 => "sum(N)".into(),
            3 => "min(N)".into(),
            4 => "max(N)".into(),
            5 => "avg(N)".into(),
            6 => "stats(N)".into(),
            7 | 8 => "hist(N)".into(),
            9 => format!("hist(N, {})", self.dice.below(6)),
            10 => "lhist(N, 0, 1000, 1)".into(),
            11 => "lhist(N, 5, 17, 4)".into(),
            12 => "lhist(N, 0, 100000, 1000)".into(),
            _ => "sum(N)".into(),
        }
    }

    fn probe(&mut self, most_statements: u64) {
        let (points, ints, strings, stacks) = POINTS[self.dice.below(POINTS.len() as u64) as usize];
        let point = self.dice.pick(points).to_string();
        self.here = Some(ProbeShape { point: point.clone(), ints, strings, stacks });
        self.vars.clear();
        self.out.push_str(&point);
        if self.dice.one_in(3) {
            let condition = self.condition(2);
            let _ = write!(self.out, " /({condition})/");
        }
        self.out.push_str(" {\n");
        if self.dice.one_in(6) {
            // More variables than registers, all alive to the end.
            for _ in 0..30 {
                self.declare();
            }
        }
        let statements = 1 + self.dice.below(most_statements);
        for _ in 0..statements {
            self.statement(1);
        }
        let live: Vec<String> = self.vars.iter().filter(|v| v.1 == Ty::Int).map(|v| v.0.clone()).collect();
        if live.len() > 12 {
            let _ = writeln!(self.out, "  @live = sum({});", live.join(" + "));
        }
        self.out.push_str("}\n");
    }

    fn fresh(&mut self) -> String {
        self.fresh += 1;
        format!("$v{}", self.fresh)
    }

    fn declare(&mut self) {
        let ty = self.ty(2);
        let value = self.value(&ty, 3);
        let name = self.fresh();
        let _ = writeln!(self.out, "  {name} = {value};");
        self.vars.push((name, ty));
    }

    fn block(&mut self, depth: u32) {
        let known = self.vars.len();
        self.out.push_str(" {\n");
        for _ in 0..=self.dice.below(4) {
            self.statement(depth + 1);
        }
        self.out.push('}');
        self.vars.truncate(known);
    }

    fn statement(&mut self, depth: u32) {
        match self.dice.below(20) {
            0..=3 => self.declare(),
            4 => self.assign(),
            5..=9 => self.write_map(),
            10 | 11 if depth < 4 => {
                let condition = self.condition(3);
                let _ = write!(self.out, "  if ({condition})");
                self.block(depth);
                if self.dice.one_in(2) {
                    self.out.push_str(" else");
                    self.block(depth);
                }
                self.out.push('\n');
            }
            12 if depth < 3 => {
                let _ = write!(self.out, "  unroll ({})", 1 + self.dice.below(5));
                self.block(depth + 1);
                self.out.push('\n');
            }
            13 | 14 => self.printf(),
            15 => self.print(),
            16 => self.remove(),
            17 => self.step(),
            18 if !self.fixed => self.rarity(depth),
            _ => self.write_map(),
        }
    }

    fn assign(&mut self) {
        if self.vars.is_empty() {
            return self.declare();
        }
        let (name, ty) = self.vars[self.dice.below(self.vars.len() as u64) as usize].clone();
        if ty == Ty::Int && self.dice.one_in(3) {
            let op = self.dice.pick(OPERATORS);
            let value = self.int(2);
            let _ = writeln!(self.out, "  {name} {op}= {value};");
        } else {
            let value = self.value(&ty, 3);
            let _ = writeln!(self.out, "  {name} = {value};");
        }
    }

    fn place(&mut self, map: &MapShape) -> String {
        match &map.key {
            None => map.name.clone(),
            Some(parts) => {
                let parts: Vec<String> = parts.iter().map(|ty| self.value(ty, 2)).collect();
                format!("{}[{}]", map.name, parts.join(", "))
            }
        }
    }

    fn write_map(&mut self) {
        let map = self.any_map();
        self.write(&map);
    }

    fn write(&mut self, map: &MapShape) {
        let place = self.place(map);
        match &map.held {
            Held::Aggregate(word) => {
                let value = self.int(3);
                let word = word.replace('N', &value);
                let _ = writeln!(self.out, "  {place} = {word};");
            }
            Held::Plain(Ty::Int) if self.dice.one_in(3) => {
                let op = self.dice.pick(OPERATORS);
                let value = self.int(2);
                let _ = writeln!(self.out, "  {place} {op}= {value};");
            }
            Held::Plain(ty) => {
                let value = self.value(ty, 3);
                let _ = writeln!(self.out, "  {place} = {value};");
            }
        }
    }

    fn any_map(&mut self) -> MapShape {
        self.maps[self.dice.below(self.maps.len() as u64) as usize].clone()
    }

    fn printf(&mut self) {
        let count = if self.dice.one_in(8) { 12 } else { self.dice.below(5) };
        let (mut format, mut args) = (String::new(), Vec::new());
        for _ in 0..count {
            let (spec, arg) = match self.dice.below(12) {
                0 => ("%x", self.int(3)),
                1 => ("%5d", self.int(3)),
                2 => ("%c", self.int(1)),
                3 | 4 => ("%d", self.int(4)),
                5 => ("%lld", self.int(2)),
                6..=8 => ("%s", self.string(3)),
                9 if self.has_stacks() => {
                    ("%s", self.dice.pick(&["kstack", "ustack", "kstack(3)", "ustack(perf, 100)"]).to_string())
                }
                10 if !self.fixed => (
                    "%s",
                    self.dice
                        .pick(&["ksym(curtask)", "ntop(pid)", "probe", "username", "strftime(\"%H:%M\", nsecs)"])
                        .to_string(),
                ),
                11 if !self.fixed => ("%r", self.buffer()),
                _ => ("%-20s|", self.string(1)),
            };
            format.push_str(spec);
            format.push(' ');
            args.push(arg);
        }
        args.insert(0, format!("\"{format}\\n\""));
        let _ = writeln!(self.out, "  printf({});", args.join(", "));
    }

    fn buffer(&mut self) -> String {
        let size = match self.dice.below(3) {
            0 => self.dice.pick(&["1", "16", "100", "1024"]).to_string(),
            _ => format!("pid + {}", self.int(1)),
        };
        format!("buf(curtask, {size})")
    }

    fn has_stacks(&self) -> bool {
        self.here.as_ref().is_some_and(|here| here.stacks)
    }

    fn print(&mut self) {
        let what = match self.dice.below(4) {
            0 => {
                let map = self.any_map();
                if map.key.is_some() && self.dice.one_in(2) { self.place(&map) } else { map.name }
            }
            _ => {
                let ty = self.ty(2);
                self.value(&ty, 3)
            }
        };
        let _ = writeln!(self.out, "  print({what});");
    }

    fn remove(&mut self) {
        let map = self.any_map();
        let place = self.place(&map);
        let word = match self.dice.below(5) {
            _ if self.fixed => format!("delete({place})"),
            0 => format!("clear({})", map.name),
            1 => format!("zero({})", map.name),
            _ => format!("delete({place})"),
        };
        let _ = writeln!(self.out, "  {word};");
    }

    fn step(&mut self) {
        let numbers: Vec<MapShape> =
            self.maps.iter().filter(|m| matches!(m.held, Held::Plain(Ty::Int))).cloned().collect();
        if let Some(map) = numbers.first() {
            let place = self.place(map);
            let _ = writeln!(self.out, "  {place}{};", self.dice.pick(&["++", "--"]));
        }
    }

    /// Statements that scripts seldom have.
    fn rarity(&mut self, depth: u32) {
        match self.dice.below(8) {
            0 if depth > 1 => self.out.push_str("  return;\n"),
            1 => {
                let _ = writeln!(self.out, "  exit();");
            }
            2 => self.out.push_str("  time(\"%H:%M:%S\\n\");\n"),
            3 => {
                let path = self.string(1);
                let _ = writeln!(self.out, "  cat(\"/proc/%s/%d\", {path}, pid);");
            }
            4 => self.out.push_str("  join(curtask);\n"),
            5 if self.has_stacks() => self.out.push_str("  print(kstack); print(ustack);\n"),
            6 => {
                let (condition, a, b) = (self.condition(2), self.string(1), self.string(1));
                let _ = writeln!(self.out, "  {condition} ? printf(\"%s\\n\", {a}) : printf(\"%s!\\n\", {b});");
            }
            _ => self.printf(),
        }
    }
}
