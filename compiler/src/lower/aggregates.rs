//! Updates of aggregations.
//!
//! In: a map that holds an aggregation, a key, values. Out: code that finds the key's bytes, and
//! the aggregation's own code that changes them.
//! Guarantee: no update is lost to another CPU or to an interrupt. Copies that no other program can
//! update concurrently are updated without atomic operations.

use crate::ir::{Addr, Operand, Size};
use crate::lower::maps::{self, Keyed};
use crate::lower::slot::AggregateSlot;
use crate::lower::storage::{self, Storage};
use crate::lower::{Body, pages, threads};
use crate::typed::{Expr, MapIndex, MapValue};

/// Adds values to the aggregation of a key.
pub(super) fn update(cx: &mut Body<'_, '_>, map: MapIndex, key: Option<&Expr>, args: &[Expr]) {
    let MapValue::Aggregate { word, signed, params, .. } = &cx.shared.program.maps[map.0].value else { return };
    let (word, signed, params) = (cx.shared.catalogue.aggregation_of(word), *signed, params.clone());
    let args: Vec<Operand> = args.iter().map(|a| cx.scalar(a)).collect();
    cx.shared.learned.writers[map.0].add(cx.shared.merged.program_of(cx.index), cx.probe);
    let contended = cx.shared.facts.writers.get(map.0).is_some_and(storage::Writers::need_atomics);
    let done = cx.b.new_block();
    let bucket = word.bucket(cx, &params, signed, &args);
    let slot = match maps::storage(cx, map) {
        Storage::Global { offset_bytes, stride_bytes, value_size_bytes: size_bytes, .. } => {
            let copy = cx.cpu_copy(offset_bytes, stride_bytes);
            cx.b.store(Addr::reg(copy, 0), 1, Size::B8);
            AggregateSlot { addr: Addr::reg(copy, 8), atomic: contended, signed, params, size_bytes, bucket }
        }
        Storage::Map { id, per_cpu, length_offset } => {
            let (page, bucket) = match (word.pages(&params), bucket) {
                (Some(pages), Some(bucket)) => {
                    let (page, bucket) = pages::key_of_page(cx, map, key, pages, bucket);
                    (Some(page), bucket)
                }
                _ => (None, bucket),
            };
            let found = maps::find_or_insert(cx, Keyed { map, id, length: length_offset }, key, page, done);
            let size_bytes = cx.shared.ir.maps[id.0 as usize].value_size_bytes;
            let atomic = contended || !per_cpu;
            AggregateSlot { addr: Addr::reg(found, 0), atomic, signed, params, size_bytes, bucket }
        }
        Storage::Threads { id, .. } => {
            let found = threads::value_for(cx, map, id, key, done);
            let size_bytes = cx.shared.ir.maps[id.0 as usize].value_size_bytes;
            AggregateSlot { addr: Addr::reg(found, 0), atomic: contended, signed, params, size_bytes, bucket }
        }
    };
    word.lower(cx, &slot, &args);
    cx.b.jump(done);
    cx.b.switch_to(done);
}
