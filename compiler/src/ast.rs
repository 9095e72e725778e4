//! The syntax tree: the script as written, with nothing resolved.
//!
//! In: made by `parse`. Out: read by `check` and the printers.
//! Guarantee: free of the parser generator; every node knows its span.

mod definitions;
mod modules;
mod span;
mod statement;
mod states;
mod view;
pub mod visit;

pub use definitions::{
    Attributes, CType, CTypeKind, Declarator, Definition, DefinitionKind, EnumDefinition, MemberDefinition,
    RecordDefinition,
};
pub use modules::{Module, Param, ParamValue, Public, PublicKind, Use, default_prefix};
pub use view::{Every, Sort, Top, View, ViewColumn};

pub use span::{Keep, KeyPart, SpanDefinition, Stage, StageKind};
pub use statement::{Stmt, StmtKind};
pub use states::{STATE_MARK, State, StatePart};

pub use crate::operator::BinaryOp;
use crate::source::Span;

/// A whole script.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    /// `config = { key = value; … }`, in source order.
    pub config: Vec<ConfigEntry>,
    /// `#define NAME value` constants, in source order.
    pub defines: Vec<Define>,
    /// `import "file"`, in source order.
    pub imports: Vec<Import>,
    /// `macro name(…) { … }`, in source order.
    pub macros: Vec<Macro>,
    /// `let @x = kind(entries)`, in source order.
    pub maps: Vec<MapDeclaration>,
    /// Definitions of types, in source order.
    pub definitions: Vec<Definition>,
    /// Probe blocks in source order.
    pub blocks: Vec<ProbeBlock>,
    /// `param name: type …`, in source order.
    pub params: Vec<Param>,
    /// `use a/b`, in source order.
    pub uses: Vec<Use>,
    /// Names that `pub` exports to users of this file.
    pub public: Vec<Public>,
    /// The modules in use, each once; the list is empty after expansion.
    pub modules: Vec<Module>,
    /// `state name by key { … }`, in source order.
    pub states: Vec<State>,
    /// `view "title" { … }`, in source order.
    pub views: Vec<View>,
    /// `span NAME by … { … }`, in source order.
    pub spans: Vec<SpanDefinition>,
}

/// One `key = value` of the config block.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigEntry {
    pub key: Ident,
    /// An integer, string, boolean or bare word.
    pub value: Expr,
}

/// A `#define NAME value` constant.
#[derive(Debug, Clone, PartialEq)]
pub struct Define {
    /// The constant's name.
    pub name: Ident,
    pub value: Expr,
}

/// `import "file"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The file, as written between the quotes; its span has the quotes.
    pub path: Ident,
}

/// `macro name(…) { statements… value }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Macro {
    pub name: Ident,
    /// Its parameters.
    pub params: Vec<MacroParam>,
    /// Its statements.
    pub body: Vec<Stmt>,
    /// Its value, if the last statement is an expression without `;`.
    pub value: Option<Expr>,
    /// All of it.
    pub span: Span,
}

/// A parameter of a macro.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MacroParam {
    /// What kind of argument it accepts.
    pub kind: MacroParamKind,
    pub name: Ident,
}

/// The kinds of arguments that a macro parameter accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MacroParamKind {
    /// `$x`: a variable, which the macro may change.
    Var,
    /// `@x`: a map.
    Map,
    /// `x`: any expression.
    Expr,
}

/// `let @x = kind(entries)`.
#[derive(Debug, Clone, PartialEq)]
pub struct MapDeclaration {
    /// The map's name.
    pub name: Ident,
    /// Its kind: `hash`, `lruhash`, `percpuhash`, `percpulruhash`.
    pub kind: Ident,
    /// Maximum number of entries.
    pub entries: Expr,
}

/// A name with its source span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ident {
    /// The name, without sigil.
    pub text: String,
    /// Its source span.
    pub span: Span,
}

/// `[name=] probe[, probe…] /predicate/ { body }`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeBlock {
    /// The block's own name, if given.
    pub name: Option<Ident>,
    /// At least one attach point.
    pub points: Vec<AttachPoint>,
    /// The condition between slashes.
    pub predicate: Option<Expr>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// From the first attach point to the closing brace.
    pub span: Span,
}

/// `kind:part:part…` as written. `BEGIN` has no parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachPoint {
    /// The part before the first colon (`tracepoint`, `t`, `BEGIN`).
    pub kind: Ident,
    /// The parts after the kind; quotes removed, `$1` not yet replaced.
    pub parts: Vec<Ident>,
    /// `unless probe`: attach only if none of these exists. Attach points in this list have no
    /// `unless` themselves.
    pub unless: Vec<AttachPoint>,
    /// The attach point, excluding the `unless` part.
    pub span: Span,
}

