//! Makes a program of a checked body: its attachment, restricted to the processes that it is for.
//!
//! In: a block, or a checked body and its [`Scope`]. Out: a [`typed::Probe`].
//! Guarantee: a program that the kernel starts for other processes tests for its own.

use crate::ast::ProbeBlock;
use crate::check::{Body, PidFilter, scope};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;
use crate::scope::Scope;
use crate::source::Span;
use crate::typed;

/// Since 6.10: a multi uprobe link for a process covers all of its threads. Before, it covers only
/// the first thread, unless the fix was backported.
const MULTI_OF_PROCESSES_SINCE: (u32, u32) = (6, 10);

/// Checks a probe block.
pub(super) fn of_block(mut cx: Body<'_, '_>, block: &ProbeBlock) -> typed::Probe {
    let predicate = block.predicate.as_ref().map(|e| cx.condition(e));
    let body = cx.stmts(&block.body);
    let scope = scope::of(cx.env, predicate.as_ref(), &body);
    within(cx, scope, predicate, body, block.span)
}

/// The program of a body that has an effect only for the processes of the scope.
pub(super) fn within(
    cx: Body<'_, '_>,
    scope: Scope,
    predicate: Option<typed::Expr>,
    body: Vec<typed::Stmt>,
    span: Span,
) -> typed::Probe {
    let seed = cx.seed;
    let Limited { attach, section, only_pids } = limited(&cx, scope);
    if let Attach::Uprobe { scope: Scope::All, .. } = &attach {
        let filter = match (&predicate, body.as_slice()) {
            (None, [typed::Stmt { kind: typed::StmtKind::If(condition, ..), .. }]) => Some(condition),
            (filter, _) => filter.as_ref(),
        };
        let vain = filter.filter(|filter| scope::names_processes(cx.env, filter));
        cx.env.report.extend(vain.map(|filter| traps_everywhere(filter.span, "although this names a process")));
    }
    let (vars, has_new_types) = cx.vars.finish();
    cx.env.changed |= has_new_types;
    typed::Probe {
        names: seed.names.clone(),
        points: seed.points,
        attach,
        section,
        context: seed.context.clone(),
        only_pids,
        predicate,
        body,
        vars,
        span,
    }
}

/// The warning for a probe that is limited to some processes in its script, and not by the kernel.
pub(super) fn traps_everywhere(span: Span, although: &str) -> Diagnostic {
    let message = "this probe traps in all processes that run the file, and slows them down";
    let help = "join `pid == …` with `&&` before all that has an effect, and give every stage of a span the filter";
    Diagnostic::warning(Code(912), span, message).label(although).help(help)
}

/// How a program is restricted to processes.
struct Limited {
    attach: Attach,
    section: String,
    /// The processes that the program tests for; empty: all.
    only_pids: Vec<u32>,
}

/// Restricts the attachment of the seed's program to the processes in `scope`.
fn limited(cx: &Body<'_, '_>, scope: Scope) -> Limited {
    let mut attach = cx.seed.attach.clone();
    let mut section = cx.seed.section.clone();
    let mut filter = cx.seed.pid_filter;
    if let Attach::Uprobe { scope: whole, multi, at_return, .. } = &mut attach {
        *whole = std::mem::take(whole).and(scope);
        if *multi && *whole != Scope::All && cx.env.target.kernel() < MULTI_OF_PROCESSES_SINCE {
            *multi = false;
            section.truncate(section.trim_end_matches(".multi").len());
        }
        // For a perf event, the kernel checks the process only at function entry. If another
        // tracer probes the function's return in other processes, a program at the return runs
        // for them too.
        if *at_return && !*multi {
            filter = PidFilter::OptionOrCommand;
        }
    }
    if cx.may_sleep {
        section = section.replacen("iter/", "iter.s/", 1);
    }
    Limited { attach, section, only_pids: cx.env.filtered(filter) }
}
