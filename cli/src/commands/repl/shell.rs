//! Executes the prompt's effects: programs in threads, files, the screen.
//!
//! In: effects of the prompt's core. Out: their results on the screen, and news for the core.
//! Guarantee: a program lives in a thread of its own with its own maps; when the shell is dropped,
//! everything it attached is detached.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::repl::status::{self, Row};
use crate::repl::{self, Effect, News, Repl, Watch};
use profiler_compiler::object::{Attach, Object};
use profiler_compiler::source::Source;
use profiler_runtime::control::{self, Controller, Requests, Task};
use profiler_runtime::load::Loaded;
use profiler_runtime::maps::handover::{self, SavedMap};
use profiler_runtime::sys::stats::Measuring;
use profiler_runtime::sys::terminal;

use super::super::args::ScriptArguments;
use super::super::colours::look;
use super::super::engine;
use super::super::exit::{Failure, words_of};
use super::super::help;
use super::super::script::Origin;
use super::columns;
use super::probe;
use super::program::{self, Program};
use super::recipe;
use super::screen::Waiting;
use crate::commands::args::choices::Stage;

/// Destination of results: above the line being edited, or standard output.
pub(super) type Say = Box<dyn FnMut(String) + Send>;

/// An attached program.
struct Running {
    controller: Arc<Controller>,
    thread: Option<JoinHandle<()>>,
    program: Program,
}

/// State that lives as long as the prompt.
pub(super) struct Shell {
    repl: Mutex<Repl>,
    running: Mutex<BTreeMap<u32, Running>>,
    screen: Mutex<Say>,
    /// Output of programs while a recipe has the screen; `None` if none runs.
    held_back: Mutex<Option<Waiting>>,
    /// Set to end the thread that prints a map periodically.
    watching: Mutex<Option<Arc<AtomicBool>>>,
    /// The lines typed so far.
    history: Mutex<Vec<String>>,
    is_over: AtomicBool,
    /// While it is open, the kernel measures the cost of programs; this needs more privileges than
    /// probes do.
    measuring: Option<Measuring>,
}

