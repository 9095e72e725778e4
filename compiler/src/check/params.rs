//! `param`: typed parameters, read as `$name`.
//!
//! In: their declarations and the command line. Out: [`Param`]s with values, and the expressions
//! that use them.
//! Guarantee: without an error, every parameter has a value of its type and within its range.

use crate::ast::{self, BinaryOp, Expr, ExprKind, ParamValue, Script, Stmt, UnaryOp};
use crate::check::{Body, Options, Points, Report};
use crate::diagnostic::{Code, Diagnostic};
use crate::params::pattern::MOST_TEXT_BYTES;
use crate::params::{self, Param, Type as ParamType, Value, Written};
use crate::similar;
use crate::source::Span;
use crate::target::{Target, TargetIds};
use crate::typed;
use crate::types::Type;
use crate::units::Unit;

/// The parameters that a script declares, with their defaults, and the diagnostics.
pub fn declared_params(script: &Script, target: &dyn Target) -> (Vec<Param>, Vec<Diagnostic>) {
    let mut report = Report::default();
    let params = read_all(script, target, &mut report);
    (params, report.finish())
}

/// These parameters with the values of the command line.
pub fn with_values(mut params: Vec<Param>, options: &Options, target: &dyn Target) -> (Vec<Param>, Vec<Diagnostic>) {
    let mut report = Report::default();
    set_values(&mut params, options, target, &mut report);
    (params, report.finish())
}

/// Reads the declarations and sets the values.
pub(super) fn declare(script: &Script, options: &Options, target: &dyn Target, report: &mut Report) -> Vec<Param> {
    let mut params = read_all(script, target, report);
    set_values(&mut params, options, target, report);
    params
}

fn read_all(script: &Script, target: &dyn Target, report: &mut Report) -> Vec<Param> {
    let mut params: Vec<Param> = Vec::new();
    for declared in &script.params {
        let name = &declared.name;
        if let Some(first) = params.iter().find(|param| param.name == name.text) {
            let message = format!("there is a parameter `{}` already", name.text);
            report.push(Diagnostic::error(Code(224), name.span, message).related(first.span, "the first one is here"));
            continue;
        }
        match read(declared, target) {
            Ok(param) => params.push(param),
            Err(problem) => report.push(problem),
        }
    }
    params
}

fn read(declared: &ast::Param, target: &dyn Target) -> Result<Param, Diagnostic> {
    let wrong = |span: Span, message: String| Diagnostic::error(Code(357), span, message);
    let Some(ty) = ParamType::named(&declared.ty.text) else {
        let help = match similar::nearest(&declared.ty.text, ParamType::names(), 1).first() {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the types are {}", ParamType::names().collect::<Vec<_>>().join(", ")),
        };
        return Err(wrong(declared.ty.span, format!("there is no parameter type `{}`", declared.ty.text)).help(help));
    };
    let mut param = Param::new(declared.name.text.clone(), ty, declared.name.span);
    param.help.clone_from(&declared.help.text);
    // A script cannot write the quote character, which marks names private to a module.
    param.is_public = !param.name.contains('\'');
    let value = |param: &Param, values: &[ParamValue]| {
        let written: Vec<Written> = values.iter().map(written).collect();
        let span = values.first().map_or(param.span, |value| value.span);
        param.read(&written, &TargetIds(target)).map_err(|message| wrong(span, message))
    };
    if let Some((low, high)) = &declared.range {
        let bound = |end: &ParamValue| match value(&param, std::slice::from_ref(end))? {
            Value::Number(number) if ty.is_number() => Ok(number),
            _ => Err(wrong(end.span, format!("a {} has no range", ty.name()))
                .help("int, duration, bytes and percent may have one")),
        };
        let range = (bound(low)?, bound(high)?);
        if range.0 > range.1 {
            return Err(wrong(low.span.to(high.span), "this range is empty: write its smallest value first".into()));
        }
        param.range = Some(range);
    }
    if !declared.default.is_empty() {
        let is_any = matches!(declared.default.as_slice(), [one] if one.text == "any" && !one.quoted);
        if is_any && !ty.has_any() {
            let message = format!("`any` is not a value of type {}", ty.name());
            return Err(wrong(declared.default[0].span, message).help(
                "a pid, cgroup, user, string, path, glob or regex is compared, and can be `any`; a number needs a value",
            ));
        }
        param.default = Some(value(&param, &declared.default)?);
    }
    Ok(param)
}

