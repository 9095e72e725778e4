//! The registry of functions: one line each, sorted by name.

use super::Function;

mod buf;
mod cat;
mod cgroupid;
mod clear;
mod delete;
mod exit;
mod getopt;
mod has_key;
mod join;
mod kaddr;
pub(super) mod kstack;
mod ksym;
mod len;
mod ntop;
mod print;
mod printf;
mod reg;
mod str;
mod strftime;
mod system;
mod time;
pub(super) mod ustack;
mod usym;
mod zero;

/// All functions.
pub const ALL: &[&dyn Function] = &[
    buf::WORD,
    cat::WORD,
    cgroupid::WORD,
    clear::WORD,
    delete::WORD,
    exit::WORD,
    &getopt::Getopt,
    has_key::WORD,
    join::WORD,
    kaddr::WORD,
    kstack::WORD,
    ksym::WORD,
    len::WORD,
    ntop::WORD,
    print::WORD,
    printf::WORD,
    reg::WORD,
    str::WORD,
    strftime::WORD,
    system::WORD,
    time::WORD,
    ustack::WORD,
    usym::WORD,
    zero::WORD,
];
