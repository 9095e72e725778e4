//! Stacks: their arguments, and the programs that cannot take one.
//!
//! In: a call of a stack function, and the program around it. Out: the type of the stack, or a
//! diagnostic.
//! Guarantee: an accepted stack is that of the probe's thread, and begins at the event.

use crate::ast::{Expr, ExprKind};
use crate::check::{Body, visited};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;
use crate::source::Span;
use crate::target::{Arch, memory_offsets};
use crate::types::{Space, StackMode, StackType, Type, Walk};

/// Maximum number of frames of a stack: `PERF_MAX_STACK_DEPTH`.
const MAX_FRAMES: i64 = 127;

/// `bpf_loop`, which a walk by unwind tables needs.
const TABLES_SINCE: (u32, u32) = (5, 17);

/// `bpf_copy_from_user_task`, which reads the stacks of visited threads.
const OTHERS_SINCE: (u32, u32) = (5, 18);

/// Iterators whose context has a task after the header that all iterators share.
const OF_TASKS: [&str; 3] = ["task", "task_file", "task_vma"];

impl Body<'_, '_> {
    /// The type of `kstack(…)`.
    pub fn kernel_stack(&mut self, args: &[Expr], span: Span) -> Option<Type> {
        self.stack(Space::Kernel, Walk::Kernel, args, span)
    }

    /// The type of `ustack(…)`.
    pub fn user_stack(&mut self, args: &[Expr], span: Span) -> Option<Type> {
        let walk = self.user_walk();
        self.stack(Space::User, walk, args, span)
    }

    /// The type of a user stack by unwind tables.
    pub fn unwound_stack(&mut self, args: &[Expr], span: Span) -> Option<Type> {
        self.stack(Space::User, Walk::Tables, args, span)
    }

    /// How `ustack` finds callers unless the script says so.
    pub(super) fn user_walk(&self) -> Walk {
        if why_no_tables(self).is_some() { Walk::Kernel } else { Walk::Tables }
    }

    /// The type of a stack from its arguments: a mode and a number of frames, in any order.
    fn stack(&mut self, space: Space, mut walk: Walk, args: &[Expr], span: Span) -> Option<Type> {
        let (word, most) = if space == Space::User { ("ustack", 3) } else { ("kstack", 2) };
        if !self.arity(word, args.len(), 0..=most, span) {
            return None;
        }
        let (mut mode, mut limit) = (self.env.stack_mode, MAX_FRAMES);
        for arg in args {
            match &arg.kind {
                ExprKind::Name(name) if name == "bpftrace" => mode = StackMode::Bpftrace,
                ExprKind::Name(name) if name == "perf" => mode = StackMode::Perf,
                ExprKind::Name(name) if name == "raw" => mode = StackMode::Raw,
                // The kernel's code has no build id in its stacks, as in bpftrace.
                ExprKind::Name(name) if name == "build_id" && space == Space::User => mode = StackMode::BuildId,
                ExprKind::Name(name) if name == "fp" && space == Space::User => walk = Walk::Kernel,
                ExprKind::Name(name) if !self.env.defines.contains_key(name) => {
                    return bad_stack(self, space, arg.span);
                }
                _ => match self.constant_int(arg) {
                    Some(n @ 1..=MAX_FRAMES) => limit = n,
                    _ => return bad_stack(self, space, arg.span),
                },
            }
        }
        // Only the setting can have chosen it here.
        if space == Space::Kernel && mode == StackMode::BuildId {
            mode = StackMode::Bpftrace;
            warn_of_build_ids(self, span);
        }
        let refused = (space == Space::Kernel && refuse_in_loop(self, span))
            || refuse_in_iterator(self, (space, walk), span)
            || (walk == Walk::Tables && refuse_tables(self, span));
        self.may_sleep |= space == Space::User && visited::is_visit(self);
        (!refused).then_some(Type::Stack(StackType { space, mode, limit: limit as u8, walk }))
    }
}

/// Warns that the setting `stack_mode = build_id` does not apply to a kernel stack.
fn warn_of_build_ids(cx: &mut Body<'_, '_>, span: Span) {
    let warning = Diagnostic::warning(Code(908), span, "`stack_mode = build_id` has no effect on `kstack`");
    cx.error(warning.help("the kernel's functions have names in its stacks, and no build ids"));
}

