//! Names, maps and their keys in expressions.
//!
//! In: names as written. Out: typed expressions.
//! Guarantee: an unknown name comes with the nearest known ones.

use crate::ast::{Expr, ExprKind, Ident};
use crate::check::{Body, header_constants, unify};
use crate::diagnostic::{Code, Diagnostic};
use crate::similar;
use crate::source::Span;
use crate::syscalls;
use crate::typed::{self, MapIndex, MapValue};
use crate::types::{Int, Type};
use crate::words::foreign;

impl Body<'_, '_> {
    /// A bare name.
    pub fn name(&mut self, name: &str, span: Span) -> typed::Expr {
        if let Some(value) = self.env.defines.get(name).cloned() {
            // A constant may refer to others, not to itself.
            let held = self.env.defines.remove(name);
            let mut checked = self.expr(&value);
            if let Some(held) = held {
                self.env.defines.insert(name.to_string(), held);
            }
            checked.span = span;
            return checked;
        }
        if let Some(refused) = self.refuse_of_thread(name, span) {
            return refused;
        }
        if let Some(word) = self.env.catalogue.builtin(name) {
            return word.check(self, span);
        }
        let constant = |value| typed::Expr { kind: typed::ExprKind::Int(value), ty: Type::I64, span };
        if let Some(value) = header_constants::header_constant(name) {
            return constant(value);
        }
        if let Some(number) =
            name.strip_prefix("__NR_").and_then(|call| syscalls::manual_number(self.env.target.arch(), call))
        {
            return constant(i64::from(number));
        }
        if let Some((id, number)) = self.env.target.btf().and_then(|btf| btf.find_enumerator(name)) {
            let int = self.env.target.btf().and_then(|btf| btf.to_type(id).as_int()).unwrap_or(Int::I32);
            return typed::Expr { kind: typed::ExprKind::Int(number), ty: Type::Enum { id, int }, span };
        }
        if let Some(value) = header_constants::enum_constant(name) {
            return constant(value);
        }
        self.unknown_name(name, span)
    }

    /// `args` as a whole: a record of all arguments.
    fn all_args(&mut self, span: Span) -> typed::Expr {
        let names: Vec<String> = self.seed.args.iter().map(|arg| arg.name.clone()).collect();
        if names.is_empty() {
            let message = "this probe has no `args`";
            return self.fail(Diagnostic::error(Code(377), span, message).help(self.seed.no_args));
        }
        let parts = names.iter().map(|name| self.arg(&Ident { text: name.clone(), span }, span)).collect();
        self.record(names, parts, span)
    }

    fn unknown_name(&mut self, name: &str, span: Span) -> typed::Expr {
        if name == "args" {
            return self.all_args(span);
        }
        let catalogue = self.env.catalogue;
        let mut diagnostic = Diagnostic::error(Code(201), span, format!("`{name}` is not known here"));
        let is_var = self.find_var(name).is_some();
        if let Some(diagnostic) = self.env.spans.named_alone(name, span) {
            return self.fail(diagnostic);
        }
        let is_map = self.env.maps.list.iter().any(|m| m.id == name);
        let functions = catalogue.functions.iter().map(|w| w.name());
        let known = catalogue.builtins.iter().map(|w| w.name()).chain(functions.clone());
        if is_var {
            diagnostic = diagnostic.help(format!("the variable is written `${name}`"));
        } else if is_map {
            diagnostic = diagnostic.help(format!("the map is written `@{name}`"));
        } else if catalogue.function(name).is_some() || catalogue.aggregation(name).is_some() {
            diagnostic = diagnostic.help(format!("it is a function: write `{name}(…)`"));
        } else if let Some(foreign) = foreign::name(name) {
            let message = format!("`{name}` is a word of {}", foreign.language);
            diagnostic = Diagnostic::error(Code(246), span, message).help(foreign.instead);
        } else if let Some(near) = similar::nearest(name, known, 1).first() {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        }
        self.fail(diagnostic)
    }

    /// `$x`.
    pub fn variable(&mut self, name: &str, span: Span) -> typed::Expr {
        match self.find_var(name) {
            Some(var) => typed::Expr { kind: typed::ExprKind::Var(var), ty: self.var_type(var).clone(), span },
            None => self.param(name, span).unwrap_or_else(|| self.unknown_var(name, span)),
        }
    }

