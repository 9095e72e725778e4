//! The layout of values of types that the kernel's BTF may describe.
//!
//! In: a [`Type`] and the BTF. Out: what [`profiler_model::layout`] says.
//! Guarantee: without BTF, structs have size 0.

use crate::btf::{Btf, BtfId};
use crate::types::{NoRecords, Records, Type};

pub use profiler_model::layout::Layout;

impl Records for Btf {
    fn size_bytes(&self, id: BtfId) -> u32 {
        Btf::size_bytes(self, id)
    }

    fn describe(&self, id: BtfId) -> String {
        Btf::describe(self, id)
    }
}

fn records(btf: Option<&Btf>) -> &dyn Records {
    btf.map_or(&NoRecords, |btf| btf)
}

/// The layout of a type.
pub fn of(ty: &Type, btf: Option<&Btf>) -> Layout {
    profiler_model::layout::of(ty, records(btf))
}

/// The layout of a tuple and the offset of each part.
pub fn tuple<'a>(parts: impl IntoIterator<Item = &'a Type>, btf: Option<&Btf>) -> (Layout, Vec<u32>) {
    profiler_model::layout::tuple(parts, records(btf))
}
