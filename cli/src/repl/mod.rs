//! The core of the prompt: takes typed text, returns effects to execute.
//!
//! In: texts ([`Repl::submit`]) and news of the programs ([`Repl::receive`]). Out: [`Effect`]s, in
//! order.
//! Guarantee: no I/O, no clock and no kernel access, so a session is a transcript. A program keeps
//! its number as long as the prompt runs, and effects refer only to attached programs.

mod definitions;
pub mod help;
pub mod input;
pub mod status;

use std::collections::BTreeMap;
use std::time::Duration;

use definitions::Definition;
use input::{Command, Input, Which};

pub use input::Loading;

/// An action for the caller to execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Print a text, which ends with a newline.
    Say(String),
    /// Compile, load and attach.
    Attach {
        number: u32,
        /// The typed text.
        source: String,
        /// The program that it replaces and whose maps it takes over: that one is detached then.
        replaces: Option<u32>,
        /// The file it was loaded from.
        file: Option<Loading>,
    },
    /// Detach a program.
    Detach(u32),
    /// Print a map of a program.
    Print {
        /// Number of the program.
        number: u32,
        /// With sigil.
        map: String,
    },
    /// Show views of a program that it does not declare itself.
    Show {
        /// Number of the program.
        number: u32,
        /// `view "name" { of @x … }`.
        text: String,
    },
    /// Show the views that a program declares.
    Views(u32),
    /// Empty a map of a program.
    Clear {
        /// Number of the program.
        number: u32,
        /// With sigil.
        map: String,
    },
    /// Print a map periodically; `None` stops it.
    Watch(Option<Watch>),
    /// Show the programs with their events and cost; each with its text in one line.
    Status(Vec<(u32, String)>),
    /// Write a file.
    Write {
        /// Path of the file.
        path: String,
        /// Its contents.
        text: String,
    },
    /// Read a file and report it ([`News::Read`]).
    Read(Loading),
    /// Open a program in the editor and report the result ([`News::Edited`]).
    Edit {
        /// Number of the program.
        number: u32,
        /// Its current text.
        text: String,
    },
    /// Explain a word.
    Help(String),
    /// Explain the prompt ([`help::text`]).
    Commands,
    /// List probes.
    Probe(String),
    /// Print the type of an expression.
    Type(String),
    /// Print a compiler stage of a program.
    Dump {
        stage: String,
        /// Number of the program.
        number: u32,
    },
    /// Print the lines typed last.
    History(usize),
    /// Run a recipe, as the command does, until it ends; the line as it was typed.
    Recipe(String),
    /// Leave.
    Quit,
}

/// A map that is printed periodically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// Number of the program.
    pub number: u32,
    /// With sigil.
    pub map: String,
    /// Interval between prints.
    pub period: Duration,
}

/// The result of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A program is attached.
    Attached {
        /// Number of the program.
        number: u32,
        /// Number of its probes.
        probes: u32,
        /// Its maps, with sigil.
        maps: Vec<String>,
        /// Whether it declares a view.
        has_views: bool,
        /// Maps with contents of the replaced program, and maps that start empty; `None` if it
        /// replaces none.
        carried: Option<(Vec<String>, Vec<String>)>,
    },
    /// A program could not be attached; the message ends with a newline.
    Refused {
        /// Number of the program.
        number: u32,
        /// The error message.
        message: String,
    },
    /// A program ended by itself or was detached.
    Ended {
        /// Number of the program.
        number: u32,
        /// Its exit code, if it ended by itself.
        code: Option<u8>,
    },
    /// The result of reading a file.
    Read {
        /// The requested file.
        file: Loading,
        /// Its text, or an error message.
        text: Result<String, String>,
    },
    /// The editor was closed; `None` if nothing was changed.
    Edited {
        /// Number of the program.
        number: u32,
        /// Its new text.
        text: Option<String>,
    },
}

/// A prompt program.
#[derive(Debug, Clone)]
struct Program {
    source: String,
    /// The file it was loaded from.
    file: Option<Loading>,
    maps: Vec<String>,
    /// Whether it declares a view.
    has_views: bool,
    /// Whether it runs once and is then forgotten.
    once: bool,
}

