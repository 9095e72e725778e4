//! The kernel helpers and kfuncs that programs call: number or name, arity, effect, result.
//!
//! In: a helper. Out: the facts that code generation, the IR verifier and the evaluator need about
//! it.
//! Guarantee: helper numbers are those of `enum bpf_func_id`; functions without such a number have
//! larger ones.

use super::Role;

/// The kernel helpers that we call. The numbers are those of `enum bpf_func_id`. The minimum kernel
/// is given where it is above 5.8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
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
    /// Only in programs of trampolines and iterators. Since 5.12.
    GetSocketCookie = 46,
    /// Only in programs of kprobes. Since 4.16.
    OverrideReturn = 58,
    GetStack = 67,
    /// Since 5.9.
    GetTaskStack = 141,
    GetCurrentCgroupId = 80,
    GetCurrentAncestorCgroupId = 123,
    SendSignal = 109,
    SendSignalThread = 117,
    Jiffies64 = 118,
    /// Only in programs of trampolines. Since 5.5.
    SkbOutput = 111,
    ProbeReadUser = 112,
    ProbeReadKernel = 113,
    ProbeReadUserStr = 114,
    ProbeReadKernelStr = 115,
    GetNsCurrentPidTgid = 120,
    KtimeGetBootNs = 125,
    /// Only in iterator programs.
    SeqPrintf = 126,
    /// Only in iterator programs.
    SeqWrite = 127,
    RingbufOutput = 130,
    RingbufReserve = 131,
    RingbufSubmit = 132,
    RingbufDiscard = 133,
    RingbufQuery = 134,
    /// Only in iterators, and in programs of some functions. Since 5.10.
    DPath = 147,
    TaskStorageGet = 156,
    TaskStorageDelete = 157,
    /// Since 5.11.
    GetCurrentTaskBtf = 158,
    /// Since 5.13.
    ForEachMapElem = 164,
    /// Since 5.13.
    Snprintf = 165,
    /// Since 5.15.
    GetFuncIp = 173,
    /// Since 5.15.
    GetAttachCookie = 174,
    /// Since 5.15.
    TaskPtRegs = 175,
    /// Since 5.17.
    Loop = 181,
    /// Only in programs that may sleep. Since 5.18.
    CopyFromUserTask = 191,
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
    /// Not a helper but a call of a subprogram with the context; the result is the block's result.
    Run = 0x1_0003,
    /// Not a helper but a call of a subprogram with two numbers. Verifier: it checks the subprogram
    /// once, for any arguments, and not again at its calls. The result of a call is unknown to it.
    RunApart = 0x1_0004,
    /// `bpf_task_from_pid(pid)`: the thread, to be released, or null. Since 6.2.
    TaskFromPid = 0x1_0005,
    /// `bpf_task_release(task)`. Since 6.2.
    TaskRelease = 0x1_0006,
    /// `bpf_rdonly_cast(address, id)`: the address, of which the verifier then knows the struct.
    /// Loads through it yield 0 where there is no memory. The JIT compiles it to a copy. Since 6.2.
    RdonlyCast = 0x1_0007,
}

/// Size of a task iterator: the kernel's `struct bpf_iter_task`.
pub const WALK_BYTES: u32 = 24;

/// The side effects of a helper, for the optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The result stays the same during one run of the program (the current pid, but not comm,
    /// which goes into a slot): calls may be shared.
    Constant,
    /// Reads something that changes (clock, random numbers): unused calls may be dropped, but calls
    /// are not shared.
    Reads,
    /// Writes memory, maps or ring buffers: never dropped or moved.
    Writes,
}

impl Helper {
    /// Number of arguments in the kernel's prototype.
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
            | Helper::GetSocketCookie
            | Helper::TaskFromPid
            | Helper::TaskRelease
            | Helper::TaskPtRegs => 1,
            Helper::MapLookupElem
            | Helper::MapDeleteElem
            | Helper::GetCurrentComm
            | Helper::RingbufSubmit
            | Helper::RingbufDiscard
            | Helper::RingbufQuery
            | Helper::RdonlyCast
            | Helper::Run
            | Helper::OverrideReturn
            | Helper::TaskStorageDelete => 2,
            Helper::GetStackid
            | Helper::ProbeWriteUser
            | Helper::ProbeReadUser
            | Helper::ProbeReadKernel
            | Helper::ProbeReadUserStr
            | Helper::ProbeReadKernelStr
            | Helper::MapLookupPercpuElem
            | Helper::SeqWrite
            | Helper::DPath
            | Helper::IterTaskNew
            | Helper::RunApart
            | Helper::RingbufReserve => 3,
            Helper::Loop
            | Helper::ForEachMapElem
            | Helper::MapUpdateElem
            | Helper::GetNsCurrentPidTgid
            | Helper::GetStack
            | Helper::GetTaskStack
            | Helper::RingbufOutput
            | Helper::TaskStorageGet => 4,
            Helper::TracePrintk
            | Helper::SeqPrintf
            | Helper::Snprintf
            | Helper::CopyFromUserTask
            | Helper::SkbOutput => 5,
        }
    }

    /// The side effects of a call.
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
            | Helper::RdonlyCast
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
    /// The name of a kfunc, which is called by its BTF id; `None` for a helper.
    pub fn kernel_function(self) -> Option<&'static str> {
        Some(match self {
            Helper::IterTaskNew => "bpf_iter_task_new",
            Helper::IterTaskNext => "bpf_iter_task_next",
            Helper::IterTaskDestroy => "bpf_iter_task_destroy",
            Helper::TaskFromPid => "bpf_task_from_pid",
            Helper::TaskRelease => "bpf_task_release",
            Helper::RdonlyCast => "bpf_rdonly_cast",
            _ => return None,
        })
    }

    /// Whether the result is an address that the verifier tracks, or null.
    pub fn yields_address(self) -> bool {
        matches!(
            self,
            Helper::MapLookupElem
                | Helper::MapLookupPercpuElem
                | Helper::RingbufReserve
                | Helper::TaskStorageGet
                | Helper::GetCurrentTaskBtf
                | Helper::TaskPtRegs
                | Helper::IterTaskNext
                | Helper::TaskFromPid
                | Helper::RdonlyCast
        )
    }

    /// The role of the function that is passed as a callback, if the helper takes one.
    pub fn calls(self) -> Option<Role> {
        match self {
            Helper::Loop => Some(Role::Iteration),
            Helper::ForEachMapElem => Some(Role::Entry),
            Helper::Run => Some(Role::Block),
            Helper::RunApart => Some(Role::Apart),
            _ => None,
        }
    }
}
