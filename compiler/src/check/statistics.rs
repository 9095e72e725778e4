//! Statistics of a map entry: `p99(@x[k])`, `@x.mean`.
//!
//! In: an argument of a function that prints. Out: a read of the map, whose type contains the
//! statistic.
//! Guarantee: accepted only where the value goes to user space, which reads the map when it handles
//! the record.

use crate::ast::{Expr, ExprKind};
use crate::check::{Body, names};
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::typed::{self, MapValue};
use crate::types::Type;

/// Key size in bytes of an aggregation without a key.
const NO_KEY_BYTES: u32 = 8;

impl Body<'_, '_> {
    /// Checks an argument that is printed: a value, or a statistic of a map entry.
    pub fn printed(&mut self, e: &Expr) -> typed::Expr {
        match requested(self, e) {
            Some((statistic, map)) => read(self, map, statistic, e.span),
            None => self.value_for(e),
        }
    }
}

/// Reports a statistic where the program itself would need its value.
pub(super) fn refuse(cx: &mut Body<'_, '_>, e: &Expr) -> Option<typed::Expr> {
    let (statistic, _) = requested(cx, e)?;
    Some(cx.fail(only_printed(&statistic.to_string(), e.span)))
}

fn requested<'x>(cx: &Body<'_, '_>, e: &'x Expr) -> Option<(Statistic, &'x Expr)> {
    match &e.kind {
        ExprKind::Call { name, args } => {
            let statistic = cx.env.catalogue.function(&name.text)?.statistic(args)?;
            args.first().map(|map| (statistic, map))
        }
        ExprKind::Field(base, name) => {
            let ExprKind::Map { name: map, .. } = &base.kind else { return None };
            let info = cx.env.maps.get(cx.env.maps.index(map));
            matches!(info.value, Some(MapValue::Aggregate { .. })).then_some(())?;
            Some((Statistic::named(&name.text)?, base))
        }
        _ => None,
    }
}

fn read(cx: &mut Body<'_, '_>, e: &Expr, statistic: Statistic, span: Span) -> typed::Expr {
    let ExprKind::Map { name, keys } = &e.kind else {
        let message = format!("`{statistic}` takes a map that holds many values");
        return cx.fail(Diagnostic::error(Code(397), e.span, message).help("for example `p99(@latency[comm])`"));
    };
    let map = cx.env.maps.index(name);
    let word = match &cx.env.maps.get(map).value {
        Some(MapValue::Aggregate { word, .. }) => Some(cx.env.catalogue.aggregation_of(word)),
        Some(MapValue::Plain(ty)) if *ty != Type::Unknown => None,
        _ => return typed::Expr::poison(span),
    };
    if !word.is_some_and(|word| word.yields(statistic)) {
        let holds = word.map_or("values that are assigned".into(), |word| format!("`{}()`", word.name()));
        let message = format!("`{}` holds {holds}, which does not provide {statistic}", cx.env.maps.get(map).name);
        return cx.fail(Diagnostic::error(Code(397), e.span, message).help(format!("write `@{name} = dist(…)`")));
    }
    let key = names::map_key(cx, map, keys, e.span);
    let key_bytes = match &cx.env.maps.get(map).key {
        Some(Some(ty)) => layout::of(ty, cx.env.target.btf_if_needed(ty)).size_bytes.max(1),
        _ => NO_KEY_BYTES,
    };
    let ty = Type::Statistic { map: map.0, statistic, key_bytes };
    typed::Expr { kind: typed::ExprKind::Map(map, key.map(Box::new)), ty, span }
}

/// The diagnostic for a statistic in a place where nothing is printed.
pub fn only_printed(name: &str, span: Span) -> Diagnostic {
    let message = format!("`{name}` is known only where results are printed");
    Diagnostic::error(Code(395), span, message)
        .help("write it as an argument of `printf` or `print`, for example in an `interval` or `end` probe")
}
