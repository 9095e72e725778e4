//! What the programs of an object rely on: the answers that the compiler had from the machine.
//!
//! In: a [`Target`] to build on; later the machine to run on. Out: the questions with hashes of
//! their answers; later the first question whose answer is another one.
//! Guarantee: every answer that decides what is in the programs, or where in a file they are
//! attached, is recorded. Names of tracepoints and kernel functions are not: attaching them reports
//! what is missing.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;

use profiler_compiler::ast::TypeTag;
use profiler_compiler::btf::{Added, Btf};
use profiler_compiler::target::{
    Arch, FunctionProbing, FunctionSymbol, KernelFunction, LineSite, ProgramAnswers, ProgramInstruction,
    ProgramQuestions, ProgramType, ProgramVariable, StaticProbe, Target, TargetError, TracepointFormat, Variable,
};
use serde::{Deserialize, Serialize};

use super::checksum::{checksum, of_debug};

/// The kernel's types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// The directory with the types of each module.
const MODULE_TYPES: &str = "/sys/kernel/btf";
/// The notes of the kernel's image, among them its build id.
const NOTES: &str = "/sys/kernel/notes";

/// What the compiler asks a machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Question {
    /// Version, CPUs, page size, pid namespace.
    Numbers,
    /// The kernel's types.
    Types,
    /// A module's types.
    ModuleTypes(String),
    TracepointFormat {
        category: String,
        event: String,
    },
    /// The files that a name refers to.
    Binaries {
        name: String,
        pid: Option<u32>,
    },
    Functions {
        path: String,
        pattern: String,
        by_source_name: bool,
    },
    FileOffset {
        path: String,
        address: u64,
    },
    Variable {
        path: String,
        name: String,
        site: Option<u64>,
    },
    StaticProbes {
        path: String,
        provider: String,
        name: String,
    },
    /// Functions, types and variables, from debug information.
    Described {
        path: String,
        functions: Vec<u64>,
        /// Offsets and scopes.
        instructions: Vec<(u64, u64)>,
        /// Words before the name, the name and a site.
        types: Vec<(String, String, Option<u64>)>,
        /// Names and addresses.
        variables: Vec<(String, u64)>,
    },
    /// The code of a line of a source file.
    LineSites {
        path: String,
        file: String,
        line: u64,
    },
    KernelSymbol(String),
    Cgroup(String),
    User(String),
}

impl fmt::Display for Question {
    /// The subject, as in "… has changed".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Question::Numbers => f.write_str("the machine"),
            Question::Types => f.write_str("the kernel"),
            Question::ModuleTypes(module) => write!(f, "the module `{module}`"),
            Question::TracepointFormat { category, event } => write!(f, "the tracepoint `{category}:{event}`"),
            Question::Binaries { name, .. } => write!(f, "the path of `{name}`"),
            Question::Functions { path, .. }
            | Question::FileOffset { path, .. }
            | Question::Variable { path, .. }
            | Question::StaticProbes { path, .. }
            | Question::Described { path, .. }
            | Question::LineSites { path, .. } => write!(f, "`{path}`"),
            Question::KernelSymbol(name) => write!(f, "the address of `{name}`"),
            Question::Cgroup(path) => write!(f, "the control group `{path}`"),
            Question::User(name) => write!(f, "the user `{name}`"),
        }
    }
}

impl Question {
    /// What debug information is asked.
    fn described(&self) -> Option<ProgramQuestions> {
        let Question::Described { path, functions, instructions, types, variables } = self else { return None };
        let tag = |word: &str| TAGS.iter().find(|(known, _)| *known == word).map_or(TypeTag::None, |(_, tag)| *tag);
        let ty = |(word, name, site): &(String, String, Option<u64>)| ProgramType {
            tag: tag(word),
            name: name.clone(),
            site: *site,
        };
        let instruction =
            |(file_offset, scope): &(u64, u64)| ProgramInstruction { file_offset: *file_offset, scope: *scope };
        let variable = |(name, address): &(String, u64)| ProgramVariable { name: name.clone(), address: *address };
        Some(ProgramQuestions {
            path: path.clone(),
            functions: functions.iter().copied().collect(),
            instructions: instructions.iter().map(instruction).collect(),
            types: types.iter().map(ty).collect(),
            variables: variables.iter().map(variable).collect(),
            names_only: false,
        })
    }

