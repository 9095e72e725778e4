//! The BPF programs of the system, with the names of their functions.
//!
//! In: nothing, or the id of a program. Out: the functions of all programs that can be traced, or
//! the program's descriptor.
//! Guarantee: a program that is unloaded meanwhile is left out.
//!
//! The calls are libbpf's own: libbpf-rs gives no names of functions.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use libbpf_sys as sys;

use super::{check, own};

/// Programs of these types are not traced: trampolines cannot be nested.
const UNTRACED: [u32; 2] = [sys::BPF_PROG_TYPE_TRACING, sys::BPF_PROG_TYPE_EXT];

/// The functions of all programs that were loaded with types, as pairs of the program's id and the
/// function's name.
pub fn all() -> io::Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    let mut id = 0;
    loop {
        // SAFETY: the kernel writes the next id to `id`.
        match check(unsafe { sys::bpf_prog_get_next_id(id, &raw mut id) }) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(found),
            Err(error) => return Err(error),
        }
        // Unloaded since, or without types.
        let names = open(id).and_then(|program| names(&program)).unwrap_or_default();
        found.extend(names.into_iter().map(|name| (id, name)));
    }
}

/// A program by its id.
pub fn open(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes a number.
    check(unsafe { sys::bpf_prog_get_fd_by_id(id) }).map(own)
}

fn names(program: &OwnedFd) -> io::Result<Vec<String>> {
    let counted = info(program, &mut [])?;
    if UNTRACED.contains(&counted.type_) || counted.btf_id == 0 || counted.jited_prog_len == 0 {
        return Ok(Vec::new());
    }
    let mut functions = vec![sys::bpf_func_info::default(); counted.nr_func_info as usize];
    info(program, &mut functions)?;
    let types = Types::of(counted.btf_id)?;
    Ok(functions.iter().filter_map(|function| types.name(function.type_id)).collect())
}

/// Facts about a program; its functions are written to `functions`.
fn info(program: &OwnedFd, functions: &mut [sys::bpf_func_info]) -> io::Result<sys::bpf_prog_info> {
    let mut state = sys::bpf_prog_info {
        nr_func_info: functions.len() as u32,
        func_info_rec_size: size_of::<sys::bpf_func_info>() as u32,
        func_info: functions.as_mut_ptr() as u64,
        ..Default::default()
    };
    let mut size = size_of_val(&state) as u32;
    // SAFETY: the kernel writes at most `size` bytes to the struct, and at most `nr_func_info`
    // records of `func_info_rec_size` bytes to the slice; its other pointers are null.
    check(unsafe { sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut state, &raw mut size) })?;
    Ok(state)
}

/// The types of a program.
struct Types(NonNull<sys::btf>);

impl Types {
    fn of(id: u32) -> io::Result<Types> {
        // SAFETY: takes a number; the result is owned.
        let types = unsafe { sys::btf__load_from_kernel_by_id(id) };
        NonNull::new(types).map(Types).ok_or_else(io::Error::last_os_error)
    }

    /// The name of a type.
    fn name(&self, id: u32) -> Option<String> {
        // SAFETY: the types live as long as `self`; libbpf returns null for ids and offsets that
        // are out of range, else a pointer into them. The name ends with NUL.
        unsafe {
            let of_type = sys::btf__type_by_id(self.0.as_ptr(), id).as_ref()?;
            let name = sys::btf__name_by_offset(self.0.as_ptr(), of_type.name_off);
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }
}

impl Drop for Types {
    fn drop(&mut self) {
        // SAFETY: owned, and not used again.
        unsafe { sys::btf__free(self.0.as_ptr()) }
    }
}

/// Sets what a program that is not loaded yet will trace: a function of a loaded program, or of the
/// kernel or, before a colon, of a module.
pub(super) fn set_target(
    program: NonNull<sys::bpf_program>,
    traced: Option<BorrowedFd<'_>>,
    function: &CStr,
) -> io::Result<()> {
    let traced = traced.map_or(0, |traced| traced.as_raw_fd());
    // SAFETY: the caller owns the program; the name outlives the call, in which libbpf looks the
    // function up and keeps the descriptor's number.
    check(unsafe { sys::bpf_program__set_attach_target(program.as_ptr(), traced, function.as_ptr()) }).map(drop)
}
