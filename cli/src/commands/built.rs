//! Objects of `profiler build`, which `run` accepts with other parameter values.
//!
//! In: a compiled script, to be described in its object; later the object. Out: what to load, and
//! the values of its parameters.
//! Guarantee: an object is loaded as it was built, without the compiler; its programs are those of
//! its script on this machine, because the machine gives the same answers as when it was built.
//! Where options or values change what is attached or shown, its script is compiled again, and the
//! run is refused with advice unless the instructions are the same, byte for byte.

mod checksum;
pub(super) mod machine;
mod record;

use std::fs;
use std::io::Read as _;
use std::path::Path;

use profiler_compiler::check::getopt::Parameter;
use profiler_compiler::diagnostic::{Code, Diagnostic};
use profiler_compiler::object::Object;
use profiler_compiler::params::{self, Param};
use profiler_compiler::source::Source;
use profiler_runtime::elf::appended;
use profiler_runtime::params::Values;

use super::args::ScriptArguments;
use super::engine::{self, Compiled, Prebuilt, Taken};
use super::exit::{Failure, words_of};
use super::parameters;
use super::processes::Processes;
use super::script::Origin;
use machine::Question;
use record::{Header, Record, SECTION, ScriptOption, Unreadable};

/// Limit in bytes of an object: far above any that the compiler generates.
const LIMIT_BYTES: u64 = 256 << 20;

const NOT_OURS: Code = Code(180);
const OTHER_VERSION: Code = Code(181);
const OTHER_MACHINE: Code = Code(182);
const FIXED: Code = Code(183);
const TOO_LARGE: Code = Code(368);

/// An object of `profiler build`.
#[derive(Debug)]
pub(super) struct Built {
    path: String,
    header: Header,
    record: Record,
    source: Source,
    /// Its ELF is the whole file.
    object: Object,
}

/// The file of an object: its ELF with its description.
pub(super) fn complete(prebuilt: Prebuilt, source: &Source, script: &ScriptArguments) -> Result<Vec<u8>, Failure> {
    let Prebuilt { object, answers, needs_unsafe, depends_on_processes, .. } = prebuilt;
    let record = Record {
        files: Record::files_of(source),
        positional: script.parameters.clone(),
        named: script.named.clone(),
        pids: script.processes.pids.clone(),
        settings: engine::settings(),
        report_failures: script.report_failures,
        probe_filter: script.probe_filter.clone(),
        needs_unsafe,
        depends_on_processes,
        options: engine::taken(source)?.options.iter().map(ScriptOption::from).collect(),
        answers,
    };
    record.embed(&object).ok_or_else(|| {
        Failure::coded(NOT_OURS, "an object cannot describe this script: an expression of a view is nested too deeply")
            .help("write it with fewer operators, or run the script itself")
    })
}

/// Opens the object that `origin` names; `None` if it is not a BPF object.
pub(super) fn open(origin: &Origin) -> Result<Option<Built>, Failure> {
    let Origin::File(path) = origin else { return Ok(None) };
    // Something other than a file, such as a pipe, can be read only once: it is a script.
    let (true, Ok(file)) = (Path::new(path).is_file(), fs::File::open(path)) else { return Ok(None) };
    let mut bytes = Vec::new();
    let read = file.take(LIMIT_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| Failure::coded(Code(1), format!("cannot read `{path}`: {}", words_of(&error))))?;
    if !bytes.starts_with(b"\x7fELF") || bytes.get(18..20) != Some(&super::script::MACHINE_BPF) {
        return Ok(None);
    }
    match record::read(&bytes) {
        Ok((header, record, object)) => {
            let object = Object { elf: bytes, ..object };
            Ok(Some(Built { path: path.clone(), header, source: record.source(), record, object }))
        }
        Err(problem) => Err(unreadable(path, problem)),
    }
}

fn unreadable(path: &str, problem: Unreadable) -> Failure {
    let again = format!("build it again with this one: `profiler build SCRIPT -o {path}`");
    match problem {
        Unreadable::NotOurs => Failure::coded(NOT_OURS, format!("`{path}` does not say what it was made from"))
            .help("only objects that `profiler build` wrote can be run; for others there is `bpftool prog loadall`"),
        Unreadable::Damaged => Failure::coded(NOT_OURS, format!("`{path}` is damaged"))
            .help(format!("build it again: `profiler build SCRIPT -o {path}`")),
        Unreadable::OtherVersion(Header { profiler, .. }) if profiler == record::VERSION => {
            Failure::coded(OTHER_VERSION, format!("`{path}` was built by another build of profiler {profiler}"))
                .help(again)
        }
        Unreadable::OtherVersion(Header { profiler, .. }) => {
            let words = format!("`{path}` was built by profiler {profiler}, and this is {}", record::VERSION);
            Failure::coded(OTHER_VERSION, words).help(again)
        }
        Unreadable::OtherMachine(header) => other_machine(path, &header, None, "SCRIPT"),
    }
}