impl Program {
    /// The typed text, or the file with its parameter values.
    fn in_one_line(&self) -> String {
        match &self.file {
            None => self.source.split_whitespace().collect::<Vec<_>>().join(" "),
            Some(file) => std::iter::once(file.path.as_str())
                .chain(file.words.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join(" "),
        }
    }
}

/// The state of a prompt.
#[derive(Debug)]
pub struct Repl {
    /// Whether a word at the start of a line means a recipe.
    names_recipe: fn(&str) -> bool,
    programs: BTreeMap<u32, Program>,
    /// Programs that replace another one and are not yet attached, with the number of that one.
    replacing: BTreeMap<u32, u32>,
    last: u32,
    /// Definitions typed so far, for all later lines; the last one of a name wins.
    definitions: Vec<Definition>,
}

impl Repl {
    /// A prompt without programs.
    pub fn new(names_recipe: fn(&str) -> bool) -> Repl {
        Repl { names_recipe, programs: BTreeMap::new(), replacing: BTreeMap::new(), last: 0, definitions: Vec::new() }
    }

    /// Handles a typed text.
    pub fn submit(&mut self, text: &str) -> Vec<Effect> {
        if text.split_whitespace().next().is_some_and(self.names_recipe) {
            return vec![Effect::Recipe(text.trim().to_owned())];
        }
        match input::read(text) {
            Err(words) => vec![say(&words)],
            Ok(Input::Nothing) => Vec::new(),
            Ok(Input::Program(source)) => vec![self.attach(source, None, None)],
            Ok(Input::Once(expression)) => vec![self.once(&expression)],
            Ok(Input::Map { name, view }) if view.is_empty() => {
                self.of_map(&name, |number, map| Effect::Print { number, map })
            }
            Ok(Input::Map { name, view }) => self.of_map(&name, |number, map| Effect::Show {
                number,
                text: format!("view \"{map}\" {{ of {map} {view} }}"),
            }),
            Ok(Input::View { map, text }) => self.of_map(&map, |number, _| Effect::Show { number, text: text.clone() }),
            Ok(Input::Command(command)) => self.command(command),
        }
    }

    /// The maps of all programs, sorted, for completion.
    pub fn maps(&self) -> Vec<String> {
        let mut maps: Vec<String> = self.programs.values().flat_map(|program| program.maps.iter().cloned()).collect();
        maps.sort();
        maps.dedup();
        maps
    }

    /// The numbers of all programs with their texts, for completion.
    pub fn programs(&self) -> impl Iterator<Item = (u32, &str)> {
        self.programs.iter().map(|(number, program)| (*number, program.source.as_str()))
    }

    /// Handles news of the programs.
    pub fn receive(&mut self, news: News) -> Vec<Effect> {
        match news {
            News::Attached { number, probes, maps, has_views, carried } => {
                if let Some(program) = self.programs.get_mut(&number) {
                    (program.maps, program.has_views) = (maps, has_views);
                }
                self.attached(number, probes, carried)
            }
            News::Refused { number, message } => {
                self.programs.remove(&number);
                let mut effects = vec![Effect::Say(message)];
                // An attach error comes too late: the replaced program is already detached.
                if let Some(replaced) = self.replacing.remove(&number).filter(|it| !self.programs.contains_key(it)) {
                    effects.push(say(&format!("[{replaced}] has already been detached")));
                }
                effects
            }
            News::Ended { number, code } => self.ended(number, code),
            News::Read { file, text } => match text {
                Ok(text) => vec![self.attach(text, None, Some(file))],
                Err(message) => vec![Effect::Say(message)],
            },
            News::Edited { number, text } => match text {
                Some(text) => vec![self.replace(number, text)],
                None => vec![say("no changes")],
            },
        }
    }

