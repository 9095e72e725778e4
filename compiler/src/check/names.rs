//! Names, maps and map keys in expressions.
//!
//! In: names as written. Out: typed expressions.
//! Guarantee: the diagnostic for an unknown name suggests the nearest known ones.

use crate::ast::{Expr, ExprKind, Ident};
use crate::check::{Body, fields, header_constants, params, spans, states, tuples, unify};
use crate::diagnostic::{Code, Diagnostic};
use crate::foreign;
use crate::similar;
use crate::source::Span;
use crate::syscalls;
use crate::typed::{self, MapIndex, MapValue};
use crate::types::{Int, Type};

impl Body<'_, '_> {
    /// The map that an argument refers to as a whole (`@x` without keys).
    pub fn whole_map(&self, e: &Expr) -> Option<MapIndex> {
        match &e.kind {
            ExprKind::Map { name, keys } if keys.is_empty() => Some(self.env.maps.index(name)),
            _ => None,
        }
    }

    /// The map of a function whose only argument is one; anything else is reported.
    pub fn only_map(&mut self, word: &str, args: &[Expr], span: Span) -> Option<MapIndex> {
        if !self.arity(word, args.len(), 1..=1, span) {
            return None;
        }
        let map = self.whole_map(&args[0]);
        if map.is_none() {
            let message = format!("`{word}` takes a whole map");
            self.error(Diagnostic::error(Code(337), args[0].span, message).help(format!("write `{word}(@x)`")));
        }
        map
    }
}

/// Resolves a bare name.
pub(super) fn bare(cx: &mut Body<'_, '_>, name: &str, span: Span) -> typed::Expr {
    if let Some(value) = cx.env.defines.get(name).cloned() {
        // A constant may refer to other constants but not to itself.
        let held = cx.env.defines.remove(name);
        let mut checked = cx.expr(&value);
        if let Some(held) = held {
            cx.env.defines.insert(name.to_string(), held);
        }
        checked.span = span;
        return checked;
    }
    if let Some(refused) = spans::values::refuse_of_thread(cx, name, span) {
        return refused;
    }
    if let Some(word) = cx.env.catalogue.builtin(name) {
        return word.check(cx, span);
    }
    if let Some(word) = cx.env.catalogue.function(name).filter(|word| word.is_called_by_name()) {
        return word.check(cx, &[], span);
    }
    let constant = |value| typed::Expr { kind: typed::ExprKind::Int(value), ty: Type::I64, span };
    if let Some(value) = header_constants::header_constant(name) {
        return constant(value);
    }
    if let Some(number) =
        name.strip_prefix("__NR_").and_then(|call| syscalls::manual_number(cx.env.target.arch(), call))
    {
        return constant(i64::from(number));
    }
    if let Some((id, number)) = cx.env.target.btf().and_then(|btf| btf.find_enumerator(name)) {
        let int = cx.env.target.btf().and_then(|btf| btf.to_type(id).as_int()).unwrap_or(Int::I32);
        return typed::Expr { kind: typed::ExprKind::Int(number), ty: Type::Enum { id, int }, span };
    }
    if let Some(value) = header_constants::enum_constant(name) {
        return constant(value);
    }
    unknown_name(cx, name, span)
}

/// `args` as a whole: a record of all arguments.
fn all_args(cx: &mut Body<'_, '_>, span: Span) -> typed::Expr {
    let names: Vec<String> = cx.seed.args.iter().map(|arg| arg.name.clone()).collect();
    if names.is_empty() {
        let message = "this probe has no `args`";
        return cx.fail(Diagnostic::error(Code(377), span, message).help(fields::why_no_args(cx.seed)));
    }
    let parts = names.iter().map(|name| fields::arg(cx, &Ident { text: name.clone(), span }, span)).collect();
    tuples::record(cx, names, parts, span)
}

fn unknown_name(cx: &mut Body<'_, '_>, name: &str, span: Span) -> typed::Expr {
    if name == "args" {
        return all_args(cx, span);
    }
    let catalogue = cx.env.catalogue;
    let mut diagnostic = Diagnostic::error(Code(201), span, format!("`{name}` is not known here"));
    let is_var = cx.vars.find(name).is_some();
    if let Some(diagnostic) = cx.env.spans.named_alone(name, span) {
        return cx.fail(diagnostic);
    }
    let is_map = cx.env.maps.list.iter().any(|m| m.id == name);
    let functions = catalogue.functions.iter().map(|w| w.name());
    let known = catalogue.builtins.iter().map(|w| w.name()).chain(functions.clone());
    if is_var {
        diagnostic = diagnostic.help(format!("the variable is written `${name}`"));
    } else if is_map {
        diagnostic = diagnostic.help(format!("the map is written `@{name}`"));
    } else if catalogue.function(name).is_some() || catalogue.aggregation(name).is_some() {
        diagnostic = diagnostic.help(format!("it is a function: write `{name}(…)`"));
    } else if let Some(foreign) = foreign::name(name) {
        let message = format!("`{name}` is a name from {}", foreign.language);
        diagnostic = Diagnostic::error(Code(246), span, message).help(foreign.instead);
    } else if let Some(near) = similar::nearest(name, known, 1).first() {
        diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
    }
    cx.fail(diagnostic)
}