    /// A hash of the machine's answer.
    fn ask(&self, target: &dyn Target) -> u64 {
        match self {
            Question::Numbers => of_debug(&(
                target.arch(),
                target.kernel(),
                target.possible_cpus(),
                target.page_size_bytes(),
                target.pid_namespace(),
            )),
            Question::Types => checksum(&[&fs::read(TYPES).unwrap_or_default()]),
            Question::ModuleTypes(module) => {
                checksum(&[&fs::read(format!("{MODULE_TYPES}/{module}")).unwrap_or_default()])
            }
            Question::TracepointFormat { category, event } => of_debug(&target.tracepoint_format(category, event)),
            Question::Binaries { name, pid } => of_debug(&target.binaries(name, *pid)),
            Question::Functions { path, pattern, by_source_name: false } => of_debug(&target.functions(path, pattern)),
            Question::Functions { path, pattern, by_source_name: true } => {
                of_debug(&target.functions_by_source_name(path, pattern))
            }
            Question::FileOffset { path, address } => of_debug(&target.file_offset(path, *address)),
            Question::Variable { path, name, site } => of_debug(&target.variable(path, name, *site)),
            Question::StaticProbes { path, provider, name } => of_debug(&target.static_probes(path, provider, name)),
            Question::Described { .. } => {
                let mut added = Added::default();
                let answers = self.described().map(|questions| target.describe_program(&questions, &mut added));
                of_debug(&(answers, added))
            }
            Question::LineSites { path, file, line } => of_debug(&target.line_sites(path, file, *line)),
            Question::KernelSymbol(name) => of_debug(&target.kernel_symbol(name)),
            Question::Cgroup(path) => of_debug(&target.cgroup_id(path)),
            Question::User(name) => of_debug(&target.user_id(name)),
        }
    }
}

/// The keywords before the names of types.
const TAGS: [(&str, TypeTag); 4] =
    [("", TypeTag::None), ("struct", TypeTag::Struct), ("union", TypeTag::Union), ("enum", TypeTag::Enum)];

/// The question that these are.
fn asked(questions: &ProgramQuestions) -> Question {
    let word = |tag| TAGS.iter().find(|(_, known)| *known == tag).map_or("", |(word, _)| word);
    let ty = |ty: &ProgramType| (word(ty.tag).to_owned(), ty.name.clone(), ty.site);
    Question::Described {
        path: questions.path.clone(),
        functions: questions.functions.iter().copied().collect(),
        instructions: questions.instructions.iter().map(|at| (at.file_offset, at.scope)).collect(),
        types: questions.types.iter().map(ty).collect(),
        variables: questions.variables.iter().map(|it| (it.name.clone(), it.address)).collect(),
    }
}

/// The answers of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answers {
    /// The hash of the kernel's notes. The same build of a kernel has the same types, which are
    /// then not read. `None` if there are no notes.
    kernel_build: Option<u64>,
    answers: Vec<(Question, u64)>,
}

impl Answers {
    /// The first question that a machine answers differently.
    pub(crate) fn first_difference(&self, target: &dyn Target) -> Option<&Question> {
        let is_same_kernel = self.kernel_build.is_some() && self.kernel_build == kernel_build();
        let differs = |(question, answer): &&(Question, u64)| {
            (*question != Question::Types || !is_same_kernel) && question.ask(target) != *answer
        };
        self.answers.iter().find(differs).map(|(question, _)| question)
    }
}

fn kernel_build() -> Option<u64> {
    fs::read(NOTES).ok().filter(|notes| notes.windows(4).any(|name| name == b"GNU\0")).map(|notes| checksum(&[&notes]))
}

/// A machine that remembers what it was asked.
#[derive(Debug)]
pub(crate) struct Recorded<'a> {
    target: &'a dyn Target,
    asked: RefCell<BTreeSet<Question>>,
}

impl<'a> Recorded<'a> {
    /// A machine that nothing was asked yet.
    pub(crate) fn new(target: &'a dyn Target) -> Recorded<'a> {
        Recorded { target, asked: RefCell::new(BTreeSet::from([Question::Numbers])) }
    }

    /// What it was asked, with its answers.
    pub(crate) fn answers(self) -> Answers {
        let with_answer = |question: Question| {
            let answer = question.ask(self.target);
            (question, answer)
        };
        Answers {
            kernel_build: kernel_build(),
            answers: self.asked.into_inner().into_iter().map(with_answer).collect(),
        }
    }

    fn note(&self, question: Question) {
        self.asked.borrow_mut().insert(question);
    }

    fn note_types(&self) {
        self.note(Question::Types);
    }
}

impl Target for Recorded<'_> {
    fn arch(&self) -> Arch {
        self.target.arch()
    }

