//! Copies map contents into a replacement program.
//!
//! In: the maps of a detached program, and those of a program that is not attached yet. Out: the
//! names of the maps that were copied, and of those that start empty.
//! Guarantee: a map is copied whole, byte for byte, and only into a map of the same name and
//! layout; otherwise the new map starts empty.

use std::io;

use profiler_model::object::{MapValue, Object, Storage, UserMap};
use profiler_model::results::WordName;
use profiler_model::types::Type;

use super::{FLAG_BYTES, each_entry, find};
use crate::load::Loaded;
use crate::sys::map::Take;

/// The contents of a map as bytes, with their types.
#[derive(Debug)]
pub struct SavedMap {
    name: String,
    meaning: Meaning,
    bytes: Bytes,
}

/// The types of a map's bytes.
#[derive(Debug, PartialEq, Eq)]
struct Meaning {
    key: Option<Type>,
    value: ValueMeaning,
}

#[derive(Debug, PartialEq, Eq)]
enum ValueMeaning {
    Plain(Type),
    Aggregate { word: WordName, params: Vec<i64>, signed: bool },
}

#[derive(Debug)]
enum Bytes {
    /// The bytes of each copy, including the flag that says whether it was written.
    Global(Vec<Vec<u8>>),
    /// The keys, and the values of all CPUs.
    Entries { per_cpu: bool, entries: Vec<(Vec<u8>, Vec<u8>)> },
}

/// Reads the map contents of a detached program.
pub fn take(object: &Object, loaded: &Loaded) -> io::Result<Vec<SavedMap>> {
    let mut saved = Vec::new();
    let generations = object.generation_offset.and_then(|offset| loaded.globals().bss_u64(offset)).unwrap_or(0);
    for map in carried(object) {
        let Some(meaning) = Meaning::of(map) else { continue };
        let bytes = match map.place(generations) {
            storage @ Storage::Global { .. } => Bytes::Global(copies_of(storage, loaded)?),
            storage @ Storage::Map { per_cpu, .. } => {
                let mut entries = Vec::new();
                each_entry(&find(storage, loaded)?, Take::Copy, &mut |key, value| {
                    entries.push((key.to_vec(), value.to_vec()));
                })?;
                Bytes::Entries { per_cpu: *per_cpu, entries }
            }
            Storage::Threads(_) => continue,
        };
        saved.push(SavedMap { name: map.name.clone(), meaning, bytes });
    }
    Ok(saved)
}

/// Writes saved contents to the maps of a program that is not attached yet. Returns the names of
/// its maps that received them, and of those that start empty.
pub fn restore(saved: &[SavedMap], object: &Object, loaded: &Loaded) -> io::Result<(Vec<String>, Vec<String>)> {
    let (mut kept, mut empty) = (Vec::new(), Vec::new());
    for map in visible(object) {
        let saved = saved.iter().find(|saved| saved.name == map.name);
        let is_kept = match saved.filter(|saved| Meaning::of(map).as_ref() == Some(&saved.meaning)) {
            Some(saved) if !map.is_cleared_by_views() => put(&saved.bytes, map, loaded)?,
            _ => false,
        };
        if is_kept { &mut kept } else { &mut empty }.push(map.name.clone());
    }
    Ok((kept, empty))
}

/// The maps that a user sees. Those of states and modules are left out, because the other program
/// may use them differently.
fn visible(object: &Object) -> impl Iterator<Item = &UserMap> {
    object.maps.iter().filter(|map| !map.is_state() && !map.is_private())
}

/// The maps that hold more than the present window of a view.
fn carried(object: &Object) -> impl Iterator<Item = &UserMap> {
    visible(object).filter(|map| !map.is_cleared_by_views())
}

impl Meaning {
    /// `None` if the bytes refer to something that only their own program has.
    fn of(map: &UserMap) -> Option<Meaning> {
        let value = match &map.value {
            MapValue::Plain(ty) => ValueMeaning::Plain(Some(ty).filter(|ty| is_self_contained(ty))?.clone()),
            MapValue::Aggregate { word, params, signed, .. } => {
                ValueMeaning::Aggregate { word: word.clone(), params: params.clone(), signed: *signed }
            }
        };
        map.key.as_ref().is_none_or(is_self_contained).then(|| Meaning { key: map.key.clone(), value })
    }
}

/// Whether bytes of a type mean the same in every program: they are not indices of a program's
/// stacks, formats, probes or types.
fn is_self_contained(ty: &Type) -> bool {
    match ty {
        Type::Bool
        | Type::Int(_)
        | Type::Str { .. }
        | Type::Buf { .. }
        | Type::KernelSymbol
        | Type::Inet
        | Type::Username
        | Type::MacAddress
        | Type::CgroupPath => true,
        Type::Array { of, .. } => is_self_contained(of),
        Type::Tuple(parts) => parts.iter().all(is_self_contained),
        Type::Record(parts) => parts.iter().all(|(_, ty)| is_self_contained(ty)),
        _ => false,
    }
}

fn copies_of(storage: &Storage, loaded: &Loaded) -> io::Result<Vec<Vec<u8>>> {
    let Storage::Global { offset_bytes, stride_bytes, copies, value_size_bytes } = storage else {
        return Ok(Vec::new());
    };
    let size = (FLAG_BYTES + value_size_bytes).next_multiple_of(8);
    let copy = |copy: u32| loaded.globals().bss_bytes(offset_bytes + copy * stride_bytes, size);
    (0..*copies).map(|at| copy(at).ok_or_else(|| io::ErrorKind::InvalidData.into())).collect()
}

/// Writes the bytes to a map of the same kind and a sufficient capacity. Returns false if the map
/// does not fit.
fn put(bytes: &Bytes, map: &UserMap, loaded: &Loaded) -> io::Result<bool> {
    match (bytes, &map.storage) {
        (Bytes::Global(from), Storage::Global { offset_bytes, stride_bytes, copies, value_size_bytes }) => {
            let size = (FLAG_BYTES + value_size_bytes).next_multiple_of(8) as usize;
            if from.len() != *copies as usize || from.iter().any(|copy| copy.len() != size) {
                return Ok(false);
            }
            for (copy, start) in from.iter().zip((*offset_bytes..).step_by(*stride_bytes as usize)) {
                for (word, at) in copy.as_chunks::<8>().0.iter().zip((start..).step_by(8)) {
                    if !loaded.globals().set_bss_u64(at, u64::from_ne_bytes(*word)) {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                }
            }
            Ok(true)
        }
        (Bytes::Entries { per_cpu, entries }, storage @ Storage::Map { per_cpu: into_per_cpu, length_offset, .. }) => {
            let into = find(storage, loaded)?;
            let fits = |(key, value): &(Vec<u8>, Vec<u8>)| {
                key.len() == into.key_size_bytes() && value.len() == into.value_size_bytes()
            };
            let has_room = entries.len() <= into.max_entries() as usize;
            if per_cpu != into_per_cpu || !has_room || !entries.iter().all(fits) {
                return Ok(false);
            }
            for (key, value) in entries {
                into.insert(key, value)?;
            }
            if let Some(offset) = length_offset {
                loaded.globals().set_bss_u64(*offset, entries.len() as u64);
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}
