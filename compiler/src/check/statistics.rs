//! Statistics of a map's entry: `p99(@x[k])`, `@x.mean`.
//!
//! In: an argument of a word that prints. Out: a read of the map whose type says what is wanted of it.
//! Guarantee: stands only where the value goes to user space, which reads the map when it handles the record.

use crate::ast::{Expr, ExprKind};
use crate::check::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::typed::{self, MapValue};
use crate::types::Type;

/// What tells an entry of an aggregation apart, where it has no key.
const NO_KEY_BYTES: u32 = 8;

impl Body<'_, '_> {
    /// An argument that is printed: a value, or a statistic of a map's entry.
    pub fn printed(&mut self, e: &Expr) -> typed::Expr {
        match self.asked(e) {
            Some((statistic, map)) => self.statistic_of(map, statistic, e.span),
            None => self.value_for(e),
        }
    }

    /// Reports a statistic where its value would be needed inside the program.
    pub fn statistic_elsewhere(&mut self, e: &Expr) -> Option<typed::Expr> {
        let (statistic, _) = self.asked(e)?;
        Some(self.fail(only_printed(&statistic.to_string(), e.span)))
    }

    fn asked<'x>(&self, e: &'x Expr) -> Option<(Statistic, &'x Expr)> {
        match &e.kind {
            ExprKind::Call { name, args } => {
                let statistic = self.env.catalogue.function(&name.text)?.statistic(args)?;
                args.first().map(|map| (statistic, map))
            }
            ExprKind::Field(base, name) => {
                let ExprKind::Map { name: map, .. } = &base.kind else { return None };
                let info = self.env.maps.get(self.env.maps.index(map));
                matches!(info.value, Some(MapValue::Aggregate { .. })).then_some(())?;
                Some((Statistic::named(&name.text)?, base))
            }
            _ => None,
        }
    }

    fn statistic_of(&mut self, e: &Expr, statistic: Statistic, span: Span) -> typed::Expr {
        let ExprKind::Map { name, keys } = &e.kind else {
            let message = format!("`{statistic}` is asked of a map that holds many values");
            return self.fail(Diagnostic::error(Code(397), e.span, message).help("for example `p99(@latency[comm])`"));
        };
        let map = self.env.maps.index(name);
        let word = match &self.env.maps.get(map).value {
            Some(MapValue::Aggregate { word, .. }) => Some(*word),
            Some(MapValue::Plain(ty)) if *ty != Type::Unknown => None,
            _ => return Self::poison(span),
        };
        if !word.is_some_and(|word| word.yields(statistic)) {
            let holds = word.map_or("values that are assigned".into(), |word| format!("`{}()`", word.name()));
            let message =
                format!("`{}` holds {holds}, which does not tell its {statistic}", self.env.maps.get(map).name);
            return self.fail(Diagnostic::error(Code(397), e.span, message).help(format!("write `@{name} = dist(…)`")));
        }
        let key = self.map_key(map, keys, e.span);
        let key_bytes = match &self.env.maps.get(map).key {
            Some(Some(ty)) => layout::of(ty, self.env.target.btf_if_needed(ty)).size_bytes.max(1),
            _ => NO_KEY_BYTES,
        };
        let ty = Type::Statistic { map: map.0, statistic, key_bytes };
        typed::Expr { kind: typed::ExprKind::Map(map, key.map(Box::new)), ty, span }
    }
}

/// The diagnostic for a statistic where nothing is printed.
pub fn only_printed(name: &str, span: Span) -> Diagnostic {
    let message = format!("`{name}` is known only where results are printed");
    Diagnostic::error(Code(395), span, message)
        .help("write it as an argument of `printf` or `print`, for example in an `interval` or `end` probe")
}