/// `$x`.
pub(super) fn variable(cx: &mut Body<'_, '_>, name: &str, span: Span) -> typed::Expr {
    if spans::walk::refuse_bare(cx, name, span) {
        return typed::Expr::poison(span);
    }
    match cx.vars.find(name) {
        Some(var) => typed::Expr { kind: typed::ExprKind::Var(var), ty: cx.vars.ty(var).clone(), span },
        None => params::value(cx, name, span).unwrap_or_else(|| unknown_var(cx, name, span)),
    }
}

/// Reports a variable that was never assigned.
pub(super) fn unknown_var(cx: &mut Body<'_, '_>, name: &str, span: Span) -> typed::Expr {
    let mut diagnostic = Diagnostic::error(Code(202), span, format!("nothing was assigned to `${name}` before this"));
    let params = cx.env.params.iter().map(|param| param.name.as_str());
    let near = similar::nearest(name, cx.vars.names().chain(params), 1);
    diagnostic = match near.first() {
        Some(near) => diagnostic.help(format!("did you mean `${near}`?")),
        None => diagnostic.help("variables live in one probe and in the braces they were first assigned in; a map `@x` is shared by all probes"),
    };
    cx.fail(diagnostic)
}

/// The value of `@x` or `@x[k]`.
pub(super) fn map_value(cx: &mut Body<'_, '_>, name: &str, keys: &[Expr], span: Span) -> typed::Expr {
    let map = cx.env.maps.index(name);
    let key = map_key(cx, map, keys, span).map(Box::new);
    let ty = match &cx.env.maps.get(map).value {
        None => Type::Unknown,
        Some(MapValue::Plain(ty)) => ty.clone(),
        Some(MapValue::Aggregate { word, signed, .. }) if cx.env.catalogue.aggregation_of(word).reading().is_some() => {
            Type::Int(Int { size_bytes: 8, signed: *signed })
        }
        Some(MapValue::Aggregate { word, .. }) => {
            let message = format!("the value of `{word}()` cannot be read inside a probe");
            let help = "print it with `print(@x)`; count(), sum(), min(), max() and avg() can be read";
            return cx.fail(Diagnostic::error(Code(392), span, message).help(help));
        }
    };
    typed::Expr { kind: typed::ExprKind::Map(map, key), ty, span }
}

/// Checks a map's key and records its type.
pub(super) fn map_key(cx: &mut Body<'_, '_>, map: MapIndex, keys: &[Expr], span: Span) -> Option<typed::Expr> {
    if cx.env.maps.get(map).is_state() {
        return states::key(cx, map, keys, span);
    }
    let mut parts: Vec<typed::Expr> = keys.iter().map(|k| cx.value_for(k)).collect();
    let key = match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => {
            let at = parts[0].span.to(parts[parts.len() - 1].span);
            Some(tuples::tuple(cx, parts, at))
        }
    };
    let found = key.as_ref().map(|k| k.ty.clone());
    let unified = record_key(cx, map, found.as_ref(), span)?;
    key.map(|key| typed::Expr::convert(key, &unified))
}

/// Records the key type of one more use of a map; returns the unified type if the map is keyed.
fn record_key(cx: &mut Body<'_, '_>, map: MapIndex, found: Option<&Type>, span: Span) -> Option<Type> {
    let info = cx.env.maps.get(map);
    let unified = match (&info.key, found) {
        (None, None) => Some(None),
        (None, Some(ty)) => Some(Some(ty.clone())),
        (Some(None), None) => Some(None),
        (Some(Some(known)), Some(ty)) => unify(known, ty).map(Some),
        (Some(_), _) => None,
    };
    let Some(unified) = unified else {
        key_clash(cx, map, found, span);
        return None;
    };
    let info = cx.env.maps.get_mut(map);
    if info.key.is_none() {
        info.key_span = span;
    }
    if info.key.as_ref() != Some(&unified) {
        info.key = Some(unified.clone());
        cx.env.changed = true;
    }
    unified
}

fn key_clash(cx: &mut Body<'_, '_>, map: MapIndex, found: Option<&Type>, span: Span) {
    let info = cx.env.maps.get(map);
    let words = |ty: Option<&Type>| match ty {
        None => "no key".to_string(),
        Some(Type::Tuple(parts)) => {
            let parts: Vec<String> = parts.iter().map(|p| cx.describe(p)).collect();
            format!("the key [{}]", parts.join(", "))
        }
        Some(ty) => format!("the key [{}]", cx.describe(ty)),
    };
    let known = info.key.clone().unwrap_or(None);
    let message = format!("`{}` has {}, here it has {}", info.name, words(known.as_ref()), words(found));
    let first = info.key_span;
    cx.error(
        Diagnostic::error(Code(304), span, message)
            .related(first, "first used here")
            .help("a map has the same key everywhere; use another map for other keys"),
    );
}
