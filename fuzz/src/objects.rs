//! Fuzz target for objects that are read from files.
//!
//! In: the description of an object. Guarantee: in an object without flaws, any record and any
//! contents of maps can be decoded and shown.

use profiler_compiler::CATALOGUE;
use profiler_compiler::decode::decode;
use profiler_compiler::object::{Attach, DataSizes, MapValue, Object};
use profiler_compiler::results::Vocabulary;
use profiler_runtime::session::Handlers;

use super::records::{Names, Outputs};

/// The sizes of an object's data: large enough for the seeds.
const SIZES: DataSizes = DataSizes { bss_bytes: 1 << 20, rodata_bytes: 1 << 20 };

/// A description.
pub fn object(input: &[u8]) {
    let Some(object) = std::str::from_utf8(input).ok().and_then(Object::from_json) else { return };
    if object.validate(SIZES, &CATALOGUE).is_err() {
        return;
    }
    let again = Object::from_json(&object.to_json());
    assert!(again.is_none_or(|again| again == object), "it reads back as another object");
    let _ = (object.has_user_addresses(), object.kernel_programs().count());
    for (index, program) in object.programs.iter().enumerate() {
        let _ = (object.blocks_with(index).count(), program.attach.clock_period_ns());
        if let Attach::Uprobe { scope, .. } = &program.attach {
            let _ = scope.resolve(&|index| object.params.get(index).map(|param| &param.value));
        }
    }
    for param in &object.params {
        let bytes = param.bytes(&param.value);
        assert_eq!(bytes.len(), param.ty.size_bytes() as usize);
        let _ = (param.too_large(&param.value), param.shown(&param.value), param.shown_range());
    }
    records(&object);
    values(&object);
    for view in &object.views {
        let _ = (view.groups(3), view.columns.iter().map(|column| view.sources(column.source).len()).sum::<usize>());
    }
}

/// Handles a record of each kind, of zeros and of ones.
fn records(object: &Object) {
    let Ok(handlers) = Handlers::resolve(object, &CATALOGUE) else { return };
    for (index, event) in object.events.iter().enumerate() {
        for byte in [0, 1, 0xff] {
            let mut record = vec![byte; (event.max_size_bytes as usize).clamp(8, 4096)];
            record[..4].copy_from_slice(&(index as u32).to_ne_bytes());
            let mut outputs = Outputs::new();
            handlers.act(&Names, &record, &mut vec![0; object.programs.len()], &mut outputs);
            outputs.finish();
        }
    }
}

/// Decodes keys and values of each map.
fn values(object: &Object) {
    for map in &object.maps {
        for byte in [0, 1, 0xff] {
            let bytes = [byte; 512];
            let _ = map.key.as_ref().map(|ty| decode(ty, &bytes, &Names));
            match &map.value {
                MapValue::Plain(ty) => drop(decode(ty, &bytes, &Names)),
                MapValue::Aggregate { word, params, signed, .. } => {
                    if let Some(word) = Vocabulary::aggregation(&CATALOGUE, word) {
                        let _ = word.merge(params, *signed, &[&bytes, &bytes]);
                        let _ = word.merge_pages(params, *signed, &[(1, vec![&bytes])]);
                    }
                }
            }
        }
        let _ = (map.place(u64::MAX), map.is_both_places());
    }
}