    fn kernel(&self) -> (u32, u32) {
        self.target.kernel()
    }

    fn possible_cpus(&self) -> u32 {
        self.target.possible_cpus()
    }

    fn page_size_bytes(&self) -> u32 {
        self.target.page_size_bytes()
    }

    fn most_samples_hz(&self) -> Option<u64> {
        self.target.most_samples_hz()
    }

    fn btf(&self) -> Option<&Btf> {
        self.note_types();
        self.target.btf()
    }

    fn btf_with_modules(&self, modules: &[String]) -> Option<Btf> {
        self.note_types();
        for module in modules {
            self.note(Question::ModuleTypes(module.clone()));
        }
        self.target.btf_with_modules(modules)
    }

    fn calls_kernel_functions(&self) -> bool {
        self.target.calls_kernel_functions()
    }

    fn compat_status_offset(&self) -> Option<u32> {
        self.note_types();
        self.target.compat_status_offset()
    }

    fn pid_namespace(&self) -> Option<(u64, u64)> {
        self.target.pid_namespace()
    }

    fn tracepoints(&self, category: &str, event: &str) -> Result<Vec<(String, String)>, TargetError> {
        self.target.tracepoints(category, event)
    }

    fn tracepoint_format(&self, category: &str, event: &str) -> Result<TracepointFormat, TargetError> {
        self.note(Question::TracepointFormat { category: category.into(), event: event.into() });
        self.target.tracepoint_format(category, event)
    }

    fn binaries(&self, name: &str, pid: Option<u32>) -> Result<Vec<String>, TargetError> {
        self.note(Question::Binaries { name: name.into(), pid });
        self.target.binaries(name, pid)
    }

    fn file_identity(&self, path: &str) -> Option<(u64, u64)> {
        self.target.file_identity(path)
    }

    fn of_process(&self) -> Option<u32> {
        self.target.of_process()
    }

    fn functions(&self, path: &str, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        self.note(Question::Functions { path: path.into(), pattern: pattern.into(), by_source_name: false });
        self.target.functions(path, pattern)
    }

    fn functions_by_source_name(&self, path: &str, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        self.note(Question::Functions { path: path.into(), pattern: pattern.into(), by_source_name: true });
        self.target.functions_by_source_name(path, pattern)
    }

    fn file_offset(&self, path: &str, address: u64) -> Result<Option<u64>, TargetError> {
        self.note(Question::FileOffset { path: path.into(), address });
        self.target.file_offset(path, address)
    }

    fn variable(&self, path: &str, name: &str, site: Option<u64>) -> Result<Variable, TargetError> {
        self.note(Question::Variable { path: path.into(), name: name.into(), site });
        self.target.variable(path, name, site)
    }

    fn function_probing(&self) -> FunctionProbing {
        self.note_types();
        self.target.function_probing()
    }

    fn kernel_functions(&self, module: Option<&str>, function: &str) -> Result<Vec<KernelFunction>, TargetError> {
        self.target.kernel_functions(module, function)
    }

    fn absent_kernel_function(&self, module: Option<&str>, function: &str) -> TargetError {
        self.target.absent_kernel_function(module, function)
    }

    fn static_probes(&self, path: &str, provider: &str, name: &str) -> Result<Vec<StaticProbe>, TargetError> {
        self.note(Question::StaticProbes { path: path.into(), provider: provider.into(), name: name.into() });
        self.target.static_probes(path, provider, name)
    }

    fn describe_program(&self, questions: &ProgramQuestions, types: &mut Added) -> ProgramAnswers {
        self.note(asked(questions));
        self.target.describe_program(questions, types)
    }

    fn line_sites(&self, path: &str, file: &str, line: u64) -> Result<Vec<LineSite>, TargetError> {
        self.note(Question::LineSites { path: path.into(), file: file.into(), line });
        self.target.line_sites(path, file, line)
    }

    fn kernel_symbol(&self, name: &str) -> Option<u64> {
        self.note(Question::KernelSymbol(name.into()));
        self.target.kernel_symbol(name)
    }

    fn cgroup_id(&self, path: &str) -> Result<u64, TargetError> {
        self.note(Question::Cgroup(path.into()));
        self.target.cgroup_id(path)
    }

    fn user_id(&self, name: &str) -> Result<u32, TargetError> {
        self.note(Question::User(name.into()));
        self.target.user_id(name)
    }
}
