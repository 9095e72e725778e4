//! Code generated at run time, and executable mappings that come and go.
//!
//! In: how often. Out: calls of getppid from code outside of any file, below a frame whose return
//! address is text; executable mappings of a file.

use std::fs::File;
use std::io::{Error, Result};
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
