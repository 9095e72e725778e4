//! Random well-typed scripts, as syntax trees.
//!
//! In: a seed. Out: a script of the core language. Guarantees: the same seed gives the same script.
//! Its types agree, so the checker refuses it only for a documented reason (a size, a mixed use of
//! a probe's context).

mod expressions;
mod records;
mod shapes;
mod spans;
mod statements;

use profiler_compiler::ast::{ConfigEntry, Every, Expr, ExprKind, Ident, Script, State, Stmt, StmtKind, View};
use profiler_compiler::parse;
use profiler_compiler::source::{Source, Span};

use crate::dice::Dice;
use crate::tree;
use shapes::{FIXED_POINTS, Held, MapShape, POINTS, ProbeShape, Ty};

/// The script of a seed, with any probes and any reads.
pub fn script(seed: u64) -> Script {
    Generator::new(seed, false).script()
}

/// A script whose programs can run in sequence by test run, with the same result in every run.
pub fn fixed_script(seed: u64) -> Script {
    Generator::new(seed, true).script()
}

/// Generates one script.
struct Generator {
    dice: Dice,
    /// Whether the script must avoid everything that differs from run to run.
    fixed: bool,
    /// Whether loops compile.
    loops: bool,
    /// Variables in scope.
    vars: Vec<(String, Ty)>,
    maps: Vec<MapShape>,
    here: ProbeShape,
    fresh: u32,
    /// Other values that can be read here, but not written.
    places: Vec<(Expr, Ty)>,
    /// Declarations of the states among the maps.
    states: Vec<State>,
    /// Spans with the names of their stages.
    spans: Vec<(String, Vec<String>)>,
}

/// Whether the compiler supports bounded loops.
fn has_loops() -> bool {
    static LOOPS: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        let source = Source::new("loops", "BEGIN { for $i : 0..3 { @ = $i; } }");
        let tree = parse::parse(&source).expect("parses");
        let options = profiler_compiler::check::Options::default();
        let (_, diagnostics) =
            profiler_compiler::check::check(&tree, &profiler_compiler::CATALOGUE, &*crate::executors::HOST, &options);
        diagnostics.iter().all(|diagnostic| !diagnostic.is_error())
    });
    *LOOPS
}

impl Generator {
    fn new(seed: u64, fixed: bool) -> Generator {
        let here = ProbeShape { point: "BEGIN", ints: &[], strings: &[], stacks: false };
        let dice = Dice::new(seed);
        let (vars, maps, places, states, spans) = Default::default();
        Generator { dice, fixed, loops: has_loops(), vars, maps, here, fresh: 0, places, states, spans }
    }

    fn script(&mut self) -> Script {
        let config = self.config();
        self.make_maps();
        let probes = match self.dice.below(40) {
            _ if self.fixed => self.dice.pick(&[0, 0, 1, 3]),
            0 => 100,
            1..=5 => 8,
            6..=20 => 3,
            _ => 1,
        };
        let mut spans = Vec::new();
        let mut blocks = Vec::new();
        if self.dice.one_in(3) {
            for index in 0..=self.dice.below(2) {
                let (span, handlers) = self.span(index);
                let stages = span.stages.iter().map(|stage| stage.kind.event().to_owned());
                let stages = stages.filter(|stage| stage != "end").collect();
                self.spans.push((span.name.text.clone(), stages));
                spans.push(span);
                blocks.extend(handlers);
            }
        }
        let views = if self.dice.one_in(5) { self.windows() } else { Vec::new() };
        blocks.push(self.first_probe());
        for _ in 0..probes {
            blocks.push(self.probe(if probes > 10 { 3 } else { 12 }));
        }
        Script { config, blocks, spans, views, states: std::mem::take(&mut self.states), ..Script::default() }
    }

    /// A view that clears its maps periodically, so they are double-buffered.
    fn windows(&mut self) -> Vec<View> {
        let cleared = |map: &&MapShape| matches!(map.held, Held::Aggregate(..) | Held::Plain(Ty::Int));
        let mut of: Vec<Ident> = self.maps.iter().filter(cleared).map(|map| tree::ident(&map.name)).collect();
        of.truncate(1);
        let every = Every { period: tree::expr(ExprKind::Duration(1_000_000_000)), clear: true };
        let title = tree::ident("windows");
        let view = View {
            title,
            of,
            by: None,
            show: Vec::new(),
            filter: None,
            sort: None,
            top: None,
            every: Some(every),
            flame: None,
            empty: None,
            span: Span::default(),
        };
        if view.of.is_empty() { Vec::new() } else { vec![view] }
    }

