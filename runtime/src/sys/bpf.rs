//! BPF objects, through libbpf-rs: open, load, look up, run.
//!
//! In: ELF bytes. Out: programs and maps as borrowed descriptors, and reads and writes of global
//! data.
//! Guarantee: libbpf's messages are kept for the caller and never written to standard error.

use std::cell::RefCell;
use std::ffi::{OsStr, c_void};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd};
use std::sync::Once;

use libbpf_rs::{AsRawLibbpf as _, MapCore as _, MapFlags, MapHandle, MapType, Object, OpenObject};
use libbpf_sys as sys;

use super::bss::BssMapping;
use super::map::Map;
use super::tracing::{self, Traced};
use super::{check, sleepable};

thread_local! {
    /// libbpf's warnings on this thread. The callback takes no user pointer, but it runs on the
    /// calling thread.
    static WARNINGS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Redirects libbpf's warnings to [`take_warnings`]; runs once per process. Info and debug messages
/// are not even formatted.
pub(super) fn capture_messages() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let keep = |_, message: String| WARNINGS.with_borrow_mut(|warnings| warnings.push_str(&message));
        libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, keep)));
    });
}

/// libbpf's warnings on this thread since the last call.
pub fn take_warnings() -> String {
    WARNINGS.take()
}

/// Changes to an object between opening and loading it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preparation {
    /// Bytes of `.rodata` by offset. The kernel freezes the section.
    pub rodata: Vec<(usize, Vec<u8>)>,
    /// Capacity in entries of maps, by name.
    pub sizes: Vec<(String, u32)>,
    /// What programs are loaded for, by name.
    pub traced: Vec<(String, Traced)>,
}

/// A loaded object. Dropping it closes its programs and maps.
#[derive(Debug)]
pub struct BpfObject {
    object: Object,
    bss: BssMapping,
    /// The verifier's log of each program, if requested. libbpf keeps pointers into the buffers, so
    /// they are dropped after the object.
    logs: Vec<(String, Vec<u8>)>,
}

/// Name of the object for libbpf and for the kernel.
const OBJECT_NAME: &str = "profiler";

/// Initial size of one program's log buffer; untouched pages cost nothing.
const LOG_BYTES: usize = 1 << 20;

/// Largest log buffer: the verifier gives up before it has written this much.
const MOST_LOG_BYTES: usize = 1 << 28;

impl BpfObject {
    /// Opens and loads an object. With `logged`, keeps the verifier's log of every program. After
    /// an error, [`take_warnings`] returns the details.
    pub fn load(elf: &[u8], logged: bool, preparation: &Preparation) -> io::Result<BpfObject> {
        capture_messages();
        tracing::register();
        let mut log_bytes = LOG_BYTES;
        loop {
            take_warnings();
            // The kernel rejects a program whose log does not fit.
            match BpfObject::load_once(elf, logged.then_some(log_bytes), preparation) {
                Err(error) if logged && error.raw_os_error() == Some(libc::ENOSPC) && log_bytes < MOST_LOG_BYTES => {
                    log_bytes *= 4;
                }
                outcome => return outcome,
            }
        }
    }

    /// Opens and loads an object; `log_bytes` is the size of each program's verifier log buffer.
    fn load_once(elf: &[u8], log_bytes: Option<usize>, preparation: &Preparation) -> io::Result<BpfObject> {
        let mut builder = libbpf_rs::ObjectBuilder::default();
        // Errors of libbpf-rs do not give the error number. libbpf sets `errno`.
        let opened = builder.name(OBJECT_NAME).and_then(|builder| builder.open_memory(elf));
        let mut open = opened.map_err(|_| io::Error::last_os_error())?;
        let logs = log_bytes.map_or_else(Vec::new, |log_bytes| keep_logs(&mut open, log_bytes));
        prepare(&mut open, preparation)?;
        // The descriptors are needed until the programs are loaded.
        let _traced = tracing::prepare(&mut open, &preparation.traced)?;
        // SAFETY: the object is open and is loaded once. (`OpenObject::load` closes an object that
        // it cannot load, which may change `errno`.)
        if let Err(error) = check(unsafe { sys::bpf_object__load(open.as_libbpf_object().as_ptr()) }) {
            report_last_log(&logs);
            return Err(error);
        }
        // SAFETY: just loaded; `take_ptr` gives up ownership.
        let object = unsafe { Object::from_ptr(open.take_ptr()) };
        let bss = object.maps().find(|map| is_named(map.name(), ".bss"));
        let bss = bss.map(|map| BssMapping::map_writable(map.as_fd(), map.value_size() as usize)).transpose()?;
        let bss = bss.unwrap_or_default();
        Ok(BpfObject { object, bss, logs })
    }

