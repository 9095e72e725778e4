//! libc's locks and one that is not libc's, for threads to hold and wait for.
//!
//! In: threads. Out: calls of libc's functions and of `futex`, without other code around them.
//! Guarantee: a lock is never moved; it is unlocked by the thread that holds it.

use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// libc's mutex: each method is a direct call of the libc function.
pub struct PthreadMutex(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: the lock is made for sharing between threads, and it is never moved.
unsafe impl Sync for PthreadMutex {}

impl PthreadMutex {
    /// An unlocked mutex.
    pub fn new() -> PthreadMutex {
        PthreadMutex(Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)))
    }

    /// The address of the lock.
    pub fn address(&self) -> usize {
        self.0.get() as usize
    }

    /// Waits until it is free and takes it.
    pub fn lock(&self) {
        // SAFETY: the lock was initialized and is not moved.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    /// Takes it if it is free.
    pub fn try_lock(&self) -> bool {
        // SAFETY: the lock was initialized and is not moved.
        unsafe { libc::pthread_mutex_trylock(self.0.get()) == 0 }
    }

    /// Unlocks it; the calling thread must hold it.
    pub fn unlock(&self) {
        // SAFETY: the lock was initialized and is not moved.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

/// A mutex that is not libc's: its word is 3, not 2, while threads wait for it.
pub struct FutexLock(AtomicU32);

impl FutexLock {
    const FREE: u32 = 0;
    const TAKEN: u32 = 1;
    const AWAITED: u32 = 3;

    /// An unlocked mutex.
    pub fn new() -> FutexLock {
        FutexLock(AtomicU32::new(FutexLock::FREE))
    }

    /// Waits until it is free and takes it.
    pub fn lock(&self) {
        if self.0.compare_exchange(FutexLock::FREE, FutexLock::TAKEN, Acquire, Relaxed).is_ok() {
            return;
        }
        while self.0.swap(FutexLock::AWAITED, Acquire) != FutexLock::FREE {
            let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the word outlives the call; there is no timeout.
            unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, FutexLock::AWAITED, 0) };
        }
    }

    /// Unlocks it; the calling thread must hold it.
    pub fn unlock(&self) {
        if self.0.swap(FutexLock::FREE, Release) == FutexLock::AWAITED {
            let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the word outlives the call.
            unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, 1) };
        }
    }
}

/// libc's condition variable.
pub struct PthreadCondition(Box<UnsafeCell<libc::pthread_cond_t>>);

// SAFETY: it is made for sharing between threads, and it is never moved.
unsafe impl Sync for PthreadCondition {}

impl PthreadCondition {
    pub fn new() -> PthreadCondition {
        PthreadCondition(Box::new(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER)))
    }

    /// The address of the condition variable.
    pub fn address(&self) -> usize {
        self.0.get() as usize
    }

    /// Releases the mutex, which the calling thread holds, waits, and takes it again.
    pub fn wait(&self, lock: &PthreadMutex) {
        // SAFETY: both were initialized and are not moved.
        unsafe { libc::pthread_cond_wait(self.0.get(), lock.0.get()) };
    }

    /// Wakes all waiting threads.
    pub fn wake(&self) {
        // SAFETY: it was initialized and is not moved.
        unsafe { libc::pthread_cond_broadcast(self.0.get()) };
    }
}

/// libc's reader-writer lock.
pub struct PthreadRwlock(Box<UnsafeCell<libc::pthread_rwlock_t>>);

// SAFETY: the lock is made for sharing between threads, and it is never moved.
unsafe impl Sync for PthreadRwlock {}

impl PthreadRwlock {
    /// An unlocked reader-writer lock.
    pub fn new() -> PthreadRwlock {
        PthreadRwlock(Box::new(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER)))
    }

    /// The address of the lock.
    pub fn address(&self) -> usize {
        self.0.get() as usize
    }

    /// Waits until there is no writer, and takes it for reading.
    pub fn read(&self) {
        // SAFETY: the lock was initialized and is not moved.
        unsafe { libc::pthread_rwlock_rdlock(self.0.get()) };
    }

    /// Waits until no other thread holds it, and takes it for writing.
    pub fn write(&self) {
        // SAFETY: the lock was initialized and is not moved.
        unsafe { libc::pthread_rwlock_wrlock(self.0.get()) };
    }

    /// Unlocks it; the calling thread must hold it.
    pub fn unlock(&self) {
        // SAFETY: the lock was initialized and is not moved.
        unsafe { libc::pthread_rwlock_unlock(self.0.get()) };
    }
}

/// libc's semaphore, which begins at 0.
pub struct Semaphore(Box<UnsafeCell<libc::sem_t>>);

// SAFETY: it is made for sharing between threads, and it is never moved.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    pub fn new() -> Semaphore {
        // SAFETY: all-zero bytes are a value of the type, which is initialized below.
        let semaphore = Semaphore(Box::new(UnsafeCell::new(unsafe { std::mem::zeroed() })));
        // SAFETY: the place outlives the call; the semaphore is not shared with other processes.
        unsafe { libc::sem_init(semaphore.0.get(), 0, 0) };
        semaphore
    }

    /// The address of the semaphore.
    pub fn address(&self) -> usize {
        self.0.get() as usize
    }

    /// Waits until it is above 0 and takes one.
    pub fn wait(&self) {
        // SAFETY: the semaphore was initialized and is not moved.
        while unsafe { libc::sem_wait(self.0.get()) } != 0 {}
    }

    /// Adds one.
    pub fn post(&self) {
        // SAFETY: the semaphore was initialized and is not moved.
        unsafe { libc::sem_post(self.0.get()) };
    }
}
