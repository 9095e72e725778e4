//! What a script's spans add: their names, their events, and what handlers read of them.
//!
//! In: a script of which parts may be unfinished. Out: candidates.
//! Guarantee: a definition counts as soon as it is whole; its event handlers know what its stages keep and what its key is made of.

use profiler_compiler::ast::{SpanDefinition, StageKind};
use profiler_compiler::parse;
use profiler_compiler::source::Source;

use super::{Candidate, candidate};

/// What may stand in a definition, where no stage is being written.
const CLAUSES: [(&str, &str); 6] = [
    ("start", "a probe at which one begins"),
    ("mark", "a name, and a probe that it passes"),
    ("end", "a probe at which it ends"),
    ("restart", "replace, keep or nest: what a second start does"),
    ("expire", "how old one becomes"),
    ("limit", "how many there may be; with `evict`, the oldest makes room"),
];

/// The spans that a text defines.
pub(super) fn definitions(text: &str) -> Vec<SpanDefinition> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("span ") {
        let begins_item =
            text[..at].trim_end().chars().next_back().is_none_or(|before| matches!(before, '}' | ';' | '/'))
                || text[..at].ends_with('\n');
        let Some(definition) = whole(&text[at..]).filter(|_| begins_item) else { continue };
        if let Ok(script) = parse::parse(&Source::new("span", definition)) {
            found.extend(script.spans);
        }
    }
    found
}

/// A text up to the brace that closes its first one.
fn whole(text: &str) -> Option<&str> {
    let mut depth = 0_u32;
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(&text[..=at]),
            '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// Names of spans where a probe may stand, then of their events.
pub(super) fn probes(text: &str, written: &str) -> Vec<Candidate> {
    let definitions = definitions(text);
    let events = definitions.iter().flat_map(|span| {
        let events = events(span).into_iter();
        events.map(|(event, about)| candidate(format!("{}:{event}", span.name.text), about))
    });
    if written.contains(':') {
        return events.filter(|found| found.text.starts_with(written)).collect();
    }
    names(&definitions).into_iter().filter(|found| found.text.starts_with(written)).collect()
}

/// Names of spans, as `inflight` takes them.
pub(super) fn names(definitions: &[SpanDefinition]) -> Vec<Candidate> {
    definitions.iter().map(|span| candidate(&span.name.text, "a span of this script")).collect()
}

fn events(span: &SpanDefinition) -> Vec<(String, &'static str)> {
    let mut events: Vec<(String, &str)> = vec![("start".into(), "a span was opened")];
    for stage in &span.stages {
        if let StageKind::Mark(name) = &stage.kind {
            events.push((name.text.clone(), "an open span passed the mark"));
        }
    }
    events.push(("end".into(), "an open span was closed"));
    if span.restart.iter().all(|word| word.text == "replace") {
        events.push(("replace".into(), "a second start took the place of an open one"));
    }
    if !span.expire.is_empty() {
        events.push(("expire".into(), "an open span became too old"));
    }
    if span.evict.is_some() {
        events.push(("evict".into(), "an open span made room for a start"));
    }
    events
}

/// What stands behind `NAME.` in handlers: what it is, and its name.
pub(super) fn values(text: &str, expression: &str) -> Option<Vec<(String, String)>> {
    let span = definitions(text).into_iter().find(|span| span.name.text == expression.trim())?;
    let mut values: Vec<(String, String)> = vec![
        ("duration since the start".into(), "elapsed".into()),
        ("duration since the stage before".into(), "lap".into()),
    ];
    let key = span.stages.iter().map(|stage| &stage.key).find(|_| span.key.is_empty()).unwrap_or(&span.key);
    let parts = key.iter().filter_map(|part| part.name.as_ref());
    values.extend(parts.map(|name| ("part of the key".to_owned(), name.text.clone())));
    for stage in &span.stages {
        let event = stage.kind.event();
        values.extend(stage.keeps.iter().map(|keep| (format!("kept by `{event}`"), keep.name.text.clone())));
    }
    Some(values)
}

/// What is being written in a definition.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inside<'a> {
    /// An attach point of a stage.
    Probe(&'a str),
    /// The first word of a stage or clause.
    Clause(&'a str),
}

/// What is being written at the end of a text, in the braces of a definition and outside of others.
pub(super) fn inside<'a>(before: &'a str, header: &str) -> Option<Inside<'a>> {
    header.strip_prefix("span ")?;
    let body = &before[before.rfind(header)? + header.len()..];
    let body = body.split_once('{')?.1;
    let opened = body.matches(['{', '(']).count();
    if opened != body.matches(['}', ')']).count() {
        return None;
    }
    let line = body.rsplit(['\n', ';', '}']).next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    if words.next().is_none() && !line.ends_with(char::is_whitespace) || first.is_empty() {
        return Some(Inside::Clause(first));
    }
    let rest = line.trim_start().strip_prefix(first)?.trim_start();
    let rest = match first {
        "start" | "end" => rest,
        "mark" => rest.split_once(char::is_whitespace)?.1.trim_start(),
        _ => return None,
    };
    let point = rest.rsplit(',').next().unwrap_or_default().trim_start();
    // Behind the attach points come a predicate and a key.
    (!point.contains(char::is_whitespace)).then_some(Inside::Probe(point))
}

