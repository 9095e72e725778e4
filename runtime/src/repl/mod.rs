//! The prompt's core: what was typed goes in, what is to be done comes out.
//!
//! In: texts ([`Repl::submit`]) and news of the programs ([`Repl::told`]). Out: [`Effect`]s, in order.
//! Guarantee: no I/O, no clock and no kernel, so that a session is a transcript; a program has one number as long as the prompt
//! lives, and effects name only programs that are attached.

pub mod help;
pub mod input;
pub mod status;

use std::collections::BTreeMap;
use std::time::Duration;

use input::{Command, Input, Which};

pub use input::Loading;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Show a text, which ends with a newline.
    Say(String),
    /// Compile, load and attach.
    Attach {
        /// Its number.
        number: u32,
        /// What was typed.
        source: String,
        /// The program whose place and maps it takes: that one is detached then.
        replaces: Option<u32>,
        /// Where it was read.
        file: Option<Loading>,
    },
    /// Detach a program.
    Detach(u32),
    /// Print a map of a program.
    Print {
        /// Whose.
        number: u32,
        /// With sigil.
        map: String,
        /// `show … sort … top …`, or nothing.
        view: String,
    },
    /// Empty a map of a program.
    Clear {
        /// Whose.
        number: u32,
        /// With sigil.
        map: String,
    },
    /// Print a map again and again; `None` ends it.
    Watch(Option<Watch>),
    /// Show the programs with their events and cost; each with what was typed, in one line.
    Status(Vec<(u32, String)>),
    /// Write a file.
    Write {
        /// Where.
        path: String,
        /// What.
        text: String,
    },
    /// Read a file, and tell ([`News::Read`]).
    Read(Loading),
    /// Let a program be changed in the editor, and tell ([`News::Edited`]).
    Edit {
        /// Which.
        number: u32,
        /// What it is now.
        text: String,
    },
    /// Explain a word.
    Help(String),
    /// Explain the prompt ([`help::text`]).
    Commands,
    /// List probes.
    Probe(String),
    /// Say the type of an expression.
    Type(String),
    /// Show what the compiler makes of a program.
    Dump {
        /// The stage.
        stage: String,
        /// The program.
        number: u32,
    },
    /// Show what was typed last.
    History(usize),
    /// Leave.
    Quit,
}

/// A map that is printed again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// Whose.
    pub number: u32,
    /// With sigil.
    pub map: String,
    /// How often.
    pub period: Duration,
}

/// What became of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A program is attached.
    Attached {
        /// Which.
        number: u32,
        /// Its probes.
        probes: u32,
        /// Its maps, with sigil.
        maps: Vec<String>,
        /// Those that hold what the replaced program's held, and those that begin empty; nothing when it replaces none.
        carried: Option<(Vec<String>, Vec<String>)>,
    },
    /// A program was not attached; the message ends with a newline.
    Refused {
        /// Which.
        number: u32,
        /// Why.
        message: String,
    },
    /// A program ended by itself, or was detached.
    Ended {
        /// Which.
        number: u32,
        /// Its exit code, when it ended by itself.
        code: Option<u8>,
    },
    /// A file was read, or why not.
    Read {
        /// Which.
        file: Loading,
        /// Its text.
        text: Result<String, String>,
    },
    /// The editor was left; `None` when nothing was changed.
    Edited {
        /// Which program.
        number: u32,
        /// What it shall become.
        text: Option<String>,
    },
}

/// A program of the prompt.
#[derive(Debug, Clone)]
struct Program {
    source: String,
    /// Where it was read.
    file: Option<Loading>,
    maps: Vec<String>,
    /// Done once, and then forgotten.
    once: bool,
}

