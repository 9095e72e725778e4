//! Options that a script declares with `getopt("name", default, "description")`.
//!
//! In: the script, and the values from the command line (`--name=value` after `--`). Out: the value
//! of each option.
//! Guarantee: an unknown name is a diagnostic that suggests the nearest known one.

use crate::ast::visit;
use crate::ast::{Expr, ExprKind, Script, UnaryOp};
use crate::check::{Options, Report};
use crate::diagnostic::{Code, Diagnostic};
use crate::params::{self, Param};
use crate::similar;
use crate::source::Span;

/// A parameter as the script declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    pub name: String,
    /// The value if the command line does not give one.
    pub default: Value,
    /// Its purpose, for the help text.
    pub description: String,
    /// The span of the call.
    pub span: Span,
}

/// A parameter's value; its type is that of the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A number of 2^63 or more.
    Uint(u64),
    /// A string.
    Str(Vec<u8>),
}

impl Value {
    /// The type's name in messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Bool(_) => "true or false",
            Value::Int(_) | Value::Uint(_) => "a number",
            Value::Str(_) => "a string",
        }
    }

    /// Parses a value of the same type from the command line; without text, a switch is on.
    pub fn parse_like(&self, text: Option<&str>) -> Option<Value> {
        match (self, text) {
            (Value::Bool(_), None | Some("1")) => Some(Value::Bool(true)),
            (Value::Bool(_), Some("0")) => Some(Value::Bool(false)),
            (Value::Bool(_), Some(word)) => word.to_ascii_lowercase().parse().ok().map(Value::Bool),
            (Value::Int(_) | Value::Uint(_), Some(text)) => parse_number(text),
            (Value::Str(_), Some(text)) => Some(Value::Str(text.as_bytes().to_vec())),
            _ => None,
        }
    }
}

/// Parses a number of the command line; one that fits only in unsigned 64 bits stays unsigned.
fn parse_number(text: &str) -> Option<Value> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let number = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse::<u64>().ok()?,
    };
    if negative { 0_i64.checked_sub_unsigned(number).map(Value::Int) } else { Some(number_of(number)) }
}

fn number_of(number: u64) -> Value {
    i64::try_from(number).map_or(Value::Uint(number), Value::Int)
}

/// Converts a literal to a parameter's default.
pub fn literal(expr: &Expr) -> Option<Value> {
    match &expr.kind {
        ExprKind::Bool(value) => Some(Value::Bool(*value)),
        ExprKind::Int(value) | ExprKind::Duration(value) => Some(number_of(*value)),
        ExprKind::Str(text) => Some(Value::Str(text.clone())),
        ExprKind::Unary(UnaryOp::Neg, inner) => match literal(inner)? {
            Value::Int(value) => Some(Value::Int(value.wrapping_neg())),
            Value::Uint(value) => Some(Value::Int(value.wrapping_neg() as i64)),
            _ => None,
        },
        _ => None,
    }
}

/// All parameters of a script in source order, without duplicates.
pub fn declared(script: &Script) -> Vec<Parameter> {
    let mut found: Vec<Parameter> = Vec::new();
    let mut visit = |expr: &Expr| {
        if let ExprKind::Call { name, args } = &expr.kind
            && name.text == "getopt"
            && let Some(parameter) = parameter(args, expr.span)
            && !found.iter().any(|known| known.name == parameter.name)
        {
            found.push(parameter);
        }
    };
    for block in &script.blocks {
        block.predicate.iter().for_each(|predicate| visit::walk_expr(predicate, &mut visit));
        visit::walk_stmts(&block.body, &mut visit);
    }
    for span in &script.spans {
        span.exprs().for_each(|e| visit::walk_expr(e, &mut visit));
    }
    found
}

fn parameter(args: &[Expr], span: Span) -> Option<Parameter> {
    let text = |arg: &Expr| match &arg.kind {
        ExprKind::Str(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    };
    let name = args.first().and_then(text)?;
    let default = args.get(1).map_or(Some(Value::Bool(false)), literal)?;
    Some(Parameter { name, default, description: args.get(2).and_then(text).unwrap_or_default(), span })
}

/// Reports options of the command line that the script does not declare.
pub fn check(script: &Script, options: &Options, params: &[Param], report: &mut Report) {
    if options.named.is_empty() {
        return;
    }
    let known = declared(script);
    for (name, _) in &options.named {
        if known.iter().any(|parameter| parameter.name == *name) || params::find(params, name).is_some() {
            continue;
        }
        let public = params.iter().filter(|param| param.is_public).map(|param| param.name.as_str());
        let names = public.chain(known.iter().map(|parameter| parameter.name.as_str()));
        let help = match similar::nearest(name, names.clone(), 1).first() {
            Some(near) => format!("did you mean `--{near}`?"),
            None if names.clone().next().is_none() => {
                "it takes none: `getopt(\"name\", default)` reads one, `param` declares one".into()
            }
            None => format!("it takes `--{}`", names.collect::<Vec<_>>().join("`, `--")),
        };
        let first = params.first().map(|param| param.span);
        let span = first.or(known.first().map(|parameter| parameter.span)).unwrap_or_default();
        report.push(Diagnostic::error(Code(216), span, format!("this script has no parameter `--{name}`")).help(help));
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn values_have_the_type_of_the_default() {
        assert_eq!(Value::Bool(false).parse_like(None), Some(Value::Bool(true)));
        assert_eq!(Value::Bool(true).parse_like(Some("false")), Some(Value::Bool(false)));
        assert_eq!(Value::Bool(true).parse_like(Some("maybe")), None);
        assert_eq!(Value::Int(0).parse_like(Some("-0x10")), Some(Value::Int(-16)));
        assert_eq!(Value::Int(0).parse_like(Some("18446744073709551615")), Some(Value::Uint(u64::MAX)));
        assert_eq!(Value::Int(0).parse_like(Some("-9223372036854775808")), Some(Value::Int(i64::MIN)));
        assert_eq!(Value::Int(0).parse_like(Some("-9223372036854775809")), None);
        assert_eq!(Value::Int(0).parse_like(None), None);
        assert_eq!(Value::Str(vec![]).parse_like(Some("7")), Some(Value::Str(b"7".to_vec())));
    }
}