    /// Reports a variable that nothing was assigned to.
    pub fn unknown_var(&mut self, name: &str, span: Span) -> typed::Expr {
        let mut diagnostic =
            Diagnostic::error(Code(202), span, format!("nothing was assigned to `${name}` before this"));
        let params = self.env.params.iter().map(|param| param.name.as_str());
        let near = similar::nearest(name, self.var_names().chain(params), 1);
        diagnostic = match near.first() {
            Some(near) => diagnostic.help(format!("did you mean `${near}`?")),
            None => diagnostic.help("variables live in one probe and in the braces they were first assigned in; a map `@x` is shared by all probes"),
        };
        self.fail(diagnostic)
    }

    /// The value of `@x` or `@x[k]`.
    pub fn map_value(&mut self, name: &str, keys: &[Expr], span: Span) -> typed::Expr {
        let map = self.env.maps.index(name);
        let key = self.map_key(map, keys, span).map(Box::new);
        let ty = match &self.env.maps.get(map).value {
            None => Type::Unknown,
            Some(MapValue::Plain(ty)) => ty.clone(),
            Some(MapValue::Aggregate { word, signed, .. }) if word.reading().is_some() => {
                Type::Int(Int { size_bytes: 8, signed: *signed })
            }
            Some(MapValue::Aggregate { word, .. }) => {
                let message = format!("the value of `{}()` cannot be read inside a probe", word.name());
                let help = "print it with `print(@x)`; count(), sum(), min(), max() and avg() can be read";
                return self.fail(Diagnostic::error(Code(392), span, message).help(help));
            }
        };
        typed::Expr { kind: typed::ExprKind::Map(map, key), ty, span }
    }

    /// Checks a map's key and records its type.
    pub fn map_key(&mut self, map: MapIndex, keys: &[Expr], span: Span) -> Option<typed::Expr> {
        if self.env.maps.get(map).is_state() {
            return self.state_key(map, keys, span);
        }
        let mut parts: Vec<typed::Expr> = keys.iter().map(|k| self.value_for(k)).collect();
        let key = match parts.len() {
            0 => None,
            1 => parts.pop(),
            _ => {
                let at = parts[0].span.to(parts[parts.len() - 1].span);
                Some(self.tuple(parts, at))
            }
        };
        let found = key.as_ref().map(|k| k.ty.clone());
        let unified = self.record_key(map, found.as_ref(), span)?;
        key.map(|key| Self::convert(key, &unified))
    }

    /// Records one more use of a map with this key type; yields the type of all uses, for keyed maps.
    fn record_key(&mut self, map: MapIndex, found: Option<&Type>, span: Span) -> Option<Type> {
        let info = self.env.maps.get(map);
        let unified = match (&info.key, found) {
            (None, None) => Some(None),
            (None, Some(ty)) => Some(Some(ty.clone())),
            (Some(None), None) => Some(None),
            (Some(Some(known)), Some(ty)) => unify(known, ty).map(Some),
            (Some(_), _) => None,
        };
        let Some(unified) = unified else {
            self.key_clash(map, found, span);
            return None;
        };
        let info = self.env.maps.get_mut(map);
        if info.key.is_none() {
            info.key_span = span;
        }
        if info.key.as_ref() != Some(&unified) {
            info.key = Some(unified.clone());
            self.env.changed = true;
        }
        unified
    }

    fn key_clash(&mut self, map: MapIndex, found: Option<&Type>, span: Span) {
        let info = self.env.maps.get(map);
        let words = |ty: Option<&Type>| match ty {
            None => "no key".to_string(),
            Some(Type::Tuple(parts)) => {
                let parts: Vec<String> = parts.iter().map(|p| self.describe(p)).collect();
                format!("the key [{}]", parts.join(", "))
            }
            Some(ty) => format!("the key [{}]", self.describe(ty)),
        };
        let known = info.key.clone().unwrap_or(None);
        let message = format!("`{}` has {}, here it has {}", info.name, words(known.as_ref()), words(found));
        let first = info.key_span;
        self.error(
            Diagnostic::error(Code(304), span, message)
                .related(first, "first used here")
                .help("a map has the same key everywhere; use another map for other keys"),
        );
    }

    /// The map that an argument names as a whole (`@x` without keys), for functions on maps.
    pub fn whole_map(&mut self, e: &Expr) -> Option<MapIndex> {
        match &e.kind {
            ExprKind::Map { name, keys } if keys.is_empty() => Some(self.env.maps.index(name)),
            _ => None,
        }
    }
}