fn written(value: &ParamValue) -> Written {
    Written { text: value.text.clone(), quoted: value.quoted }
}

/// Sets the values: from the command line, else from the default.
fn set_values(params: &mut [Param], options: &Options, target: &dyn Target, report: &mut Report) {
    let known = params.to_vec();
    for param in params {
        let means = |name: &str| params::find(&known, name).is_some_and(|found| found.name == param.name);
        let typed: Vec<&(String, Option<String>)> = options.named.iter().filter(|(name, _)| means(name)).collect();
        // A parameter of a module can be given by the end of its name alone.
        let option = format!("--{}", typed.first().map_or(&param.name, |(name, _)| name).replace('_', "-"));
        let given: Vec<&Option<String>> = typed.into_iter().map(|(_, text)| text).collect();
        if given.iter().any(|text| text.is_none()) && param.ty != ParamType::Bool {
            let message = format!("`{option}` needs a value");
            report.push(Diagnostic::error(Code(358), param.span, message).help(format!("write `{option} VALUE`")));
            continue;
        }
        let written = |text: &Option<String>| Written::on_command_line(param.ty, text.as_deref().unwrap_or("true"));
        let given: Vec<Written> = given.into_iter().map(written).collect();
        if given.is_empty() {
            match (&param.default, param.is_public) {
                (Some(default), _) => param.value = default.clone(),
                (None, true) => {
                    let message = format!("`{option}` is not given, and has no default");
                    let help = format!("it is {}: \"{}\"", described(param), param.help);
                    report.push(Diagnostic::error(Code(225), param.span, message).help(help));
                }
                (None, false) => {
                    let message = "a parameter that a module keeps to itself needs a default";
                    report
                        .push(Diagnostic::error(Code(225), param.span, message).help("or make it public: `pub param`"));
                }
            }
            continue;
        }
        // The diagnostic refers to the parameter by its option name.
        match (Param { name: option, ..param.clone() }).read(&given, &TargetIds(target)) {
            Ok(value) => param.value = value,
            Err(message) => {
                let mut problem = Diagnostic::error(Code(358), param.span, message);
                if !param.help.is_empty() {
                    problem = problem.label(param.help.clone());
                }
                report.push(problem);
            }
        }
    }
}

/// Resolves the argument of a clause that must be known before the run: a parameter of the wanted
/// type becomes its value, with its index; any other expression is unchanged. Returns `None` if the
/// parameter has no value, which was reported already.
pub(super) fn in_clause(
    written: &Expr,
    (clause, wanted): (&str, ParamType),
    params: &mut [Param],
) -> Result<Option<(Expr, Option<usize>)>, Diagnostic> {
    let ExprKind::Var(name) = &written.kind else { return Ok(Some((written.clone(), None))) };
    let Some(index) = params.iter().position(|param| param.name == *name) else {
        let help = match similar::nearest(name, params.iter().map(|param| param.name.as_str()), 1).first() {
            Some(near) => format!("did you mean `${near}`?"),
            None => format!("declare it: `param {name}: {} = … \"what it is for\"`", wanted.name()),
        };
        let message = format!("there is no parameter `${name}`, and `{clause}` takes no other name with a `$`");
        return Err(Diagnostic::error(Code(250), written.span, message).help(help));
    };
    let param = &mut params[index];
    if param.ty != wanted {
        let article = |ty: ParamType| if ty == ParamType::Int { "an int".into() } else { format!("a {}", ty.name()) };
        let message = format!("`{clause}` takes {}, and `${name}` is {}", article(wanted), article(param.ty));
        let help = format!("declare it as one: `param {name}: {} = …`", wanted.name());
        return Err(Diagnostic::error(Code(367), written.span, message)
            .related(param.span, "declared here")
            .help(help));
    }
    param.in_plan = true;
    let Value::Number(number) = param.value else { return Ok(None) };
    let number = number as u64;
    let kind = if wanted == ParamType::Duration { ExprKind::Duration(number) } else { ExprKind::Int(number) };
    Ok(Some((Expr { kind, span: written.span }, Some(index))))
}

/// Adds to a diagnostic about a clause that the value comes from a parameter.
pub(super) fn blame(problem: Diagnostic, param: Option<&Param>) -> Diagnostic {
    let Some(param) = param else { return problem };
    let words = format!("`${}` is {}", param.name, param.shown(&param.value));
    problem
        .related(param.span, words)
        .help("give another value; a range (`in LOW..HIGH`) after the declaration rejects such values")
}

