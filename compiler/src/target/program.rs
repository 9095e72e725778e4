//! Functions of programs, as debug information describes them.
//!
//! In: made by the target. Out: read by the probe kinds of user space.
//! Guarantee: a parameter whose place is given has its value there when the function is entered.

use crate::btf::{Btf, BtfId};

/// Functions of one file whose descriptions a script needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFunctions {
    pub path: String,
    /// Where they begin in the file.
    pub file_offsets: Vec<u64>,
}

/// A function of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFunction {
    /// Its name in the source.
    pub name: String,
    /// Its parameters in order, without `...`.
    pub parameters: Vec<ProgramParameter>,
    /// The type of its result; [`BtfId::VOID`] for none.
    pub result: BtfId,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramParameter {
    /// Its name in the source; empty if it has none.
    pub name: String,
    pub ty: BtfId,
    pub place: ParameterPlace,
}

/// Where a parameter is when the function is entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterPlace {
    /// In the register at this offset in `pt_regs`.
    Register(u32),
    /// On the stack, at this distance in bytes from the stack pointer.
    Stack(u32),
    /// In no place that a program can read: why, after "it".
    Unreadable(String),
}

impl ProgramFunction {
    /// Whether two functions have the same parameters, in the same places.
    pub fn has_parameters_of(&self, other: &ProgramFunction, btf: &Btf) -> bool {
        let same = |(a, b): (&ProgramParameter, &ProgramParameter)| {
            a.name == b.name && a.place == b.place && btf.to_type(a.ty) == btf.to_type(b.ty)
        };
        self.parameters.len() == other.parameters.len() && self.parameters.iter().zip(&other.parameters).all(same)
    }

    /// Its parameters as C declares them, and its result if there is one: `struct conn * conn`.
    pub fn described(&self, btf: &Btf) -> Vec<String> {
        let line = |(index, parameter): (usize, &ProgramParameter)| {
            let ty = btf.describe(parameter.ty);
            match (parameter.name.as_str(), &parameter.place) {
                ("", _) => format!("{ty} arg{index}"),
                (name, ParameterPlace::Unreadable(why)) => format!("{ty} {name} (not readable: it {why})"),
                (name, _) => format!("{ty} {name}"),
            }
        };
        self.parameters.iter().enumerate().map(line).collect()
    }
}
