//! Output buffer for a file, pipe or terminal.
//!
//! In: bytes appended by a renderer. Out: large writes.
//! Guarantee: after a failed write, nothing more is buffered or written, and every flush reports
//! the failure.

use std::io::{self, Write};

/// The buffer is written out when it reaches this size.
const CAPACITY_BYTES: usize = 64 * 1024;

/// A buffer for a writer.
pub(super) struct Buffer {
    to: Box<dyn Write>,
    bytes: Vec<u8>,
    broken: Option<io::ErrorKind>,
}

impl Buffer {
    pub(super) fn new(to: Box<dyn Write>) -> Buffer {
        Buffer { to, bytes: Vec::with_capacity(CAPACITY_BYTES), broken: None }
    }

    /// The bytes to append to; call [`Buffer::settle`] afterwards.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Writes the buffer out if it is full.
    pub(super) fn settle(&mut self) {
        if self.bytes.len() >= CAPACITY_BYTES {
            self.write_out();
        }
    }

    /// Writes everything out.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.write_out();
        if self.broken.is_none() {
            self.broken = self.to.flush().err().map(|error| error.kind());
        }
        self.broken.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn write_out(&mut self) {
        if self.broken.is_none() {
            self.broken = self.to.write_all(&self.bytes).err().map(|error| error.kind());
        }
        self.bytes.clear();
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("bytes", &self.bytes.len()).field("broken", &self.broken).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// Accepts `room` writes, then breaks; counts the calls.
    struct Pipe {
        room: usize,
        calls: Rc<RefCell<usize>>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            *self.calls.borrow_mut() += 1;
            if self.room == 0 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.room -= 1;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn small_pieces_become_large_writes() {
        let calls = Rc::new(RefCell::new(0));
        let mut buffer = Buffer::new(Box::new(Pipe { room: 99, calls: calls.clone() }));
        for _ in 0..CAPACITY_BYTES / 16 {
            assert_eq!(*calls.borrow(), 0);
            buffer.bytes().extend_from_slice(&[b'x'; 16]);
            buffer.settle();
        }
        assert_eq!(*calls.borrow(), 1);
        buffer.flush().unwrap();
    }

    #[test]
    fn a_broken_pipe_stays_broken() {
        let calls = Rc::new(RefCell::new(0));
        let mut buffer = Buffer::new(Box::new(Pipe { room: 1, calls: calls.clone() }));
        buffer.bytes().push(b'a');
        buffer.flush().unwrap();
        for _ in 0..3 {
            buffer.bytes().push(b'b');
            assert_eq!(buffer.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
            assert!(buffer.bytes().is_empty(), "nothing piles up");
        }
        assert_eq!(*calls.borrow(), 2);
    }
}