/// Locks a mutex even if it is poisoned: the data is changed in one step, so it is always
/// consistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shell {
    /// A shell without programs.
    pub(super) fn new(screen: Say) -> Arc<Shell> {
        Arc::new(Shell {
            repl: Mutex::new(Repl::new(recipe::is_meant)),
            running: Mutex::default(),
            screen: Mutex::new(screen),
            held_back: Mutex::default(),
            watching: Mutex::default(),
            history: Mutex::default(),
            is_over: AtomicBool::new(false),
            measuring: Measuring::start().ok(),
        })
    }

    /// Executes a typed line, and returns when it is done.
    pub(super) fn submit(self: &Arc<Self>, text: &str) {
        if !text.trim().is_empty() {
            locked(&self.history).push(text.trim().to_owned());
        }
        let effects = locked(&self.repl).submit(text);
        self.perform(effects);
    }

    /// Whether the prompt should end.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The maps of all programs, for completion.
    pub(super) fn maps(&self) -> Vec<String> {
        locked(&self.repl).maps()
    }

    /// The numbers of all programs with their texts, for completion.
    pub(super) fn programs(&self) -> Vec<(u32, String)> {
        locked(&self.repl).programs().map(|(number, text)| (number, text.to_owned())).collect()
    }

    /// Detaches everything, and returns once the kernel has released it.
    pub(super) fn end(&self) {
        self.stop_watching();
        let running = std::mem::take(&mut *locked(&self.running));
        for (_, mut program) in running {
            program.stop();
        }
    }

    fn say(&self, text: String) {
        match &mut *locked(&self.held_back) {
            Some(waiting) => waiting.add(&text),
            None => (locked(&self.screen))(text),
        }
    }

    /// Runs a recipe, and returns when it has ended. Meanwhile the screen is its own.
    fn recipe(&self, line: &str) {
        *locked(&self.held_back) = Some(Waiting::default());
        let ran = recipe::run(line);
        let waiting = locked(&self.held_back).take();
        if let Some(mut waiting) = waiting {
            self.say(waiting.take());
        }
        if let Err(failure) = ran {
            self.say(failure.render(look()));
        }
    }

    fn news(self: &Arc<Self>, news: News) {
        let effects = locked(&self.repl).receive(news);
        self.perform(effects);
    }

    fn perform(self: &Arc<Self>, effects: Vec<Effect>) {
        for effect in effects {
            self.do_one(effect);
        }
    }

    fn do_one(self: &Arc<Self>, effect: Effect) {
        match effect {
            Effect::Say(text) => self.say(text),
            Effect::Attach { number, source, replaces, file } => {
                self.attach(Program { number, text: source, file }, replaces);
            }
            Effect::Detach(number) => self.detach(number),
            Effect::Print { number, map } => self.order(number, Task::Print(map)),
            Effect::Show { number, text } => self.show(number, &text),
            Effect::Views(number) => self.order(number, Task::Views),
            Effect::Clear { number, map } => self.order(number, Task::Clear(map)),
            Effect::Watch(watch) => self.watch(watch),
            Effect::Status(programs) => self.status(programs),
            Effect::Write { path, text } => self.answer(write(&path, &text)),
            Effect::Read(file) if file.words.iter().any(|word| word == "--help") => self.answer(help::text(&file.path)),
            Effect::Read(file) => {
                let text = program::read(&file.path).map_err(|failure| failure.render(look()));
                self.news(News::Read { file, text });
            }
            Effect::Edit { number, text } => match super::editor::edit(&text) {
                Ok(text) => self.news(News::Edited { number, text }),
                Err(words) => self.say(format!("{words}\n")),
            },
            Effect::Help(word) => self.answer(help::text(&word)),
            Effect::Commands => self.say(repl::help::text(columns())),
            Effect::Probe(pattern) => self.answer(probe::describe(&pattern, columns(), self.measuring.is_some())),
            Effect::Type(expression) => self.answer(type_of(&expression)),
            Effect::Dump { stage, number } => {
                let program = locked(&self.running).get(&number).map(|running| running.program.clone());
                // A program that has ended meanwhile has reported it.
                if let Some(program) = program {
                    self.answer(dump(&stage, &program));
                }
            }
            Effect::History(count) => {
                let history = locked(&self.history);
                let shown: Vec<String> =
                    history.iter().rev().take(count).rev().map(|line| format!("{line}\n")).collect();
                drop(history);
                self.say(shown.concat());
            }
            Effect::Recipe(line) => self.recipe(&line),
            Effect::Quit => self.is_over.store(true, Ordering::Relaxed),
        }
    }

    fn answer(&self, answer: Result<String, Failure>) {
        self.say(answer.unwrap_or_else(|failure| failure.render(look())));
    }

    /// Compiles, loads and attaches in a new thread; returns once that has succeeded or failed.
    fn attach(self: &Arc<Self>, program: Program, replaces: Option<u32>) {
        let number = program.number;
        let (controller, requests) = match control::pair() {
            Ok(pair) => pair,
            Err(error) => return self.news(News::Refused { number, message: format!("{}\n", words_of(&error)) }),
        };
        let (shell, (settled, wait)) = (Arc::clone(self), channel());
        locked(&self.running)
            .insert(number, Running { controller: Arc::new(controller), thread: None, program: program.clone() });
        let thread = thread::Builder::new().name(format!("program {number}")).spawn(move || {
            shell.live(&program, replaces, requests, &settled);
        });
        let thread = match thread {
            Ok(thread) => thread,
            Err(error) => return self.news(News::Refused { number, message: format!("{}\n", words_of(&error)) }),
        };
        if let Some(running) = locked(&self.running).get_mut(&number) {
            running.thread = Some(thread);
        }
        // An error means that the thread has ended.
        let _ = wait.recv();
    }

    /// The lifetime of a program, from compiling to its end.
    fn live(self: &Arc<Self>, program: &Program, replaces: Option<u32>, requests: Requests, settled: &Sender<()>) {
        let number = program.number;
        let carried = RefCell::new(None);
        // Once this one is known to load, the replaced one ends: no event is counted by both, and
        // events until this one is attached are counted by neither.
        let loaded = |object: &Object, loaded: &Loaded| {
            if let Some(replaced) = replaces {
                let saved = self.inherit(replaced);
                *carried.borrow_mut() = Some(handover::restore(&saved, object, loaded)?);
            }
            Ok(())
        };
        let attached = |object: &Object| {
            let maps = object.maps.iter().map(|map| map.name.clone()).collect();
            self.news(News::Attached {
                number,
                probes: object.programs.iter().map(|program| program.points).sum(),
                maps,
                has_views: !object.views.is_empty(),
                carried: carried.take(),
            });
            // Wait for programs that run only once, so that the next prompt appears after their
            // results.
            let ends_by_itself =
                |attach: &Attach| matches!(attach, Attach::Begin | Attach::End | Attach::Iterator { .. });
            if !object.programs.iter().all(|program| ends_by_itself(&program.attach)) {
                // The waiting thread may be gone.
                let _ = settled.send(());
            }
        };
        let lives = program.source("").and_then(|source| {
            let arguments = program.arguments(&source)?;
            let prompt = engine::Prompt { requests, loaded: &loaded, attached: &attached };
            engine::run_at_prompt(&source, &arguments, prompt, || Box::new(Above::new(self)))
        });
        // Whoever detaches a program removes it first.
        let by_itself = locked(&self.running).remove(&number).is_some();
        match lives {
            Ok(code) => self.news(News::Ended { number, code: by_itself.then_some(code) }),
            Err(failure) => self.news(News::Refused { number, message: failure.render(look()) }),
        }
        let _ = settled.send(());
    }

    /// Detaches a program and returns its map contents; empty if it has ended.
    fn inherit(&self, number: u32) -> Vec<SavedMap> {
        let running = locked(&self.running).remove(&number);
        let Some(mut program) = running else { return Vec::new() };
        let (successor, saved) = channel();
        program.controller.run(Task::HandOver(successor));
        // A program that cannot read its maps reports it, and hands nothing over.
        let saved = saved.recv().unwrap_or_default();
        program.stop();
        saved
    }

    fn detach(&self, number: u32) {
        let running = locked(&self.running).remove(&number);
        if let Some(mut program) = running {
            program.stop();
        }
    }

    fn order(&self, number: u32, task: Task) {
        let controller = locked(&self.running).get(&number).map(|program| Arc::clone(&program.controller));
        // A program that has ended meanwhile has reported it.
        if let Some(controller) = controller {
            controller.run(task);
        }
    }

    /// Shows views of a program's maps. Names in them are resolved as if the program had them.
    fn show(&self, number: u32, text: &str) {
        let Some(program) = locked(&self.running).get(&number).map(|running| running.program.clone()) else { return };
        let source = program.source(&format!("\n{text}"));
        let views = source.and_then(|source| engine::views_at_prompt(&source, &program.arguments(&source)?, text));
        match views {
            Ok(views) => {
                for (view, maps) in views {
                    if view.every.is_some() {
                        let map = maps.first().map_or("@x", String::as_str);
                        return self.say(format!(
                            "`every` works only in the view of a script; `:watch {map} 1s` prints a map periodically\n"
                        ));
                    }
                    self.order(number, Task::Show { view: Box::new(view), maps });
                }
            }
            Err(failure) => self.say(failure.render(look())),
        }
    }

    fn stop_watching(&self) {
        if let Some(before) = locked(&self.watching).take() {
            before.store(true, Ordering::Relaxed);
        }
    }

    fn watch(self: &Arc<Self>, watch: Option<Watch>) {
        self.stop_watching();
        let Some(Watch { number, map, period }) = watch else { return };
        let (stop, shell) = (Arc::new(AtomicBool::new(false)), Arc::clone(self));
        *locked(&self.watching) = Some(Arc::clone(&stop));
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) && locked(&shell.running).contains_key(&number) {
                shell.order(number, Task::Print(map.clone()));
                thread::sleep(period);
            }
        });
    }

    fn status(&self, programs: Vec<(u32, String)>) {
        let row = |(number, text)| {
            let (sender, answer) = channel();
            self.order(number, Task::Status(sender));
            // A program that has ended meanwhile does not answer.
            let mut status = answer.recv().ok();
            if let (None, Some(status)) = (&self.measuring, &mut status) {
                status.cost = None;
            }
            Row { number, text, status }
        };
        let rows: Vec<Row> = programs.into_iter().map(row).collect();
        self.say(status::table(&rows, terminal::size().map(|(columns, _)| columns)));
    }
}