fn other_machine(path: &str, header: &Header, changed: Option<&Question>, script: &str) -> Failure {
    let (then, now) = (header.machine(), record::this_machine());
    let words = match changed {
        _ if then != now => format!("`{path}` was built for {then}, and this is {now}"),
        Some(question) => format!("`{path}` no longer fits: {question} has changed since it was built"),
        None => format!("`{path}` no longer matches its script here: the machine has changed since it was built"),
    };
    Failure::coded(OTHER_MACHINE, words).help(format!(
        "its programs know places in the kernel and in files; build it here: `profiler build {script} -o {path}`"
    ))
}

impl Built {
    /// The script with its modules and imports.
    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// Its parameters, with the values in the object as defaults.
    pub(super) fn taken(&self) -> Taken {
        let with_default = |param: &Param| Param { default: Some(param.value.clone()), ..param.clone() };
        Taken {
            params: self.object.params.iter().map(with_default).collect(),
            options: self.record.options.iter().map(Parameter::from).collect(),
        }
    }

    /// Describes the script and its parameters.
    pub(super) fn describe(&self) -> String {
        parameters::describe_taken(&self.source, &self.taken())
    }

    /// The options the object was built with, overridden by those given now.
    pub(super) fn arguments(&self, given: &ScriptArguments) -> Result<ScriptArguments, Failure> {
        let given = &parameters::settle_with(given, || Some(self.taken()))?;
        let param = |name: &str| params::find(&self.object.params, name);
        let canonical = |name: &str| param(name).map_or_else(|| name.to_owned(), |param| param.name.clone());
        let mut named = given.named.clone();
        for (name, value) in &given.named {
            if param(name).is_none() && name != "help" && !self.record.named.contains(&(name.clone(), value.clone())) {
                let words = format!("`--{name}` is a constant of `{}`", self.path);
                return Err(Failure::coded(FIXED, words).help(format!(
                    "the script reads it with `getopt`; values of a `param` can be changed{}",
                    self.or_build_again()
                )));
            }
        }
        let is_given = |name: &str| given.named.iter().any(|(other, _)| canonical(other) == canonical(name));
        named.extend(self.record.named.iter().filter(|(name, _)| !is_given(name)).cloned());
        if !given.parameters.is_empty() && given.parameters != self.record.positional {
            let words = format!("`$1`, `$2` and so on are constants of `{}`", self.path);
            return Err(Failure::coded(FIXED, words)
                .help(format!("values of a `param` can be changed{}", self.or_build_again())));
        }
        let positional = self.record.positional.clone();
        let mut processes = given.processes.clone();
        if processes.pids.is_empty() {
            processes.pids.clone_from(&self.record.pids);
        }
        Ok(ScriptArguments { named, parameters: positional, processes, ..given.clone() })
    }

    /// What to load, and the values of its parameters. `script` comes from [`Built::arguments`].
    pub(super) fn prepare(self, script: &ScriptArguments, child: Option<u32>) -> Result<(Object, Values), Failure> {
        let changed = engine::first_difference(&self.record.answers);
        if let Some(question) = changed {
            return Err(other_machine(&self.path, &self.header, Some(question), self.script()));
        }
        let wanted = engine::given_params(self.taken().params, &self.source, script)?;
        for param in wanted.iter().filter(|param| param.place.is_some()) {
            if let Some(message) = param.too_large(&param.value) {
                let diagnostic = Diagnostic::error(TOO_LARGE, param.span, message);
                return Err(Failure::Script { source: self.source, diagnostics: vec![diagnostic] });
            }
        }
        let values = Values::from(&wanted);
        let object = if self.is_planned_for(&wanted, script, child) {
            self.object
        } else {
            self.compile(&wanted, script, child)?
        };
        Ok((object, values))
    }

    /// Whether the object describes what is attached and shown with these values and options.
    fn is_planned_for(&self, wanted: &[Param], script: &ScriptArguments, child: Option<u32>) -> bool {
        let record = &self.record;
        let is_of_processes = child.is_some() || script.processes.pids != record.pids;
        let mut both = self.object.params.iter().zip(wanted);
        both.all(|(param, wanted)| !param.in_plan || param.value == wanted.value)
            && !(record.depends_on_processes && is_of_processes)
            && script.report_failures <= record.report_failures
            && (script.probe_filter.is_none() || script.probe_filter == record.probe_filter)
            && script.allow_unsafe >= record.needs_unsafe
    }

    /// Compiles the script again, for other values or options than the object was built with.
    fn compile(&self, wanted: &[Param], script: &ScriptArguments, child: Option<u32>) -> Result<Object, Failure> {
        let as_built = ScriptArguments {
            named: self.record.named.clone(),
            report_failures: script.report_failures || self.record.report_failures,
            probe_filter: script.probe_filter.clone().or_else(|| self.record.probe_filter.clone()),
            ..script.clone()
        };
        let compiled = self.compile_as(&as_built, child)?;
        if !self.is_made_of(&compiled.object) {
            return Err(self.differs(&as_built, script));
        }
        let script = ScriptArguments { named: script.named.clone(), ..as_built };
        Ok(self.elsewhere(compiled, wanted, &script, child)?.object)
    }

