//! Substitutes arguments for a macro's parameters.
//!
//! In: a copy of a macro's body. Out: the body for one call.
//! Guarantee: changes only parameters and the macro's own variables; does not visit substituted
//! arguments again.

use crate::ast::visit::{Part, PartMut};
use crate::ast::{Expr, ExprKind, Ident, Macro, MacroParamKind, Param, Stmt, StmtKind, TypeName, TypeSuffix, TypeTag};
use crate::source::Span;

/// The replacement for each name in one expansion of a macro.
pub(super) struct Substitution<'a> {
    of: &'a Macro,
    args: Vec<Expr>,
    /// Number of the expansion, which makes its variables unique.
    number: usize,
    /// The script's parameters, which are written like variables but keep their names.
    params: &'a [Param],
}

impl<'a> Substitution<'a> {
    /// The substitution for the `number`th expansion.
    pub(super) fn new(of: &'a Macro, args: Vec<Expr>, number: usize, params: &'a [Param]) -> Substitution<'a> {
        Substitution { of, args, number, params }
    }

    /// Substitutes in the statements of a body.
    pub(super) fn stmts(&self, stmts: &mut [Stmt]) {
        for stmt in stmts {
            if let Some(name) = stmt.kind.variable_mut() {
                name.text = self.variable(&name.text);
            }
            if let StmtKind::Let { ty: Some(ty), .. } = &mut stmt.kind {
                self.type_name(ty);
            }
            stmt.kind.for_each_part_mut(&mut |part| self.part(part));
        }
    }

    /// Substitutes in an expression.
    pub(super) fn expr(&self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Name(name) => {
                if let Some(arg) = self.argument(name, MacroParamKind::Expr) {
                    *expr = arg.clone();
                    return;
                }
            }
            ExprKind::Index(base, index) => {
                if let Some(ty) = self.array_of(base, index, expr.span) {
                    expr.kind = ExprKind::Type(ty);
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
        expr.kind.for_each_part_mut(&mut |part| self.part(part));
    }

    /// The array type that `a[2]` is if the parameter `a` is a type.
    fn array_of(&self, base: &Expr, index: &Expr, span: Span) -> Option<TypeName> {
        let (ExprKind::Name(name), ExprKind::Int(len)) = (&base.kind, &index.kind) else { return None };
        let ExprKind::Type(given) = &self.argument(name, MacroParamKind::Expr)?.kind else { return None };
        let suffixes = vec![TypeSuffix::Array(u32::try_from(*len).ok()?)];
        Some(TypeName { inner: Some(Box::new(given.clone())), suffixes, ..TypeName::unnamed(span) })
    }

    /// Substitutes a parameter that is used as a type, or as a value in `typeof`.
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

    /// Substitutes parameters in the field path of `offsetof`.
    fn field_path(&self, path: &mut Vec<Ident>) {
        *path = std::mem::take(path)
            .into_iter()
            .flat_map(|field| self.argument(&field.text, MacroParamKind::Expr).and_then(fields).unwrap_or(vec![field]))
            .collect();
    }

    fn part(&self, part: PartMut<'_>) {
        match part {
            PartMut::Expr(expr) => self.expr(expr),
            PartMut::Stmts(stmts) => self.stmts(stmts),
        }
    }

    fn argument(&self, name: &str, kind: MacroParamKind) -> Option<&Expr> {
        let at = self.of.params.iter().position(|param| param.kind == kind && param.name.text == name)?;
        self.args.get(at)
    }

    /// The variable's name in the expanded script. Local variables get a `'`, which no script can
    /// write.
    fn variable(&self, name: &str) -> String {
        match self.argument(name, MacroParamKind::Var).map(|arg| &arg.kind) {
            Some(ExprKind::Var(given)) => given.clone(),
            _ if self.params.iter().any(|param| param.name.text == name) => name.to_owned(),
            _ => format!("{name}'{}", self.number),
        }
    }
}

/// The names in `a.b.c`, if the expression is nothing else.
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

/// Node count and depth of an expression.
pub(super) fn extent(expr: &Expr) -> Extent {
    let mut inner = Extent::default();
    expr.kind.for_each_part(&mut |part| inner.add(part));
    Extent { nodes: inner.nodes + 1, depth: inner.depth + 1 }
}

/// Node count and depth of several statements.
pub(super) fn extent_of_all(stmts: &[Stmt]) -> Extent {
    let mut all = Extent::default();
    for stmt in stmts {
        let mut inner = Extent::default();
        stmt.kind.for_each_part(&mut |part| inner.add(part));
        all = Extent { nodes: all.nodes + inner.nodes + 1, depth: all.depth.max(inner.depth + 1) };
    }
    all
}

/// The size of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Extent {
    /// Total number of nodes.
    pub nodes: usize,
    /// Maximum number of nodes from the root to a leaf.
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
        let call = made(ExprKind::Call { name, args: vec![made(ExprKind::Int(1)), pair] });
        assert_eq!(extent(&call), Extent { nodes: 5, depth: 3 });
    }
}
