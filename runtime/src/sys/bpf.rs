//! A BPF object in libbpf: open, load, look up, run.
//!
//! In: ELF bytes. Out: programs and maps as borrowed descriptors, and reads and writes of global data.
//! Guarantee: libbpf's messages are kept for the caller and never reach standard error.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_sys as sys;

use super::map::Map;
use super::{check, own};

thread_local! {
    /// Warnings of libbpf on this thread. libbpf's callback takes no argument of ours, but it runs on the calling thread.
    static WARNINGS: RefCell<String> = const { RefCell::new(String::new()) };
}

unsafe extern "C" {
    /// `libc` does not declare it: it has no type for a `va_list`.
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, arguments: *mut sys::__va_list_tag) -> c_int;
}

/// Keeps libbpf's warnings; its information and debug messages are not even formatted.
unsafe extern "C" fn keep_warning(
    level: sys::libbpf_print_level,
    format: *const c_char,
    arguments: *mut sys::__va_list_tag,
) -> c_int {
    if level != sys::LIBBPF_WARN {
        return 0;
    }
    let mut text: *mut c_char = std::ptr::null_mut();
    // SAFETY: libbpf passes a printf format with its arguments; on success `text` is a string that we must free.
    let len = unsafe { vasprintf(&raw mut text, format, arguments) };
    if len < 0 || text.is_null() {
        return 0;
    }
    // SAFETY: `vasprintf` succeeded, so `text` is NUL-terminated and ours.
    let message = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    WARNINGS.with_borrow_mut(|warnings| warnings.push_str(&message));
    // SAFETY: allocated by `vasprintf`, not used after this.
    unsafe { libc::free(text.cast()) };
    len
}

/// Directs libbpf's messages to [`take_warnings`]; needed once a process.
pub(super) fn capture_messages() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // SAFETY: the callback has the type that libbpf asks for and lives as long as the process.
        unsafe { sys::libbpf_set_print(Some(keep_warning)) };
    });
}

/// What libbpf complained about on this thread since the last call.
pub fn take_warnings() -> String {
    WARNINGS.take()
}

/// What is done to an object between opening and loading it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preparation {
    /// Bytes of `.rodata` by offset, which the kernel freezes.
    pub rodata: Vec<(usize, Vec<u8>)>,
    /// Entries of maps by name.
    pub sizes: Vec<(String, u32)>,
}

/// A loaded object. Dropping it closes its programs and maps.
#[derive(Debug)]
pub struct BpfObject {
    raw: NonNull<sys::bpf_object>,
    /// Address and size of the mapping of `.bss`, which lives as long as the object.
    bss: Option<(NonNull<u8>, usize)>,
    /// The verifier's log of each program, when it was asked for. libbpf keeps pointers into the buffers.
    logs: Vec<(String, Vec<u8>)>,
}

/// Room for the log of one program at first; untouched pages cost nothing.
const LOG_BYTES: usize = 1 << 20;

/// Most room for one log: the verifier's patience ends before it has written so much.
const MOST_LOG_BYTES: usize = 1 << 28;

impl BpfObject {
    /// Opens and loads an object; with `logged`, keeps the verifier's log of every program. On an error
    /// [`take_warnings`] has the story.
    pub fn load(elf: &[u8], logged: bool, preparation: &Preparation) -> io::Result<BpfObject> {
        capture_messages();
        let mut log_bytes = LOG_BYTES;
        loop {
            take_warnings();
            // The kernel refuses a program whose log does not fit.
            match BpfObject::load_once(elf, logged.then_some(log_bytes), preparation) {
                Err(error) if logged && error.raw_os_error() == Some(libc::ENOSPC) && log_bytes < MOST_LOG_BYTES => {
                    log_bytes *= 4;
                }
                outcome => return outcome,
            }
        }
    }

