//! Functions of programs, as debug information describes them.
//!
//! In: made by the target. Out: read by the probe kinds of user space.
//! Guarantee: a parameter whose place is given has its value there before the described instruction,
//! usually the function's first, is executed.

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::TypeTag;
use crate::btf::{Btf, BtfId, describe_in_c};

/// What a script asks of the debug information of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramQuestions {
    pub path: String,
    /// Functions that begin at these offsets in the file.
    pub functions: BTreeSet<u64>,
    /// Functions as they are before these instructions.
    pub instructions: BTreeSet<ProgramInstruction>,
    pub types: BTreeSet<ProgramType>,
    pub variables: BTreeSet<ProgramVariable>,
    /// Whether only the names of types are needed, not what structs and enums consist of.
    pub names_only: bool,
}

/// A type of a program as a script names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramType {
    pub tag: TypeTag,
    pub name: String,
    /// An offset in the file: if several types have the name, that of the source file with this
    /// code is meant.
    pub site: Option<u64>,
}

/// A global variable of a program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramVariable {
    /// The name of its symbol.
    pub name: String,
    /// Its virtual address in the file.
    pub address: u64,
}

/// The answers to [`ProgramQuestions`]. An error is the reason why there is none, as a sentence.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProgramAnswers {
    pub functions: BTreeMap<u64, Result<ProgramFunction, String>>,
    pub instructions: BTreeMap<ProgramInstruction, Result<ProgramFunction, String>>,
    /// `None`: the program has no type of that name.
    pub types: BTreeMap<ProgramType, Result<Option<BtfId>, String>>,
    /// The types of variables.
    pub variables: BTreeMap<ProgramVariable, Result<BtfId, String>>,
}

/// An instruction in a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramInstruction {
    /// Offset in the file.
    pub file_offset: u64,
    /// Which of the functions that have the instruction, because some were inlined into others: a
    /// number that the target has chosen.
    pub scope: u64,
}

/// An instruction at which a line of a source file begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineSite {
    pub at: ProgramInstruction,
    /// The name of the function that contains the line.
    pub function: String,
}

impl ProgramQuestions {
    /// No questions about this file.
    pub fn new(path: &str) -> ProgramQuestions {
        ProgramQuestions { path: path.to_owned(), ..ProgramQuestions::default() }
    }

    /// Adds these questions, which are about the same file.
    pub fn add(&mut self, other: &ProgramQuestions) {
        self.functions.extend(&other.functions);
        self.instructions.extend(&other.instructions);
        self.types.extend(other.types.iter().cloned());
        self.variables.extend(other.variables.iter().cloned());
    }
}

impl ProgramAnswers {
    /// The same reason for all questions.
    pub fn refused(questions: &ProgramQuestions, why: &str) -> ProgramAnswers {
        ProgramAnswers {
            functions: questions.functions.iter().map(|offset| (*offset, Err(why.to_owned()))).collect(),
            instructions: questions.instructions.iter().map(|at| (*at, Err(why.to_owned()))).collect(),
            types: questions.types.iter().map(|ty| (ty.clone(), Err(why.to_owned()))).collect(),
            variables: questions.variables.iter().map(|name| (name.clone(), Err(why.to_owned()))).collect(),
        }
    }

    /// Replaces the answers to the same questions.
    pub fn replace(&mut self, other: ProgramAnswers) {
        self.functions.extend(other.functions);
        self.instructions.extend(other.instructions);
        self.types.extend(other.types);
        self.variables.extend(other.variables);
    }
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
    /// Whether it is certain to return that.
    pub has_result: bool,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramParameter {
    /// Its name in the source; empty if it has none.
    pub name: String,
    pub ty: BtfId,
    pub place: ParameterPlace,
}

/// Where a parameter is at the described instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterPlace {
    /// In the register at this offset in `pt_regs`.
    Register(u32),
    /// On the stack, at this distance in bytes from the stack pointer.
    Stack(u32),
    /// In memory, at this distance in bytes from the address in the register at this offset in
    /// `pt_regs`.
    Memory(u32, i32),
    /// In several places, one for each member of the struct that it is.
    Members(Vec<ParameterPlace>),
    /// In no place: it always has this value, of which its type takes the lower bits.
    Constant(i64),
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
            let ty = describe_in_c(btf, parameter.ty);
            match (parameter.name.as_str(), &parameter.place) {
                ("", _) => format!("{ty} arg{index}"),
                (name, ParameterPlace::Unreadable(why)) => format!("{ty} {name} (not readable: it {why})"),
                (name, _) => format!("{ty} {name}"),
            }
        };
        self.parameters.iter().enumerate().map(line).collect()
    }
}
