//! The stack of programs and what they call.
//!
//! In: the IR, and the stack that each emitted function uses. Out: a diagnostic for every program whose deepest chain of
//! calls needs more than the kernel gives. Guarantee: counts as Linux 6.1 does, which gives all frames of a chain 512 bytes
//! together; later kernels round less.

use super::EmittedFunction;
use super::frame::STACK_LIMIT_BYTES;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Arg, Function, FunctionId, Helper, Inst, Program};

/// Every frame is rounded up to this.
const FRAME_STEP_BYTES: u32 = 32;

/// The kernel puts `bpf_loop` into its caller as a real loop, which keeps three registers on the stack.
const INLINED_LOOP_BYTES: u32 = 24;

/// Checks all programs.
pub fn check(program: &Program, functions: &[EmittedFunction], subprograms: &[EmittedFunction]) -> Vec<Diagnostic> {
    let mut below: Vec<u32> = Vec::with_capacity(subprograms.len());
    for (function, emitted) in program.subprograms.iter().zip(subprograms) {
        // A subprogram names only earlier ones, so theirs are known.
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

/// The stack of a function and of the deepest chain of calls below it.
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

    /// A program that runs a loop in a loop, with so many bytes of stack each, from the inside.
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
        // 0 counts as a frame of 32; a caller of `bpf_loop` has 24 bytes more.
        assert!(diagnostics([0, 136, 296]).is_empty());
        let [diagnostic] = &diagnostics([0, 137, 296])[..] else { panic!("no diagnostic") };
        assert_eq!((diagnostic.code.0, diagnostic.span), (511, Span::new(3, 5)));
        assert!(diagnostic.message.contains("544 bytes"), "{}", diagnostic.message);
    }
}
