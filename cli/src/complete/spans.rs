//! Completions for a script's spans: their names, their events, and what handlers read of them.
//!
//! In: a script that may be incomplete. Out: candidates.
//! Guarantee: a definition counts as soon as it is complete; its event handlers know the values
//! that its stages save and the parts of its key.

use profiler_compiler::ast::{SpanDefinition, StageKind};
use profiler_compiler::parse;
use profiler_compiler::source::Source;

use super::context::around_unless;
use super::{Candidate, candidate};

/// Clauses of a span definition, offered outside stages.
const CLAUSES: [(&str, &str); 6] = [
    ("start", "the probe that opens a span"),
    ("mark", "an intermediate stage: a name and a probe"),
    ("end", "the probe that closes a span"),
    ("restart", "what a second start does: replace, keep or nest"),
    ("expire", "maximum age of an open span"),
    ("limit", "maximum number of open spans; `evict` closes the oldest"),
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

/// Names of spans as probes, then names of their events.
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

/// Names of spans, as arguments of `inflight`.
pub(super) fn names(definitions: &[SpanDefinition]) -> Vec<Candidate> {
    definitions.iter().map(|span| candidate(&span.name.text, "a span of this script")).collect()
}

fn events(span: &SpanDefinition) -> Vec<(String, &'static str)> {
    let mut events: Vec<(String, &str)> = vec![("start".into(), "a span was opened")];
    for stage in &span.stages {
        if let StageKind::Mark(name) = &stage.kind {
            events.push((name.text.clone(), "an open span reached the mark"));
        }
    }
    events.push(("end".into(), "an open span was closed"));
    if span.restart.iter().all(|word| word.text == "replace") {
        events.push(("replace".into(), "a second start replaced an open one"));
    }
    if !span.expire.is_empty() {
        events.push(("expire".into(), "an open span expired"));
    }
    if span.evict.is_some() {
        events.push(("evict".into(), "an open span was closed to make space"));
    }
    events
}

/// Members after `NAME.` in handlers: type and name.
pub(super) fn values(text: &str, expression: &str) -> Option<Vec<(String, String)>> {
    let span = definitions(text).into_iter().find(|span| span.name.text == expression.trim())?;
    let mut values: Vec<(String, String)> = vec![
        ("duration since the start".into(), "elapsed".into()),
        ("duration since the previous stage".into(), "lap".into()),
    ];
    let key = span.stages.iter().map(|stage| &stage.key).find(|_| span.key.is_empty()).unwrap_or(&span.key);
    let parts = key.iter().filter_map(|part| part.name.as_ref());
    values.extend(parts.map(|name| ("part of the key".to_owned(), name.text.clone())));
    for stage in &span.stages {
        let event = stage.kind.event();
        values.extend(stage.keeps.iter().map(|keep| (format!("stored by `{event}`"), keep.name.text.clone())));
    }
    Some(values)
}

/// What is being written in a span definition.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inside<'a> {
    /// An attach point of a stage.
    Probe(&'a str),
    /// The first word of a stage or clause.
    Clause(&'a str),
}

/// What is being written at the end of a text, directly inside the braces of a span definition.
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
    let point = around_unless(point).1.unwrap_or(point);
    // The attach points are followed by a predicate and a key.
    (!point.contains(char::is_whitespace)).then_some(Inside::Probe(point))
}

/// Keywords of stages and clauses.
pub(super) fn clauses() -> Vec<Candidate> {
    CLAUSES.iter().map(|(word, about)| candidate(*word, *about)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Inside, definitions, inside};
    use crate::complete::{Known, complete};
    use profiler_runtime::host::Host;

    /// The completions after a complete definition.
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
        assert_eq!(texts("span other by tid {\n  start kprobe:a unless inter"), ["interval"]);
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
