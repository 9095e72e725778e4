//! Puts arguments in the place of a macro's parameters.
//!
//! In: a copy of a macro's body. Out: the body for one use.
//! Guarantee: only parameters and the macro's own variables change; what is put in is not looked into again.

use crate::ast::{Expr, ExprKind, Ident, Macro, MacroParamKind, Param, Stmt, StmtKind, TypeName, TypeTag};

/// What a node is made of.
pub enum Part<'a> {
    /// An expression.
    Expr(&'a mut Expr),
    /// Statements.
    Stmts(&'a mut [Stmt]),
}

/// What stands for each name.
pub struct Substitution<'a> {
    of: &'a Macro,
    args: Vec<Expr>,
    /// Tells the variables of this use from those of all others.
    number: usize,
    /// Names that are the script's parameters, not variables.
    params: &'a [Param],
}

impl<'a> Substitution<'a> {
    /// That of the `number`th use.
    pub fn new(of: &'a Macro, args: Vec<Expr>, number: usize, params: &'a [Param]) -> Substitution<'a> {
        Substitution { of, args, number, params }
    }

    /// Changes the statements of a body.
    pub fn stmts(&self, stmts: &mut [Stmt]) {
        for stmt in stmts {
            match &mut stmt.kind {
                StmtKind::Let { name, .. } | StmtKind::ForRange { name, .. } | StmtKind::ForMap { name, .. } => {
                    name.text = self.variable(&name.text);
                }
                _ => {}
            }
            if let StmtKind::Let { ty: Some(ty), .. } = &mut stmt.kind {
                self.type_name(ty);
            }
            for_each_part(&mut stmt.kind, &mut |part| self.part(part));
        }
    }

    /// Changes an expression.
    pub fn expr(&self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Name(name) => {
                if let Some(arg) = self.argument(name, MacroParamKind::Expr) {
                    *expr = arg.clone();
                    return;
                }
            }
            ExprKind::Var(name) => *name = self.variable(name),
            ExprKind::Map { name, .. } => {
                if let Some(ExprKind::Map { name: given, .. }) =
                    self.argument(name, MacroParamKind::Map).map(|arg| &arg.kind)
                {
                    name.clone_from(given);
                }
            }
            ExprKind::Offsetof(ty, path) => {
                self.type_name(ty);
                self.field_path(path);
            }
            ExprKind::Cast(ty, _) | ExprKind::SizeofType(ty) | ExprKind::Type(ty) => self.type_name(ty),
            _ => {}
        }
        for_each_part_of(&mut expr.kind, &mut |part| self.part(part));
    }

    /// A parameter that stands for a type, or for a value where it says `typeof`.
    fn type_name(&self, ty: &mut TypeName) {
        if let Some(inner) = &mut ty.inner {
            self.type_name(inner);
        }
        if ty.tag != TypeTag::None || ty.name.is_empty() {
            return;
        }
        match self.argument(&ty.name, MacroParamKind::Expr).map(|arg| &arg.kind) {
            Some(ExprKind::Type(given)) => {
                ty.name.clear();
                ty.inner = Some(Box::new(given.clone()));
            }
            Some(ExprKind::Name(given)) => ty.name.clone_from(given),
            _ => {}
        }
    }

    /// `offsetof` takes the names of fields, which a parameter may be given.
    fn field_path(&self, path: &mut Vec<Ident>) {
        *path = std::mem::take(path)
            .into_iter()
            .flat_map(|field| self.argument(&field.text, MacroParamKind::Expr).and_then(fields).unwrap_or(vec![field]))
            .collect();
    }

    fn part(&self, part: Part<'_>) {
        match part {
            Part::Expr(expr) => self.expr(expr),
            Part::Stmts(stmts) => self.stmts(stmts),
        }
    }

    fn argument(&self, name: &str, kind: MacroParamKind) -> Option<&Expr> {
        let at = self.of.params.iter().position(|param| param.kind == kind && param.name.text == name)?;
        self.args.get(at)
    }

    /// The name of a variable outside of the macro. No script can write the mark in it.
    fn variable(&self, name: &str) -> String {
        match self.argument(name, MacroParamKind::Var).map(|arg| &arg.kind) {
            Some(ExprKind::Var(given)) => given.clone(),
            _ if self.params.iter().any(|param| param.name.text == name) => name.to_owned(),
            _ => format!("{name}'{}", self.number),
        }
    }
}

/// The names in `a.b.c`, when an expression is nothing else.
pub fn fields(expr: &Expr) -> Option<Vec<Ident>> {
    match &expr.kind {
        ExprKind::Name(name) => Some(vec![Ident { text: name.clone(), span: expr.span }]),
        ExprKind::Field(base, field) => {
            let mut path = fields(base)?;
            path.push(field.clone());
            Some(path)
        }
        _ => None,
    }
}

/// How many nodes an expression has, and how deep they are.
pub fn extent(expr: &mut Expr) -> Extent {
    let mut inner = Extent::default();
    for_each_part_of(&mut expr.kind, &mut |part| inner.add(part));
    Extent { nodes: inner.nodes + 1, depth: inner.depth + 1 }
}