/// Stages and clauses.
pub(super) fn clauses() -> Vec<Candidate> {
    CLAUSES.iter().map(|(word, about)| candidate(*word, *about)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Inside, definitions, inside};
    use crate::complete::{Known, complete};
    use crate::host::Host;

    /// What is proposed behind a whole definition.
    fn texts(rest: &str) -> Vec<String> {
        let text = format!(
            "span request by (pid, fd: args.fd) {{
               start tracepoint:a:b by (pid, fd: args.ret) {{ name = comm; }}
               mark reading tracepoint:a:c {{ first = ustack; }} end tracepoint:a:d  expire 1s  limit 5 evict
             }}
             {rest}"
        );
        let found = complete(&text, text.len(), &Host::new(), Known::default());
        found.candidates.into_iter().map(|found| found.text).collect()
    }

    #[test]
    fn spans_are_proposed_with_their_events_and_values() {
        assert_eq!(texts("reque"), ["request"]);
        let events = ["end", "evict", "expire", "reading", "replace", "start"].map(|event| format!("request:{event}"));
        assert_eq!(texts("request:"), events);
        assert_eq!(texts("request:rea"), ["request:reading"]);
        assert_eq!(texts("request:end { @x = request."), ["elapsed", "fd", "first", "lap", "name", "pid"]);
        assert_eq!(texts("request:end { @x = request.fir"), ["first"]);
        assert_eq!(texts("interval:1s { print(inflight(reque"), ["request"]);
        assert_eq!(texts("span other by tid {\n  st"), ["start"]);
        assert_eq!(texts("span other by tid {\n  start inter"), ["interval"]);
        assert_eq!(texts("span other by tid {\n  end request:en"), ["request:end"]);
    }

    const SPAN: &str = "span request by (pid, fd: args.fd) {";

    #[test]
    fn a_definition_counts_when_it_is_whole() {
        let whole = format!("{SPAN} start interval:1s {{ a = 1 }} end interval:2s }}\nrequest:end {{ ");
        assert_eq!(definitions(&whole).len(), 1);
        assert!(definitions(&format!("{SPAN} start interval:1s {{ a = 1 }}")).is_empty());
        assert!(definitions(&format!("{SPAN} begin interval:1s }}")).is_empty());
    }

    #[test]
    fn in_a_definition_stages_and_their_probes_are_written() {
        for (text, expected) in [
            ("", Some(Inside::Clause(""))),
            ("\n  st", Some(Inside::Clause("st"))),
            ("\n  start ", Some(Inside::Probe(""))),
            ("\n  start kprobe:vf", Some(Inside::Probe("kprobe:vf"))),
            ("\n  mark half interval:1s, up", Some(Inside::Probe("up"))),
            ("\n  start kprobe:a { x = 1; }\n  e", Some(Inside::Clause("e"))),
            ("\n  start kprobe:a { x = ar", None),
            ("\n  start kprobe:a / pi", None),
            ("\n  limit 5", None),
        ] {
            let header = SPAN.trim_end_matches('{').trim();
            assert_eq!(inside(&format!("{SPAN}{text}"), header), expected, "{text}");
        }
        assert_eq!(inside("BEGIN { st", "BEGIN"), None);
    }
}
