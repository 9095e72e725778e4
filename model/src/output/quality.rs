//! Loss accounting and overhead, as plain data.
//!
//! In: what a run counted. Out: sections, each as text and as fields.
//! Guarantee: text and fields of a section have the same numbers.

/// One section of the report on the quality of results.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Its name for programs: `missing`, `cost`.
    pub name: &'static str,
    /// The line above it for people.
    pub title: String,
    /// Its lines for people.
    pub lines: Vec<String>,
    /// The same for programs: named fields, one list per loss or per probe.
    pub entries: Vec<Vec<(&'static str, Field)>>,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// A string.
    Text(String),
    /// A number of things.
    Count(u64),
    /// A measured quantity.
    Real(f64),
}
