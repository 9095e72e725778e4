//! Passes records to the functions that emitted them.
//!
//! In: an object, the vocabulary with the words that it names, records of its rings. Out: calls of
//! their user-space parts.
//! Guarantee: all words of an object are known before anything is attached, so no record is without
//! a function and no map without its aggregation.

use profiler_model::decode::Lookup;
use profiler_model::object::{MapValue, Object};
use profiler_model::results::{Perform, Record, Sink, Vocabulary, WordName};

/// The functions of an object's events.
#[derive(Debug)]
pub struct Handlers<'a> {
    object: &'a Object,
    /// One for each event.
    functions: Vec<&'static dyn Perform>,
}

impl<'a> Handlers<'a> {
    /// Finds the words of an object; the error is the first one that the vocabulary does not have.
    pub fn resolve(object: &'a Object, vocabulary: &dyn Vocabulary) -> Result<Handlers<'a>, WordName> {
        for map in &object.maps {
            if let MapValue::Aggregate { word, .. } = &map.value
                && vocabulary.aggregation(word).is_none()
            {
                return Err(word.clone());
            }
        }
        let function = |word: &WordName| vocabulary.function(word).ok_or_else(|| word.clone());
        let functions = object.events.iter().map(|event| function(&event.word)).collect::<Result<_, _>>()?;
        Ok(Handlers { object, functions })
    }

    /// Passes a record to the function that emitted it, and counts it in `received`, by program. A
    /// record that no program of the object can have written is left out.
    pub fn act(&self, lookup: &dyn Lookup, bytes: &[u8], received: &mut [u64], sink: &mut dyn Sink) {
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let (Some(index), Some(size)) = (word(0), word(4)) else { return };
        let index = index as usize;
        let (Some(event), Some(function)) = (self.object.events.get(index), self.functions.get(index)) else { return };
        if let Some(count) = received.get_mut(event.program) {
            *count += 1;
        }
        // The reserved record may be longer than what was written.
        let bytes = bytes.get(..size as usize).unwrap_or(bytes);
        function.perform(event, &Record { event, bytes, lookup }, sink);
    }
}
