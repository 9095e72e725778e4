//! Consistent output of `print(@x); clear(@x)` and of `print(@a); print(@b)`.
//!
//! In: checked programs, the maps that no program reads. Out: a [`StmtKind::Turn`] before the first
//! print of such maps, a [`StmtKind::TurnEnd`] after the last print of those that are never
//! emptied, and the groups of maps that switch together.
//! Guarantee: after a turn, its handler prints and empties every map of the turn's groups that is
//! ever emptied: no statement in between can leave the handler.
//!
//! A turn ends the current window of its groups: it switches the generation of the double-buffered
//! maps. So a print and a clear act as one step, and several prints show the same moment.
//!
//! A print and a clear pair up only within one statement list. Programs that run while no events
//! are counted (`BEGIN`, `END`, tests, iterators) need no turns. A map that programs read is not
//! double-buffered unless it is emptied.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use crate::catalogue::{Catalogue, WholeMap};
use crate::object::Constant;
use crate::typed::{Call, Expr, ExprKind, MapIndex, Probe, Program, Stmt, StmtKind, Windowed};

/// Inserts the turns into all programs.
pub(super) fn insert(program: &mut Program, catalogue: &Catalogue, unread: &BTreeSet<MapIndex>) {
    let views = program.views.iter().filter(|view| view.every.is_some_and(|every| every.clear));
    let mut excluded: BTreeSet<MapIndex> = views.flat_map(|view| view.maps.iter().copied().map(MapIndex)).collect();
    let of_threads = program.maps.iter().enumerate().filter(|(_, map)| map.of_threads);
    excluded.extend(of_threads.map(|(index, _)| MapIndex(index)));
    let unread = unread.difference(&excluded).copied().collect();
    let scope = Scope { catalogue, excluded, unread };

    let mut found: Vec<Turning> = Vec::new();
    each_turning(&mut program.probes, &scope, &mut |maps| {
        found.push(maps.clone());
        None
    });
    // Maps that are emptied by the same turns form one group.
    let mut turns_of: BTreeMap<MapIndex, Vec<usize>> = BTreeMap::new();
    for (turn, map) in found.iter().enumerate().flat_map(|(turn, maps)| maps.emptied.iter().map(move |map| (turn, map)))
    {
        turns_of.entry(*map).or_default().push(turn);
    }
    let mut emptied: BTreeMap<Vec<usize>, Vec<MapIndex>> = BTreeMap::new();
    for (map, turns) in turns_of {
        emptied.entry(turns).or_default().push(map);
    }
    let kept = kept_together(&found);
    let mut turn = 0;
    each_turning(&mut program.probes, &scope, &mut |maps| {
        let of_emptied = emptied.keys().enumerate().filter(|(_, turns)| turns.contains(&turn)).map(|(group, _)| group);
        let of_kept = kept.iter().position(|group| !group.is_disjoint(&maps.kept)).map(|group| emptied.len() + group);
        let inserted = Inserted { turn: of_emptied.chain(of_kept).collect(), end: of_kept.into_iter().collect() };
        turn += 1;
        Some(inserted)
    });
    let emptied = emptied.into_values().map(|maps| Windowed { maps, keeps: false });
    let kept = kept.into_iter().map(|maps| Windowed { maps: maps.into_iter().collect(), keeps: true });
    program.windows = emptied.chain(kept).collect();
}

/// Groups of maps that are never emptied: maps printed by one turn are merged into one group, so a
/// turn can cover more maps than it prints.
fn kept_together(found: &[Turning]) -> Vec<BTreeSet<MapIndex>> {
    let mut groups: Vec<BTreeSet<MapIndex>> = Vec::new();
    for Turning { kept, .. } in found.iter().filter(|turning| !turning.kept.is_empty()) {
        let (joined, apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| !group.is_disjoint(kept));
        groups = apart;
        groups.push(joined.into_iter().flatten().chain(kept.iter().copied()).collect());
    }
    groups
}

/// The maps that a turn covers.
#[derive(Debug, Clone, Default)]
struct Turning {
    /// Printed and then emptied.
    emptied: BTreeSet<MapIndex>,
    /// Printed together with other maps and never emptied.
    kept: BTreeSet<MapIndex>,
}

/// The group indices for a turn and for its end.
struct Inserted {
    turn: Vec<usize>,
    end: Vec<usize>,
}

/// Which maps may have turns.
#[derive(Clone)]
struct Scope<'a> {
    catalogue: &'a Catalogue,
    /// Maps that never have a turn.
    excluded: BTreeSet<MapIndex>,
    /// Maps that may have a turn without being emptied.
    unread: BTreeSet<MapIndex>,
}

impl Scope<'_> {
    /// The scope for nested blocks: the maps of the enclosing turn are left to that turn.
    fn without(&self, turning: &Turning) -> Self {
        let mut scope = self.clone();
        scope.excluded.extend(turning.emptied.iter().chain(&turning.kept));
        scope.unread.retain(|map| !turning.kept.contains(map));
        scope
    }
}

/// Returns what to insert around the prints of these maps; `None`: nothing.
type Insert<'a> = &'a mut dyn FnMut(&Turning) -> Option<Inserted>;

fn each_turning(probes: &mut [Probe], scope: &Scope<'_>, insert: Insert<'_>) {
    for probe in probes.iter_mut().filter(|probe| probe.attach.is_gated()) {
        in_list(&mut probe.body, scope, insert);
    }
}

