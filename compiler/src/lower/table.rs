//! Texts by number.
//!
//! In: a number at run time, the texts. Out: the address of the text in read-only data.
//! Guarantee: a number without a text gives the text for unknown ones.

use crate::ir::{Addr, BinOp, Section, VReg, Width};
use crate::lower::{Body, Value};
use crate::syscalls;

impl Body<'_, '_> {
    /// The text with this number as a string of `room_bytes`, a power of two longer than every text.
    pub fn text_by_number(&mut self, number: VReg, texts: &[&str], unknown: &str, room_bytes: u32) -> Value {
        let mut table = vec![0u8; (texts.len() + 1) * room_bytes as usize];
        let rooms = table.chunks_exact_mut(room_bytes as usize);
        for (room, text) in rooms.zip(texts.iter().chain([&unknown])) {
            let text = if text.is_empty() { unknown } else { text };
            room[..text.len()].copy_from_slice(text.as_bytes());
        }
        let offset = self.shared.rodata(&table);
        let index = self.b.clamp(number, texts.len() as u32);
        let distance = self.b.bin(BinOp::Mul, Width::W64, index, i64::from(room_bytes));
        let base = self.b.data_addr(Section::Rodata, offset);
        Value::Memory(Addr::reg(self.b.bin(BinOp::Add, Width::W64, base, distance), 0))
    }

    /// The names of the processor's system calls, by number; empty where there is none.
    pub fn syscall_names(&self) -> Vec<&'static str> {
        let calls = syscalls::table(self.shared.target.arch());
        let most = calls.iter().map(|(_, number)| *number as usize).max().unwrap_or(0);
        let mut names = vec![""; most + 1];
        for (name, number) in calls {
            names[*number as usize] = syscalls::manual_name(name);
        }
        names
    }
}
