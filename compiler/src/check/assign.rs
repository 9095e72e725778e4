//! Assignments and the types they give to variables and maps.
//!
//! In: a target, an operator, a value. Out: a typed statement.
//! Guarantee: an aggregation stands only where a map takes it; a map holds one kind of value.

use crate::ast::{BinaryOp, Expr, ExprKind, Ident, TypeName};
use crate::check::types::MAX_VALUE_BYTES;
use crate::check::{Body, truncate, unify};
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::source::Span;
use crate::typed::{self, MapIndex, MapValue, StmtKind};
use crate::types::{Int, Type};
use crate::units::Unit;
use crate::words::Aggregation;

impl Body<'_, '_> {
    /// `target = value`, `target op= value`.
    pub fn assign(&mut self, target: &Expr, op: Option<BinaryOp>, value: &Expr, span: Span) -> Option<StmtKind> {
        match &target.kind {
            ExprKind::Var(name) => self.assign_var(name, target.span, op, value),
            ExprKind::Map { name, keys } => self.assign_map(name, keys, target, op, value),
            ExprKind::Field(..) => self.assign_field(target, op, value),
            ExprKind::Name(name) if name == "_" && op.is_none() => Some(StmtKind::Expr(self.expr(value))),
            _ => {
                let message = "only a variable `$x` or a map `@x` can be assigned to";
                self.error(Diagnostic::error(Code(316), target.span, message).related(span, "in this assignment"));
                None
            }
        }
    }

    /// `let $x : type = value`.
    pub fn declaration(&mut self, name: &Ident, ty: Option<&TypeName>, value: Option<&Expr>) -> Option<StmtKind> {
        let declared = match ty {
            Some(ty) => self.type_named(ty)?,
            None => Type::Unknown,
        };
        let unit = value.map_or(Unit::None, |value| self.unit_of(value));
        let value = value.map(|v| self.value_for(v));
        if self.find_var(&name.text).is_some() {
            let message = format!("`${}` is already declared", name.text);
            self.error(
                Diagnostic::error(Code(206), name.span, message).help("use another name, or assign without `let`"),
            );
            return None;
        }
        let is_fixed = declared != Type::Unknown;
        let first = value.as_ref().map_or(Type::Unknown, |v| v.ty.clone());
        let var = self.declare(&name.text, if is_fixed { declared } else { first });
        if is_fixed {
            self.fix_type(var);
        }
        self.var_receives(var, unit);
        let Some(value) = value else { return Some(StmtKind::Clear(var)) };
        self.fits(&name.text, var, name.span, &value)?;
        Some(StmtKind::AssignVar(var, self.convert_to_var(value, var)))
    }

    fn assign_var(&mut self, name: &str, at: Span, op: Option<BinaryOp>, value: &Expr) -> Option<StmtKind> {
        let known = self.find_var(name);
        let unit = self.unit_of(value);
        let value = match (op, known) {
            (Some(op), Some(var)) => {
                let right = self.expr(value);
                // What was only declared is 0 of the other side's type.
                let ty = match self.var_type(var) {
                    Type::Unknown => right.ty.clone(),
                    known => known.clone(),
                };
                let left = typed::Expr { kind: typed::ExprKind::Var(var), ty, span: at };
                self.binary(op, left, right, at.to(value.span))
            }
            (Some(_), None) => {
                self.unknown_var(name, at);
                return None;
            }
            (None, _) => self.value_for(value),
        };
        let var = match known {
            None => self.declare(name, value.ty.clone()),
            Some(var) if self.is_fixed(var) => {
                self.fits(name, var, at, &value)?;
                var
            }
            Some(var) => {
                let old = self.var_type(var).clone();
                let Some(both) = unify(&old, &value.ty) else {
                    self.clash(&format!("${name}"), &old, at, &value.ty, value.span);
                    return None;
                };
                self.set_var_type(var, both);
                var
            }
        };
        self.var_receives(var, unit);
        Some(StmtKind::AssignVar(var, self.convert_to_var(value, var)))
    }

    /// The variable that is to receive values of a type; declared here when it is new.
    pub fn receive(&mut self, name: &str, ty: &Type, at: Span) -> Option<typed::VarIndex> {
        let Some(var) = self.find_var(name) else { return Some(self.declare(name, ty.clone())) };
        let old = self.var_type(var).clone();
        let Some(both) = unify(&old, ty) else {
            self.clash(&format!("${name}"), &old, at, ty, at);
            return None;
        };
        self.set_var_type(var, both);
        Some(var)
    }

    /// Whether a variable of a declared type can take a value; reports when not. Integers are cut to its width, as in C,
    /// but a constant must fit.
    fn fits(&mut self, name: &str, var: typed::VarIndex, at: Span, value: &typed::Expr) -> Option<()> {
        let declared = self.var_type(var).clone();
        if let (typed::ExprKind::Int(n), Type::Int(int)) = (&value.kind, &declared)
            && matches!(value.ty, Type::Int(_))
            && truncate(*n, *int) != *n
            && int.size_bytes < 8
        {
            let message = format!("{n} does not fit in `${name}`, which is {}", self.one(&declared));
            self.error(
                Diagnostic::error(Code(376), value.span, message)
                    .related(at, "declared with this type")
                    .help(format!("declare it wider, or cut the value with a cast: `({int}){n}`")),
            );
            return None;
        }
        let both = unify(&declared, &value.ty);
        let narrows = declared.as_int().is_some() && both.is_some();
        if narrows || both.as_ref() == Some(&declared) {
            return Some(());
        }
        self.clash(&format!("${name}"), &declared, at, &value.ty, value.span);
        None
    }

