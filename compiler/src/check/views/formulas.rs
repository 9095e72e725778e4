//! Computed columns and conditions of a view.
//!
//! In: expressions over a view's columns. Out: [`Formula`]s with the units of their numbers.
//! Guarantee: every operator has operands of types that it accepts, in compatible units.

use super::Reader;
use super::spelling::spell;
use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::check::params;
use crate::diagnostic::{Code, Diagnostic};
use crate::params::{Type as ParamType, Value as ParamValue};
use crate::similar;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::typed::MapValue;
use crate::types::Type;
use crate::units::{Mixed, Unit, combined};
use crate::view::{Column, Computed, Formula, LedgerCount, Measure, OR_COUNT, Quantity, Requirement, Source};

/// The type of an expression in a view.
enum ExprType {
    Number(Quantity),
    Text,
    Condition,
    /// Percentiles and maximum of a histogram: only the bound of a bucket is known.
    Bound,
    /// A stack, a symbol, an address and so on: it can only be shown.
    Other,
}

/// An expression with its type.
struct Read {
    formula: Formula,
    kind: ExprType,
    /// The value, if the expression is an integer literal.
    constant: Option<u64>,
}

impl Reader<'_> {
    /// Reads a column: a named or computed one.
    pub(super) fn value(&mut self, expr: &Expr) -> Result<Source, Diagnostic> {
        let read = self.read(expr)?;
        if let Formula::Source(source) = read.formula {
            return Ok(source);
        }
        let quantity = match read.kind {
            ExprType::Number(quantity) => Some(quantity),
            ExprType::Text | ExprType::Other => None,
            ExprType::Condition | ExprType::Bound => {
                let message = "a column is a number or a text, and this is a condition";
                return Err(Diagnostic::error(Code(271), expr.span, message)
                    .help("conditions filter rows: write it after `where`"));
            }
        };
        self.computed.push(Computed { formula: read.formula, quantity });
        Ok(Source::Computed { place: self.computed.len() - 1, is_number: quantity.is_some() })
    }

    /// Reads `where`: conditions on the view as a whole, and the condition that selects rows.
    pub(super) fn conditions(&mut self, columns: &[Column]) -> Result<(Vec<Requirement>, Option<Formula>), Diagnostic> {
        let (mut requires, mut filter) = (Vec::new(), None);
        let Some(written) = &self.written.filter else { return Ok((requires, filter)) };
        let mut parts = Vec::new();
        conjuncts(written, &mut parts);
        for part in parts {
            let read = self.read(part)?;
            let ExprType::Condition = read.kind else {
                let message = "`where` takes a condition";
                return Err(Diagnostic::error(Code(271), part.span, message)
                    .help("compare it: `where count > 10`, `where comm == \"cat\"`"));
            };
            let sources = read.formula.sources();
            if sources.is_empty() {
                requires.push(Requirement { formula: read.formula, text: spell(part) });
                continue;
            }
            self.is_of_row(&sources, columns, part.span, "filter")?;
            filter = Some(match filter {
                None => read.formula,
                Some(before) => Formula::Binary(BinaryOp::LogicalAnd, Box::new(before), Box::new(read.formula)),
            });
        }
        Ok((requires, filter))
    }

    fn read(&mut self, expr: &Expr) -> Result<Read, Diagnostic> {
        let number = |thousandths: i128, unit: Unit, constant: Option<u64>| Read {
            formula: Formula::Number { thousandths },
            kind: ExprType::Number(Quantity::Of(unit)),
            constant,
        };
        match &expr.kind {
            ExprKind::Int(n) => Ok(number(i128::from(*n) * 1000, Unit::None, Some(*n))),
            ExprKind::Duration(ns) => Ok(number(i128::from(*ns) * 1000, Unit::Duration, None)),
            ExprKind::Decimal { thousandths, .. } => Ok(number(i128::from(*thousandths), Unit::None, None)),
            ExprKind::Str(text) => {
                Ok(Read { formula: Formula::Text(text.clone()), kind: ExprType::Text, constant: None })
            }
            ExprKind::Var(name) => self.parameter(name, expr.span),
            ExprKind::Name(name) => {
                let name = crate::ast::Ident { text: name.clone(), span: expr.span };
                Ok(self.plain(self.source(None, &name, expr.span)?))
            }
            ExprKind::Field(base, name) if matches!(base.kind, ExprKind::Map { .. }) => {
                let ExprKind::Map { name: map, .. } = &base.kind else { return Err(not_here(expr.span)) };
                Ok(self.plain(self.source(Some((map, base.span)), name, expr.span)?))
            }
            ExprKind::Call { name, args } => self.call(&name.text, name.span, args, expr.span),
            ExprKind::Unary(op @ (UnaryOp::Neg | UnaryOp::Not), of) => {
                let inner = self.read(of)?;
                let (formula, wanted) = (Box::new(inner.formula), *op == UnaryOp::Not);
                match inner.kind {
                    kind @ ExprType::Number(_) if !wanted => {
                        Ok(Read { formula: Formula::Negate(formula), kind, constant: None })
                    }
                    kind @ ExprType::Condition if wanted => {
                        Ok(Read { formula: Formula::Not(formula), kind, constant: None })
                    }
                    kind => Err(unfit(&kind, if wanted { "a condition" } else { "a number" }, of.span)),
                }
            }
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, expr.span),
            _ => Err(not_here(expr.span)),
        }
    }

    /// A reference to a named column.
    fn plain(&self, source: Source) -> Read {
        let of_type = |ty: &Type, unit: Unit| match ty {
            Type::Int(_) => ExprType::Number(Quantity::Of(unit)),
            Type::Str { .. } => ExprType::Text,
            _ => ExprType::Other,
        };
        let kind = match source {
            Source::Key(part) if part >= self.map_parts() => ExprType::Text,
            Source::Key(part) => match &self.map(0).key {
                Some(Type::Tuple(parts)) => parts.get(part).map_or(ExprType::Other, |ty| of_type(ty, Unit::None)),
                Some(Type::Record(parts)) => parts.get(part).map_or(ExprType::Other, |(_, ty)| of_type(ty, Unit::None)),
                Some(ty) => of_type(ty, Unit::None),
                None => ExprType::Other,
            },
            Source::Measure { map, measure } => self.measured(map, measure),
            Source::Field { map, field, number } => of_type(&self.fields(map)[field].1, number.unwrap_or(Unit::None)),
            Source::Computed { place, .. } => match self.computed[place].quantity {
                Some(quantity) => ExprType::Number(quantity),
                None => ExprType::Text,
            },
        };
        Read { formula: Formula::Source(source), kind, constant: None }
    }

    fn measured(&self, place: usize, measure: Measure) -> ExprType {
        let map = self.map(place);
        let yields = |name: &str, word: &dyn crate::catalogue::Aggregation| {
            Statistic::named(name).is_some_and(|statistic| word.yields(statistic))
        };
        let (counts, buckets_only) = match &map.value {
            MapValue::Aggregate { word, .. } => {
                let word = self.catalogue.aggregation_of(word);
                (yields("count", word), yields("p50", word) && !yields("mean", word))
            }
            MapValue::Plain(_) => (false, false),
        };
        match (measure, &map.value) {
            (Measure::Value, MapValue::Plain(Type::Int(_))) => ExprType::Number(Quantity::Of(map.unit)),
            (Measure::Value, MapValue::Plain(Type::Str { .. })) => ExprType::Text,
            (Measure::Value, _) => ExprType::Other,
            (Measure::Statistic(statistic), _) if buckets_only && statistic != Statistic::Count => ExprType::Bound,
            (Measure::Statistic(statistic), _) => {
                ExprType::Number(Quantity::Of(if statistic.has_unit() { map.unit } else { Unit::None }))
            }
            (Measure::Rate, _) => ExprType::Number(Quantity::PerSecond(if counts { Unit::None } else { map.unit })),
            (Measure::Share | Measure::ShareError, _) => ExprType::Number(Quantity::Share),
        }
    }

    fn parameter(&mut self, name: &str, span: Span) -> Result<Read, Diagnostic> {
        let Some(index) = self.params.iter().position(|param| param.name == name) else {
            let help = match similar::nearest(name, self.params.iter().map(|param| param.name.as_str()), 1).first() {
                Some(near) => format!("did you mean `${near}`?"),
                None => format!("declare it: `param {name}: int = … \"what it is for\"`"),
            };
            let message = format!("there is no parameter `${name}`, and a view has no variables");
            return Err(Diagnostic::error(Code(250), span, message).help(help));
        };
        let param = &mut self.params[index];
        let unit = match param.ty {
            ParamType::Duration => Unit::Duration,
            ParamType::Bytes => Unit::Bytes,
            ParamType::Percent => Unit::Percent,
            _ => Unit::None,
        };
        let (is_number, is_text) = (
            matches!(
                param.ty,
                ParamType::Int | ParamType::Duration | ParamType::Bytes | ParamType::Percent | ParamType::Pid
            ),
            matches!(param.ty, ParamType::String | ParamType::Path),
        );
        if !is_number && !is_text {
            let message = format!("a view cannot compute with `${name}`, which is a {}", param.ty.name());
            return Err(Diagnostic::error(Code(271), span, message).related(param.span, "declared here"));
        }
        param.in_plan = true;
        let (formula, kind) = match &param.value {
            ParamValue::Text(text) => (Formula::Text(text.clone().into_bytes()), ExprType::Text),
            ParamValue::Number(number) => {
                (Formula::Number { thousandths: i128::from(*number) * 1000 }, ExprType::Number(Quantity::Of(unit)))
            }
            _ if is_text => (Formula::Text(Vec::new()), ExprType::Text),
            _ => (Formula::Number { thousandths: 0 }, ExprType::Number(Quantity::Of(unit))),
        };
        Ok(Read { formula, kind, constant: None })
    }

    fn call(&mut self, name: &str, at: Span, args: &[Expr], span: Span) -> Result<Read, Diagnostic> {
        if let Some(count) = LedgerCount::named(name) {
            return self.ledger(name, count, args, span);
        }
        if name == OR_COUNT {
            return self.or_count(args, span);
        }
        let Some(naming) = self.catalogue.function(name).and_then(|word| word.naming(self.target)) else {
            let known = self.catalogue.functions.iter().filter(|word| word.naming(self.target).is_some());
            let known: Vec<&str> =
                known.map(|word| word.name()).chain([OR_COUNT]).chain(LedgerCount::ALL.map(|(name, _)| name)).collect();
            let is_of_probes = self.catalogue.function(name).is_some();
            let message = if is_of_probes {
                format!("`{name}` runs in a probe only, not in a view")
            } else {
                format!("a view has no function `{name}`")
            };
            let help = match similar::nearest(name, known.iter().copied(), 1).first() {
                Some(near) if !is_of_probes => format!("did you mean `{near}`?"),
                _ => format!("a view has {}; compute anything else where the map is filled", known.join(", ")),
            };
            return Err(Diagnostic::error(Code(272), at, message).help(help));
        };
        let [arg] = args else {
            let message = format!("`{name}` takes one number in a view");
            return Err(Diagnostic::error(Code(272), span, message).help(format!("for example: `{name}(key)`")));
        };
        let of = self.read(arg)?;
        // `ksym` takes addresses, which have kind `Other`.
        if !matches!(of.kind, ExprType::Number(_) | ExprType::Other) {
            return Err(unfit(&of.kind, "a number", arg.span));
        }
        Ok(Read { formula: Formula::Named(naming, Box::new(of.formula)), kind: ExprType::Text, constant: None })
    }

    /// `or_count(PART)`; with a parameter that is true after it, the part itself.
    fn or_count(&mut self, args: &[Expr], span: Span) -> Result<Read, Diagnostic> {
        let wrong = || {
            let message = format!("`{OR_COUNT}` takes a part of the key, and a parameter that keeps its values apart");
            Diagnostic::error(Code(272), span, message).help(format!("for example: `{OR_COUNT}(pid, $by_pid)`"))
        };
        let (part, switch) = match args {
            [part] => (part, None),
            [part, switch] => (part, Some(switch)),
            _ => return Err(wrong()),
        };
        let read = self.read(part)?;
        let Formula::Source(Source::Key(place)) = read.formula else { return Err(wrong()) };
        if place >= self.map_parts() {
            return Err(wrong());
        }
        let is_apart = match switch {
            None => false,
            Some(switch) if matches!(switch.kind, ExprKind::Var(_)) => {
                let value = params::in_clause(switch, (OR_COUNT, ParamType::Bool), self.params)?;
                value.is_some_and(|(value, _)| !matches!(value.kind, ExprKind::Int(0)))
            }
            Some(_) => return Err(wrong()),
        };
        if is_apart {
            return Ok(read);
        }
        Ok(Read { formula: Formula::OneOrCount(place), kind: ExprType::Other, constant: None })
    }

    fn ledger(&self, name: &str, count: LedgerCount, args: &[Expr], span: Span) -> Result<Read, Diagnostic> {
        let wanted = match args {
            [Expr { kind: ExprKind::Name(wanted), .. }] => wanted.as_str(),
            _ => "",
        };
        let names = || self.spans.iter().map(|span| span.name.as_str());
        let Some(index) = names().position(|known| known == wanted) else {
            let help = match similar::nearest(wanted, names(), 1).first() {
                Some(near) => format!("did you mean `{near}`?"),
                None if self.spans.is_empty() => "this script has no span".to_owned(),
                None => format!("the spans of this script: {}", names().collect::<Vec<_>>().join(", ")),
            };
            let message = format!("`{name}` takes the name of a span");
            let at = args.first().map_or(span, |arg| arg.span);
            return Err(Diagnostic::error(Code(241), at, message).help(help));
        };
        let kind = ExprType::Number(Quantity::Of(Unit::None));
        Ok(Read { formula: Formula::Ledger { span: index, count }, kind, constant: None })
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span) -> Result<Read, Diagnostic> {
        use BinaryOp as Op;
        let (a, b) = (self.read(left)?, self.read(right)?);
        let made = |formula: Formula, kind: ExprType| Ok(Read { formula, kind, constant: None });
        let is_logical = matches!(op, Op::LogicalAnd | Op::LogicalOr);
        let compares =
            matches!(op, Op::Equal | Op::NotEqual | Op::Less | Op::Greater | Op::LessEqual | Op::GreaterEqual);
        let (x, y) = match (&a.kind, &b.kind) {
            (ExprType::Number(x), ExprType::Number(y)) if !is_logical => (*x, *y),
            (ExprType::Condition, ExprType::Condition) if is_logical => {
                return made(Formula::Binary(op, Box::new(a.formula), Box::new(b.formula)), ExprType::Condition);
            }
            (ExprType::Text, ExprType::Text) if matches!(op, Op::Equal | Op::NotEqual) => {
                return made(Formula::Binary(op, Box::new(a.formula), Box::new(b.formula)), ExprType::Condition);
            }
            (first, second) => {
                let fits = |kind: &ExprType| match kind {
                    ExprType::Condition => is_logical,
                    ExprType::Number(_) => !is_logical,
                    ExprType::Text => {
                        matches!(op, Op::Equal | Op::NotEqual)
                            && matches!((first, second), (ExprType::Text, ExprType::Text))
                    }
                    ExprType::Bound | ExprType::Other => false,
                };
                let wanted = if is_logical { "a condition" } else { "a number" };
                let (bad, at) = if fits(first) { (second, right.span) } else { (first, left.span) };
                return Err(unfit(bad, wanted, at));
            }
        };
        let (quantity, is_rate) = quantity(op, (x, a.constant), (y, b.constant)).map_err(|Mixed(..)| {
            let (first, second) = (noun(x), noun(y));
            Diagnostic::error(Code(393), span, format!("`{}` mixes {first} and {second}", op.symbol()))
                .related(left.span, first)
                .related(right.span, second)
                .help("a number without a unit matches any unit")
        })?;
        let (a, b) = (Box::new(a.formula), Box::new(b.formula));
        if is_rate {
            return made(Formula::PerSecond(a, b), ExprType::Number(quantity));
        }
        made(Formula::Binary(op, a, b), if compares { ExprType::Condition } else { ExprType::Number(quantity) })
    }
}