    /// The verifier's log of each program, with its name; empty if not requested.
    pub fn logs(&self) -> impl Iterator<Item = (&str, String)> {
        self.logs.iter().map(|(name, log)| (name.as_str(), text(log)))
    }

    /// A program by name.
    pub fn program(&self, name: &str) -> Option<BorrowedFd<'_>> {
        let program = self.object.progs().find(|program| program.name() == name)?;
        let fd = program.as_fd().as_raw_fd();
        // SAFETY: libbpf keeps the descriptor open until the object is closed, which the borrow
        // prevents. (libbpf-rs limits its borrow to `program`.)
        Some(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// A map by name.
    pub fn map(&self, name: &str) -> Option<Map<'_>> {
        let map = self.object.maps().find(|map| is_named(map.name(), name))?;
        // SAFETY: as above.
        let fd = unsafe { BorrowedFd::borrow_raw(map.as_fd().as_raw_fd()) };
        Map::new(fd, map.map_type().into(), map.key_size(), map.value_size(), map.max_entries()).ok()
    }

    /// Its global data (`.bss`).
    pub fn bss(&self) -> &BssMapping {
        &self.bss
    }
}

/// Gives every program a buffer for the verifier's log. The buffers must outlive the object.
fn keep_logs(object: &mut OpenObject, log_bytes: usize) -> Vec<(String, Vec<u8>)> {
    let with_log = |mut program: libbpf_rs::OpenProgramMut<'_>| {
        let mut log = vec![0u8; log_bytes];
        program.set_log_level(1);
        // SAFETY: the program belongs to the object, and the buffer, which is never resized,
        // outlives it. libbpf-rs has no log buffers.
        unsafe {
            sys::bpf_program__set_log_buf(
                program.as_libbpf_object().as_ptr(),
                log.as_mut_ptr().cast(),
                log.len() as u64,
            );
        }
        (program.name().to_string_lossy().into_owned(), log)
    };
    object.progs_mut().map(with_log).collect()
}

/// Changes an object that is not loaded yet; unknown maps and bytes outside `.rodata` are an error.
fn prepare(object: &mut OpenObject, preparation: &Preparation) -> io::Result<()> {
    for (name, entries) in &preparation.sizes {
        let map = object.maps_mut().find(|map| is_named(map.name(), name));
        map.ok_or(io::ErrorKind::NotFound)?.set_max_entries(*entries).map_err(|_| io::Error::last_os_error())?;
    }
    if preparation.rodata.is_empty() {
        return Ok(());
    }
    let mut map = object.maps_mut().find(|map| is_named(map.name(), ".rodata")).ok_or(io::ErrorKind::NotFound)?;
    let data = map.initial_value_mut().ok_or(io::ErrorKind::NotFound)?;
    for (offset, bytes) in &preparation.rodata {
        let range = data.get_mut(*offset..).and_then(|rest| rest.get_mut(..bytes.len()));
        range.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(bytes);
    }
    Ok(())
}

/// Whether a map has this name. libbpf puts the object's name before that of a section, and
/// libbpf-rs does not look maps up by name, as libbpf does.
fn is_named(map: &OsStr, name: &str) -> bool {
    map == name || name.starts_with('.') && map.to_str().and_then(|map| map.strip_prefix(OBJECT_NAME)) == Some(name)
}

/// Appends the log of the rejected program to the warnings, as libbpf does for logs that it keeps
/// itself.
fn report_last_log(logs: &[(String, Vec<u8>)]) {
    let mut logs = logs.iter().rev().map(|(name, log)| (name, text(log)));
    if let Some((name, log)) = logs.find(|(_, log)| !log.is_empty()) {
        let report = format!("libbpf: prog '{name}': -- BEGIN PROG LOAD LOG --\n{log}-- END PROG LOAD LOG --\n");
        WARNINGS.with_borrow_mut(|warnings| warnings.push_str(&report));
    }
}

/// The text of a log, up to its NUL.
fn text(log: &[u8]) -> String {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).into_owned()
}

