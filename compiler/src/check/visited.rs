//! Bodies that visit threads (`wall`): the words that they cannot have.
//!
//! In: a word, and the program around it. Out: whether the program visits threads, or a diagnostic.
//! Guarantee: an accepted word about a thread is about the visited one, not about profiler's own,
//! in which the program runs.

use crate::check::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;
use crate::source::Span;
use crate::typed;

/// Whether the program runs for each thread, visited in turn.
pub fn is_visit(cx: &Body<'_, '_>) -> bool {
    matches!(cx.seed.attach, Attach::Visits { .. })
}

/// Reports a word that would be about profiler's own thread.
pub fn refuse(cx: &mut Body<'_, '_>, word: &str, span: Span) -> Option<typed::Expr> {
    if !is_visit(cx) {
        return None;
    }
    let message = format!("`{word}` here would be profiler's own: `wall` visits threads, it does not run in them");
    let help = "it has `state`, `syscall`, `pid`, `tid`, `comm`, `uid`, `gid`, `cgroup`, `kstack`, `ustack`, and `curtask` for the rest";
    Some(cx.fail(Diagnostic::error(Code(454), span, message).help(help)))
}

/// Reports a word that only a visited thread has.
pub fn refuse_elsewhere(cx: &mut Body<'_, '_>, word: &str, span: Span) -> Option<typed::Expr> {
    if is_visit(cx) {
        return None;
    }
    let message = format!("`{word}` is what a visited thread is doing, and this probe visits none");
    let help = "`wall:hz:20` visits every thread 20 times a second";
    Some(cx.fail(Diagnostic::error(Code(454), span, message).help(help)))
}