/// The unit of `a op b`, and whether the division yields an amount per second.
fn quantity(
    op: BinaryOp,
    (a, a_value): (Quantity, Option<u64>),
    (b, b_value): (Quantity, Option<u64>),
) -> Result<(Quantity, bool), Mixed> {
    let parts = |quantity: Quantity| match quantity {
        Quantity::Of(unit) => (unit, false),
        Quantity::PerSecond(unit) => (unit, true),
        Quantity::Share => (Unit::Percent, false),
    };
    let ((x, x_rate), (y, y_rate)) = (parts(a), parts(b));
    let unit = combined(op, (x, a_value), (y, b_value))?;
    if op == BinaryOp::Div && !x_rate && b == Quantity::Of(Unit::Duration) {
        // A share, a point in time or a duration per second makes no sense.
        let is_amount = matches!(x, Unit::None | Unit::Bytes | Unit::Sectors);
        return Ok(if is_amount { (Quantity::PerSecond(x), true) } else { (Quantity::Of(unit), false) });
    }
    let is_bare = |quantity: Quantity| quantity == Quantity::Of(Unit::None);
    let is_rate = match op {
        BinaryOp::Mul => x_rate != y_rate && (is_bare(a) || is_bare(b)),
        BinaryOp::Div => x_rate && is_bare(b),
        _ => x_rate || y_rate,
    };
    if is_rate && x_rate != y_rate && !is_bare(a) && !is_bare(b) {
        return Err(Mixed(x, y));
    }
    Ok((if is_rate { Quantity::PerSecond(unit) } else { Quantity::Of(unit) }, false))
}

