//! C definitions at the top of a script, as written.
//!
//! In: made by `parse`. Out: read by `check` and the printers.
//! Guarantee: as for the whole tree; lengths, widths and values are still expressions.

use crate::ast::{Expr, Ident, TypeTag};
use crate::source::Span;

/// `struct x { … };`, `union x { … };`, `enum x { … };`, `typedef … x;`.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// What is defined.
    pub kind: DefinitionKind,
    /// All of it, without the semicolon.
    pub span: Span,
}

/// The kinds of definitions.
#[derive(Debug, Clone, PartialEq)]
pub enum DefinitionKind {
    /// A struct, union or enum; `struct x;` only announces it.
    Type(CType),
    /// Names for a type and for types made of it.
    Typedef(CType, Vec<Declarator>),
}

/// What stands in front of the names in a C declaration.
#[derive(Debug, Clone, PartialEq)]
pub struct CType {
    /// What it is.
    pub kind: CTypeKind,
    /// Its characters.
    pub span: Span,
}

/// The kinds of C types.
#[derive(Debug, Clone, PartialEq)]
pub enum CTypeKind {
    /// `int`, `unsigned long`, `u32`, `pid_t`.
    Name(String),
    /// `struct x`, `union x`, `enum x`.
    Tagged(TypeTag, Ident),
    /// A struct or union with its content.
    Record(RecordDefinition),
    /// An enum with its content.
    Enum(EnumDefinition),
}

/// `struct name { members } attributes`.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordDefinition {
    /// Whether the members share their place.
    pub is_union: bool,
    /// Its name; anonymous ones have none.
    pub name: Option<Ident>,
    /// What is in it.
    pub members: Vec<MemberDefinition>,
    /// What was asked for.
    pub attributes: Attributes,
}

/// `enum name { A, B = 2 }`.
#[derive(Debug, Clone, PartialEq)]
pub struct EnumDefinition {
    /// Its name; anonymous ones have none.
    pub name: Option<Ident>,
    /// Names and, where given, values.
    pub values: Vec<(Ident, Option<Expr>)>,
}

/// `type a, *b, c[4], d:3;`.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberDefinition {
    /// The type in front.
    pub ty: CType,
    /// The names; none for an anonymous struct or union.
    pub declarators: Vec<Declarator>,
    /// All of it, without the semicolon.
    pub span: Span,
}

/// A name and what it adds to the type in front.
#[derive(Debug, Clone, PartialEq)]
pub struct Declarator {
    /// The name; a bit-field may have none.
    pub name: Option<Ident>,
    /// How many `*`.
    pub pointers: u32,
    /// Lengths from left to right; `None` for `[]`.
    pub dimensions: Vec<Option<Expr>>,
    /// The width of a bit-field.
    pub bits: Option<Expr>,
    /// Whether it is a pointer to a function.
    pub is_function: bool,
    /// What was asked for.
    pub attributes: Attributes,
    /// All of it.
    pub span: Span,
}

/// `__attribute__((…))`, as far as it changes the layout.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes {
    /// `packed`.
    pub packed: bool,
    /// `aligned(n)`.
    pub aligned: Option<Box<Expr>>,
}
