//! Spans as indented text.
//!
//! In: a [`SpanDefinition`]. Out: its lines.
//! Guarantee: as for the parent.

use super::{Printer, point_text};
use crate::ast::{Expr, KeyPart, SpanDefinition, Stage, StageKind};

impl Printer {
    pub(super) fn span(&mut self, span: &SpanDefinition) {
        self.parent(&format!("span {}", span.name.text), |p| {
            p.span_key(&span.key);
            for stage in &span.stages {
                p.stage(stage);
            }
            for word in &span.restart {
                p.line(&format!("restart {}", word.text));
            }
            p.values("expire", &span.expire);
            p.values("limit", &span.limit);
            if span.evict.is_some() {
                p.line("evict");
            }
        });
    }

    fn values(&mut self, title: &str, values: &[Expr]) {
        for value in values {
            self.parent(title, |p| p.expr(value));
        }
    }

    fn span_key(&mut self, key: &[KeyPart]) {
        for part in key {
            let name = part.name.as_ref().map_or("", |name| &name.text);
            self.parent(&format!("by {name}"), |p| p.expr(&part.value));
        }
    }

    fn stage(&mut self, stage: &Stage) {
        let title = match &stage.kind {
            StageKind::Mark(name) => format!("mark {}", name.text),
            kind => kind.event().to_owned(),
        };
        self.parent(&title, |p| {
            for point in &stage.points {
                p.line(&format!("at {}", point_text(point)));
            }
            if let Some(predicate) = &stage.predicate {
                p.parent("when", |p| p.expr(predicate));
            }
            p.span_key(&stage.key);
            for keep in &stage.keeps {
                p.parent(&format!("keep {}", keep.name.text), |p| p.expr(&keep.value));
            }
        });
    }
}