fn noun(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Of(unit) => unit.noun(),
        Quantity::PerSecond(_) => "a rate",
        Quantity::Share => "a share",
    }
}

/// Splits a condition at its `&&` operators.
fn conjuncts<'a>(expr: &'a Expr, out: &mut Vec<&'a Expr>) {
    match &expr.kind {
        ExprKind::Binary(BinaryOp::LogicalAnd, left, right) => {
            conjuncts(left, out);
            conjuncts(right, out);
        }
        _ => out.push(expr),
    }
}

fn not_here(span: Span) -> Diagnostic {
    Diagnostic::error(Code(271), span, "a view cannot compute this").help(
        "it has columns, numbers, strings, parameters, `+ - * /`, comparisons, `&& || !` and functions of a number",
    )
}

fn unfit(kind: &ExprType, wanted: &str, span: Span) -> Diagnostic {
    let (is, help) = match kind {
        ExprType::Number(_) => ("a number", "compare it with another: `count > 10`"),
        ExprType::Condition => ("a condition", "conditions are joined by `&&` and `||`, and belong behind `where`"),
        ExprType::Text => ("a text", "compare text only with text, by `==` and `!=`"),
        ExprType::Bound => ("only the end of a bucket", "use `dist` in place of the histogram: it has numbers"),
        ExprType::Other => ("neither number nor text", "it can be shown as it is"),
    };
    Diagnostic::error(Code(271), span, format!("{wanted} is needed here, and this is {is}")).help(help)
}
