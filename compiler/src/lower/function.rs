//! The state of one function while it is built: a program's own function, or that of a loop in it.
//!
//! In: set by the code that lowers variables, loops and look-ups. Out: read by the same.
//! Guarantee: nothing in it outlives its function, except variables in scratch memory.

use crate::ir::{Addr, BlockId, SlotId, VReg};
use crate::lower::allocation::Stack;
use crate::lower::lookups::Lookups;

/// State of one function of a program: the program's own, or that of a loop in it.
#[derive(Debug)]
pub(super) struct FunctionState {
    pub vars: Variables,
    pub loops: Scope,
    pub stack: Stack,
    /// Map look-ups whose results are still valid.
    pub lookups: Lookups,
    /// The address of this run's scratch memory.
    pub scratch: Option<VReg>,
    /// Where `return` goes.
    pub exit: BlockId,
    /// Whether `exit` is the end of a handler inlined in this function.
    pub in_handler: bool,
}

impl FunctionState {
    /// The state at the beginning of a function.
    pub(super) fn new(exit: BlockId, scratch: Option<VReg>) -> FunctionState {
        FunctionState {
            vars: Variables::default(),
            loops: Scope::default(),
            stack: Stack::default(),
            lookups: Lookups::default(),
            scratch,
            exit,
            in_handler: false,
        }
    }
}

/// Where a variable is stored.
#[derive(Debug, Clone, Copy)]
pub(super) enum VarPlace {
    Register(VReg),
    Memory(Addr),
    /// 8 bytes of scratch memory: a scalar shared by loops and the code around them.
    SharedScalar(i32),
    /// Scratch memory: any other variable shared by loops and the code around them.
    Shared(i32),
}

/// Where a function's variables are stored, by variable. A subprogram's own variables are placed on
/// first use.
#[derive(Debug, Default)]
pub(super) struct Variables(pub Vec<Option<VarPlace>>);

impl Variables {
    /// The variables of a subprogram at its start: those that it shares with this function.
    pub(super) fn shared(&self) -> Variables {
        let shared = |place: &Option<VarPlace>| {
            place.filter(|place| matches!(place, VarPlace::SharedScalar(_) | VarPlace::Shared(_)))
        };
        Variables(self.0.iter().map(shared).collect())
    }

    /// The variables that are in registers.
    pub(super) fn registers(&self) -> Vec<VReg> {
        let register = |place: &VarPlace| match place {
            VarPlace::Register(register) => Some(*register),
            _ => None,
        };
        self.0.iter().flatten().filter_map(register).collect()
    }
}

/// Jump targets within a loop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Targets {
    /// `break`.
    pub leave: BlockId,
    /// `continue`.
    pub next: BlockId,
}

/// Where a function has the frame for the subprograms that it calls.
#[derive(Debug, Clone, Copy)]
pub(super) enum FramePlace {
    /// Allocated on the program's own stack.
    Own(SlotId),
    /// Passed to this subprogram by its caller.
    Given(VReg),
}

/// What a function needs to run loops, and to leave the loop that it is the body of.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// The enclosing loops within this function.
    pub targets: Vec<Targets>,
    /// The frame that this function passes to the loops that it runs.
    pub frame: Option<FramePlace>,
    /// Scratch offset at which the current loop reports how it ended.
    pub signal: Option<i32>,
}

impl Scope {
    /// The innermost enclosing loop within this function.
    pub(super) fn innermost(&self) -> Option<Targets> {
        self.targets.last().copied()
    }

    /// Forgets the frame and the signal: the code that follows runs instead of the code so far.
    pub(super) fn forget_frame(&mut self) {
        self.frame = None;
        self.signal = None;
    }
}
