//! Maps whose values no program reads.
//!
//! In: a script and the inferred types of its maps. Out: the maps that programs only aggregate
//! into; only user space reads them.
//! Guarantee: a map that a program might read or delete entries from is not included.

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::visit::{self, Node};
use crate::ast::{Expr, ExprKind, Script, SpanDefinition, StmtKind};
use crate::catalogue::Catalogue;
use crate::check::maps::Maps;
use crate::statistics::Statistic;
use crate::typed::{MapIndex, MapValue};

/// Returns the maps whose values no program reads.
pub(super) fn of(script: &Script, maps: &Maps, catalogue: &Catalogue) -> BTreeSet<MapIndex> {
    let mut mentions = Mentions { catalogue, reads: BTreeMap::new() };
    for block in &script.blocks {
        block.predicate.iter().for_each(|e| visit::walk_expr(e, &mut |e| mentions.expr(e)));
        visit::walk(&block.body, &mut |node| mentions.node(node));
    }
    let others = script.spans.iter().flat_map(SpanDefinition::exprs).chain(script.defines.iter().map(|it| &it.value));
    others.for_each(|e| visit::walk_expr(e, &mut |e| mentions.expr(e)));
    let Mentions { reads, .. } = mentions;
    let unread = maps.list.iter().enumerate().filter(|(_, info)| {
        let is_aggregated = matches!(info.value, Some(MapValue::Aggregate { .. }));
        is_aggregated && info.declared.is_none() && reads.get(&info.id).is_none_or(|reads| *reads == 0)
    });
    unread.map(|(index, _)| MapIndex(index)).collect()
}

/// Counts the occurrences of each map, minus those that do not read it in the program.
struct Mentions<'a> {
    catalogue: &'a Catalogue,
    reads: BTreeMap<String, i64>,
}

impl Mentions<'_> {
    fn node(&mut self, node: Node<'_>) {
        match node {
            Node::Expr(e) => self.expr(e),
            // The target of an aggregation assignment is not a read.
            Node::Stmt(stmt) => {
                if let StmtKind::Assign { target, op: None, .. } = &stmt.kind {
                    self.count(target, -1);
                }
            }
        }
    }

    fn expr(&mut self, e: &Expr) {
        self.count(e, 1);
        match &e.kind {
            ExprKind::Call { name, args } => {
                let reads = |first: &&Expr| {
                    let word = self.catalogue.function(&name.text);
                    word.is_some_and(|word| word.reads_in_user_space(args)) && is_map(first)
                };
                if let Some(first) = args.first().filter(reads) {
                    self.count(first, -1);
                }
            }
            ExprKind::Field(base, name) if Statistic::named(&name.text).is_some() => self.count(base, -1),
            _ => {}
        }
    }

    fn count(&mut self, e: &Expr, by: i64) {
        if let ExprKind::Map { name, .. } = &e.kind {
            *self.reads.entry(name.clone()).or_default() += by;
        }
    }
}

fn is_map(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Map { .. })
}
