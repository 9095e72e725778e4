//! Message framing of the language server protocol.
//!
//! In: arbitrary bytes. Out: JSON values, one per frame.
//! Guarantee: memory per frame is bounded; lines that are not headers are skipped, so the next
//! frame is found.

use std::io::{self, BufRead, Read, Write};

use serde_json::Value;

/// Limit in bytes of a frame: several times the largest script.
const LIMIT_BYTES: u64 = 64 << 20;

/// Limit in bytes of a header line.
const LINE_BYTES: u64 = 8 << 10;

/// The result of reading a frame.
#[derive(Debug, PartialEq)]
pub(super) enum Frame {
    /// A message.
    Message(Value),
    /// A frame without a valid message, and why.
    Garbage(String),
    /// End of input.
    End,
}

/// Reads the next frame.
pub(super) fn read(input: &mut impl BufRead) -> Frame {
    let mut length = None;
    loop {
        let mut line = Vec::new();
        match input.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return Frame::End,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.trim().parse().ok(),
            None if line.is_empty() && length.is_some() => break,
            _ => {}
        }
    }
    body(input, length.unwrap_or(0))
}

fn body(input: &mut impl BufRead, length: u64) -> Frame {
    let mut rest = input.by_ref().take(length);
    if length > LIMIT_BYTES {
        let skipped = io::copy(&mut rest, &mut io::sink()).unwrap_or(0);
        return if skipped < length { Frame::End } else { Frame::Garbage("the message is too large".into()) };
    }
    let mut bytes = Vec::new();
    match rest.read_to_end(&mut bytes) {
        Ok(count) if count as u64 == length => {}
        _ => return Frame::End,
    }
    match serde_json::from_slice(&bytes) {
        Ok(message) => Frame::Message(message),
        Err(error) => Frame::Garbage(error.to_string()),
    }
}

/// Writes a message.
pub(super) fn write(out: &mut impl Write, message: &Value) -> io::Result<()> {
    let text = message.to_string();
    write!(out, "Content-Length: {}\r\n\r\n{text}", text.len())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::{Frame, read, write};
    use serde_json::json;

    #[test]
    fn frames_are_found_among_garbage() {
        let mut bytes = b"hello\r\n\r\n\xff\xfe: 7\r\n".to_vec();
        write(&mut bytes, &json!({"a": 1})).expect("memory");
        bytes.extend_from_slice(b"Content-Length: 3\r\nContent-Type: x\r\n\r\n{]}");
        bytes.extend_from_slice(b"content-length:2\n\n[]");
        bytes.extend_from_slice(b"Content-Length: 99999999999999999999\r\n\r\nContent-Length: 20\r\n\r\n{");
        let mut input = &bytes[..];
        assert_eq!(read(&mut input), Frame::Message(json!({"a": 1})));
        assert!(matches!(read(&mut input), Frame::Garbage(_)));
        assert_eq!(read(&mut input), Frame::Message(json!([])));
        assert_eq!(read(&mut input), Frame::End);
    }

    #[test]
    fn deep_json_is_refused() {
        let text = "[".repeat(100_000);
        let bytes = format!("Content-Length: {}\r\n\r\n{text}", text.len());
        assert!(matches!(read(&mut bytes.as_bytes()), Frame::Garbage(_)));
    }
}
