//! Objects of `profiler build`, to be run with other values.
//!
//! In: what an object was made from, to be kept in it; later the object. Out: its script, and the script compiled for this machine.
//! Guarantee: what runs has the instructions of the object, byte for byte, or is refused with what to do.

mod record;

use std::fs;
use std::io::Read as _;
use std::path::Path;

use profiler_compiler::diagnostic::{Code, Diagnostic};
use profiler_compiler::object::Object;
use profiler_compiler::params::{self, Param};
use profiler_compiler::source::Source;
use profiler_runtime::elf::appended;
use profiler_runtime::params::Values;

use super::args::ScriptArguments;
use super::engine::{self, Compiled};
use super::exit::{Failure, words_of};
use super::parameters;
use super::script::Origin;
use record::Record;

/// The section that says what an object was made from.
const SECTION: &str = ".profiler";
/// Most bytes of an object: far above any that the compiler makes.
const LIMIT_BYTES: u64 = 256 << 20;
/// The ELF format's number of BPF, at its place in the header.
pub const MACHINE_BPF: [u8; 2] = 247_u16.to_le_bytes();

const NOT_OURS: Code = Code(180);
const OTHER_VERSION: Code = Code(181);
const OTHER_MACHINE: Code = Code(182);
const FIXED: Code = Code(183);
const TOO_LONG: Code = Code(368);

/// An object of `profiler build`.
#[derive(Debug)]
pub struct Built {
    path: String,
    bytes: Vec<u8>,
    record: Record,
}

/// Puts into an object what it was made from.
pub fn complete(elf: &[u8], source: &Source, script: &ScriptArguments) -> Result<Vec<u8>, Failure> {
    let record = Record::new(source, script, engine::settings()).text();
    appended::append(elf, SECTION, record.as_bytes()).ok_or_else(|| Failure::coded(NOT_OURS, "the object is damaged"))
}

/// The object that `origin` names; nothing when that is no BPF object.
pub fn open(origin: &Origin) -> Result<Option<Built>, Failure> {
    let Origin::File(path) = origin else { return Ok(None) };
    // What is no file, such as a pipe, can be read once only: it is a script.
    let (true, Ok(file)) = (Path::new(path).is_file(), fs::File::open(path)) else { return Ok(None) };
    let mut bytes = Vec::new();
    let read = file.take(LIMIT_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| Failure::coded(Code(1), format!("cannot read `{path}`: {}", words_of(&error))))?;
    if !bytes.starts_with(b"\x7fELF") || bytes.get(18..20) != Some(&MACHINE_BPF) {
        return Ok(None);
    }
    let Some(kept) = appended::section(&bytes, SECTION) else {
        return Err(Failure::coded(NOT_OURS, format!("`{path}` does not say what it was made from"))
            .help("only objects that `profiler build` wrote can be run; for others there is `bpftool prog loadall`"));
    };
    let again = |source: &str| format!("build it again with this one: `profiler build {source} -o {path}`");
    let record = match Record::read(kept) {
        Ok(record) => record,
        Err(version) => {
            let words = format!("`{path}` was built by profiler {version}, and this is {}", record::VERSION);
            return Err(Failure::coded(OTHER_VERSION, words).help(again("SCRIPT")));
        }
    };
    let built = Built { path: path.clone(), bytes, record };
    if built.record.machine != std::env::consts::ARCH {
        return Err(built.other_machine());
    }
    Ok(Some(built))
}

impl Built {
    /// The script with its modules and imports.
    pub fn source(&self) -> &Source {
        &self.record.source
    }

    /// What the script is for and what it takes, with the values of the object as defaults.
    pub fn describe(&self) -> Result<String, Failure> {
        let mut taken = engine::taken(self.source())?;
        let named = &self.record.named;
        let script = ScriptArguments { named: named.clone(), ..ScriptArguments::new(Origin::File(self.path.clone())) };
        for (param, value) in taken.params.iter_mut().zip(engine::given_params(self.source(), &script)?) {
            param.default = Some(value.value);
        }
        Ok(parameters::describe_taken(self.source(), &taken))
    }