    fn compile_as(&self, script: &ScriptArguments, child: Option<u32>) -> Result<Compiled, Failure> {
        // The suffix of the script's own name tells whether it is a bpftrace script.
        let origin = Origin::File(self.source.name.clone());
        let script = ScriptArguments { origin, ..script.clone() };
        engine::compile_with(&self.source, &script, child, self.record.settings.clone())
    }

    fn is_made_of(&self, object: &Object) -> bool {
        let kept = appended::section(&self.object.elf, SECTION).unwrap_or_default();
        appended::append(&object.elf, SECTION, kept).is_some_and(|whole| whole == self.object.elf)
    }

    /// Parameters that decide what is attached or printed may also change, as long as the
    /// instructions do not depend on them: then the programs are identical, and only attach points,
    /// output or map capacities differ.
    fn elsewhere(
        &self,
        compiled: Compiled,
        wanted: &[Param],
        script: &ScriptArguments,
        child: Option<u32>,
    ) -> Result<Compiled, Failure> {
        let both = || compiled.object.params.iter().zip(wanted);
        let Some((first, given)) = both().find(|(param, wanted)| param.in_plan && param.value != wanted.value) else {
            return Ok(compiled);
        };
        // Other values go into the object's data and must not select a map's capacity here.
        let is_in_target = |name: &str| {
            params::find(wanted, name)
                .is_some_and(|found| both().any(|(param, _)| param.in_plan && param.name == found.name))
        };
        let mut named: Vec<_> = script.named.iter().filter(|(name, _)| is_in_target(name)).cloned().collect();
        named.extend(self.record.named.iter().filter(|(name, _)| !is_in_target(name)).cloned());
        let other = self.compile_as(&ScriptArguments { named, ..script.clone() }, child)?;
        if programs(&other.object) == programs(&compiled.object) {
            return Ok(other);
        }
        let message = format!(
            "`--{}` is {} in `{}`: with {} the programs would be others",
            first.name.replace('_', "-"),
            first.shown(&first.value),
            self.path,
            given.shown(&given.value)
        );
        let diagnostic = Diagnostic::error(FIXED, first.span, message)
            .label("it was decided when the object was built")
            .help(format!("run the script itself{}", self.or_build_again()));
        Err(Failure::Script { source: self.source.clone(), diagnostics: vec![diagnostic] })
    }

    /// Why the script compiles differently: options of this run, or the machine.
    fn differs(&self, as_built: &ScriptArguments, script: &ScriptArguments) -> Failure {
        let record = &self.record;
        let plain = ScriptArguments {
            processes: Processes { pids: record.pids.clone(), ..Processes::default() },
            report_failures: record.report_failures,
            probe_filter: record.probe_filter.clone(),
            ..as_built.clone()
        };
        let same_here = self.compile_as(&plain, None).is_ok_and(|compiled| self.is_made_of(&compiled.object));
        if !same_here {
            return other_machine(&self.path, &self.header, None, self.script());
        }
        let mut options = Vec::new();
        options.extend((script.processes.pids != record.pids).then_some("`-p`"));
        options.extend((script.report_failures && !record.report_failures).then_some("`-k`"));
        options.extend(script.probe_filter.is_some().then_some("`--probe-filter`"));
        let options = if options.is_empty() { "`-c`".into() } else { options.join(", ") };
        Failure::coded(FIXED, format!("{options} would change the programs of `{}`, which are built", self.path))
            .help("run the script itself")
    }

    fn or_build_again(&self) -> String {
        format!(", or build it again: `{}`", self.build_command())
    }

    /// The script as the command's argument.
    fn script(&self) -> &str {
        if self.source.name == "-e" { "-e 'PROGRAM'" } else { &self.source.name }
    }

    fn build_command(&self) -> String {
        format!("profiler build {} -o {}", self.script(), self.path)
    }
}

/// The programs of an object: instructions with the names of their relocations, and the data
/// without parameter values. Map capacities are not included.
fn programs(object: &Object) -> Vec<appended::Part> {
    let mut sections = appended::loaded(&object.elf);
    let places = object.params.iter().filter_map(|param| param.place.as_ref());
    if let Some((_, rodata, _)) = sections.iter_mut().find(|(name, ..)| name == ".rodata") {
        for place in places {
            let start = appended::SIZE_BYTES + place.offset_bytes as usize;
            if let Some(bytes) = rodata.get_mut(start..start + place.size_bytes as usize) {
                bytes.fill(0);
            }
        }
    }
    sections
}

#[cfg(test)]
#[path = "built_tests.rs"]
mod tests;
