//! The registry of functions: one line each, sorted by name.

use super::Function;

mod assert;
mod assert_str;
mod bswap;
mod buf;
mod cat;
mod cgroup_path;
mod cgroupid;
mod clear;
mod container_of;
mod debugf;
mod default_str_length;
mod delete;
mod errorf;
mod exit;
mod fail;
mod find;
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
mod kfunc_allowed;
mod kfunc_exist;
mod kptr;
pub(super) mod kstack;
mod ksym;
mod len;
mod macaddr;
mod memcmp;
mod ntop;
mod p50;
mod p90;
mod p99;
mod percentile;
mod percpu_kaddr;
mod print;
mod printf;
mod pton;
mod reg;
mod signal;
mod signal_name;
mod signal_thread;
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
mod uaddr;
mod unwatch;
mod uptr;
pub(super) mod ustack;
mod usym;
mod warnf;
mod write_user;
mod zero;

/// All functions.
pub const ALL: &[&dyn Function] = &[
    assert::WORD,
    assert_str::WORD,
    bswap::WORD,
    buf::WORD,
    cat::WORD,
    cgroup_path::WORD,
    cgroupid::WORD,
    clear::WORD,
    container_of::WORD,
    debugf::WORD,
    default_str_length::WORD,
    delete::WORD,
    errorf::WORD,
    exit::WORD,
    fail::WORD,
    find::WORD,
    &getopt::Getopt,
    has_key::WORD,
    inflight::WORD,
    is_array::WORD,
    is_err::WORD,
    is_integer::WORD,
    is_literal::WORD,
    is_ptr::WORD,
    is_str::WORD,
    is_unsigned_integer::WORD,
    join::WORD,
    kaddr::WORD,
    kfunc_allowed::WORD,
    kfunc_exist::WORD,
    kptr::WORD,
    kstack::WORD,
    ksym::WORD,
    len::WORD,
    macaddr::WORD,
    memcmp::WORD,
    ntop::WORD,
    p50::WORD,
    p90::WORD,
    p99::WORD,
    percentile::WORD,
    percpu_kaddr::WORD,
    print::WORD,
    printf::WORD,
    pton::WORD,
    reg::WORD,
    signal::WORD,
    signal_name::WORD,
    signal_thread::WORD,
    static_assert::WORD,
    str::WORD,
    str_concat::WORD,
    strcap::WORD,
    strcontains::WORD,
    strerror::WORD,
    strftime::WORD,
    strlen::WORD,
    strncmp::WORD,
    strstr::WORD,
    syscall_name::WORD,
    system::WORD,
    time::WORD,
    uaddr::WORD,
    unwatch::WORD,
    uptr::WORD,
    ustack::WORD,
    usym::WORD,
    warnf::WORD,
    write_user::WORD,
    zero::WORD,
];

/// Functions that users of bpftrace know and that are missing here, each with what to do instead.
pub const ABSENT: &[(&str, &str)] = &[
    ("dw_ustack", "`ustack` takes stacks by frame pointers"),
    (
        "override",
        "functions keep their results: kernels of distributions let no probe change them (CONFIG_BPF_KPROBE_OVERRIDE)",
    ),
    ("path", "names are read with `str(file.f_path.dentry.d_name.name)`, without their folders"),
    ("skboutput", "send the bytes with `printf(\"%r\", buf(…))`"),
    ("socket_cookie", "use the address of the socket as the key: it is the same as long as the socket lives"),
];