impl Program {
    /// What was typed, or which file it is with which values.
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
#[derive(Debug, Default)]
pub struct Repl {
    programs: BTreeMap<u32, Program>,
    /// Programs that replace another and are not yet attached, with that one.
    replacing: BTreeMap<u32, u32>,
    last: u32,
}

impl Repl {
    /// Does what was typed.
    pub fn submit(&mut self, text: &str) -> Vec<Effect> {
        match input::read(text) {
            Err(words) => vec![say(&words)],
            Ok(Input::Nothing) => Vec::new(),
            Ok(Input::Program(source)) => vec![self.attach(source, None, None)],
            Ok(Input::Once(expression)) => vec![self.once(&expression)],
            Ok(Input::Map { name, view }) => {
                self.of_map(&name, |number, map| Effect::Print { number, map, view: view.clone() })
            }
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

    /// Takes note of what happened.
    pub fn told(&mut self, news: News) -> Vec<Effect> {
        match news {
            News::Attached { number, probes, maps, carried } => self.attached(number, probes, maps, carried),
            News::Refused { number, message } => {
                self.programs.remove(&number);
                let mut effects = vec![Effect::Say(message)];
                // What the kernel refuses when it comes to attaching, it refuses too late for the other.
                if let Some(replaced) = self.replacing.remove(&number).filter(|it| !self.programs.contains_key(it)) {
                    effects.push(say(&format!("[{replaced}] was detached for it")));
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
                None => vec![say("nothing was changed")],
            },
        }
    }

    fn attach(&mut self, source: String, replaces: Option<u32>, file: Option<Loading>) -> Effect {
        self.last += 1;
        let number = self.last;
        let program = Program { source: source.clone(), file: file.clone(), maps: Vec::new(), once: false };
        self.programs.insert(number, program);
        if let Some(replaced) = replaces {
            self.replacing.insert(number, replaced);
        }
        Effect::Attach { number, source, replaces, file }
    }

    /// What takes the place of a script has the values of its parameters.
    fn replace(&mut self, number: u32, source: String) -> Effect {
        let file = self.programs.get(&number).and_then(|program| program.file.clone());
        self.attach(source, Some(number), file)
    }

    /// A statement as it is; an expression is printed.
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

    fn attached(
        &mut self,
        number: u32,
        probes: u32,
        maps: Vec<String>,
        carried: Option<(Vec<String>, Vec<String>)>,
    ) -> Vec<Effect> {
        let Some(program) = self.programs.get_mut(&number) else { return Vec::new() };
        program.maps = maps;
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
                vec![say(&format!("[{number}] {probes} probe{plural}, in place of [{replaced}]{kept}{empty}"))]
            }
            None => vec![say(&format!("[{number}] {probes} probe{plural}"))],
        }
    }

    fn ended(&mut self, number: u32, code: Option<u8>) -> Vec<Effect> {
        let Some(program) = self.programs.remove(&number) else { return Vec::new() };
        match code {
            // Its place is taken at this moment.
            None if self.replacing.values().any(|replaced| *replaced == number) => Vec::new(),
            _ if program.once => Vec::new(),
            None => vec![say(&format!("[{number}] stopped"))],
            Some(0) => vec![say(&format!("[{number}] ended"))],
            Some(code) => vec![say(&format!("[{number}] ended with {code}"))],
        }
    }

    fn command(&mut self, command: Command) -> Vec<Effect> {
        match command {
            Command::Ps if self.programs.is_empty() => vec![say("nothing runs")],
            Command::Ps => {
                let shown = self.programs.iter().map(|(number, program)| (*number, program.in_one_line()));
                vec![Effect::Status(shown.collect())]
            }
            Command::Stop(Which::All) => self.programs.keys().map(|number| Effect::Detach(*number)).collect(),
            Command::Stop(Which::One(number)) => self.with(number, |_| Effect::Detach(number)),
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
                None => vec![say("nothing runs")],
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
            return say(&format!("there is no program {number}: nothing runs"));
        }
        say(&format!("there is no program {number}; these run: {}", running.join(", ")))
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
        // Values of parameters are no part of a script.
        let text = |program: &Program| match &program.file {
            Some(file) if !file.words.is_empty() => format!("// {}\n{}", program.in_one_line(), program.source.trim()),
            _ => program.source.trim().to_owned(),
        };
        let texts: Vec<String> = self.programs.values().filter(|program| !program.once).map(text).collect();
        if texts.is_empty() {
            return vec![say("nothing runs")];
        }
        vec![Effect::Write { path, text: format!("{}\n", texts.join("\n\n")) }]
    }
}

fn say(words: &str) -> Effect {
    Effect::Say(format!("{words}\n"))
}

/// Whether a text does something by itself; the value of anything else is printed.
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