    /// Opens and loads an object; with `log_bytes`, each program has so much room for the verifier's log.
    fn load_once(elf: &[u8], log_bytes: Option<usize>, preparation: &Preparation) -> io::Result<BpfObject> {
        let options = sys::bpf_object_open_opts {
            sz: size_of::<sys::bpf_object_open_opts>() as u64,
            object_name: c"profiler".as_ptr(),
            ..Default::default()
        };
        // SAFETY: the bytes and the options outlive the call; libbpf is done with the bytes when loading is, below.
        let raw = unsafe { sys::bpf_object__open_mem(elf.as_ptr().cast(), elf.len() as u64, &raw const options) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        let mut object = BpfObject { raw, bss: None, logs: Vec::new() };
        if let Some(log_bytes) = log_bytes {
            object.keep_logs(log_bytes);
        }
        object.prepare(preparation)?;
        // SAFETY: `raw` was opened just above and is loaded once.
        if let Err(error) = check(unsafe { sys::bpf_object__load(raw.as_ptr()) }) {
            object.report_last_log();
            return Err(error);
        }
        object.bss = object.find_bss();
        Ok(object)
    }

    /// Changes an object that is not loaded yet; bytes and maps that it does not have are an error.
    fn prepare(&mut self, preparation: &Preparation) -> io::Result<()> {
        for (map, entries) in &preparation.sizes {
            let map = self.find_map(map).ok_or(io::ErrorKind::NotFound)?;
            // SAFETY: the map belongs to the object, which is not loaded yet.
            check(unsafe { sys::bpf_map__set_max_entries(map.as_ptr(), *entries) })?;
        }
        if preparation.rodata.is_empty() {
            return Ok(());
        }
        let map = self.find_map(".rodata").ok_or(io::ErrorKind::NotFound)?;
        let mut size = 0u64;
        // SAFETY: the map belongs to the object. Until it is loaded, its initial value is memory of libbpf of this size.
        let data = unsafe { sys::bpf_map__initial_value(map.as_ptr(), &raw mut size) };
        let data = NonNull::new(data.cast::<u8>()).ok_or(io::ErrorKind::NotFound)?;
        for (offset, bytes) in &preparation.rodata {
            if offset.checked_add(bytes.len()).is_none_or(|end| end > size as usize) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            // SAFETY: the range lies in the section, which nothing else refers to before the object is loaded.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data.as_ptr().add(*offset), bytes.len()) };
        }
        Ok(())
    }

    /// Gives every program a buffer for the verifier's log.
    fn keep_logs(&mut self, log_bytes: usize) {
        let mut program = std::ptr::null_mut();
        loop {
            // SAFETY: the object is open; the iterator starts with null and gets back what it returned.
            program = unsafe { sys::bpf_object__next_program(self.raw.as_ptr(), program) };
            if program.is_null() {
                return;
            }
            // SAFETY: a program's name is a string that lives as long as the object.
            let name = unsafe { CStr::from_ptr(sys::bpf_program__name(program)) }.to_string_lossy().into_owned();
            let mut log = vec![0u8; log_bytes];
            // SAFETY: the buffer is kept in `self.logs` and never resized, so it outlives the object's use of it.
            unsafe {
                sys::bpf_program__set_log_level(program, 1);
                sys::bpf_program__set_log_buf(program, log.as_mut_ptr().cast(), log.len() as u64);
            }
            self.logs.push((name, log));
        }
    }

    /// Adds the log of the program that was refused to the warnings, as libbpf does for logs that it keeps itself.
    fn report_last_log(&self) {
        if let Some((name, log)) = self.logs().filter(|(_, log)| !log.is_empty()).last() {
            let report = format!("libbpf: prog '{name}': -- BEGIN PROG LOAD LOG --\n{log}-- END PROG LOAD LOG --\n");
            WARNINGS.with_borrow_mut(|warnings| warnings.push_str(&report));
        }
    }

    /// The verifier's log of each program by name; empty when it was not asked for.
    pub fn logs(&self) -> impl Iterator<Item = (&str, String)> {
        self.logs.iter().map(|(name, log)| {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            (name.as_str(), String::from_utf8_lossy(&log[..end]).into_owned())
        })
    }

    /// A program by name.
    pub fn program(&self, name: &str) -> Option<BorrowedFd<'_>> {
        let name = CString::new(name).ok()?;
        // SAFETY: the object is open and the name is a string.
        let program = unsafe { sys::bpf_object__find_program_by_name(self.raw.as_ptr(), name.as_ptr()) };
        if program.is_null() {
            return None;
        }
        // SAFETY: the program belongs to the object.
        let fd = unsafe { sys::bpf_program__fd(program) };
        // SAFETY: libbpf keeps the descriptor open until the object is closed, which the borrow prevents.
        (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// A map by name.
    pub fn map(&self, name: &str) -> Option<Map<'_>> {
        let map = self.find_map(name)?;
        // SAFETY: the map belongs to the object, here and below.
        let (fd, kind) = unsafe { (sys::bpf_map__fd(map.as_ptr()), sys::bpf_map__type(map.as_ptr())) };
        // SAFETY: as above.
        let (key, value) = unsafe { (sys::bpf_map__key_size(map.as_ptr()), sys::bpf_map__value_size(map.as_ptr())) };
        // SAFETY: as above.
        let max_entries = unsafe { sys::bpf_map__max_entries(map.as_ptr()) };
        if fd < 0 {
            return None;
        }
        // SAFETY: libbpf keeps the descriptor open until the object is closed, which the borrow prevents.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        Map::new(fd, kind, key, value, max_entries).ok()
    }

    fn find_map(&self, name: &str) -> Option<NonNull<sys::bpf_map>> {
        let name = CString::new(name).ok()?;
        // SAFETY: the object is open and the name is a string.
        NonNull::new(unsafe { sys::bpf_object__find_map_by_name(self.raw.as_ptr(), name.as_ptr()) })
    }

    /// The mapping of `.bss`. An object without global data has none.
    fn find_bss(&self) -> Option<(NonNull<u8>, usize)> {
        let map = self.find_map(".bss")?;
        let mut size = 0u64;
        // SAFETY: the map belongs to the object. Once loaded, its initial value is a shared mapping of the map itself.
        let data = unsafe { sys::bpf_map__initial_value(map.as_ptr(), &raw mut size) };
        Some((NonNull::new(data.cast())?, size as usize))
    }

    /// The `u64` at an offset of `.bss`; `None` outside of it or when it is not aligned.
    fn bss_word(&self, offset_bytes: usize) -> Option<&AtomicU64> {
        let (base, size) = self.bss?;
        if !offset_bytes.is_multiple_of(8) || offset_bytes.checked_add(8)? > size {
            return None;
        }
        // SAFETY: within the mapping, which is page-aligned and lives as long as `self`; programs and we use it by words.
        Some(unsafe { AtomicU64::from_ptr(base.as_ptr().add(offset_bytes).cast()) })
    }

    /// Reads a `u64` of `.bss`.
    pub fn bss_u64(&self, offset_bytes: u32) -> Option<u64> {
        Some(self.bss_word(offset_bytes as usize)?.load(Ordering::Acquire))
    }

    /// Writes a `u64` of `.bss`; false outside of it.
    pub fn set_bss_u64(&self, offset_bytes: u32, value: u64) -> bool {
        self.bss_word(offset_bytes as usize).map(|word| word.store(value, Ordering::SeqCst)).is_some()
    }

    /// Copies bytes of `.bss`, word by word; `None` when a word lies outside of it.
    pub fn bss_bytes(&self, offset_bytes: u32, size_bytes: u32) -> Option<Vec<u8>> {
        let (start, size) = (offset_bytes as usize, size_bytes as usize);
        let mut bytes = Vec::with_capacity(size.next_multiple_of(8));
        for at in (start..start + size).step_by(8) {
            bytes.extend(self.bss_word(at)?.load(Ordering::Relaxed).to_ne_bytes());
        }
        bytes.truncate(size);
        Some(bytes)
    }

    /// Zeroes bytes of `.bss`, word by word.
    pub fn zero_bss(&self, offset_bytes: u32, size_bytes: u32) {
        let start = offset_bytes as usize;
        for at in (start..start + size_bytes as usize).step_by(8) {
            if let Some(word) = self.bss_word(at) {
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for BpfObject {
    fn drop(&mut self) {
        // SAFETY: opened by `load`, closed only here; descriptors and mappings borrow `self`, so none is in use.
        unsafe { sys::bpf_object__close(self.raw.as_ptr()) };
    }
}

/// What the kernel says of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramState {
    /// Its number.
    pub id: u32,
    /// How often it was skipped because it, or another that it cannot interrupt, was running on that CPU. Since 5.12, for perf
    /// tracepoints since 6.7; 0 before.
    pub skipped_runs: u64,
    /// How often it ran, while somebody measured.
    pub runs: u64,
    /// How long all of these runs took.
    pub run_time_ns: u64,
}

/// What the kernel says of a program; `None` when it does not.
pub fn program_state(program: BorrowedFd<'_>) -> Option<ProgramState> {
    let mut state = sys::bpf_prog_info::default();
    let mut size = size_of_val(&state) as u32;
    // SAFETY: the kernel writes at most `size` bytes, which the struct has; its pointers are null, so nothing else is written.
    check(unsafe { sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut state, &raw mut size) }).ok()?;
    Some(ProgramState {
        id: state.id,
        skipped_runs: state.recursion_misses,
        runs: state.run_cnt,
        run_time_ns: state.run_time_ns,
    })
}

/// Waits until no BPF program runs any more that ran at the call, whatever CPUs there are and however they tick.
#[derive(Debug)]
pub struct Grace {
    outer: OwnedFd,
    inner: OwnedFd,
}

impl Grace {
    /// Makes what waiting needs.
    pub fn new() -> io::Result<Grace> {
        let create = |kind, name: &CStr, options: *const sys::bpf_map_create_opts| {
            // SAFETY: the name and the options outlive the call.
            check(unsafe { sys::bpf_map_create(kind, name.as_ptr(), 4, 4, 1, options) }).map(own)
        };
        let inner = create(sys::BPF_MAP_TYPE_ARRAY, c"grace_inner", std::ptr::null())?;
        let options = sys::bpf_map_create_opts {
            sz: size_of::<sys::bpf_map_create_opts>() as u64,
            inner_map_fd: inner.as_raw_fd() as u32,
            ..Default::default()
        };
        let outer = create(sys::BPF_MAP_TYPE_ARRAY_OF_MAPS, c"grace", &raw const options)?;
        Ok(Grace { outer, inner })
    }

    /// Waits. A change of a map of maps returns when all programs have ended that may have seen the old one: the kernel's
    /// `maybe_wait_bpf_programs` waits for a grace period of RCU, under whose read lock all programs run that do not sleep. `membarrier`
    /// does nothing on one CPU and is refused where a CPU has no tick.
    pub fn wait(&self) -> io::Result<()> {
        let (key, inner) = (0u32, self.inner.as_raw_fd());
        // SAFETY: key and value are 4 bytes, as the map was made.
        let ret = unsafe {
            sys::bpf_map_update_elem(
                self.outer.as_raw_fd(),
                (&raw const key).cast(),
                (&raw const inner).cast(),
                u64::from(sys::BPF_ANY),
            )
        };
        check(ret).map(|_| ())
    }
}

/// Size in bytes of the instructions that the verifier has left of a program.
pub fn translated_size_bytes(program: BorrowedFd<'_>) -> io::Result<u32> {
    let mut state = sys::bpf_prog_info::default();
    let mut size = size_of_val(&state) as u32;
    // SAFETY: the kernel writes at most `size` bytes, which the struct has; its pointers are null, so nothing else is written.
    check(unsafe { sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut state, &raw mut size) })?;
    Ok(state.xlated_prog_len)
}

/// Runs a program once; its return value.
pub fn test_run(program: BorrowedFd<'_>) -> io::Result<u32> {
    // A raw tracepoint's context is an array of `u64`; a script's `BEGIN` reads none of it, but the verifier may see a
    // program that saves it.
    test_run_on(program, &[0; 12])
}

/// Runs a raw tracepoint program once, on these arguments; what it returned.
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