/// Splits a statement list into sections at the statements that may leave the handler, and
/// processes each.
fn in_list(stmts: &mut Vec<Stmt>, scope: &Scope<'_>, insert: Insert<'_>) {
    let mut section = Vec::new();
    for mut stmt in mem::take(stmts) {
        if may_leave(scope.catalogue, &stmt.kind) {
            in_section(&mut section, scope, insert);
            stmts.append(&mut section);
            in_branches(&mut stmt, scope, insert);
            stmts.push(stmt);
        } else {
            section.push(stmt);
        }
    }
    in_section(&mut section, scope, insert);
    stmts.append(&mut section);
}

fn in_section(section: &mut Vec<Stmt>, scope: &Scope<'_>, insert: Insert<'_>) {
    let mut uses = Vec::new();
    for (at, stmt) in section.iter().enumerate() {
        each_use(scope.catalogue, stmt, &mut |what, map| uses.push((at, what, map)));
    }
    let (mut printed, mut paired) = (BTreeMap::new(), BTreeMap::new());
    for (at, what, map) in uses.into_iter().filter(|(.., map)| !scope.excluded.contains(map)) {
        match (what, printed.get_mut(&map)) {
            (WholeMap::Shows, None) => drop(printed.insert(map, (at, at))),
            (WholeMap::Shows, Some((_, last))) => *last = at,
            (WholeMap::Empties, Some((first, _))) => drop(paired.entry(map).or_insert(*first)),
            (WholeMap::Empties, None) => {}
        }
    }
    printed.retain(|map, _| scope.unread.contains(map));
    if printed.len() + paired.len() < 2 {
        printed.clear();
    }
    let turning = Turning { emptied: paired.keys().copied().collect(), kept: printed.keys().copied().collect() };
    let first = paired.into_values().chain(printed.values().map(|(first, _)| *first)).min();
    let last = printed.into_values().map(|(_, last)| last).max();
    let inserted = first.and_then(|first| Some((first, insert(&turning)?)));
    let within = scope.without(&turning);
    for stmt in section.iter_mut() {
        in_branches(stmt, &within, insert);
    }
    let Some((first, Inserted { turn, end })) = inserted else { return };
    if let Some(last) = last {
        let span = section[last].span;
        section.insert(last + 1, Stmt { kind: StmtKind::TurnEnd(end), span });
    }
    let span = section[first].span;
    section.insert(first, Stmt { kind: StmtKind::Turn(turn), span });
}

/// Processes the statement lists nested in `if` and blocks. Loops are skipped: their iterations are
/// microseconds apart.
fn in_branches(stmt: &mut Stmt, scope: &Scope<'_>, insert: Insert<'_>) {
    match &mut stmt.kind {
        StmtKind::If(_, then, otherwise) => {
            in_list(then, scope, insert);
            in_list(otherwise, scope, insert);
        }
        StmtKind::Block(body) => in_list(body, scope, insert),
        _ => {}
    }
}

/// Calls `visit` for each whole map that a statement prints or empties unconditionally.
fn each_use(catalogue: &Catalogue, stmt: &Stmt, visit: &mut dyn FnMut(WholeMap, MapIndex)) {
    match &stmt.kind {
        StmtKind::Block(body) => body.iter().for_each(|stmt| each_use(catalogue, stmt, visit)),
        StmtKind::Expr(Expr { kind: ExprKind::Call(call), .. }) => {
            let whole_map = catalogue.function_of(&call.word).whole_map(call);
            if let (Some(what), Some(Constant::Map(map))) = (whole_map, call.constants.first()) {
                visit(what, MapIndex(*map));
            }
        }
        _ => {}
    }
}

/// Whether the statements after this one may be skipped.
fn may_leave(catalogue: &Catalogue, kind: &StmtKind) -> bool {
    let leaves = |expr: &Expr| leaves(catalogue, expr);
    let all = |stmts: &[Stmt]| stmts.iter().any(|stmt| may_leave(catalogue, &stmt.kind));
    match kind {
        StmtKind::Return | StmtKind::Break | StmtKind::Continue | StmtKind::Result(_) | StmtKind::Span(_) => true,
        StmtKind::Clear(_) | StmtKind::Turn(_) | StmtKind::TurnEnd(_) => false,
        StmtKind::Expr(e) | StmtKind::AssignVar(_, e) => leaves(e),
        StmtKind::AssignMap(_, key, value) | StmtKind::UpdateMap(_, key, _, value) => {
            leaves(value) || key.as_ref().is_some_and(leaves)
        }
        StmtKind::AssignField(field, value) | StmtKind::UpdateField(field, _, value) => {
            leaves(value) || field.key.as_deref().is_some_and(leaves)
        }
        StmtKind::Aggregate(_, key, values) => key.iter().chain(values).any(leaves),
        StmtKind::If(cond, then, otherwise) => leaves(cond) || all(then) || all(otherwise),
        StmtKind::Block(body) | StmtKind::ForMap { body, .. } | StmtKind::ForSpan { body, .. } => all(body),
        StmtKind::Unroll(copies) => copies.iter().any(|body| all(body)),
        StmtKind::ForRange { start, end, body, .. } => leaves(start) || leaves(end) || all(body),
        StmtKind::While(cond, body) => leaves(cond) || all(body),
    }
}

fn leaves(catalogue: &Catalogue, expr: &Expr) -> bool {
    let ends = |call: &Call| catalogue.function_of(&call.word).ends_the_run();
    expr.any(&|kind| matches!(kind, ExprKind::Call(call) if ends(call)))
}
