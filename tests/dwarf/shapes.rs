//! Structs, references, slices and text.

use std::hint::black_box;

pub struct Address {
    port: u16,
    bytes: [u8; 4],
}

#[derive(Clone, Copy)]
pub enum Mode {
    Fast = 3,
    Slow = 9,
}

pub struct Conn<'a> {
    secure: bool,
    id: u64,
    address: Address,
    name: &'a str,
    fd: i32,
    numbers: Vec<u32>,
    mode: Mode,
}

impl Conn<'_> {
    #[inline(never)]
    pub fn handle(&self, len: i32, text: &str) -> i32 {
        black_box((self.secure, self.id, &self.address, self.name, self.numbers.len(), self.mode as u8));
        text.bytes().map(i32::from).sum::<i32>() + black_box(len) - self.fd
    }

    #[inline(never)]
    pub fn change(&mut self, by: i64) -> i64 {
        self.id += black_box(by) as u64;
        black_box(-by)
    }
}

#[inline(never)]
pub fn sum(numbers: &[u32], start: u32) -> u32 {
    black_box(numbers).iter().sum::<u32>() + start
}

#[inline(never)]
pub fn boxed(conn: Box<Conn>, step: i16, mode: Mode) -> u64 {
    black_box(conn.id + step as u64 * mode as u64)
}

fn main() {
    let (name, text) = (String::from("name"), String::from("a text"));
    let mut conn = Conn {
        secure: true,
        id: 7,
        address: Address { port: 80, bytes: [1, 2, 3, 4] },
        name: &name,
        fd: -4,
        numbers: black_box(vec![10, 20, 30]),
        mode: black_box(Mode::Fast),
    };
    black_box((conn.address.port, conn.address.bytes[0]));
    black_box(conn.handle(black_box(-5), black_box(&text)));
    black_box(conn.change(black_box(3)));
    black_box(sum(black_box(&conn.numbers), black_box(5)));
    black_box(boxed(black_box(Box::new(conn)), black_box(-2), black_box(Mode::Slow)));
}