    fn config(&mut self) -> Vec<ConfigEntry> {
        let mut config = Vec::new();
        let mut set = |name: &str, value: u64| {
            config.push(ConfigEntry { key: tree::ident(name), value: tree::int(value) });
        };
        if self.fixed {
            // A ring buffer small enough for a busy script to fill.
            set("perf_rb_pages", 16);
        }
        if self.dice.one_in(3) {
            let sizes: &[u64] = if self.fixed {
                &[4, 16, 64, 200, 256, 1000]
            } else {
                &[4, 16, 64, 200, 255, 256, 500, 1024, 2000, 4096, 16384]
            };
            set("max_strlen", self.dice.pick(sizes));
        }
        if self.fixed && self.dice.one_in(6) {
            set("max_map_keys", 1 + self.dice.below(3));
        }
        config
    }

    fn make_maps(&mut self) {
        for index in 0..=self.dice.below(7) {
            let name = format!("m{index}");
            let key = match self.dice.below(4) {
                0 => None,
                _ => Some((0..=self.dice.below(3)).map(|_| self.key_ty()).collect()),
            };
            let held = match self.dice.below(8) {
                0..=2 => Held::Plain(self.ty(2)),
                3 => self.record(),
                4 => {
                    let state = self.state(index);
                    self.maps.push(state);
                    continue;
                }
                _ => self.aggregation(),
            };
            self.maps.push(MapShape { name, key, held });
        }
    }

    /// Assigns a value to every map.
    fn first_probe(&mut self) -> profiler_compiler::ast::ProbeBlock {
        let mut body = Vec::new();
        if self.fixed && self.dice.one_in(2) {
            self.enter_probe();
        } else if !self.fixed {
            self.here = ProbeShape { point: "tracepoint:sched:sched_wakeup", ints: &[], strings: &[], stacks: true };
        }
        for map in self.maps.clone() {
            match &map.held {
                Held::Record(fields) => self.write_all_fields(&map, fields, &mut body),
                _ => body.push(self.write(&map)),
            }
        }
        if self.fixed {
            self.statements(4, 20, 1, &mut body);
        }
        tree::block(self.here.point, None, body)
    }

    fn enter_probe(&mut self) {
        let points = if self.fixed { FIXED_POINTS } else { POINTS };
        let (points, ints, strings, stacks) = points[self.dice.below(points.len() as u64) as usize];
        let point = self.dice.pick(points);
        self.here = ProbeShape { point, ints, strings, stacks };
        self.vars.clear();
    }

    fn probe(&mut self, most_statements: u64) -> profiler_compiler::ast::ProbeBlock {
        self.enter_probe();
        let predicate = if self.dice.one_in(3) { Some(self.condition(2)) } else { None };
        let mut body = Vec::new();
        if self.dice.one_in(6) {
            // More variables than registers, all live to the end.
            for _ in 0..30 {
                body.push(self.declare());
            }
        }
        self.statements(1, most_statements, 1, &mut body);
        let live: Vec<Expr> = self.vars.iter().filter(|v| v.1 == Ty::Int).map(|v| tree::var(&v.0)).collect();
        if live.len() > 12 {
            let add = |a, b| tree::binary(profiler_compiler::ast::BinaryOp::Add, a, b);
            let sum = live.into_iter().reduce(add).unwrap_or_else(|| tree::int(0));
            body.push(tree::assign(tree::map("live", Vec::new()), None, tree::call("sum", vec![sum])));
        }
        tree::block(self.here.point, predicate, body)
    }

    fn statements(&mut self, least: u64, most: u64, depth: u32, body: &mut Vec<Stmt>) {
        for _ in 0..least + self.dice.below(most - least + 1) {
            let stmt = self.statement(depth);
            body.push(stmt);
        }
    }

    /// A nested block; the variables it declares go out of scope at its end.
    fn body(&mut self, depth: u32) -> Vec<Stmt> {
        let known = self.vars.len();
        let mut body = Vec::new();
        self.statements(1, 5, depth + 1, &mut body);
        self.vars.truncate(known);
        body
    }

    fn fresh(&mut self) -> String {
        self.fresh += 1;
        format!("v{}", self.fresh)
    }

    fn declare(&mut self) -> Stmt {
        let ty = self.ty(2);
        let value = self.value(&ty, 3);
        let name = self.fresh();
        self.vars.push((name.clone(), ty));
        if self.dice.one_in(4) {
            return tree::stmt(StmtKind::Let { name: tree::ident(&name), ty: None, value: Some(value) });
        }
        tree::assign(tree::var(&name), None, value)
    }
}
