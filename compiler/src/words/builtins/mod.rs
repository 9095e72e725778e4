//! The registry of builtins: one line each, sorted by name.

use crate::catalogue::Builtin;

pub(super) mod arg;
mod cgroup;
pub(super) mod comm;
mod config;
mod cpid;
pub(super) mod cpu;
pub(super) mod ctx;
mod curtask;
mod dw_ustack;
mod elapsed;
mod func;
mod gid;
mod has_cpid;
mod jiffies;
mod kstack;
mod leader_comm;
mod leader_tid;
mod ncpus;
mod nsecs;
mod numaid;
mod pcomm;
mod pid;
mod ppid;
mod probe;
mod probetype;
mod rand;
pub(super) mod retval;
mod sarg;
mod start_time;
mod state;
mod syscall;
mod tid;
mod uid;
mod usermode;
mod username;
mod ustack;

/// All builtins.
pub(super) const ALL: &[&dyn Builtin] = &[
    &arg::Arg { index: 0, name: "arg0" },
    &arg::Arg { index: 1, name: "arg1" },
    &arg::Arg { index: 10, name: "arg10" },
    &arg::Arg { index: 11, name: "arg11" },
    &arg::Arg { index: 2, name: "arg2" },
    &arg::Arg { index: 3, name: "arg3" },
    &arg::Arg { index: 4, name: "arg4" },
    &arg::Arg { index: 5, name: "arg5" },
    &arg::Arg { index: 6, name: "arg6" },
    &arg::Arg { index: 7, name: "arg7" },
    &arg::Arg { index: 8, name: "arg8" },
    &arg::Arg { index: 9, name: "arg9" },
    &cgroup::Cgroup,
    &comm::Comm,
    &config::Config,
    &cpid::Cpid,
    &cpu::Cpu,
    &ctx::Ctx,
    &curtask::Curtask,
    &dw_ustack::DwUstack,
    &elapsed::Elapsed,
    &func::Func,
    &gid::Gid,
    &has_cpid::HasCpid,
    &jiffies::Jiffies,
    &kstack::Kstack,
    &leader_comm::LeaderComm,
    &leader_tid::LeaderTid,
    &ncpus::Ncpus,
    &nsecs::Nsecs,
    &numaid::NumaId,
    &pcomm::Pcomm,
    &pid::Pid,
    &ppid::Ppid,
    &probe::Probe,
    &probetype::ProbeType,
    &rand::Rand,
    &retval::Retval,
    &sarg::Sarg { index: 0, name: "sarg0" },
    &sarg::Sarg { index: 1, name: "sarg1" },
    &sarg::Sarg { index: 2, name: "sarg2" },
    &sarg::Sarg { index: 3, name: "sarg3" },
    &sarg::Sarg { index: 4, name: "sarg4" },
    &sarg::Sarg { index: 5, name: "sarg5" },
    &sarg::Sarg { index: 6, name: "sarg6" },
    &sarg::Sarg { index: 7, name: "sarg7" },
    &sarg::Sarg { index: 8, name: "sarg8" },
    &sarg::Sarg { index: 9, name: "sarg9" },
    &state::State,
    &syscall::Syscall,
    &tid::Tid,
    &uid::Uid,
    &usermode::UserMode,
    &username::Username,
    &ustack::Ustack,
];

/// Builtins that scripts cannot name.
pub(super) const HIDDEN: &[&dyn Builtin] = &[&start_time::StartTime];

/// Builtins that depend on the current thread, and the functions of the same names.
pub(super) const OF_THREAD: &[&str] = &[
    "cgroup",
    "comm",
    "curtask",
    "dw_ustack",
    "gid",
    "kstack",
    "leader_comm",
    "leader_tid",
    "pcomm",
    "pid",
    "ppid",
    "state",
    "syscall",
    "tid",
    "uid",
    "usermode",
    "username",
    "ustack",
];