/// Describes type and range for a message.
fn described(param: &Param) -> String {
    let article = if param.ty == ParamType::Int { "an" } else { "a" };
    match param.shown_range() {
        range if range.is_empty() => format!("{article} {}", param.ty.name()),
        range => format!("{article} {} in {range}", param.ty.name()),
    }
}

/// Reports patterns that programs match with and whose tables are too large.
pub(super) fn check_patterns(params: &[Param], report: &mut Report) {
    for param in params.iter().filter(|param| param.place.is_some()) {
        if let Some(message) = param.too_large(&param.value) {
            report.push(Diagnostic::error(Code(368), param.span, message).help(
                "ask for less: shorter counted repetitions, fewer alternatives, or an anchor (`^`) at the start",
            ));
        }
    }
}

fn find(cx: &Body<'_, '_>, name: &str) -> Option<usize> {
    cx.env.params.iter().position(|param| param.name == name)
}

/// The value of a parameter; `None` if there is none of this name.
pub(super) fn value(cx: &mut Body<'_, '_>, name: &str, span: Span) -> Option<typed::Expr> {
    let index = find(cx, name)?;
    let param = &mut cx.env.params[index];
    let ty = match param.ty {
        ParamType::Int => Type::I64,
        ParamType::Duration | ParamType::Bytes | ParamType::Percent => Type::U64,
        ParamType::Bool => Type::Bool,
        ParamType::String | ParamType::Path => Type::Str { capacity_bytes: param.ty.capacity_bytes() },
        ParamType::Pid | ParamType::Cgroup | ParamType::User | ParamType::Regex | ParamType::Glob => {
            let problem = unfit(param, span);
            return Some(cx.fail(problem));
        }
    };
    param.is_read();
    Some(typed::Expr { kind: typed::ExprKind::Param(index), ty, span })
}

/// The unit of a parameter's values.
pub(super) fn unit(cx: &Body<'_, '_>, name: &str) -> Unit {
    find(cx, name).map_or(Unit::None, |index| match cx.env.params[index].ty {
        ParamType::Duration => Unit::Duration,
        ParamType::Bytes => Unit::Bytes,
        ParamType::Percent => Unit::Percent,
        _ => Unit::None,
    })
}

