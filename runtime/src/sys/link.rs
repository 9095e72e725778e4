//! BPF links: attach programs to events.
//!
//! In: a program and its attach point. Out: a descriptor; closing it detaches.
//! Guarantee: nothing but what is pinned stays attached after the descriptor is closed or the
//! process has ended.
//!
//! The calls are libbpf's own. libbpf-rs attaches only programs of an object that it has loaded
//! (the empty ones of [`super::program`] belong to none), hides the error number, and does not
//! restrict a task iterator to a process; its links are not descriptors, and its description of a
//! link copies the addresses of all functions.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libbpf_sys as sys;

use super::{check, own};

/// Attaches a program to a raw tracepoint.
pub fn raw_tracepoint(program: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: the name is a string; the kernel copies it.
    check(unsafe { sys::bpf_raw_tracepoint_open(name.as_ptr(), program.as_raw_fd()) }).map(own)
}

/// Attaches a program to a perf event. Since 5.15.
pub fn perf_event(program: BorrowedFd<'_>, event: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    let mut options = options();
    options.__bindgen_anon_1.perf_event.bpf_cookie = cookie;
    create(program, event.as_raw_fd(), sys::BPF_PERF_EVENT, &options)
}

/// The id of a link's program, and the number of times an attach point of the link was hit without
/// running the program: inside functions that the kernel ran for another probe, or at returns that
/// it could not track. The program does not count these. Since 6.7; `None` before, and for other
/// links.
pub fn missed_runs(link: BorrowedFd<'_>) -> Option<(u32, u64)> {
    let mut state = sys::bpf_link_info::default();
    let mut size = size_of_val(&state) as u32;
    // SAFETY: the kernel writes at most `size` bytes, which the struct has; its pointers are null,
    // so nothing else is written.
    check(unsafe { sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut state, &raw mut size) }).ok()?;
    // SAFETY: the type says which variant the kernel has filled; all are integers, and zero
    // otherwise.
    let missed = unsafe {
        match state.type_ {
            sys::BPF_LINK_TYPE_KPROBE_MULTI => state.__bindgen_anon_1.kprobe_multi.missed,
            sys::BPF_LINK_TYPE_PERF_EVENT => match state.__bindgen_anon_1.perf_event.type_ {
                sys::BPF_PERF_EVENT_KPROBE | sys::BPF_PERF_EVENT_KRETPROBE => {
                    state.__bindgen_anon_1.perf_event.__bindgen_anon_1.kprobe.missed
                }
                _ => return None,
            },
            _ => return None,
        }
    };
    Some((state.prog_id, missed))
}

/// Attach points of a uprobe multi link: offsets in one file, each with the cookie of the same
/// index.
#[derive(Debug)]
pub struct UprobeSites<'a> {
    /// The file.
    pub path: &'a CStr,
    /// Offsets in the file.
    pub offsets: &'a [u64],
    /// Values that `bpf_get_attach_cookie` returns there.
    pub cookies: &'a [u64],
    /// Offsets of semaphores that are incremented while the link exists, 0 for none; empty if no
    /// attach point has one.
    pub semaphores: &'a [u64],
    /// Attach to the return instead of the entry.
    pub at_return: bool,
    /// Restrict to this process.
    pub pid: Option<u32>,
}

/// Attaches a program to many offsets of a file. Since 6.6.
pub fn uprobe_multi(program: BorrowedFd<'_>, sites: &UprobeSites<'_>) -> io::Result<OwnedFd> {
    let is_whole = |others: usize| others == sites.offsets.len();
    if !is_whole(sites.cookies.len()) || !(sites.semaphores.is_empty() || is_whole(sites.semaphores.len())) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut options = options();
    let flags = if sites.at_return { sys::BPF_F_UPROBE_MULTI_RETURN } else { 0 };
    options.__bindgen_anon_1.uprobe_multi = sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_3 {
        flags,
        cnt: sites.offsets.len() as u32,
        path: sites.path.as_ptr(),
        offsets: sites.offsets.as_ptr(),
        cookies: sites.cookies.as_ptr(),
        ref_ctr_offsets: if sites.semaphores.is_empty() { std::ptr::null() } else { sites.semaphores.as_ptr() },
        pid: sites.pid.unwrap_or(0),
        ..Default::default()
    };
    create(program, 0, sys::BPF_TRACE_UPROBE_MULTI, &options)
}

