//! Messages between this process and the one that reads.
//!
//! In: messages, or the bytes of a stream. Out: the same as bytes, or messages.
//! Guarantee: whatever the other side sends, a message takes at most [`MAX_BYTES`].
//!
//! A message is its length in bytes, a little-endian `u32`, and its fields in postcard's encoding
//! (<https://postcard.jamesmunns.com>).

use std::io::{self, ErrorKind, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Twice the unwind rows of the largest file that is read.
const MAX_BYTES: u64 = 64 << 20;

/// Sends a message.
pub(super) fn send<Message: Serialize>(to: &mut impl Write, message: &Message) -> io::Result<()> {
    let bytes = postcard::to_extend(message, vec![0; 4]).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
    to.write_all(&with_length(bytes)?)
}

fn with_length(mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let length = bytes.len() - 4;
    let length = u32::try_from(length).ok().filter(|length| u64::from(*length) <= MAX_BYTES);
    bytes[..4].copy_from_slice(&length.ok_or(ErrorKind::InvalidInput)?.to_le_bytes());
    Ok(bytes)
}

/// Waits for a message. A stream that ends is an error.
pub(super) fn receive<Message: DeserializeOwned>(from: &mut impl Read) -> io::Result<Message> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u64::from(u32::from_le_bytes(length));
    if length > MAX_BYTES {
        return Err(ErrorKind::InvalidData.into());
    }
    // Memory is allocated as the bytes come.
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes).map_err(|_| ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_received() {
        let mut bytes = Vec::new();
        let rows: Vec<u64> = (0..1000).map(|row| row << 40).collect();
        send(&mut bytes, &("a", &rows)).expect("it is written");
        send(&mut bytes, &7_u64).expect("it is written");
        let mut stream = bytes.as_slice();
        assert_eq!(receive::<(String, Vec<u64>)>(&mut stream).expect("it is whole"), ("a".into(), rows));
        assert_eq!(receive::<u64>(&mut stream).expect("it is whole"), 7);
        assert_eq!(receive::<u64>(&mut stream).expect_err("nothing is left").kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_damaged_message_is_an_error_and_takes_no_memory() {
        let kind = |bytes: &[u8]| receive::<(u64, String)>(&mut &bytes[..]).expect_err("it is damaged").kind();
        assert_eq!(kind(&u32::MAX.to_le_bytes()), ErrorKind::InvalidData);
        assert_eq!(kind(&[0xff, 0xff, 0xff, 0, 1]), ErrorKind::UnexpectedEof);
        // A text that claims to be longer than its message.
        assert_eq!(kind(&[3, 0, 0, 0, 1, 0x7f, b'a']), ErrorKind::InvalidData);
        assert_eq!(with_length(vec![0; MAX_BYTES as usize + 5]).expect_err("too long").kind(), ErrorKind::InvalidInput);
    }
}
