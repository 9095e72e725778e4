//! A page of memory that a thread of the program supplies, instead of the kernel.
//!
//! In: the moment. Out: a page fault that lasts until then.
//! Guarantee: the page is mapped as long as its value exists.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};

const PAGE_BYTES: usize = 4096;
// include/uapi/linux/userfaultfd.h
const UFFD_API: u64 = 0xaa;
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_ZEROPAGE: u64 = 0xc020_aa04;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;

/// A page whose first use waits for [`AbsentPage::supply`].
pub struct AbsentPage {
    faults: OwnedFd,
    address: usize,
}

impl AbsentPage {
    /// Maps the page. Fails if the kernel has no `userfaultfd`, or not for this user.
    pub fn new() -> Result<AbsentPage> {
        // SAFETY: the call takes a number and touches no memory.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the kernel just returned this descriptor, which nothing else owns.
        let faults = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        control(&faults, UFFDIO_API, [UFFD_API, 0, 0, 0])?;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses a free address range.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE_BYTES, access, kind, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let page = AbsentPage { faults, address: page as usize };
        control(&page.faults, UFFDIO_REGISTER, page.range(UFFDIO_REGISTER_MODE_MISSING))?;
        Ok(page)
    }

    /// Reads the page's first byte.
    pub fn touch(&self) {
        // SAFETY: the page is mapped until the value is dropped, and nothing writes to it.
        unsafe { (self.address as *const u8).read_volatile() };
    }

    /// Writes the page to a file or pipe, which waits for the page inside of the kernel.
    pub fn write_to(&self, to: &impl AsRawFd) -> Result<usize> {
        // SAFETY: the page is mapped until the value is dropped.
        let written = unsafe { libc::write(to.as_raw_fd(), self.address as *const libc::c_void, PAGE_BYTES) };
        usize::try_from(written).map_err(|_| Error::last_os_error())
    }

    /// Waits until a thread waits for the page.
    pub fn await_fault(&self) -> Result<()> {
        // include/uapi/linux/userfaultfd.h: struct uffd_msg has 32 bytes.
        let mut message = [0u8; 32];
        // SAFETY: the buffer is as long as stated.
        let read = unsafe { libc::read(self.faults.as_raw_fd(), message.as_mut_ptr().cast(), message.len()) };
        if read == 32 { Ok(()) } else { Err(Error::last_os_error()) }
    }

    /// Fills the page with zeros, which ends the fault.
    pub fn supply(&self) -> Result<()> {
        control(&self.faults, UFFDIO_ZEROPAGE, self.range(0))
    }

    /// Start, length and mode, as `struct uffdio_register` and `struct uffdio_zeropage` begin.
    fn range(&self, mode: u64) -> [u64; 4] {
        [self.address as u64, PAGE_BYTES as u64, mode, 0]
    }
}

impl Drop for AbsentPage {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { libc::munmap(self.address as *mut libc::c_void, PAGE_BYTES) };
    }
}

fn control(faults: &OwnedFd, request: u64, mut argument: [u64; 4]) -> Result<()> {
    // SAFETY: all three requests read and write at most the 32 bytes of the argument.
    let result = unsafe { libc::ioctl(faults.as_raw_fd(), request, argument.as_mut_ptr()) };
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}
