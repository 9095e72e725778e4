//! Fuzz targets for the compiler: scripts, from text to an object or to printed diagnostics.
//!
//! In: bytes; invalid UTF-8 is replaced. Guarantee: spans in the result lie within the text, on
//! character boundaries; an object is an ELF file; the same text gives the same object.

use std::cell::OnceCell;

use profiler_cli::commands::diagnostics;
use profiler_compiler::check::{MissingProbes, Options};
use profiler_compiler::diagnostic::Diagnostic;
use profiler_compiler::source::Source;
use profiler_compiler::target::Target as _;
use profiler_compiler::{CATALOGUE, ast_print, compile as pipeline, emit, ir, parse as parser, typed_print};
use profiler_runtime::elf;

use super::fixture::Machine;

/// Parses text into a syntax tree or diagnostics.
pub fn parse(input: &[u8]) {
    let source = Source::new("x.prof", String::from_utf8_lossy(input));
    match parser::parse(&source) {
        Ok(script) => assert!(ast_print::print(&script).starts_with("script\n")),
        Err(problems) => complain(&source, &problems),
    }
}

/// Compiles text into an ELF file or diagnostics, on the test target. A first byte of `!` stands
/// for `--unsafe`, one of `?` for a kernel without BTF.
pub fn compile(input: &[u8]) {
    thread_local! {
        static MACHINES: [OnceCell<Machine>; 2] = const { [OnceCell::new(), OnceCell::new()] };
    }
    let (mark, text) = match input {
        [mark @ (b'!' | b'?'), text @ ..] => (*mark, text),
        text => (0, text),
    };
    let source = Source::new("x.prof", String::from_utf8_lossy(text));
    let options = Options {
        pids: Vec::new(),
        child_pid: None,
        positional: vec!["1".into(), "text".into()],
        named: vec![("switch".into(), None), ("count".into(), Some("3".into()))],
        allow_unsafe: mark == b'!',
        settings: Vec::new(),
        report_failures: true,
        probe_filter: None,
        missing_in_programs: MissingProbes::Warn,
        ..Options::default()
    };
    MACHINES.with(|machines| {
        let with_btf = mark != b'?';
        let machine = machines[usize::from(with_btf)].get_or_init(|| Machine::new(with_btf));
        match pipeline::stages(&source, &CATALOGUE, machine, &options) {
            Err(problems) => complain(&source, &problems),
            Ok(stages) => {
                assert!(stages.warnings.is_empty() || !render(&source, &stages.warnings).is_empty());
                assert!(!elf::describe(&stages.emitted.elf).starts_with("not an ELF"), "{}", source.text);
                for text in [
                    typed_print::print(&stages.typed, machine.btf()),
                    ir::print::print(&stages.ir),
                    emit::listing(&stages.emitted, &stages.ir, &source),
                ] {
                    assert!(!text.is_empty());
                }
                let again = pipeline::compile(&source, &CATALOGUE, machine, &options);
                assert!(
                    again.is_ok_and(|again| again.object.elf == stages.emitted.elf),
                    "another time, another object"
                );
            }
        }
    });
}

/// Renders diagnostics as for a user.
fn complain(source: &Source, problems: &[Diagnostic]) {
    assert!(problems.iter().any(Diagnostic::is_error), "refused without an error");
    for problem in problems {
        for span in problem.related.iter().map(|(span, _)| *span).chain([problem.span]) {
            assert!(
                source.text.get(span.start as usize..span.end as usize).is_some(),
                "outside of the text: {problem:?}"
            );
        }
    }
    assert!(render(source, problems).contains("error[E"));
}

fn render(source: &Source, problems: &[Diagnostic]) -> String {
    let plain = diagnostics::render(source, problems, false);
    assert!(diagnostics::render(source, problems, true).len() >= plain.len());
    plain
}
