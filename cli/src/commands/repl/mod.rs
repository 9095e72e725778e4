//! `profiler repl`: interactive probes without a script file.
//!
//! In: lines from a user or a pipe. Out: results as they arrive, above the line being typed.
//! Guarantee: however it ends, nothing stays attached: programs live in this process, and nothing
//! is pinned.

mod assistant;
mod completion;
mod editor;
mod probe;
mod program;
mod recipe;
mod screen;
mod shell;

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use crate::repl::help;
use crate::repl::input::is_complete;
use profiler_runtime::sys::terminal;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use super::colours::colours_allowed;
use super::exit::{Failure, OK};
use assistant::Assistant;
use screen::Screen;
use shell::{Say, Shell};

/// Limit of lines in the history.
const HISTORY: usize = 10_000;

/// Width of the terminal; 80 columns if there is none or its width is unknown.
fn columns() -> usize {
    terminal::size().map_or(80, |(columns, _)| columns)
}

/// Runs the prompt until it ends.
pub(super) fn repl() -> Result<u8, Failure> {
    let on_both = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if on_both && !is_plain(&std::env::var("TERM").unwrap_or_default()) {
        return on_terminal();
    }
    if on_both {
        print!("{}", greeting(columns()));
    }
    in_lines(if on_both { "> " } else { "" })
}

/// Whether a terminal only prints lines, so that nothing can be edited.
fn is_plain(term: &str) -> bool {
    ["dumb", "cons25", "emacs"].contains(&term)
}

/// The greeting: one line if the terminal has 80 columns.
fn greeting(columns: usize) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let words = format!("profiler {version}: type a probe, `@` or `:help`; Tab completes, Control-D leaves");
    help::fitted(0, &words, columns)
}

/// Runs the prompt without a line editor, for a pipe or a simple terminal.
fn in_lines(prompt: &str) -> Result<u8, Failure> {
    let say: Say = Box::new(|text| {
        let mut out = std::io::stdout().lock();
        // A closed pipe is not an error.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    });
    let shell = Shell::new(say);
    let mut pending = String::new();
    let ask = |is_first: bool| {
        let prompt = if is_first || prompt.is_empty() { prompt } else { ". " };
        let mut out = std::io::stdout().lock();
        // As above.
        let _ = out.write_all(prompt.as_bytes()).and_then(|()| out.flush());
    };
    ask(true);
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::output("standard input", &error))?;
        pending.push_str(&line);
        if is_complete(&pending) {
            shell.submit(&std::mem::take(&mut pending));
        } else {
            pending.push('\n');
        }
        if shell.is_over() {
            break;
        }
        ask(pending.is_empty());
    }
    shell.submit(&pending);
    shell.end();
    Ok(OK)
}

fn on_terminal() -> Result<u8, Failure> {
    let failed = |error: ReadlineError| Failure::new(super::exit::MISTAKE, format!("the terminal: {error}"));
    let config =
        Config::builder().completion_type(CompletionType::List).auto_add_history(true).max_history_size(HISTORY);
    // The first Tab lists candidates.
    let config = config.map(|config| config.completion_show_all_if_ambiguous(true));
    let config = config.map_err(failed)?.build();
    let mut editor: Editor<Assistant, FileHistory> = Editor::with_config(config).map_err(failed)?;
    let screen = Screen::new(editor.create_external_printer().map_err(failed)?);
    let above = Arc::clone(&screen);
    let shell = Shell::new(Box::new(move |text| above.say(&text)));
    editor.set_helper(Some(Assistant::new(Arc::clone(&shell), colours_allowed())));
    let history = history_file();
    if let Some(path) = &history {
        // A history that cannot be read is treated as empty.
        let _ = editor.load_history(path);
    }
    print!("{}", greeting(columns()));
    while !shell.is_over() {
        match screen.edit(|| editor.readline("> ")) {
            Ok(line) => shell.submit(&line),
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => {
                shell.end();
                return Err(failed(error));
            }
        }
    }
    shell.end();
    screen.end();
    if let Some(path) = &history {
        // Failing to save the history has no consequences.
        let _ = editor.save_history(path);
    }
    Ok(OK)
}

/// The history file, readable by its owner only:
/// <https://specifications.freedesktop.org/basedir-spec/latest/>.
fn history_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    let directory = state.join("profiler");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).ok()?;
    let path = directory.join("history");
    OpenOptions::new().append(true).create(true).mode(0o600).open(&path).ok()?;
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::{greeting, is_plain};

    #[test]
    fn the_greeting_fits_a_terminal() {
        assert_eq!(greeting(80).lines().count(), 1);
        assert!(greeting(30).lines().all(|line| line.chars().count() <= 30));
    }

    #[test]
    fn plain_terminals_are_known() {
        assert!(is_plain("dumb") && is_plain("emacs") && !is_plain("xterm-256color") && !is_plain(""));
    }
}
