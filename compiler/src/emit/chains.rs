//! Checks the stack use of programs and the functions that they call.
//!
//! In: the IR, and the stack that each emitted function uses. Out: a diagnostic for every program
//! whose deepest call chain needs more stack than the kernel allows. Guarantee: counts as Linux 6.1
//! does, which allows 512 bytes for all frames of a chain together; later kernels round up less.

use super::EmittedFunction;
use super::frame::STACK_LIMIT_BYTES;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Arg, Function, FunctionId, Helper, Inst, Program};

/// Frame sizes are rounded up to a multiple of this.
const FRAME_STEP_BYTES: u32 = 32;

/// The kernel inlines `bpf_loop` into its caller as a real loop, which keeps three registers on the
/// stack.
const INLINED_LOOP_BYTES: u32 = 24;

/// Checks all programs.
pub(super) fn check(
    program: &Program,
    functions: &[EmittedFunction],
    subprograms: &[EmittedFunction],
) -> Vec<Diagnostic> {
    let mut below: Vec<u32> = Vec::with_capacity(subprograms.len());
    for (function, emitted) in program.subprograms.iter().zip(subprograms) {
        // A subprogram refers only to earlier ones, so their sizes are known.
        below.push(chain_bytes(function, emitted, &below));
    }
    let mut diagnostics = Vec::new();
    for (function, emitted) in program.functions.iter().zip(functions) {
        let needed = chain_bytes(function, emitted, &below);
        if needed > STACK_LIMIT_BYTES && !callees(function).is_empty() {
            let message = format!(
                "this probe and its loops need {needed} bytes of stack together, the kernel gives {STACK_LIMIT_BYTES}"
            );
            diagnostics.push(
                Diagnostic::error(Code(511), function.span, message)
                    .label("too many values are held at the same time around or in its loops")
                    .help("nest fewer loops, keep values in maps, or split the block into several probes"),
            );
        }
    }
    diagnostics
}

/// The stack bytes of a function and of the deepest call chain below it.
fn chain_bytes(function: &Function, emitted: &EmittedFunction, below: &[u32]) -> u32 {
    let callees = callees(function);
    let inlined = if callees.iter().any(|(helper, _)| *helper == Helper::Loop) { INLINED_LOOP_BYTES } else { 0 };
    let own = (emitted.stack_bytes + inlined).max(1).next_multiple_of(FRAME_STEP_BYTES);
    let deepest = callees.iter().filter_map(|(_, id)| below.get(id.0 as usize)).max();
    own + deepest.copied().unwrap_or(0)
}

fn callees(function: &Function) -> Vec<(Helper, FunctionId)> {
    let mut found = Vec::new();
    for (inst, _) in function.blocks.iter().flat_map(|block| &block.insts) {
        let Inst::Call { helper, args, .. } = inst else { continue };
        found.extend(args.iter().filter_map(|arg| match arg {
            Arg::Function(id) => Some((*helper, *id)),
            _ => None,
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Role;
    use crate::ir::build::FunctionBuilder;
    use crate::source::Span;

    /// A program that runs a loop in a loop, with these stack sizes in bytes, innermost first.
    fn diagnostics(stacks: [u32; 3]) -> Vec<Diagnostic> {
        let call = |b: &mut FunctionBuilder, id| {
            b.call_void(Helper::Loop, &[1.into(), Arg::Function(FunctionId(id)), 0.into(), 0.into()]);
            b.ret(0);
        };
        let mut inner = FunctionBuilder::subprogram("inner", Role::Iteration, Span::default());
        inner.ret(0);
        let mut outer = FunctionBuilder::subprogram("outer", Role::Iteration, Span::default());
        call(&mut outer, 0);
        let mut main = FunctionBuilder::new("p0", "raw_tp/x", Span::new(3, 5));
        call(&mut main, 1);
        let program = Program {
            functions: vec![main.finish()],
            subprograms: vec![inner.finish(), outer.finish()],
            ..Program::default()
        };
        let emitted = |stack_bytes| EmittedFunction {
            name: String::new(),
            section: String::new(),
            insns: Vec::new(),
            spans: Vec::new(),
            notes: Vec::new(),
            stack_bytes,
        };
        check(&program, &[emitted(stacks[2])], &[emitted(stacks[0]), emitted(stacks[1])])
    }

    #[test]
    fn the_frames_of_a_chain_share_the_stack() {
        // 0 counts as a frame of 32 bytes; a caller of `bpf_loop` needs 24 bytes more.
        assert!(diagnostics([0, 136, 296]).is_empty());
        let [diagnostic] = &diagnostics([0, 137, 296])[..] else { panic!("no diagnostic") };
        assert_eq!((diagnostic.code.0, diagnostic.span), (511, Span::new(3, 5)));
        assert!(diagnostic.message.contains("544 bytes"), "{}", diagnostic.message);
    }
}
