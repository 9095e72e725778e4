//! Iterators that are pinned to a file, and print what is read from it.
//!
//! In: the programs of a script; a call. Out: diagnostics.
//! Guarantee: a script with a pinned iterator needs nothing that profiler would do later, because
//! profiler ends when the file is there.

use crate::catalogue::Function;
use crate::check::{Body, Env, Work};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;
use crate::source::Span;
use crate::typed;

const PRINTF: &str = "`printf` writes to the file";
const UNROLL: &str = "`unroll` repeats statements without one";

/// Reports a pinned iterator in a script that has other probes.
pub(super) fn require_alone(work: &[Work<'_>], env: &mut Env<'_>) {
    let pinned = work.iter().find(|item| is_pinned(&item.seed.attach));
    if let Some(pinned) = pinned.filter(|_| work.len() > 1) {
        let message = "a pinned iterator is the only probe of its script";
        let help = "profiler ends when the file is there; write the other probes to a script of their own";
        env.report.push(Diagnostic::error(Code(430), pinned.subject.place(), message).help(help));
    }
}

/// Reports a function that acts in profiler, which has ended when the file is read.
pub(super) fn refuse(cx: &mut Body<'_, '_>, word: &'static dyn Function, span: Span) -> Option<typed::Expr> {
    if !is_pinned(&cx.seed.attach) || word.in_user_space().is_none() {
        return None;
    }
    let (message, help) = match (word.writes_to_sequences(), cx.is_in_a_loop()) {
        (true, false) => return None,
        // Verifier: in the callback of a loop, the context has no type.
        (true, true) => ("the kernel does not know the file of this iterator in a loop".to_owned(), UNROLL),
        (false, _) => {
            let name = word.name();
            (format!("`{name}` needs profiler, which has ended when the file of this iterator is read"), PRINTF)
        }
    };
    Some(cx.fail(Diagnostic::error(Code(430), span, message).help(help)))
}

/// Whether the program's text is read from the file that its iterator is pinned to.
pub(crate) fn writes_to_a_sequence(cx: &Body<'_, '_>) -> bool {
    is_pinned(&cx.seed.attach)
}

fn is_pinned(attach: &Attach) -> bool {
    matches!(attach, Attach::Iterator { pin: Some(_), .. })
}