    fn attach(&mut self, source: String, replaces: Option<u32>, file: Option<Loading>) -> Effect {
        self.last += 1;
        let number = self.last;
        // A file declares everything it needs.
        let whole = match &file {
            Some(_) => source.clone(),
            None => {
                let whole = definitions::completed(&source, &self.definitions);
                self.definitions.extend(definitions::definitions(&source));
                whole
            }
        };
        let program = Program { source, file: file.clone(), maps: Vec::new(), has_views: false, once: false };
        self.programs.insert(number, program);
        if let Some(replaced) = replaces {
            self.replacing.insert(number, replaced);
        }
        Effect::Attach { number, source: whole, replaces, file }
    }

    /// Replaces a program; one from a file keeps its parameter values.
    fn replace(&mut self, number: u32, source: String) -> Effect {
        let file = self.programs.get(&number).and_then(|program| program.file.clone());
        self.attach(source, Some(number), file)
    }

    /// Runs a statement unchanged; an expression is printed.
    fn once(&mut self, text: &str) -> Effect {
        let source = match (is_statement(text), text.ends_with('}')) {
            (true, true) => format!("BEGIN {{ {text} }}"),
            (true, false) => format!("BEGIN {{ {text}; }}"),
            (false, _) => format!("BEGIN {{ print({text}); }}"),
        };
        let effect = self.attach(source, None, None);
        if let Some(program) = self.programs.get_mut(&self.last) {
            program.once = true;
        }
        effect
    }

    fn attached(&mut self, number: u32, probes: u32, carried: Option<(Vec<String>, Vec<String>)>) -> Vec<Effect> {
        let Some(program) = self.programs.get(&number) else { return Vec::new() };
        if program.once {
            return Vec::new();
        }
        let plural = if probes == 1 { "" } else { "s" };
        match self.replacing.remove(&number) {
            Some(replaced) => {
                self.programs.remove(&replaced);
                let (kept, empty) = carried.unwrap_or_default();
                let listed = |words: &str, maps: &[String]| match maps {
                    [] => String::new(),
                    maps => format!("; {words} {}", maps.join(", ")),
                };
                let (kept, empty) = (listed("kept", &kept), listed("empty", &empty));
                vec![say(&format!("[{number}] {probes} probe{plural}, replaces [{replaced}]{kept}{empty}"))]
            }
            None => vec![say(&format!("[{number}] {probes} probe{plural}"))],
        }
    }

    fn ended(&mut self, number: u32, code: Option<u8>) -> Vec<Effect> {
        let Some(program) = self.programs.remove(&number) else { return Vec::new() };
        match code {
            // It is being replaced at this moment.
            None if self.replacing.values().any(|replaced| *replaced == number) => Vec::new(),
            _ if program.once => Vec::new(),
            None => vec![say(&format!("[{number}] stopped"))],
            Some(0) => vec![say(&format!("[{number}] ended"))],
            Some(code) => vec![say(&format!("[{number}] ended with {code}"))],
        }
    }

    fn command(&mut self, command: Command) -> Vec<Effect> {
        match command {
            Command::Ps if self.programs.is_empty() => vec![say("no program is running")],
            Command::Ps => {
                let shown = self.programs.iter().map(|(number, program)| (*number, program.in_one_line()));
                vec![Effect::Status(shown.collect())]
            }
            Command::Stop(Which::All) => self.programs.keys().map(|number| Effect::Detach(*number)).collect(),
            Command::Stop(Which::One(number)) => self.with(number, |_| Effect::Detach(number)),
            Command::Views(Some(number)) => self.with(number, |program| {
                if program.has_views { Effect::Views(number) } else { say(&format!("[{number}] has no view")) }
            }),
            Command::Views(None) => {
                let has_views =
                    |(number, program): (&u32, &Program)| program.has_views.then_some(Effect::Views(*number));
                let views: Vec<Effect> = self.programs.iter().filter_map(has_views).collect();
                if views.is_empty() { vec![say("no program has a view")] } else { views }
            }
            Command::Clear(map) => self.of_map(&map, |number, map| Effect::Clear { number, map }),
            Command::Watch(None) => vec![Effect::Watch(None)],
            Command::Watch(Some((map, period))) => {
                let mut effects = self.of_map(&map, |number, map| Effect::Watch(Some(Watch { number, map, period })));
                effects.truncate(1);
                effects
            }
            Command::Edit { number, text: None } => {
                self.with(number, |program| Effect::Edit { number, text: program.source.clone() })
            }
            Command::Edit { number, text: Some(text) } if self.programs.contains_key(&number) => {
                vec![self.replace(number, text)]
            }
            Command::Edit { number, .. } => vec![self.no_program(number)],
            Command::Save(path) => self.save(path),
            Command::Load(file) => vec![Effect::Read(file)],
            Command::History(count) => vec![Effect::History(count)],
            Command::Help(Some(word)) => vec![Effect::Help(word)],
            Command::Help(None) => vec![Effect::Commands],
            Command::Probe(pattern) => vec![Effect::Probe(pattern)],
            Command::Type(expression) => vec![Effect::Type(expression)],
            Command::Dump { stage, number } => match number.or(self.programs.keys().next_back().copied()) {
                Some(number) => self.with(number, |_| Effect::Dump { stage, number }),
                None => vec![say("no program is running")],
            },
            Command::Quit => vec![Effect::Quit],
        }
    }

