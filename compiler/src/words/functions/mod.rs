//! The registry of functions: one line each, sorted by name.

use crate::catalogue::Function;

mod assert;
mod assert_str;
mod bswap;
mod buf;
mod cat;
mod cgroup_path;
mod cgroupid;
mod clear;
mod comm;
mod container_of;
mod debugf;
mod default_str_length;
mod delete;
pub(super) mod dw_ustack;
mod errorf;
mod exchange;
mod exec;
mod exit;
mod fail;
mod find;
mod flame;
mod formatted;
mod getopt;
mod has_key;
mod inflight;
mod is_array;
mod is_err;
mod is_integer;
mod is_literal;
mod is_ptr;
mod is_str;
mod is_unsigned_integer;
mod join;
mod kaddr;
mod kernel_format;
mod kfunc_allowed;
mod kfunc_exist;
mod kptr;
pub(super) mod kstack;
mod ksym;
mod len;
mod macaddr;
mod memcmp;
mod ntop;
mod r#override;
mod p50;
mod p90;
mod p99;
mod path;
mod percentile;
mod percpu_kaddr;
mod print;
mod printf;
mod pton;
pub(super) mod reg;
mod signal;
mod signal_name;
mod signal_thread;
mod skboutput;
mod socket_cookie;
mod static_assert;
mod str;
mod str_concat;
mod strcap;
mod strcontains;
mod strerror;
mod strftime;
mod strlen;
mod strncmp;
mod strstr;
mod syscall_name;
mod system;
mod time;
mod typed_argument;
mod typeinfo;
mod uaddr;
mod unwatch;
mod uptr;
mod user_reg;
pub(super) mod ustack;
mod usym;
mod warnf;
mod write_user;
mod zero;

/// All functions.
pub(super) const ALL: &[&dyn Function] = &[
    &assert::Assert,
    &assert_str::AssertStr,
    &bswap::Bswap,
    &buf::Buf,
    &cat::Cat,
    &cgroup_path::CgroupPath,
    &cgroupid::CgroupId,
    &clear::Clear,
    &comm::Comm,
    &container_of::ContainerOf,
    &debugf::Debugf,
    &default_str_length::DefaultStrLength,
    &delete::Delete,
    &dw_ustack::DwUstack,
    &errorf::Errorf,
    &exchange::Exchange,
    &exec::Exec,
    &exit::Exit,
    &fail::Fail,
    &find::Find,
    &flame::Flame,
    &getopt::Getopt,
    &has_key::HasKey,
    &inflight::Inflight,
    &is_array::IsArray,
    &is_err::IsErr,
    &is_integer::IsInteger,
    &is_literal::IsLiteral,
    &is_ptr::IsPtr,
    &is_str::IsStr,
    &is_unsigned_integer::IsUnsignedInteger,
    &join::Join,
    &kaddr::Kaddr,
    &kfunc_allowed::KfuncAllowed,
    &kfunc_exist::KfuncExist,
    &kptr::Kptr,
    &kstack::Kstack,
    &ksym::Ksym,
    &len::Len,
    &macaddr::Macaddr,
    &memcmp::Memcmp,
    &ntop::Ntop,
    &r#override::Override,
    &p50::P50,
    &p90::P90,
    &p99::P99,
    &path::Path,
    &percentile::Percentile,
    &percpu_kaddr::PercpuKaddr,
    &print::Print,
    &printf::Printf,
    &pton::Pton,
    &reg::Reg,
    &signal::Signal,
    &signal_name::SignalName,
    &signal_thread::SignalThread,
    &skboutput::Skboutput,
    &socket_cookie::SocketCookie,
    &static_assert::StaticAssert,
    &str::Str,
    &str_concat::StrConcat,
    &strcap::Strcap,
    &strcontains::Strcontains,
    &strerror::Strerror,
    &strftime::Strftime,
    &strlen::Strlen,
    &strncmp::Strncmp,
    &strstr::Strstr,
    &syscall_name::SyscallName,
    &system::System,
    &time::Time,
    &typeinfo::Typeinfo,
    &uaddr::Uaddr,
    &unwatch::Unwatch,
    &uptr::Uptr,
    &user_reg::UserReg,
    &ustack::Ustack,
    &usym::Usym,
    &warnf::Warnf,
    &write_user::WriteUser,
    &zero::Zero,
];

/// bpftrace's functions that are missing here, each with a replacement.
pub(super) const ABSENT: &[(&str, &str)] = &[
    ("elf_info", "`uaddr` finds the addresses of symbols"),
    ("memcmp_record", "`==` compares records"),
    ("usdt_arg", "`arg0` to `arg9` are the arguments of a static probe"),
];