fn bad_stack<T>(cx: &mut Body<'_, '_>, space: Space, span: Span) -> Option<T> {
    let (modes, help) = match space {
        Space::Kernel => ("bpftrace, perf or raw", "for example `kstack(perf, 5)`; `build_id` is for user stacks only"),
        Space::User => {
            ("bpftrace, perf, raw or build_id", "for example `ustack(perf, 5)`, or `ustack(fp)` for frame pointers")
        }
    };
    let message = format!("a stack takes a mode ({modes}) and a constant from 1 to {MAX_FRAMES} frames");
    cx.error(Diagnostic::error(Code(349), span, message).help(help));
    None
}

/// Whether the probe visits threads, or iterates over objects that have a task.
pub fn has_task(cx: &Body<'_, '_>) -> bool {
    visited::is_visit(cx)
        || matches!(&cx.seed.attach, Attach::Iterator { objects, .. } if OF_TASKS.contains(&objects.as_str()))
}

/// Reports a stack that an iterator program cannot take. The program runs in profiler's own
/// thread, and for other tasks the kernel provides only the kernel stack: a user stack is that of a
/// visited thread, found by unwind tables.
fn refuse_in_iterator(cx: &mut Body<'_, '_>, (space, walk): (Space, Walk), span: Span) -> bool {
    if visited::is_visit(cx) && (space, walk) == (Space::User, Walk::Tables) {
        return refuse_visited(cx, span);
    }
    let objects = match &cx.seed.attach {
        Attach::Iterator { objects, .. } => objects.as_str(),
        Attach::Visits { .. } => "task",
        _ => return false,
    };
    let (message, help) = match space {
        Space::User => {
            let message = "`ustack` here would be profiler's own stack: the kernel has no user stacks of other tasks";
            let help = if visited::is_visit(cx) {
                "stacks of visited threads are found by unwind tables, without `fp`"
            } else {
                "write `kstack`, or take `ustack` in `wall:hz:N` or at an event of that thread"
            };
            (message.to_string(), help)
        }
        Space::Kernel if has_task(cx) => return false,
        Space::Kernel => {
            let message = format!("`kstack` here would be profiler's own stack: `iter:{objects}` has no task");
            (message, "`iter:task`, `iter:task_file` and `iter:task_vma` have one")
        }
    };
    cx.error(Diagnostic::error(Code(369), span, message).help(help));
    true
}

/// Reports the user stack of a visited thread where the kernel cannot read its memory.
fn refuse_visited(cx: &mut Body<'_, '_>, span: Span) -> bool {
    let is_refused = cx.env.target.kernel() < OTHERS_SINCE;
    if is_refused {
        let message = "the memory of a visited thread can be read since Linux 5.18";
        let help = "write `kstack`, or take `ustack` at an event of that thread";
        cx.error(Diagnostic::error(Code(369), span, message).help(help));
    }
    is_refused
}

/// Reports a kernel stack that would start with the frames of a loop: a raw tracepoint has no
/// registers to start from, and the number of frames of a loop depends on the kernel.
fn refuse_in_loop(cx: &mut Body<'_, '_>, span: Span) -> bool {
    let refused = cx.loops.has_running() && matches!(cx.seed.attach, Attach::RawTracepoint { .. });
    if refused {
        let message = "inside a loop, this probe's stack would begin with frames of the loop itself";
        let help = "take it before the loop, with `$stack = kstack;`, and use `$stack`";
        cx.error(Diagnostic::error(Code(365), span, message).help(help));
    }
    refused
}

/// Reports a walk by unwind tables that this machine cannot do.
fn refuse_tables(cx: &mut Body<'_, '_>, span: Span) -> bool {
    let Some(message) = why_no_tables(cx) else { return false };
    cx.error(Diagnostic::error(Code(349), span, message).help("`ustack(fp)` is found by frame pointers"));
    true
}

fn why_no_tables(cx: &Body<'_, '_>) -> Option<&'static str> {
    match cx.env.target.arch() {
        Arch::X86_64 if cx.env.target.kernel() < TABLES_SINCE => {
            Some("stacks by unwind tables need Linux 5.17 or newer")
        }
        Arch::X86_64 if memory_offsets(cx.env.target).is_none() => {
            Some("stacks by unwind tables need the kernel's types (BTF), which cannot be read")
        }
        Arch::X86_64 => None,
        Arch::Aarch64 => Some("stacks by unwind tables are not supported on this processor"),
    }
}