    fn convert_to_var(&self, value: typed::Expr, var: typed::VarIndex) -> typed::Expr {
        Self::convert(value, self.var_type(var))
    }

    fn assign_map(
        &mut self,
        name: &str,
        keys: &[Expr],
        target: &Expr,
        op: Option<BinaryOp>,
        value: &Expr,
    ) -> Option<StmtKind> {
        // The last expression of a block (mostly what a macro became) may be an aggregation too.
        if let ExprKind::Block(body, last) = &value.kind
            && let ExprKind::Call { name: word, .. } = &last.kind
            && self.env.catalogue.aggregation(&word.text).is_some()
        {
            return self.in_scope(body, |cx, mut body| {
                let kind = cx.assign_map(name, keys, target, op, last)?;
                body.push(typed::Stmt { kind, span: last.span });
                Some(StmtKind::Block(body))
            });
        }
        let map = self.env.maps.index(name);
        self.env.maps.get_mut(map).is_written = true;
        let key = self.map_key(map, keys, target.span);
        if let ExprKind::Call { name: word, args } = &value.kind
            && let Some(word) = self.env.catalogue.aggregation(&word.text)
        {
            if op.is_some() {
                let message = format!("`{}()` is assigned with `=`", word.name());
                let help = format!("write `{}`; it adds to what is there", word.doc().usage());
                self.error(Diagnostic::error(Code(317), target.span.to(value.span), message).help(help));
                return None;
            }
            if let Some(value) = args.first() {
                self.map_receives(map, value);
            }
            return self.aggregate(map, key, word, args, value.span);
        }
        self.map_receives(map, value);
        let value = self.value_for(value);
        let span = value.span;
        match op {
            None => {
                self.map_holds(map, &value.ty, span)?;
                let value = Self::convert(value, &self.plain_type(map));
                Some(StmtKind::AssignMap(map, key, value))
            }
            Some(op) => {
                if let Some(MapValue::Aggregate { word, .. }) = self.env.maps.get(map).value {
                    self.cannot_change(map, word, target.span);
                    return None;
                }
                // Nothing is said of the type yet, only that the map is a plain one.
                self.map_holds(map, &Type::Unknown, span)?;
                let ty = self.plain_type(map);
                if ty.as_int().is_none() && ty != Type::Unknown {
                    self.not_a_number(&format!("`{}`", self.env.maps.get(map).name), &ty, target.span);
                    return None;
                }
                if value.ty.as_int().is_none() && value.ty != Type::Unknown {
                    self.not_a_number("this", &value.ty, span);
                    return None;
                }
                let value = match (&ty, op) {
                    (Type::Pointer { .. }, BinaryOp::Add | BinaryOp::Sub) => self.elements_apart(&ty, value),
                    _ => value,
                };
                // What is computed is a number, even from a boolean, and is kept in 8 bytes.
                let counted = match (&value.ty, value.ty.as_int()) {
                    (Type::Bool | Type::Enum { .. }, Some(int)) => Type::Int(int),
                    _ => value.ty.clone(),
                };
                self.map_holds(map, &counted, span)?;
                let value = Self::convert(value, &self.plain_type(map));
                Some(StmtKind::UpdateMap(map, key, op, value))
            }
        }
    }

    fn aggregate(
        &mut self,
        map: MapIndex,
        key: Option<typed::Expr>,
        word: &'static dyn Aggregation,
        args: &[Expr],
        span: Span,
    ) -> Option<StmtKind> {
        let Some(used) = word.check(self, args, span) else {
            self.env.maps.get_mut(map).value.get_or_insert(MapValue::Plain(Type::Unknown));
            return None;
        };
        let info = self.env.maps.get_mut(map);
        match &mut info.value {
            Some(MapValue::Aggregate { word: known, params, signed })
                if known.name() == word.name() && *params == used.params =>
            {
                *signed |= used.signed;
            }
            Some(MapValue::Plain(Type::Unknown)) | None => {
                info.value = Some(MapValue::Aggregate { word, params: used.params, signed: used.signed });
                info.value_span = span;
                self.env.changed = true;
            }
            Some(other) => {
                let (other, name, first) = (other.clone(), info.name.clone(), info.value_span);
                let holds = match other {
                    MapValue::Plain(ty) => self.one(&ty),
                    MapValue::Aggregate { word: known, .. } if known.name() == word.name() => {
                        format!("`{}()` with other bounds", known.name())
                    }
                    MapValue::Aggregate { word: known, .. } => format!("`{}()`", known.name()),
                };
                let message = format!("`{name}` holds {holds}, so it cannot take `{}()`", word.name());
                self.error(
                    Diagnostic::error(Code(302), span, message)
                        .related(first, "first assigned here")
                        .help("use another map for it"),
                );
                return None;
            }
        }
        Some(StmtKind::Aggregate(map, key, used.args))
    }