    /// How the object was made, but for what is given now.
    pub fn arguments(&self, given: &ScriptArguments) -> Result<ScriptArguments, Failure> {
        let taken = engine::taken(self.source())?;
        let param = |name: &str| params::find(&taken.params, name);
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
        Ok(ScriptArguments { named, parameters: positional, pid: given.pid.or(self.record.pid), ..given.clone() })
    }

    /// Compiles the script for this machine, and sees that it becomes the object. `script` comes from [`Built::arguments`].
    pub fn compile(&self, script: &ScriptArguments, child: Option<u32>) -> Result<(Compiled, Values), Failure> {
        let wanted = engine::given_params(self.source(), script)?;
        let as_built = ScriptArguments { named: self.record.named.clone(), ..script.clone() };
        let compiled = self.compile_as(&as_built, child)?;
        if !self.is_made_of(&compiled.object) {
            return Err(self.differs(&as_built, script));
        }
        for (param, wanted) in compiled.object.params.iter().zip(&wanted) {
            if param.place.is_some() && !param.is_comparable(&wanted.value) {
                let diagnostic = Diagnostic::error(TOO_LONG, param.span, param.too_long(&wanted.value));
                return Err(Failure::Script { source: self.source().clone(), diagnostics: vec![diagnostic] });
            }
        }
        let compiled = self.elsewhere(compiled, &wanted, script, child)?;
        Ok((compiled, Values::from(&wanted)))
    }

    fn compile_as(&self, script: &ScriptArguments, child: Option<u32>) -> Result<Compiled, Failure> {
        // The script's own name says whether it is bpftrace's.
        let origin = Origin::File(self.source().name.clone());
        let script = ScriptArguments { origin, ..script.clone() };
        engine::compile_with(self.source(), &script, child, self.record.settings.clone())
    }

    fn is_made_of(&self, object: &Object) -> bool {
        let kept = appended::section(&self.bytes, SECTION).unwrap_or_default();
        appended::append(&object.elf, SECTION, kept).is_some_and(|whole| whole == self.bytes)
    }

    /// Parameters that decide what is attached or shown may have other values too, as long as the instructions do not depend on them: then
    /// the programs are the same, and only attached elsewhere, shown otherwise, or given other room.
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
        // Other values go into the object's data, and must not choose a map's size here.
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
        Err(Failure::Script { source: self.source().clone(), diagnostics: vec![diagnostic] })
    }

    /// Why this machine makes something else of the script: options of this run, or the machine itself.
    fn differs(&self, as_built: &ScriptArguments, script: &ScriptArguments) -> Failure {
        let plain =
            ScriptArguments { pid: self.record.pid, report_failures: false, probe_filter: None, ..as_built.clone() };
        let same_here = self.compile_as(&plain, None).is_ok_and(|compiled| self.is_made_of(&compiled.object));
        if !same_here {
            return self.other_machine();
        }
        let mut options = Vec::new();
        options.extend((script.pid != self.record.pid).then_some("`-p`"));
        options.extend(script.report_failures.then_some("`-k`"));
        options.extend(script.probe_filter.is_some().then_some("`--probe-filter`"));
        let options = if options.is_empty() { "`-c`".into() } else { options.join(", ") };
        Failure::coded(FIXED, format!("{options} would change the programs of `{}`, which are built", self.path))
            .help("run the script itself")
    }

    fn other_machine(&self) -> Failure {
        let (then, now) = (self.record.machine(), record::this_machine());
        let words = if then == now {
            format!("`{}` is not what its script becomes here: the machine has changed since it was built", self.path)
        } else {
            format!("`{}` was built for {then}, and this is {now}", self.path)
        };
        Failure::coded(OTHER_MACHINE, words).help(format!(
            "its programs know places in the kernel and in files; build it here: `{}`",
            self.build_command()
        ))
    }

    fn or_build_again(&self) -> String {
        format!(", or build it again: `{}`", self.build_command())
    }

    fn build_command(&self) -> String {
        let script = if self.source().name == "-e" { "-e 'PROGRAM'" } else { &self.source().name };
        format!("profiler build {script} -o {}", self.path)
    }
}

/// What of an object is its programs: instructions with the names of what they refer to, and the data without the values of parameters.
/// How much maps hold is no part of it.
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