    fn with(&self, number: u32, effect: impl FnOnce(&Program) -> Effect) -> Vec<Effect> {
        vec![self.programs.get(&number).map_or_else(|| self.no_program(number), effect)]
    }

    fn no_program(&self, number: u32) -> Effect {
        let running: Vec<String> = self.programs.keys().map(u32::to_string).collect();
        if running.is_empty() {
            return say(&format!("there is no program {number}: none is running"));
        }
        say(&format!("there is no program {number}; running: {}", running.join(", ")))
    }

    /// An effect on a map in each program that has it.
    fn of_map(&self, map: &str, effect: impl Fn(u32, String) -> Effect) -> Vec<Effect> {
        let has = |program: &Program| program.maps.iter().any(|known| known == map);
        let owners: Vec<u32> =
            self.programs.iter().filter(|(_, program)| has(program)).map(|(number, _)| *number).collect();
        let several = owners.len() > 1;
        let heading = |number: u32| several.then(|| say(&format!("[{number}]")));
        let effects =
            owners.iter().flat_map(|number| heading(*number).into_iter().chain([effect(*number, map.to_owned())]));
        let effects: Vec<Effect> = effects.collect();
        if !effects.is_empty() {
            return effects;
        }
        let maps = self.maps();
        let near = profiler_compiler::similar::nearest(map, maps.iter().map(String::as_str), 1);
        vec![match near.first() {
            Some(near) => say(&format!("there is no map `{map}`; did you mean `{near}`?")),
            None if maps.is_empty() => say(&format!("there is no map `{map}`: no program has one")),
            None => say(&format!("there is no map `{map}`; these are: {}", maps.join(", "))),
        }]
    }

    fn save(&self, path: String) -> Vec<Effect> {
        let kept = self.programs.iter().filter(|(_, program)| !program.once);
        // Parameter values are not part of a script, so they go into a comment.
        let heading = |program: &Program| match &program.file {
            Some(file) if !file.words.is_empty() => format!("// {}", program.in_one_line()),
            _ => String::new(),
        };
        let programs: Vec<_> =
            kept.map(|(number, program)| (*number, heading(program), program.source.trim().to_owned())).collect();
        if programs.is_empty() {
            return vec![say("no program is running")];
        }
        vec![Effect::Write { path, text: format!("{}\n", definitions::joined(&programs, &self.definitions)) }]
    }
}

fn say(words: &str) -> Effect {
    Effect::Say(format!("{words}\n"))
}

/// Whether a text is a statement; the value of anything else is printed.
fn is_statement(text: &str) -> bool {
    let silent = [
        "print(", "printf(", "clear(", "zero(", "delete(", "exit(", "join(", "time(", "system(", "cat(", "errorf(",
        "warnf(", "debugf(",
    ];
    let assigns = text.starts_with(['$', '@']) && text.contains(" = ");
    text.contains(';') || text.contains('{') || assigns || silent.iter().any(|word| text.starts_with(word))
}

#[cfg(test)]
mod tests;
