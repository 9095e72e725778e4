//! Prints spans.
//!
//! In: a definition. Out: its lines. Guarantee: the same as in the parent module.

use profiler_compiler::ast::{KeyPart, SpanDefinition, Stage, StageKind};

use super::{Printer, expr, point};

impl Printer {
    pub(super) fn span(&mut self, span: &SpanDefinition) {
        self.line(&format!("span {}{} {{", span.name.text, key(&span.key)));
        self.depth += 1;
        for stage in &span.stages {
            self.line(&stage_line(stage));
        }
        for word in &span.restart {
            self.line(&format!("restart {}", word.text));
        }
        for age in &span.expire {
            self.line(&format!("expire {}", expr(age)));
        }
        for limit in &span.limit {
            self.line(&format!("limit {}{}", expr(limit), if span.evict.is_some() { " evict" } else { "" }));
        }
        self.depth -= 1;
        self.line("}");
    }
}

fn key(parts: &[KeyPart]) -> String {
    let part = |part: &KeyPart| match &part.name {
        Some(name) => format!("{}: {}", name.text, expr(&part.value)),
        None => expr(&part.value),
    };
    if parts.is_empty() {
        String::new()
    } else {
        format!(" by ({})", parts.iter().map(part).collect::<Vec<_>>().join(", "))
    }
}

fn stage_line(stage: &Stage) -> String {
    let word = match &stage.kind {
        StageKind::Start => "start".to_owned(),
        StageKind::Mark(name) => format!("mark {}", name.text),
        StageKind::End => "end".to_owned(),
    };
    let points: Vec<String> = stage.points.iter().map(point).collect();
    let predicate = stage.predicate.as_ref().map_or(String::new(), |predicate| format!(" / {} /", expr(predicate)));
    let keeps = stage.keeps.iter().map(|keep| format!("{} = {}", keep.name.text, expr(&keep.value)));
    let keeps = keeps.collect::<Vec<String>>().join("; ");
    let keeps = if keeps.is_empty() { keeps } else { format!(" {{ {keeps} }}") };
    format!("{word} {}{predicate}{}{keeps}", points.join(", "), key(&stage.key))
}