impl Running {
    fn stop(&mut self) {
        self.controller.run(Task::Stop);
        if let Some(thread) = self.thread.take() {
            // A program that panicked has detached as well.
            let _ = thread.join();
        }
    }
}

/// Output of a program: whole lines, above the prompt.
struct Above {
    shell: Arc<Shell>,
    line: Vec<u8>,
}

impl Above {
    fn new(shell: &Arc<Shell>) -> Above {
        Above { shell: Arc::clone(shell), line: Vec::new() }
    }
}

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if let Some(end) = self.line.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.line.split_off(end + 1);
            let lines = std::mem::replace(&mut self.line, rest);
            self.shell.say(String::from_utf8_lossy(&lines).into_owned());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Above {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            let text = String::from_utf8_lossy(&self.line).into_owned();
            self.shell.say(format!("{text}\n"));
        }
    }
}

fn write(path: &str, text: &str) -> Result<String, Failure> {
    std::fs::write(path, text).map_err(|error| Failure::output(&format!("`{path}`"), &error))?;
    Ok(format!("saved to {path}\n"))
}

/// The type of an expression, in the context of a probe if one precedes it.
fn type_of(words: &str) -> Result<String, Failure> {
    let (probe, expression) = program::probe_ahead(words).unwrap_or(("BEGIN", words));
    let text = format!("{probe} {{ $it = {}; }}", expression.trim_end_matches(';'));
    let arguments = ScriptArguments::new(Origin::Inline(text.clone()));
    engine::type_at_prompt(&Source::new(":type", &text), &arguments).map(|ty| format!("{ty}\n"))
}

fn dump(stage: &str, program: &Program) -> Result<String, Failure> {
    let Some(stage) = Stage::named(stage) else {
        return Err(Failure::new(super::super::exit::MISTAKE, format!("there is no stage `{stage}`"))
            .help(format!("these are: {}", Stage::NAMES.join(" "))));
    };
    let source = program.source("")?;
    engine::dump(stage, &source, &program.arguments(&source)?)
}