    /// Reports `@x++` and `@x += n` on an aggregation.
    pub fn cannot_change(&mut self, map: MapIndex, word: &'static dyn Aggregation, span: Span) {
        let info = self.env.maps.get(map);
        let message = format!("`{}` holds `{}()`, so it cannot be changed like a number", info.name, word.name());
        let first = info.value_span;
        let help = format!("add to it with `{}`, or use another map", word.doc().usage());
        self.error(Diagnostic::error(Code(302), span, message).related(first, "first assigned here").help(help));
    }

    /// Records that a map is given values of a type; reports a clash.
    pub fn map_holds(&mut self, map: MapIndex, ty: &Type, span: Span) -> Option<()> {
        if self.env.maps.get(map).is_state() {
            return self.state_holds(map, ty, span);
        }
        let stored = match ty {
            // Integers are kept in 8 bytes, so that one atomic operation fits all of them.
            Type::Int(int) => Type::Int(Int { size_bytes: 8, signed: int.signed }),
            other => other.clone(),
        };
        if stored == Type::None {
            let message = "this has no value that a map could keep";
            self.error(Diagnostic::error(Code(318), span, message));
            return None;
        }
        let info = self.env.maps.get(map);
        let unified = match &info.value {
            None => Some(stored.clone()),
            Some(MapValue::Plain(known)) => unify(known, &stored),
            Some(MapValue::Aggregate { .. }) => None,
        };
        let Some(unified) = unified else {
            if let Some(MapValue::Plain(known)) = &info.value
                && let Some(diagnostic) = self.other_fields(map, known, ty, span)
            {
                self.error(diagnostic);
                return None;
            }
            let (name, first) = (info.name.clone(), info.value_span);
            let holds = match &info.value {
                Some(MapValue::Aggregate { word, .. }) => format!("`{}()`", word.name()),
                Some(MapValue::Plain(known)) => self.one(known),
                None => String::new(),
            };
            let message = format!("`{name}` holds {holds}, so it cannot take {}", self.one(ty));
            self.error(
                Diagnostic::error(Code(302), span, message)
                    .related(first, "first assigned here")
                    .help("use another map for it"),
            );
            return None;
        };
        let info = self.env.maps.get_mut(map);
        if info.value.is_none() {
            info.value_span = span;
        }
        if !matches!(&info.value, Some(MapValue::Plain(known)) if *known == unified) {
            info.value = Some(MapValue::Plain(unified));
            self.env.changed = true;
        }
        Some(())
    }

    /// The type of a plain map's values; unknown for others.
    pub fn plain_type(&self, map: MapIndex) -> Type {
        match &self.env.maps.get(map).value {
            Some(MapValue::Plain(ty)) => ty.clone(),
            _ => Type::Unknown,
        }
    }

    /// The value of an expression that is to be kept: literals of strings and integers get their type.
    pub fn value_for(&mut self, e: &Expr) -> typed::Expr {
        let checked = self.expr(e);
        if checked.ty == Type::None {
            return self.fail(Diagnostic::error(Code(318), e.span, "this has no value"));
        }
        self.keepable(checked)
    }

    /// A value that can be stored; reports what is too large or has no size.
    pub fn keepable(&mut self, mut value: typed::Expr) -> typed::Expr {
        if !matches!(value.ty, Type::Struct { .. } | Type::Array { .. } | Type::Tuple(_) | Type::Record(_)) {
            return value;
        }
        if let Some((_, _, space)) = Self::place(&value) {
            super::fields::retarget(&mut value.ty, space);
        }
        let size_bytes = layout::of(&value.ty, self.env.target.btf_if_needed(&value.ty)).size_bytes;
        let message = match (size_bytes, &value.ty) {
            (0, Type::Struct { .. }) => format!("nothing is known of what is in {}", self.one(&value.ty)),
            (0..=MAX_VALUE_BYTES, _) => return value,
            _ => format!("{} takes {size_bytes} bytes, and a value has {MAX_VALUE_BYTES} at most", self.one(&value.ty)),
        };
        let help = "take a part of it, or its address with `&`";
        self.fail(Diagnostic::error(Code(375), value.span, message).help(help))
    }

    fn clash(&mut self, what: &str, old: &Type, old_span: Span, new: &Type, new_span: Span) {
        let message = format!("`{what}` is {}, this is {}", self.one(old), self.one(new));
        self.error(
            Diagnostic::error(Code(301), new_span, message)
                .label(self.one(new))
                .related(old_span, self.one(old))
                .help("use another variable for it"),
        );
    }

    fn not_a_number(&mut self, what: &str, ty: &Type, span: Span) {
        let message = format!("{what} is {}, and this needs a number", self.one(ty));
        self.error(Diagnostic::error(Code(303), span, message));
    }
}
