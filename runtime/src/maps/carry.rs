//! What the maps of a program hold, carried into those of another that takes its place.
//!
//! In: the maps of a program that is detached, and those of one that is not attached yet. Out: the names of the maps that were carried.
//! Guarantee: a map is carried whole and bit by bit, and only into one of the same name whose bytes mean the same; else it begins empty.

use std::io;

use profiler_compiler::object::{MapValue, Object, Storage, UserMap};
use profiler_compiler::types::Type;

use super::{FLAG_BYTES, each_entry, find};
use crate::load::Loaded;
use crate::sys::map::Take;

/// What a map held, as bytes that mean nothing by themselves.
#[derive(Debug)]
pub struct Estate {
    name: String,
    meaning: Meaning,
    bytes: Bytes,
}

/// What the bytes of a map mean.
#[derive(Debug, PartialEq, Eq)]
struct Meaning {
    key: Option<Type>,
    value: ValueMeaning,
}

#[derive(Debug, PartialEq, Eq)]
enum ValueMeaning {
    Plain(Type),
    Aggregate { word: &'static str, params: Vec<i64>, signed: bool },
}

#[derive(Debug)]
enum Bytes {
    /// Of each copy, with the word that says whether it was written.
    Global(Vec<Vec<u8>>),
    /// Keys and values of all CPUs.
    Entries { per_cpu: bool, entries: Vec<(Vec<u8>, Vec<u8>)> },
}

/// What the maps of a program that is detached hold.
pub fn take(object: &Object, loaded: &Loaded) -> io::Result<Vec<Estate>> {
    let mut estates = Vec::new();
    for map in carried(object) {
        let Some(meaning) = Meaning::of(map) else { continue };
        let bytes = match &map.storage {
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
        estates.push(Estate { name: map.name.clone(), meaning, bytes });
    }
    Ok(estates)
}

/// Gives what was taken to a program that is not attached yet; the names of its maps that got it, and of those that begin empty.
pub fn give(estates: &[Estate], object: &Object, loaded: &Loaded) -> io::Result<(Vec<String>, Vec<String>)> {
    let (mut kept, mut empty) = (Vec::new(), Vec::new());
    for map in visible(object) {
        let estate = estates.iter().find(|estate| estate.name == map.name);
        let is_kept = match estate.filter(|estate| Meaning::of(map).as_ref() == Some(&estate.meaning)) {
            Some(estate) if map.alternate.is_none() => put(&estate.bytes, map, loaded)?,
            _ => false,
        };
        if is_kept { &mut kept } else { &mut empty }.push(map.name.clone());
    }
    Ok((kept, empty))
}

/// The maps that a person sees. What states and modules hold is half of something that the other program may do otherwise.
fn visible(object: &Object) -> impl Iterator<Item = &UserMap> {
    object.maps.iter().filter(|map| !map.is_state() && !map.is_private())
}

/// Those in one place: what windows are taken of is in two.
fn carried(object: &Object) -> impl Iterator<Item = &UserMap> {
    visible(object).filter(|map| map.alternate.is_none())
}

impl Meaning {
    /// `None` where bytes refer to something that only their own program has.
    fn of(map: &UserMap) -> Option<Meaning> {
        let value = match &map.value {
            MapValue::Plain(ty) => ValueMeaning::Plain(Some(ty).filter(|ty| stands_alone(ty))?.clone()),
            MapValue::Aggregate { word, params, signed } => {
                ValueMeaning::Aggregate { word: word.name(), params: params.clone(), signed: *signed }
            }
        };
        map.key.as_ref().is_none_or(stands_alone).then(|| Meaning { key: map.key.clone(), value })
    }
}

/// Whether bytes of a type mean the same in each program: they are no numbers of a program's stacks, formats, probes or types.
fn stands_alone(ty: &Type) -> bool {
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
        Type::Array { of, .. } => stands_alone(of),
        Type::Tuple(parts) => parts.iter().all(stands_alone),
        Type::Record(parts) => parts.iter().all(|(_, ty)| stands_alone(ty)),
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

/// Whether there is room of the same kind, and everything is in it now.
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
