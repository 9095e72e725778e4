//! A struct with C layout, whose fields are computed from its number.
//!
//! In: how many. Out: a call of `workload_parcel` for each.
//! Guarantee: the layout is that of this definition in C:
//! ```c
//! struct point { int x; int y; };
//! struct parcel {
//!     unsigned long number;
//!     enum { LETTER, BOX, CRATE } kind;
//!     unsigned int urgent : 1, level : 3;
//!     int debt : 5;
//!     struct point at[3];
//!     unsigned short grid[2][3];
//!     char name[12];
//!     struct parcel *before;
//!     union { unsigned long whole; unsigned char bytes[8]; } seal;
//!     double weight;
//!     float shares[2];
//! };
//! ```

use std::ptr;

use crate::sys;

/// `struct point`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Point {
    x: i32,
    y: i32,
}

/// `struct parcel`.
#[repr(C)]
#[derive(Debug)]
pub struct Parcel {
    /// Counted from 0.
    pub number: u64,
    /// The number modulo 3.
    kind: u32,
    /// Bit 0: whether the number is odd; bits 1 to 3: the number modulo 8; bits 4 to 8: minus the
    /// number modulo 16.
    bits: u32,
    /// Ten times the number plus a position, once positive and once negative.
    at: [Point; 3],
    /// The number plus ten times the row plus the column.
    grid: [[u16; 3]; 2],
    /// `parcel-` and the number modulo 1000.
    name: [u8; 12],
    /// The parcel before this one.
    before: *const Parcel,
    /// Eight bytes, from the number up.
    seal: [u8; 8],
    /// A quarter of the number.
    weight: f64,
    /// A tenth of the number, once positive and once negative.
    shares: [f32; 2],
}

/// Sends parcels; each stays allocated until all are sent.
pub fn send(count: u64) {
    let mut sent: Vec<Box<Parcel>> = Vec::new();
    let mut sum = 0;
    for number in 0..count {
        let parcel = Box::new(parcel(number, sent.last().map(Box::as_ref)));
        sum += sys::workload_parcel(&parcel);
        sent.push(parcel);
    }
    println!("parcels {count}\nsum {sum}");
}

fn parcel(number: u64, before: Option<&Parcel>) -> Parcel {
    let small = (number % 1000) as i32;
    let point = |position: i32| Point { x: small * 10 + position, y: -(small * 10 + position) };
    let cell = |row: u16, column: u16| small as u16 + row * 10 + column;
    let mut name = [0; 12];
    for (to, from) in name.iter_mut().zip(format!("parcel-{small}").bytes()) {
        *to = from;
    }
    Parcel {
        number,
        kind: (number % 3) as u32,
        bits: (number % 2) as u32 | ((number % 8) as u32) << 1 | ((-(small % 16)) as u32 & 31) << 4,
        at: [point(0), point(1), point(2)],
        grid: [[cell(0, 0), cell(0, 1), cell(0, 2)], [cell(1, 0), cell(1, 1), cell(1, 2)]],
        name,
        before: before.map_or(ptr::null(), ptr::from_ref),
        seal: std::array::from_fn(|at| small as u8 + at as u8),
        weight: f64::from(small) / 4.0,
        shares: [f32::from(small as u16) / 10.0, -f32::from(small as u16) / 10.0],
    }
}