/// The kernel's statistics of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramState {
    /// Program id.
    pub id: u32,
    /// Runs skipped because this program, or another one that it cannot interrupt, was running on
    /// that CPU. Since 5.12, for perf tracepoints since 6.7; 0 before.
    pub skipped_runs: u64,
    /// Number of runs while statistics were enabled.
    pub runs: u64,
    /// Total duration of these runs.
    pub run_time_ns: u64,
}

/// The kernel's statistics of a program; `None` if they cannot be read.
pub fn program_state(program: BorrowedFd<'_>) -> Option<ProgramState> {
    let state = program_info(program).ok()?;
    Some(ProgramState {
        id: state.id,
        skipped_runs: state.recursion_misses,
        runs: state.run_cnt,
        run_time_ns: state.run_time_ns,
    })
}

/// Waits until every BPF program that was running at the call has ended, whatever the number of
/// CPUs and their tick mode.
#[derive(Debug)]
pub struct Grace {
    outer: MapHandle,
    inner: MapHandle,
}

impl Grace {
    /// Creates the maps that waiting needs.
    pub fn new() -> io::Result<Grace> {
        let create = |kind, name, inner: Option<&MapHandle>| {
            let options = sys::bpf_map_create_opts {
                sz: size_of::<sys::bpf_map_create_opts>() as u64,
                inner_map_fd: inner.map_or(0, |inner| inner.as_fd().as_raw_fd() as u32),
                ..Default::default()
            };
            MapHandle::create(kind, Some(name), 4, 4, 1, &options).map_err(|_| io::Error::last_os_error())
        };
        let inner = create(MapType::Array, "grace_inner", None)?;
        let outer = create(MapType::ArrayOfMaps, "grace", Some(&inner))?;
        Ok(Grace { outer, inner })
    }

    /// Waits. Updating a map of maps returns after all programs that may have seen the old inner
    /// map have ended: the kernel's `maybe_wait_bpf_programs` waits for an RCU grace period, and
    /// every non-sleepable program runs under the RCU read lock. `membarrier` does nothing with one
    /// CPU and fails where a CPU runs tickless. Programs that may sleep
    /// are run by reads of this process ([`sleepable`]).
    pub fn wait(&self) -> io::Result<()> {
        let inner = self.inner.as_fd().as_raw_fd().to_ne_bytes();
        self.outer.update(&[0; 4], &inner, MapFlags::ANY).map_err(|_| io::Error::last_os_error())?;
        sleepable::wait();
        Ok(())
    }
}

/// Size in bytes of a program's instructions after verification.
pub fn translated_size_bytes(program: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(program_info(program)?.xlated_prog_len)
}

/// Number of instructions that the verifier processed to accept a program; 0 before Linux 5.16.
pub fn verified_insns(program: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(program_info(program)?.verified_insns)
}

/// The call is libbpf's own: libbpf-rs describes programs only while it walks over all of the
/// system.
fn program_info(program: BorrowedFd<'_>) -> io::Result<sys::bpf_prog_info> {
    let mut state = sys::bpf_prog_info::default();
    let mut size = size_of_val(&state) as u32;
    // SAFETY: the kernel writes at most `size` bytes, which the struct has; its pointers are null,
    // so nothing else is written.
    check(unsafe { sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut state, &raw mut size) })?;
    Ok(state)
}

/// Runs a program once and returns its return value.
pub fn test_run(program: BorrowedFd<'_>) -> io::Result<u32> {
    // A raw tracepoint's context is an array of `u64`. A script's `BEGIN` reads none of it, but the
    // verifier may see a program that saves it.
    test_run_on(program, &[0; 12])
}

/// Runs a raw tracepoint program once with these arguments and returns its return value.
///
/// The call is libbpf's own: libbpf-rs runs only programs borrowed from their object, and timers
/// run theirs by descriptor in other threads.
pub fn test_run_on(program: BorrowedFd<'_>, context: &[u64; 12]) -> io::Result<u32> {
    let mut options = sys::bpf_test_run_opts {
        sz: size_of::<sys::bpf_test_run_opts>() as u64,
        ctx_in: context.as_ptr().cast::<c_void>(),
        ctx_size_in: size_of_val(context) as u32,
        ..Default::default()
    };
    // SAFETY: the options and the context they point to outlive the call.
    check(unsafe { sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) })?;
    Ok(options.retval)
}
