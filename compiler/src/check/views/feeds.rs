//! Finds the maps of a view that are filled by completed pairs of spans.
//!
//! In: a script, and the identifiers of a view's maps in the tree. Out: [`Fed`].
//! Guarantee: a map is listed for each span whose `end` has a handler that assigns to it.

use crate::ast::visit::{self, Node};
use crate::ast::{ExprKind, ProbeBlock, Script, SpanDefinition, StmtKind};
use crate::view::Fed;

/// The event that closes a pair.
const COMPLETED: &str = "end";

/// The maps among `maps` that span handlers fill.
pub(super) fn fed(script: &Script, maps: &[String]) -> Vec<Fed> {
    let mut fed = Vec::new();
    for (span, definition) in script.spans.iter().enumerate() {
        for block in script.blocks.iter().filter(|block| handles(block, definition)) {
            visit::walk(&block.body, &mut |node| {
                let Some(map) = assigned(&node).and_then(|name| maps.iter().position(|map| map == name)) else {
                    return;
                };
                let new = Fed { map, span, replaced_is_broken: definition.restart.is_empty() };
                if !fed.contains(&new) {
                    fed.push(new);
                }
            });
        }
    }
    fed
}

fn handles(block: &ProbeBlock, span: &SpanDefinition) -> bool {
    block.points.iter().any(|point| {
        point.kind.text == span.name.text && point.parts.first().is_some_and(|part| part.text == COMPLETED)
    })
}

/// The map that a statement or an expression assigns to.
fn assigned<'a>(node: &Node<'a>) -> Option<&'a str> {
    let target = match node {
        Node::Stmt(stmt) => match &stmt.kind {
            StmtKind::Assign { target, .. } => target,
            _ => return None,
        },
        Node::Expr(expr) => match &expr.kind {
            ExprKind::Step { target, .. } => target.as_ref(),
            _ => return None,
        },
    };
    match &target.kind {
        ExprKind::Map { name, .. } => Some(name),
        _ => None,
    }
}
