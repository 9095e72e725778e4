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

impl Definition {
    /// Another name for the type that is called `ty` at `span`.
    pub fn alias(name: Ident, ty: String, span: Span) -> Definition {
        let declarator = Declarator {
            span: name.span,
            name: Some(name),
            pointers: 0,
            dimensions: Vec::new(),
            bits: None,
            is_function: false,
            attributes: Attributes::default(),
        };
        let ty = CType { kind: CTypeKind::Name(ty), span };
        Definition { span: declarator.span.to(span), kind: DefinitionKind::Typedef(ty, vec![declarator]) }
    }
}

/// The kinds of definitions.
#[derive(Debug, Clone, PartialEq)]
pub enum DefinitionKind {
    /// A struct, union or enum; `struct x;` is a forward declaration.
    Type(CType),
    /// Names for a type and for types derived from it.
    Typedef(CType, Vec<Declarator>),
}

/// The type before the names in a C declaration.
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
    /// A struct or union with its members.
    Record(RecordDefinition),
    /// An enum with its values.
    Enum(EnumDefinition),
}

/// `struct name { members } attributes`.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordDefinition {
    /// Whether it is a union.
    pub is_union: bool,
    /// Its name; `None` if anonymous.
    pub name: Option<Ident>,
    pub members: Vec<MemberDefinition>,
    pub attributes: Attributes,
}

/// `enum name { A, B = 2 }`.
#[derive(Debug, Clone, PartialEq)]
pub struct EnumDefinition {
    /// Its name; `None` if anonymous.
    pub name: Option<Ident>,
    /// Names with their explicit values.
    pub values: Vec<(Ident, Option<Expr>)>,
}

/// `type a, *b, c[4], d:3;`.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberDefinition {
    /// The type before the names.
    pub ty: CType,
    /// The names; empty for an anonymous struct or union.
    pub declarators: Vec<Declarator>,
    /// All of it, without the semicolon.
    pub span: Span,
}

/// A declared name with the pointers, dimensions and width that apply to it alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Declarator {
    /// The name; a bit-field may have none.
    pub name: Option<Ident>,
    /// Number of `*`.
    pub pointers: u32,
    /// Lengths from left to right; `None` for `[]`.
    pub dimensions: Vec<Option<Expr>>,
    /// The width of a bit-field.
    pub bits: Option<Expr>,
    /// Whether it is a pointer to a function.
    pub is_function: bool,
    pub attributes: Attributes,
    /// All of it.
    pub span: Span,
}

/// `__attribute__((…))`, limited to attributes that change the layout.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes {
    pub packed: bool,
    /// `aligned(n)`.
    pub aligned: Option<Box<Expr>>,
}
