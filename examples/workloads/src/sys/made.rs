//! Code generated at run time, and executable mappings that come and go.
//!
//! In: how often. Out: calls of getppid from code outside of any file, below a frame whose return
//! address is text; a jitdump that names that code; executable mappings of a file.

use std::fs::File;
use std::io::{Error, Result, Write as _};
use std::os::fd::AsRawFd as _;

const PAGE_BYTES: usize = 4096;

/// The text `cel/tcg/` as a little-endian number: what a frame-pointer walk finds when it goes
/// astray.
pub const TEXT_AS_ADDRESS: u64 = 0x2f67_6374_2f6c_6563;

/// A page with a function that calls getppid.
pub struct Made(*mut u8);

impl Made {
    /// Generates the function.
    #[cfg(target_arch = "x86_64")]
    pub fn new() -> Result<Made> {
        let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses a free address range.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE_BYTES, access, kind, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let page = page.cast::<u8>();
        // The frame that the function's frame pointer points to: no caller's frame, and the text as
        // return address.
        let frame = page as u64 + 256;
        // push rbp; mov rbp, FRAME
        let mut code = vec![0x55, 0x48, 0xbd];
        code.extend(frame.to_ne_bytes());
        // mov eax, 110; syscall; pop rbp; ret
        code.extend([0xb8, 110, 0, 0, 0, 0x0f, 0x05, 0x5d, 0xc3]);
        // SAFETY: both fit into the page, which is writable and used by nothing else.
        unsafe {
            page.copy_from_nonoverlapping(code.as_ptr(), code.len());
            frame_at(page).write([0, TEXT_AS_ADDRESS]);
        }
        Ok(Made(page))
    }

    /// There is code for x86-64 only.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn new() -> Result<Made> {
        Err(Error::other("there is no code for this processor"))
    }

    /// The address of the function.
    pub fn address(&self) -> usize {
        self.0 as usize
    }

    /// Calls the function.
    pub fn call(&self) {
        // SAFETY: the page holds a function without arguments that follows the calling convention.
        let function = unsafe { std::mem::transmute::<*mut u8, extern "C" fn() -> i64>(self.0) };
        function();
    }
}

/// A jitdump, of which a page is mapped as code: that is how tracers find it.
pub struct Dump(*mut libc::c_void);

impl Dump {
    /// Writes `jit-PID.dump`: an earlier function at the code's address, then `workload_made`,
    /// which moves there from another address.
    pub fn of(code: &Made, directory: &str) -> Result<Dump> {
        let pid = std::process::id();
        let path = format!("{directory}/jit-{pid}.dump");
        let mut file = File::options().read(true).write(true).create_new(true).open(path)?;
        let (address, elsewhere, size_bytes) = (code.address() as u64, 0x1000, 64);
        let head = [0x4a69_5444, 1, 40, 62, 0, pid, 0, 0, 0, 0].map(u32::to_ne_bytes).concat();
        let loads = [(address, 1, "workload_replaced"), (elsewhere, 2, "workload_made")]
            .map(|(at, index, name)| record(0, &[at, at, size_bytes, index], &[name.as_bytes(), &[0; 65]].concat()))
            .concat();
        let moved = record(1, &[address, elsewhere, address, size_bytes, 2], &[]);
        file.write_all(&[head, loads, moved].concat())?;
        let access = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: the kernel chooses a free address range.
        let page =
            unsafe { libc::mmap(std::ptr::null_mut(), PAGE_BYTES, access, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        if page == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(Dump(page)) }
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        // SAFETY: the page was mapped by `of`, and nothing else uses it.
        unsafe { libc::munmap(self.0, PAGE_BYTES) };
    }
}

/// A record of a jitdump: kind, length, time, PID and TID, numbers, and what follows them.
fn record(kind: u32, numbers: &[u64], rest: &[u8]) -> Vec<u8> {
    let length = 24 + 8 * numbers.len() + rest.len();
    let words = [kind, length as u32, 0, 0, std::process::id(), std::process::id()];
    let numbers = numbers.iter().flat_map(|number| number.to_ne_bytes());
    words.iter().flat_map(|word| word.to_ne_bytes()).chain(numbers).chain(rest.iter().copied()).collect()
}

#[cfg(target_arch = "x86_64")]
fn frame_at(page: *mut u8) -> *mut [u64; 2] {
    page.wrapping_add(256).cast()
}

/// Maps the first page of this program's file as executable at different addresses, and unmaps it,
/// `times` times.
pub fn churn(times: u64) -> Result<()> {
    let file = File::open("/proc/self/exe")?;
    let access = libc::PROT_READ | libc::PROT_EXEC;
    let places = 1 << 14;
    for step in 0..times {
        // Far from all other mappings, so that no address is used twice in a row.
        let wanted = (0x1000_0000_0000 + (step as usize % places) * 2 * PAGE_BYTES) as *mut libc::c_void;
        // SAFETY: the address is a hint; no existing mapping is replaced.
        let place = unsafe { libc::mmap(wanted, PAGE_BYTES, access, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        if place == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        // SAFETY: the page was just mapped and is not in use.
        unsafe { libc::munmap(place, PAGE_BYTES) };
    }
    Ok(())
}
