//! The kernel's helpers that programs call: their numbers, how many arguments each takes, what its result is; and its functions that have
//! no number, but a name in BTF.
//!
//! In: a helper. Out: what code generation, the verifier of the IR and the evaluator must know of it.
//! Guarantee: the numbers are those of `enum bpf_func_id`; functions without one are above them.

use super::Role;

/// The kernel helpers that we call. Numbers: `enum bpf_func_id`; the minimum kernel is given where above 5.8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs, reason = "each variant is the kernel's helper of its name")]
pub enum Helper {
    MapLookupElem = 1,
    MapUpdateElem = 2,
    MapDeleteElem = 3,
    KtimeGetNs = 5,
    TracePrintk = 6,
    GetPrandomU32 = 7,
    GetSmpProcessorId = 8,
    GetCurrentPidTgid = 14,
    GetCurrentUidGid = 15,
    GetCurrentComm = 16,
    GetStackid = 27,
    ProbeWriteUser = 36,
    GetCurrentTask = 35,
    GetNumaNodeId = 42,
    GetStack = 67,
    GetCurrentCgroupId = 80,
    GetCurrentAncestorCgroupId = 123,
    SendSignal = 109,
    SendSignalThread = 117,
    Jiffies64 = 118,
    ProbeReadUser = 112,
    ProbeReadKernel = 113,
    ProbeReadUserStr = 114,
    ProbeReadKernelStr = 115,
    GetNsCurrentPidTgid = 120,
    KtimeGetBootNs = 125,
    /// In programs of iterators.
    SeqWrite = 127,
    RingbufOutput = 130,
    RingbufReserve = 131,
    RingbufSubmit = 132,
    RingbufDiscard = 133,
    RingbufQuery = 134,
    TaskStorageGet = 156,
    TaskStorageDelete = 157,
    /// Since 5.11.
    GetCurrentTaskBtf = 158,
    /// Since 5.13.
    ForEachMapElem = 164,
    /// Since 5.15.
    GetFuncIp = 173,
    /// Since 5.15.
    GetAttachCookie = 174,
    /// Since 5.15.
    TaskPtRegs = 175,
    /// Since 5.17.
    Loop = 181,
    /// Since 5.19.
    MapLookupPercpuElem = 195,
    /// Since 6.1.
    KtimeGetTaiNs = 208,
    /// `bpf_iter_task_new(iterator, task, flags)`. Since 6.7.
    IterTaskNew = 0x1_0000,
    /// `bpf_iter_task_next(iterator)`. Since 6.7.
    IterTaskNext = 0x1_0001,
    /// `bpf_iter_task_destroy(iterator)`. Since 6.7.
    IterTaskDestroy = 0x1_0002,
}

/// The room of a walk over tasks: the kernel's `struct bpf_iter_task`.
pub const WALK_BYTES: u32 = 24;

/// What a helper does to the program's knowledge; for the optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Same result during one run of the program (current pid, comm into a slot is not): calls may be shared.
    Constant,
    /// Reads something that moves (clock, random): may be dropped when unused, not shared.
    Reads,
    /// Writes memory, maps or rings: never dropped or moved.
    Writes,
}

impl Helper {
    /// Number of arguments that the kernel's prototype has.
    pub fn arity(self) -> usize {
        match self {
            Helper::KtimeGetNs
            | Helper::GetPrandomU32
            | Helper::GetSmpProcessorId
            | Helper::GetCurrentPidTgid
            | Helper::GetCurrentUidGid
            | Helper::GetCurrentTask
            | Helper::GetNumaNodeId
            | Helper::GetCurrentCgroupId
            | Helper::KtimeGetBootNs
            | Helper::GetCurrentTaskBtf
            | Helper::Jiffies64
            | Helper::KtimeGetTaiNs => 0,
            Helper::GetCurrentAncestorCgroupId
            | Helper::SendSignal
            | Helper::SendSignalThread
            | Helper::GetFuncIp
            | Helper::GetAttachCookie
            | Helper::IterTaskNext
            | Helper::IterTaskDestroy
            | Helper::TaskPtRegs => 1,
            Helper::MapLookupElem
            | Helper::MapDeleteElem
            | Helper::GetCurrentComm
            | Helper::RingbufSubmit
            | Helper::RingbufDiscard
            | Helper::RingbufQuery
            | Helper::TaskStorageDelete => 2,
            Helper::GetStackid
            | Helper::ProbeWriteUser
            | Helper::ProbeReadUser
            | Helper::ProbeReadKernel
            | Helper::ProbeReadUserStr
            | Helper::ProbeReadKernelStr
            | Helper::MapLookupPercpuElem
            | Helper::SeqWrite
            | Helper::IterTaskNew
            | Helper::RingbufReserve => 3,
            Helper::Loop
            | Helper::ForEachMapElem
            | Helper::MapUpdateElem
            | Helper::GetNsCurrentPidTgid
            | Helper::GetStack
            | Helper::RingbufOutput
            | Helper::TaskStorageGet => 4,
            Helper::TracePrintk => 5,
        }
    }

    /// What calling it does.
    pub fn effect(self) -> Effect {
        match self {
            Helper::GetSmpProcessorId
            | Helper::GetCurrentPidTgid
            | Helper::GetCurrentUidGid
            | Helper::GetCurrentTask
            | Helper::GetCurrentTaskBtf
            | Helper::GetNumaNodeId
            | Helper::GetCurrentCgroupId
            | Helper::GetCurrentAncestorCgroupId
            | Helper::GetFuncIp
            | Helper::GetAttachCookie
            | Helper::TaskPtRegs => Effect::Constant,
            Helper::KtimeGetNs
            | Helper::KtimeGetBootNs
            | Helper::KtimeGetTaiNs
            | Helper::Jiffies64
            | Helper::GetPrandomU32
            | Helper::RingbufQuery => Effect::Reads,
            _ => Effect::Writes,
        }
    }
}

impl Helper {
    /// The name of a function that is called by its number in the kernel's BTF.
    pub fn kernel_function(self) -> Option<&'static str> {
        Some(match self {
            Helper::IterTaskNew => "bpf_iter_task_new",
            Helper::IterTaskNext => "bpf_iter_task_next",
            Helper::IterTaskDestroy => "bpf_iter_task_destroy",
            _ => return None,
        })
    }

    /// Who it calls, when it calls back.
    pub fn calls(self) -> Option<Role> {
        match self {
            Helper::Loop => Some(Role::Iteration),
            Helper::ForEachMapElem => Some(Role::Entry),
            _ => None,
        }
    }
}
