//! The description of an object as text, to be stored and read back.
//!
//! In: an [`Object`], or the text of one. Out: JSON, or the object without its ELF.
//! Guarantee: what is written reads back equal, unless it is nested deeper than JSON readers
//! accept. Reading allocates in proportion to the text and never panics. The offsets and indices in
//! an object that is read are unchecked: see [`Object::validate`].

use super::Object;

impl Object {
    /// The description as JSON: everything except the ELF.
    pub fn to_json(&self) -> String {
        // Fails only for maps whose keys are not text or numbers, and there are none.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The object that [`Object::to_json`] has described, with an empty ELF; `None` for other text.
    pub fn from_json(text: &str) -> Option<Object> {
        serde_json::from_str(text).ok()
    }
}
