//! The record of a tracepoint event, as perf delivers it: `struct trace_event_raw_CLASS`.
//!
//! In: an event. Out: the contents of its `format` file in tracefs except the id, for users who may
//! not read tracefs.
//! Guarantee: exact if the event has a record of its own. An event that shares a class does not
//! name the class. It is inferred from the argument types of the class's functions and from the
//! event's name. If several classes have the same argument types, the result has the fields of all,
//! those of the most likely class first.

use std::cmp::Reverse;

use super::record::Kind;
use super::shape::Member;
use super::{Btf, BtfId};
use crate::target::{TracepointField, TracepointFormat};

const RECORD_PREFIX: &str = "trace_event_raw_";

/// Prefix of the function that passes a class's arguments to BPF programs.
const CLASS_PREFIX: &str = "__bpf_trace_";

/// The first and last members of records, which are not fields.
const FRAME: [&str; 2] = ["ent", "__data"];

/// The kernel's records of tracepoint events.
#[derive(Clone, Copy)]
pub struct EventRecords<'a> {
    btf: &'a Btf,
}

impl Btf {
    /// The records of tracepoint events.
    pub fn event_records(&self) -> EventRecords<'_> {
        EventRecords { btf: self }
    }
}

impl EventRecords<'_> {
    /// The record of an event, with id 0; `None` if the types do not describe it.
    pub fn find(self, event: &str) -> Option<TracepointFormat> {
        let mut fields: Vec<TracepointField> = Vec::new();
        let records = self.records_of(event);
        for member in records.iter().flat_map(|record| self.btf.members(*record)) {
            let field = self.field(&member);
            if !FRAME.contains(&member.name) && !fields.iter().any(|known| known.name == field.name) {
                fields.push(field);
            }
        }
        (!records.is_empty()).then_some(TracepointFormat { id: 0, fields })
    }

    /// The candidate records of an event, the most likely first.
    fn records_of(self, event: &str) -> Vec<BtfId> {
        let record = |name: &str| self.btf.find(Kind::Struct, &format!("{RECORD_PREFIX}{name}"));
        if let Some(own) = record(event) {
            return vec![own];
        }
        let Some(tracepoint) = self.btf.raw_tracepoints().find(event) else { return Vec::new() };
        let takes_the_same = |function: BtfId| {
            let proto = self.btf.func_proto(function);
            let params = proto.as_ref().and_then(|proto| proto.params.get(1..));
            params.is_some_and(|params| params.iter().map(|it| it.ty).eq(tracepoint.args.iter().map(|it| it.ty)))
        };
        let classes = self.btf.functions().filter_map(|(id, name)| Some((id, name.strip_prefix(CLASS_PREFIX)?)));
        // A class with the name of an event is the record of that event.
        let shared = classes.filter(|(id, name)| takes_the_same(*id) && !self.btf.raw_tracepoints().contains(name));
        let mut names: Vec<&str> = shared.map(|(_, name)| name).collect();
        names.sort_by_key(|name| (Reverse(common_start(name, event)), name.len()));
        names.into_iter().filter_map(record).collect()
    }

    fn field(self, member: &Member<'_>) -> TracepointField {
        let located = ["__data_loc_", "__rel_loc_"].iter().find_map(|prefix| member.name.strip_prefix(prefix));
        let (element, array_len) = match self.btf.array(self.btf.strip(member.ty)) {
            Some((element, len)) => (element, Some(len)),
            None => (member.ty, None),
        };
        let is_signed =
            |id| self.btf.int(id).map(|int| int.signed).or_else(|| self.btf.enum_signed(id)).unwrap_or(false);
        TracepointField {
            name: located.unwrap_or(member.name).to_owned(),
            c_type: if located.is_some() { "__data_loc char[]".into() } else { self.btf.describe(element) },
            array_len,
            offset_bytes: member.byte_offset(),
            size_bytes: self.btf.size_bytes(member.ty),
            signed: is_signed(self.btf.strip(element)),
            data_loc: located.is_some(),
        }
    }
}

/// The length of the common prefix of two names.
fn common_start(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}