/// An expression with its source span.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its source span.
    pub span: Span,
}

/// The expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// An integer literal; durations are in nanoseconds.
    Int(u64),
    /// A duration literal such as `10ms`, in nanoseconds.
    Duration(u64),
    /// `2%`, `99.9`, `0.5%`: allowed only at the end of an argument.
    Decimal {
        /// The number as written, in thousandths.
        thousandths: u64,
        /// Whether `%` follows.
        percent: bool,
    },
    /// A string literal, escapes resolved.
    Str(Vec<u8>),
    /// `true` or `false`.
    Bool(bool),
    /// A bare name: builtin, enum constant, `#define`.
    Name(String),
    /// `$x`.
    Var(String),
    /// `@x` or `@x[keys]`; `keys` is empty for a bare `@x`. The name has no sigil; `@` alone is "".
    Map {
        /// The name without `@`.
        name: String,
        /// The key expressions as written between the brackets.
        keys: Vec<Expr>,
    },
    /// `$1`, counted from 1.
    Positional(u32),
    /// `$#`.
    PositionalCount,
    /// `-e`, `!e`, `~e`, `*e`, `&e`.
    Unary(UnaryOp, Box<Expr>),
    /// `a op b`.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? a : b`; without `then`, `c ?: b`.
    Ternary {
        /// The condition.
        cond: Box<Expr>,
        /// Value if the condition is true; absent for `?:`, which yields the condition.
        then: Option<Box<Expr>>,
        /// Value if the condition is false.
        otherwise: Box<Expr>,
    },
    /// `++x`, `x++`, `--x`, `x--`; the target is a `Var` or `Map`.
    Step {
        /// The expression that is changed.
        target: Box<Expr>,
        /// Whether it increments.
        increment: bool,
        /// Whether the result is the value after the change.
        prefix: bool,
    },
    /// `name(args)`.
    Call {
        /// The function.
        name: Ident,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// `e.name` or `e->name`; both mean the same.
    Field(Box<Expr>, Ident),
    /// `e.0`: a tuple element.
    TupleField(Box<Expr>, u32),
    /// `e[i]`.
    Index(Box<Expr>, Box<Expr>),
    /// `(type)e`.
    Cast(TypeName, Box<Expr>),
    /// `sizeof(type)`.
    SizeofType(TypeName),
    /// `sizeof(expr)`.
    SizeofExpr(Box<Expr>),
    /// `offsetof(struct x, a.b)`.
    Offsetof(TypeName, Vec<Ident>),
    /// A type as an argument: `struct x`, `typeof(e)`.
    Type(TypeName),
    /// `(a, b)`, `(a,)`, `()`.
    Tuple(Vec<Expr>),
    /// `(a = 1, b = "x")`.
    Record(Vec<(Ident, Expr)>),
    /// `{ …; e }`: the value of the last expression.
    Block(Vec<Stmt>, Box<Expr>),
}

/// A type as written: `uint64`, `struct task_struct *`, `uint8[16]`, `string[64]`, `uint8 *`.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeName {
    /// Base name without `struct`/`union`/`enum`; empty for `typeof`.
    pub name: String,
    /// The expression whose type is taken: `typeof(e)`.
    pub of: Option<Box<Expr>>,
    /// The type within `typeof(type)`.
    pub inner: Option<Box<TypeName>>,
    /// The keyword before the name.
    pub tag: TypeTag,
    /// Suffixes in source order.
    pub suffixes: Vec<TypeSuffix>,
    /// All of it.
    pub span: Span,
}

/// The keyword before a type's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TypeTag {
    /// None: an integer type, a typedef, `string`, or a struct named without its keyword.
    None,
    /// `struct`.
    Struct,
    /// `union`.
    Union,
    /// `enum`.
    Enum,
}

/// A suffix of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeSuffix {
    /// `*`.
    Pointer,
    /// `[n]`; `[]` is 0.
    Array(u32),
}

/// Prefix operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `!`
    Not,
    /// `~`
    BitNot,
    /// `*`
    Deref,
    /// `&`
    AddressOf,
}

impl TypeName {
    /// A placeholder type of which only the source span is known.
    pub fn unnamed(span: Span) -> TypeName {
        TypeName { name: String::new(), of: None, inner: None, tag: TypeTag::None, suffixes: Vec::new(), span }
    }
}

impl UnaryOp {
    /// The operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            UnaryOp::Neg => "-",
            UnaryOp::Not => "!",
            UnaryOp::BitNot => "~",
            UnaryOp::Deref => "*",
            UnaryOp::AddressOf => "&",
        }
    }
}