/// Type-checks a comparison with a parameter that may have several values or `any`.
pub(super) fn compare(cx: &mut Body<'_, '_>, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> Option<typed::Expr> {
    let named = |e: &Expr| match &e.kind {
        ExprKind::Var(name) => find(cx, name).filter(|at| cx.env.params[*at].ty.has_any()),
        _ => None,
    };
    let (index, place, other) = match (named(b), named(a)) {
        (Some(index), _) => (index, b.span, a),
        (None, Some(index)) => (index, a.span, b),
        (None, None) => return None,
    };
    let param = &cx.env.params[index];
    let fits = matches!(op, BinaryOp::Equal | BinaryOp::NotEqual);
    if !fits {
        let problem = unfit(param, place);
        return Some(cx.fail(problem));
    }
    let is_set = param.ty.is_set();
    let value = cx.expr(other);
    if value.ty == Type::Unknown {
        return Some(value);
    }
    let param = &mut cx.env.params[index];
    param.is_read();
    let is_comparable = (is_set && value.ty.as_int().is_some()) || (!is_set && matches!(value.ty, Type::Str { .. }));
    if !is_comparable {
        let problem = unfit(param, span).label(format!("compared with {}", cx.one(&value.ty)));
        return Some(cx.fail(problem));
    }
    if let Some(problem) = cannot_match(param, &value) {
        return Some(cx.fail(problem));
    }
    let value = if is_set { typed::Expr::convert(value, &Type::U64) } else { value };
    let kind = typed::ExprKind::Matches(Box::new(value), index);
    let matches = typed::Expr { kind, ty: Type::Bool, span };
    if op == BinaryOp::Equal {
        return Some(matches);
    }
    Some(typed::Expr { kind: typed::ExprKind::Unary(UnaryOp::Not, Box::new(matches)), ty: Type::Bool, span })
}

/// Whether a statement assigns to a parameter's name, which is reported.
pub(super) fn is_binding(cx: &mut Body<'_, '_>, stmt: &Stmt) -> bool {
    stmt.kind.bound_variable().is_some_and(|(name, span)| refuse_assignment(cx, name, span))
}

/// Whether a name that is to be assigned is a parameter's, which is reported.
pub(super) fn refuse_assignment(cx: &mut Body<'_, '_>, name: &str, span: Span) -> bool {
    let Some(param) = find(cx, name).map(|index| &cx.env.params[index]) else { return false };
    let message = format!("`${name}` is a parameter: it has one value for the whole run");
    let problem = Diagnostic::error(Code(229), span, message)
        .related(param.span, "declared here")
        .help("give the variable another name");
    cx.error(problem);
    true
}

/// The diagnostic for a string that is too long to match with a pattern.
fn cannot_match(param: &Param, value: &typed::Expr) -> Option<Diagnostic> {
    if !param.ty.is_pattern() {
        return None;
    }
    let Type::Str { capacity_bytes } = value.ty else { return None };
    (capacity_bytes > MOST_TEXT_BYTES).then(|| {
        let message = format!(
            "strings of at most {MOST_TEXT_BYTES} bytes are compared with a {}, this can hold {capacity_bytes}",
            param.ty.name()
        );
        let help = format!("read less of it: `str(pointer, {MOST_TEXT_BYTES})`");
        Diagnostic::error(Code(387), value.span, message).help(help)
    })
}

/// The diagnostic for a use that the parameter's type does not allow.
fn unfit(param: &Param, span: Span) -> Diagnostic {
    let name = &param.name;
    let (message, help) = match param.ty {
        ParamType::Pid => (
            format!("`${name}` matches processes, one or several or any: it can only be compared with one"),
            format!("write `pid == ${name}`"),
        ),
        ParamType::Cgroup => (
            format!("`${name}` matches control groups, one or several or any: it can only be compared with one"),
            format!("write `cgroup == ${name}`"),
        ),
        ParamType::User => (
            format!("`${name}` matches users, one or several or any: it can only be compared with one"),
            format!("write `uid == ${name}`"),
        ),
        ParamType::Regex | ParamType::Glob => (
            format!(
                "`${name}` is a {}: strings are compared with it by `==` and `!=`, and it chooses among names of probes",
                param.ty.name()
            ),
            format!("write `comm == ${name}`, or a probe such as `kprobe:${name}`"),
        ),
        _ => (
            format!("`${name}` is a {}: it is compared with strings by `==` and `!=`", param.ty.name()),
            format!("write `comm == ${name}`"),
        ),
    };
    Diagnostic::error(Code(359), span, message).help(help)
}

impl Points<'_, '_> {
    /// Message and help for a `$` in a probe that no parameter follows.
    pub(super) fn unknown_param(&self, rest: &str) -> (String, String) {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = &rest[..end];
        if name.is_empty() {
            let help = "parameters are $1, $2, …, and those that the script declares with `param`";
            return ("`$` must be followed by a number or a name".into(), help.into());
        }
        let help = match similar::nearest(name, self.env.params.iter().map(|param| param.name.as_str()), 1).first() {
            Some(near) => format!("did you mean `${near}`?"),
            None => format!("declare it: `param {name}: string \"what it is for\"`"),
        };
        (format!("there is no parameter `${name}`"), help)
    }

    /// The value of the parameter at the start of `rest`, and the length of its name; `None` if an
    /// error was reported.
    #[expect(clippy::option_option, reason = "refused, and no parameter")]
    pub(super) fn param_in_target(&mut self, rest: &str, span: Span) -> Option<Option<(String, usize)>> {
        let ends = |name: &str| !rest[name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let named = self.env.params.iter_mut().filter(|param| rest.starts_with(&param.name) && ends(&param.name));
        let Some(param) = named.max_by_key(|param| param.name.len()) else { return Some(None) };
        param.in_plan = true;
        // A missing value was reported already.
        if param.default.is_none() && param.value == Value::Any && self.env.report.has_errors() {
            return None;
        }
        if let Some(text) = param.as_part() {
            return Some(Some((text, param.name.len())));
        }
        if param.ty == ParamType::Regex {
            let message = format!(
                "`${}` is {}, and a regex in the name of a probe has literal characters, `.*`, and `^` or `$` at its ends",
                param.name,
                param.shown(&param.value)
            );
            let help = "use several probes, or a parameter of type `glob`; in comparisons a regex has no such limit";
            self.error(Diagnostic::error(Code(359), span, message).help(help));
            return None;
        }
        let message =
            format!("`${}` is several ({}), and a probe's name takes one", param.name, param.shown(&param.value));
        self.error(Diagnostic::error(Code(359), span, message).help("give one, or `any`, which matches every name"));
        None
    }
}