/// The same for statements.
pub fn extent_of_all(stmts: &mut [Stmt]) -> Extent {
    let mut all = Extent::default();
    for stmt in stmts {
        let mut inner = Extent::default();
        for_each_part(&mut stmt.kind, &mut |part| inner.add(part));
        all = Extent { nodes: all.nodes + inner.nodes + 1, depth: all.depth.max(inner.depth + 1) };
    }
    all
}

/// The size of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// All nodes.
    pub nodes: usize,
    /// The most nodes from its top to a leaf.
    pub depth: usize,
}

impl Extent {
    fn add(&mut self, part: Part<'_>) {
        let part = match part {
            Part::Expr(expr) => extent(expr),
            Part::Stmts(stmts) => extent_of_all(stmts),
        };
        *self = Extent { nodes: self.nodes + part.nodes, depth: self.depth.max(part.depth) };
    }
}

/// The expressions and statements directly in a statement.
pub fn for_each_part(kind: &mut StmtKind, visit: &mut dyn FnMut(Part<'_>)) {
    match kind {
        StmtKind::Expr(expr) | StmtKind::Return(Some(expr)) => visit(Part::Expr(expr)),
        StmtKind::Assign { target, value, .. } => {
            visit(Part::Expr(target));
            visit(Part::Expr(value));
        }
        StmtKind::Let { ty, value, .. } => {
            if let Some(ty) = ty {
                in_type(ty, visit);
            }
            if let Some(value) = value {
                visit(Part::Expr(value));
            }
        }
        StmtKind::If { cond, then, otherwise } => {
            visit(Part::Expr(cond));
            visit(Part::Stmts(then));
            visit(Part::Stmts(otherwise));
        }
        StmtKind::Unroll { count: head, body }
        | StmtKind::While { cond: head, body }
        | StmtKind::ForMap { map: head, body, .. } => {
            visit(Part::Expr(head));
            visit(Part::Stmts(body));
        }
        StmtKind::ForRange { start, end, body, .. } => {
            visit(Part::Expr(start));
            visit(Part::Expr(end));
            visit(Part::Stmts(body));
        }
        StmtKind::Block(body) => visit(Part::Stmts(body)),
        StmtKind::Return(None) | StmtKind::Break | StmtKind::Continue => {}
    }
}

/// The expressions and statements directly in an expression.
pub fn for_each_part_of(kind: &mut ExprKind, visit: &mut dyn FnMut(Part<'_>)) {
    match kind {
        ExprKind::Map { keys: list, .. } | ExprKind::Tuple(list) | ExprKind::Call { args: list, .. } => {
            for expr in list {
                visit(Part::Expr(expr));
            }
        }
        ExprKind::Unary(_, inner)
        | ExprKind::Field(inner, _)
        | ExprKind::TupleField(inner, _)
        | ExprKind::SizeofExpr(inner)
        | ExprKind::Step { target: inner, .. } => visit(Part::Expr(inner)),
        ExprKind::Cast(ty, inner) => {
            in_type(ty, visit);
            visit(Part::Expr(inner));
        }
        ExprKind::SizeofType(ty) | ExprKind::Offsetof(ty, _) | ExprKind::Type(ty) => in_type(ty, visit),
        ExprKind::Record(parts) => {
            for (_, value) in parts {
                visit(Part::Expr(value));
            }
        }
        ExprKind::Binary(_, a, b) | ExprKind::Index(a, b) => {
            visit(Part::Expr(a));
            visit(Part::Expr(b));
        }
        ExprKind::Ternary { cond, then, otherwise } => {
            visit(Part::Expr(cond));
            if let Some(then) = then {
                visit(Part::Expr(then));
            }
            visit(Part::Expr(otherwise));
        }
        ExprKind::Block(body, value) => {
            visit(Part::Stmts(body));
            visit(Part::Expr(value));
        }
        ExprKind::Int(_)
        | ExprKind::Duration(_)
        | ExprKind::Decimal { .. }
        | ExprKind::Str(_)
        | ExprKind::Bool(_)
        | ExprKind::Name(_)
        | ExprKind::Var(_)
        | ExprKind::Positional(_)
        | ExprKind::PositionalCount => {}
    }
}

/// `typeof(e)` holds an expression.
fn in_type(ty: &mut TypeName, visit: &mut dyn FnMut(Part<'_>)) {
    if let Some(of) = &mut ty.of {
        visit(Part::Expr(of));
    }
    if let Some(inner) = &mut ty.inner {
        in_type(inner, visit);
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, extent};
    use crate::ast::{Expr, ExprKind, Ident};
    use crate::source::Span;

    #[test]
    fn an_extent_counts_nodes_and_levels() {
        let made = |kind| Expr { kind, span: Span::default() };
        let name = Ident { text: "f".into(), span: Span::default() };
        let pair = made(ExprKind::Tuple(vec![made(ExprKind::Int(1)), made(ExprKind::Int(2))]));
        let mut call = made(ExprKind::Call { name, args: vec![made(ExprKind::Int(1)), pair] });
        assert_eq!(extent(&mut call), Extent { nodes: 5, depth: 3 });
    }
}