/// Attach points of a kprobe multi link: kernel functions, each with the cookie of the same index.
#[derive(Debug)]
pub struct KprobeSites<'a> {
    /// Names of functions.
    pub functions: &'a [CString],
    /// Values that `bpf_get_attach_cookie` returns there.
    pub cookies: &'a [u64],
    /// Attach to the return instead of the entry.
    pub at_return: bool,
}

/// Attaches a program to many kernel functions. Since 5.18.
pub fn kprobe_multi(program: BorrowedFd<'_>, sites: &KprobeSites<'_>) -> io::Result<OwnedFd> {
    if sites.functions.len() != sites.cookies.len() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut names: Vec<*const c_char> = sites.functions.iter().map(|name| name.as_ptr()).collect();
    let mut options = options();
    options.__bindgen_anon_1.kprobe_multi = sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_2 {
        flags: if sites.at_return { sys::BPF_F_KPROBE_MULTI_RETURN } else { 0 },
        cnt: names.len() as u32,
        syms: names.as_mut_ptr(),
        cookies: sites.cookies.as_ptr(),
        ..Default::default()
    };
    create(program, 0, sys::BPF_TRACE_KPROBE_MULTI, &options)
}

/// Attaches a program to the entry or exit of the kernel function that it was loaded for. Since
/// 5.5.
pub fn trampoline(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: without a name the kernel takes the function from the program.
    check(unsafe { sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) }).map(own)
}

/// Attaches a program to the iterator that it was loaded for; a task iterator can be restricted to
/// one process. Since 5.8; 6.1 for a process.
pub fn iterator(program: BorrowedFd<'_>, pid: Option<u32>) -> io::Result<OwnedFd> {
    let mut options = options();
    let task = sys::bpf_iter_link_info__bindgen_ty_3 { pid: pid.unwrap_or(0), ..Default::default() };
    let mut of_process = sys::bpf_iter_link_info { task };
    if pid.is_some() {
        // The description outlives the call, in which the kernel copies it.
        options.iter_info = &raw mut of_process;
        options.iter_info_len = size_of_val(&of_process) as u32;
    }
    create(program, 0, sys::BPF_TRACE_ITER, &options)
}

/// Opens an iterator; reading it runs the program.
pub fn read_iterator(link: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: takes a descriptor by value.
    check(unsafe { sys::bpf_iter_create(link.as_raw_fd()) }).map(own)
}

/// Gives a link a name in a BPF file system. It stays attached until the file is removed.
pub fn pin(link: BorrowedFd<'_>, path: &CStr) -> io::Result<()> {
    // SAFETY: the path is a string; the kernel copies it.
    check(unsafe { sys::bpf_obj_pin(link.as_raw_fd(), path.as_ptr()) }).map(|_| ())
}

fn options() -> sys::bpf_link_create_opts {
    sys::bpf_link_create_opts { sz: size_of::<sys::bpf_link_create_opts>() as u64, ..Default::default() }
}

fn create(
    program: BorrowedFd<'_>,
    target: i32,
    kind: sys::bpf_attach_type,
    options: &sys::bpf_link_create_opts,
) -> io::Result<OwnedFd> {
    // SAFETY: the options, and the path and arrays that the callers pass, outlive the call; `cnt`
    // is their length.
    check(unsafe { sys::bpf_link_create(program.as_raw_fd(), target, kind, options) }).map(own)
}
