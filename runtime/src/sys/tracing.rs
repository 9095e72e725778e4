//! Programs at functions of the kernel or of other BPF programs, and iterators: the type `TRACING`.
//!
//! In: an open object, and what its programs are loaded for. Out: the object, ready to be loaded.
//! Guarantee: libbpf reads the types of the kernel only for functions whose ids are not given.
//!
//! If an object has such a program, libbpf reads all types of the kernel before it loads the first
//! one, which takes 5 ms. So the programs have another type until each is loaded.

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_int, c_long};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::Once;

use libbpf_rs::{AsRawLibbpf as _, OpenObject};
use libbpf_sys as sys;

use super::{bpf_functions, check};

/// What a program of this type is loaded for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Traced {
    /// The function of the kernel with this BTF id.
    Kernel(u32),
    /// A function of another program.
    Program {
        /// The program's id.
        id: u32,
        function: String,
    },
}

/// A section: its name in libbpf's notation, how its programs are attached, and their flags.
struct Section {
    pattern: &'static CStr,
    attach_type: sys::bpf_attach_type,
    flags: u32,
}

const SECTIONS: [Section; 4] = [
    Section { pattern: c"fentry+", attach_type: sys::BPF_TRACE_FENTRY, flags: 0 },
    Section { pattern: c"fexit+", attach_type: sys::BPF_TRACE_FEXIT, flags: 0 },
    Section { pattern: c"iter+", attach_type: sys::BPF_TRACE_ITER, flags: 0 },
    Section { pattern: c"iter.s+", attach_type: sys::BPF_TRACE_ITER, flags: sys::BPF_F_SLEEPABLE },
];

thread_local! {
    /// BTF ids of the kernel's functions, by the name of the program that is loaded for each, of
    /// the object that this thread is loading. The callback cannot be given them.
    static FUNCTIONS: RefCell<Vec<(CString, u32)>> = const { RefCell::new(Vec::new()) };
}

/// Replaces libbpf's treatment of these sections; runs once per process, before any object is
/// opened.
pub(super) fn register() {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        for section in &SECTIONS {
            let options = sys::libbpf_prog_handler_opts {
                sz: size_of::<sys::libbpf_prog_handler_opts>() as u64,
                cookie: c_long::from(section.flags),
                prog_prepare_load_fn: Some(aim),
                ..Default::default()
            };
            // If libbpf has no memory for it, its own treatment is as good, but slower.
            // SAFETY: the pattern, which libbpf copies, and the options outlive the call. `Once`
            // keeps calls apart.
            unsafe {
                sys::libbpf_register_prog_handler(
                    section.pattern.as_ptr(),
                    sys::BPF_PROG_TYPE_RAW_TRACEPOINT,
                    section.attach_type,
                    &raw const options,
                );
            }
        }
    });
}

/// Gives a program its type, and what it is loaded for. libbpf calls it just before it loads the
/// program.
unsafe extern "C" fn aim(
    program: *mut sys::bpf_program,
    options: *mut sys::bpf_prog_load_opts,
    flags: c_long,
) -> c_int {
    // SAFETY: libbpf passes a program of the object that it loads; its name ends with NUL and lives
    // as long as the object.
    let name = unsafe { CStr::from_ptr(sys::bpf_program__name(program)) };
    let id = FUNCTIONS.with_borrow(|known| known.iter().find(|(of, _)| of.as_c_str() == name).map(|(_, id)| *id));
    let Some(id) = id else { return -libc::ENOENT };
    // SAFETY: libbpf passes the options of this call, and nothing else refers to them meanwhile.
    unsafe {
        (*options).attach_btf_id = id;
        (*options).prog_flags |= flags as u32;
        sys::bpf_program__set_type(program, sys::BPF_PROG_TYPE_TRACING)
    }
}

/// Prepares the programs of an open object; returns the programs whose functions are traced, whose
/// descriptors are needed until the object is loaded.
pub(super) fn prepare(object: &mut OpenObject, traced: &[(String, Traced)]) -> io::Result<Vec<OwnedFd>> {
    FUNCTIONS.with_borrow_mut(Vec::clear);
    let mut others = Vec::new();
    for program in object.progs_mut() {
        let Some((section, function)) = section_of(program.section()) else { continue };
        let of_it = traced.iter().find(|(name, _)| program.name() == name.as_str()).map(|(_, traced)| traced);
        let raw = program.as_libbpf_object();
        match of_it {
            Some(Traced::Kernel(id)) => {
                let name = c_string(&program.name().to_string_lossy())?;
                FUNCTIONS.with_borrow_mut(|known| known.push((name, *id)));
            }
            Some(Traced::Program { id, function }) => {
                let other = bpf_functions::open(*id)?;
                set_type(raw, section)?;
                bpf_functions::set_target(raw, Some(other.as_fd()), &c_string(function)?)?;
                others.push(other);
            }
            None => {
                set_type(raw, section)?;
                bpf_functions::set_target(raw, None, &c_string(function)?)?;
            }
        }
    }
    Ok(others)
}

/// The section of a program of this type, and the rest of its name.
fn section_of(name: &OsStr) -> Option<(&'static Section, &str)> {
    let (kind, function) = name.to_str()?.split_once('/')?;
    let section =
        SECTIONS.iter().find(|section| section.pattern.to_bytes().strip_suffix(b"+") == Some(kind.as_bytes()));
    Some((section?, function))
}

/// Gives a program its type at once; libbpf then no longer calls [`aim`] for it.
fn set_type(program: NonNull<sys::bpf_program>, section: &Section) -> io::Result<()> {
    // SAFETY: the program is of an open object, which the caller has borrowed.
    unsafe {
        check(sys::bpf_program__set_type(program.as_ptr(), sys::BPF_PROG_TYPE_TRACING))?;
        let flags = sys::bpf_program__flags(program.as_ptr()) | section.flags;
        check(sys::bpf_program__set_flags(program.as_ptr(), flags)).map(drop)
    }
}

fn c_string(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::ErrorKind::InvalidInput.into())
}
