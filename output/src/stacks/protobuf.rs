//! The wire format of protocol buffers, as far as a profile needs it.
//!
//! In: fields in any order. Out: the bytes of a message.
//! Guarantee: fields with the value 0 are left out, which readers take for 0; elements of lists are
//! not.

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub bytes: Vec<u8>,
}

/// The wire types.
const VARINT: u64 = 0;
const LENGTH: u64 = 2;

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// A number or a boolean.
    pub(super) fn number(mut self, field: u64, number: u64) -> Message {
        if number != 0 {
            self.varint(field << 3 | VARINT);
            self.varint(number);
        }
        self
    }

    /// A list of numbers, packed.
    pub(super) fn numbers(self, field: u64, numbers: impl IntoIterator<Item = u64>) -> Message {
        let mut packed = Message::default();
        numbers.into_iter().for_each(|number| packed.varint(number));
        if packed.bytes.is_empty() { self } else { self.block(field, &packed.bytes) }
    }

    /// Text or a message, also if it is empty.
    pub(super) fn block(mut self, field: u64, bytes: &[u8]) -> Message {
        self.varint(field << 3 | LENGTH);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// A message.
    pub(super) fn message(self, field: u64, message: &Message) -> Message {
        self.block(field, &message.bytes)
    }
}
