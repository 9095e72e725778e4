//! [`Body`]: the body of one program during the check, and all that words may ask of the checker.
//!
//! In: the [`Seed`] of the program; expressions and arguments as written. Out: typed ones.
//! Guarantee: of a body, words see only its public methods, its seed and its [`Env`]. A public
//! method is in the module that does the work (`calls` for arguments, `expr`, `fields`); this file
//! depends on none of them. The stage's own code is functions over a `Body`, in modules named after
//! what they check; the state of a body is in three parts (`vars`, `loops`, `spans`).

use crate::ast::Stmt;
use crate::check::nesting::Loops;
use crate::check::spans::OpenEvents;
use crate::check::variables::Variables;
use crate::check::{Env, Seed};
use crate::diagnostic::Diagnostic;
use crate::typed::{self, VarIndex};
use crate::types::Type;

/// A body during the check.
#[derive(Debug)]
pub struct Body<'a, 'e> {
    /// State shared by all bodies.
    pub env: &'a mut Env<'e>,
    /// The program that the body belongs to.
    pub seed: &'a Seed,
    /// Whether the current code is under a condition that is known to be false.
    pub unreachable: bool,
    /// Whether it reads the memory of a process other than that in which it runs, so it may sleep.
    pub(super) may_sleep: bool,
    pub(super) vars: Variables,
    /// The loops that enclose the current code.
    pub(super) loops: Loops,
    /// The events of spans and the loops over spans that enclose the current code.
    pub(super) spans: OpenEvents,
}

impl<'a, 'e> Body<'a, 'e> {
    /// Creates a body; `vars` are its variables with their types from the previous round.
    pub(super) fn new(env: &'a mut Env<'e>, seed: &'a Seed, vars: Vec<typed::Var>) -> Body<'a, 'e> {
        Body {
            env,
            seed,
            unreachable: false,
            may_sleep: false,
            vars: Variables::new(vars),
            loops: Loops::default(),
            spans: OpenEvents::default(),
        }
    }

    /// Whether the code is in a loop that is not unrolled.
    pub(crate) fn is_in_a_loop(&self) -> bool {
        self.loops.has_running()
    }

    /// Runs `check` in a new scope.
    pub(super) fn in_scope<T>(&mut self, check: impl FnOnce(&mut Self) -> T) -> T {
        self.vars.open_scope();
        let result = check(self);
        self.vars.close_scope();
        result
    }

    /// Checks statements in a new scope.
    pub(super) fn scoped(&mut self, stmts: &[Stmt]) -> Vec<typed::Stmt> {
        self.in_scope(|cx| cx.stmts(stmts))
    }
}

/// Diagnostics.
impl Body<'_, '_> {
    /// Reports a diagnostic.
    pub fn error(&mut self, diagnostic: Diagnostic) {
        self.env.report.push(diagnostic);
    }

    /// Reports a diagnostic and returns the expression that replaces the invalid one.
    pub fn fail(&mut self, diagnostic: Diagnostic) -> typed::Expr {
        let span = diagnostic.span;
        self.error(diagnostic);
        typed::Expr::poison(span)
    }

    /// Describes a type for a message.
    pub fn describe(&self, ty: &Type) -> String {
        match ty {
            Type::Struct { .. }
            | Type::Enum { .. }
            | Type::Pointer { .. }
            | Type::Array { .. }
            | Type::Tuple(_)
            | Type::Record(_) => ty.describe(self.env.target.btf()),
            other => other.describe::<crate::types::NoRecords>(None),
        }
    }

    /// Describes a value of a type, with an article: `an int64`, `a string[16]`.
    pub fn one(&self, ty: &Type) -> String {
        let words = self.describe(ty);
        match ty {
            Type::None => "nothing".into(),
            Type::Unknown => "something".into(),
            Type::Tuple(_) => format!("a tuple {words}"),
            Type::Record(_) => format!("a record {words}"),
            _ if words.starts_with(['a', 'e', 'i', 'o']) => format!("an {words}"),
            _ => format!("a {words}"),
        }
    }
}

/// Variables.
impl Body<'_, '_> {
    /// Declares a variable in the current scope. A word chooses a name that no script can write.
    pub fn declare(&mut self, name: &str, ty: Type) -> VarIndex {
        self.vars.declare(name, ty)
    }

    /// The type of a variable.
    pub fn var_type(&self, var: VarIndex) -> &Type {
        self.vars.ty(var)
    }
}
