//! Resolves names in the views of modules.
//!
//! In: a view and the scope of its file. Out: the view with final names.
//! Guarantee: column names stay as written.

use super::{Linker, Scope};
use crate::ast::visit::PartMut;
use crate::ast::{Expr, ExprKind, PublicKind, STATE_MARK, View};

impl Linker<'_> {
    /// Resolves the maps that a view shows, and the names in its clauses.
    pub(super) fn view(&mut self, view: &mut View, scope: &Scope<'_>) {
        let amounts = view.top.iter_mut().map(|top| &mut top.rows);
        let amounts = amounts.chain(view.every.iter_mut().map(|every| &mut every.period));
        amounts.for_each(|amount| self.expr(amount, scope));
        let columns = view.show.iter_mut().map(|column| &mut column.value);
        let others = view.filter.iter_mut().chain(view.sort.iter_mut().map(|sort| &mut sort.by));
        columns.chain(others).for_each(|expr| self.of_view(expr, scope));
        for map in &mut view.of {
            if let Some(state) = map.text.strip_prefix(STATE_MARK) {
                if let Some(own) = &scope.own {
                    map.text = format!("{STATE_MARK}{}'{state}", own.name);
                }
                continue;
            }
            self.reference(&mut map.text, PublicKind::Map, map.span, scope);
        }
    }

    /// Resolves an expression over a view's columns. Column names are not the module's names. The
    /// argument of a call may be a span.
    fn of_view(&mut self, expr: &mut Expr, scope: &Scope<'_>) {
        match &mut expr.kind {
            ExprKind::Map { .. } | ExprKind::Var(_) => self.expr(expr, scope),
            ExprKind::Call { args, .. } => {
                for arg in args {
                    let qualified = match &arg.kind {
                        ExprKind::Field(base, name) => match &base.kind {
                            ExprKind::Map { name: prefix, .. } => prefix
                                .strip_prefix(STATE_MARK)
                                .filter(|prefix| scope.prefixes.iter().any(|(known, _)| known == prefix))
                                .map(|prefix| format!("{prefix}.{}", name.text)),
                            _ => None,
                        },
                        _ => None,
                    };
                    if let Some(mut name) = qualified {
                        self.reference(&mut name, PublicKind::Span, arg.span, scope);
                        arg.kind = ExprKind::Name(name);
                    } else if let ExprKind::Name(name) = &mut arg.kind {
                        if let Some(own) = scope.span(name) {
                            *name = own;
                        }
                    } else {
                        self.of_view(arg, scope);
                    }
                }
            }
            kind => kind.for_each_part_mut(&mut |part| {
                if let PartMut::Expr(expr) = part {
                    self.of_view(expr, scope);
                }
            }),
        }
    }
}
