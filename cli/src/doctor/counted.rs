//! Adds counters to a script: how often each block was reached, before and after its filter.
//!
//! In: a script's syntax tree. Out: the same with counters in each block, and their values.
//! Guarantee: the behaviour of the script is unchanged; the counters are maps that no script can
//! name and no run prints.

use profiler_compiler::ast::{Expr, ExprKind, Ident, ProbeBlock, Script, Stage, Stmt, StmtKind};
use profiler_compiler::object::{Object, Program, Storage};
use profiler_compiler::source::Span;

use profiler_runtime::load::Loaded;

/// A block of the script, or a stage of one of its spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// The whole block.
    pub(super) span: Span,
    /// Its first probe, as written.
    pub(super) point: Span,
    pub(super) filter: Option<Span>,
    /// Number of events before the filter.
    pub(super) seen: u64,
    /// Number of events that passed the filter.
    pub(super) passed: u64,
}

impl Block {
    /// Whether a program is compiled from it: programs record the span of their block, or of the
    /// probe of a stage.
    pub(super) fn is_of(&self, program: &Program) -> bool {
        self.span.start <= program.span.start && program.span.end <= self.span.end
    }
}

/// Adds counters to each block and each stage of a script.
pub(super) fn count(script: &mut Script) -> Vec<Block> {
    let mut blocks: Vec<Block> =
        script.blocks.iter_mut().enumerate().map(|(index, block)| count_block(index, block)).collect();
    for stage in script.spans.iter_mut().flat_map(|span| &mut span.stages) {
        blocks.push(count_stage(blocks.len(), stage));
    }
    blocks
}

fn count_block(index: usize, block: &mut ProbeBlock) -> Block {
    let span = block.span;
    let filter = block.predicate.as_ref().map(|filter| filter.span);
    let mut body = std::mem::take(&mut block.body);
    if let Some(cond) = block.predicate.take() {
        body.insert(0, counter(&passed(index), span));
        let filtered = StmtKind::If { cond, then: body, otherwise: Vec::new() };
        body = vec![Stmt { kind: filtered, span }];
    }
    body.insert(0, counter(&seen(index), span));
    block.body = body;
    Block { span, point: block.points.first().map_or(span, |point| point.span), filter, seen: 0, passed: 0 }
}

/// A stage has no statements: its filter counts, `{ @seen = count(); filter ? { @passed = count();
/// 1 } : 0 }`.
fn count_stage(index: usize, stage: &mut Stage) -> Block {
    let span = stage.span;
    let filter = stage.predicate.as_ref().map(|filter| filter.span);
    let expr = |kind| Expr { kind, span };
    let number = |number| expr(ExprKind::Int(number));
    let condition = match stage.predicate.take() {
        None => number(1),
        Some(cond) => {
            let then = expr(ExprKind::Block(vec![counter(&passed(index), span)], Box::new(number(1))));
            let (cond, then, otherwise) = (Box::new(cond), Some(Box::new(then)), Box::new(number(0)));
            expr(ExprKind::Ternary { cond, then, otherwise })
        }
    };
    stage.predicate = Some(expr(ExprKind::Block(vec![counter(&seen(index), span)], Box::new(condition))));
    Block { span, point: stage.points.first().map_or(span, |point| point.span), filter, seen: 0, passed: 0 }
}

/// No script can write names with a quote; private names of modules use one too.
fn seen(index: usize) -> String {
    format!("doctor'seen{index}")
}

fn passed(index: usize) -> String {
    format!("doctor'passed{index}")
}

/// Builds `@name = count();`, which costs two nanoseconds.
fn counter(name: &str, span: Span) -> Stmt {
    let expr = |kind| Expr { kind, span };
    let target = expr(ExprKind::Map { name: name.to_owned(), keys: Vec::new() });
    let value = expr(ExprKind::Call { name: Ident { text: "count".into(), span }, args: Vec::new() });
    Stmt { kind: StmtKind::Assign { target, op: None, value }, span }
}

/// Whether a map is one of these counters.
pub(super) fn is_counter(map: &str) -> bool {
    map.trim_start_matches('@').starts_with("doctor'")
}

/// Reads the counters into the blocks.
pub(super) fn read(blocks: &mut [Block], object: &Object, loaded: &Loaded) {
    for (index, block) in blocks.iter_mut().enumerate() {
        block.seen = value(&seen(index), object, loaded);
        block.passed = if block.filter.is_some() { value(&passed(index), object, loaded) } else { block.seen };
    }
}

/// The sum over all per-CPU copies.
fn value(name: &str, object: &Object, loaded: &Loaded) -> u64 {
    let map = object.maps.iter().find(|map| map.name.strip_prefix('@') == Some(name));
    let Some(Storage::Global { offset_bytes, stride_bytes, copies, .. }) = map.map(|map| &map.storage) else {
        return 0;
    };
    // A copy consists of a word that says whether it was written, and the count.
    let copy = |copy: u32| loaded.globals().bss_u64(offset_bytes + copy * stride_bytes + 8).unwrap_or(0);
    (0..*copies).map(copy).sum()
}
