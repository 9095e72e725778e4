//! libc's locks, for threads to hold and wait for.
//!
//! In: threads. Out: calls of libc's functions, without other code around them.
//! Guarantee: a lock is never moved; it is unlocked by the thread that holds it.

use std::cell::UnsafeCell;

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
