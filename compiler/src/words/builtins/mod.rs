//! The registry of builtins: one line each, sorted by name.

use super::Builtin;

pub mod arg;
mod cgroup;
mod comm;
mod cpid;
mod cpu;
mod ctx;
mod curtask;
mod elapsed;
mod func;
mod gid;
mod kstack;
mod ncpus;
mod nsecs;
mod numaid;
mod pid;
mod probe;
mod rand;
mod retval;
mod tid;
mod uid;
mod username;
mod ustack;

/// All builtins.
pub const ALL: &[&dyn Builtin] = &[
    &arg::Arg { index: 0, name: "arg0" },
    &arg::Arg { index: 1, name: "arg1" },
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
    &cpid::Cpid,
    &cpu::Cpu,
    &ctx::Ctx,
    &curtask::Curtask,
    &elapsed::Elapsed,
    &func::Func,
    &gid::Gid,
    &kstack::Kstack,
    &ncpus::Ncpus,
    &nsecs::Nsecs,
    &numaid::NumaId,
    &pid::Pid,
    &probe::Probe,
    &rand::Rand,
    &retval::Retval,
    &tid::Tid,
    &uid::Uid,
    &username::Username,
    &ustack::Ustack,
];
