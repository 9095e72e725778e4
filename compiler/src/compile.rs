//! The compilation pipeline, from source text to ELF object.
//!
//! In: a script, the catalogue, a target, the command-line options. Out: an [`Object`], or
//! diagnostics.
//! Guarantee: an object is returned only if there are no errors.

use std::collections::BTreeSet;

use crate::ast;
use crate::catalogue::Catalogue;
use crate::check::{self, Options};
use crate::diagnostic::Diagnostic;
use crate::emit::{self, Emitted};
use crate::expand;
use crate::ir;
use crate::lower;
use crate::memory;
use crate::object::Object;
use crate::parse;
use crate::source::Source;
use crate::target::{Defined, Target};
use crate::typed;

/// A compiled script.
#[derive(Debug)]
pub struct Compiled {
    /// What the runtime needs.
    pub object: Object,
    /// Warnings; there are no errors.
    pub warnings: Vec<Diagnostic>,
}

/// The output of every stage, for debug dumps and tests.
#[derive(Debug)]
pub struct Stages {
    /// The syntax tree, with macros expanded.
    pub ast: ast::Script,
    /// The typed program, with names resolved.
    pub typed: typed::Program,
    /// Optimised IR.
    pub ir: ir::Program,
    /// BPF bytecode.
    pub emitted: Emitted,
    /// The object. Its ELF is still in `emitted`.
    pub object: Object,
    /// Warnings; there are no errors.
    pub warnings: Vec<Diagnostic>,
}

/// Compiles a script.
pub fn compile(
    source: &Source,
    catalogue: &Catalogue,
    target: &dyn Target,
    options: &Options,
) -> Result<Compiled, Vec<Diagnostic>> {
    let Stages { mut object, emitted, warnings, .. } = stages(source, catalogue, target, options)?;
    object.elf = emitted.elf;
    Ok(Compiled { object, warnings })
}

/// Compiles a script and returns the output of each stage.
pub fn stages(
    source: &Source,
    catalogue: &Catalogue,
    target: &dyn Target,
    options: &Options,
) -> Result<Stages, Vec<Diagnostic>> {
    stages_of(syntax(source)?, source, catalogue, target, options)
}

/// Parses a script and expands its macros and modules.
pub fn syntax(source: &Source) -> Result<ast::Script, Vec<Diagnostic>> {
    expand::expand(parse::parse(source)?)
}

/// Compiles a syntax tree, which may have been modified since it was parsed from `source`.
pub fn stages_of(
    ast: ast::Script,
    source: &Source,
    catalogue: &Catalogue,
    target: &dyn Target,
    options: &Options,
) -> Result<Stages, Vec<Diagnostic>> {
    let modules = check::module_types(&ast, catalogue, target);
    let with_modules = modules.map(|types| Defined::of_modules(target, types));
    let target = with_modules.as_ref().map_or(target, |joined| joined as &dyn Target);
    let (added, problems) = check::define(&ast, target);
    if !problems.is_empty() {
        return Err(problems);
    }
    let extended = (!added.is_empty()).then(|| Defined::new(target, added));
    let target = extended.as_ref().map_or(target, |extended| extended as &dyn Target);
    let (mut typed, mut diagnostics) = check::check(&ast, catalogue, target, options);
    // Only the expanded attach points say which functions of programs have to be described, and
    // only checked bodies say which types and variables.
    let mut questions = Vec::new();
    let mut described = None;
    // Each round asks what was not asked before, so the script's names bound their number.
    while !typed.undescribed.is_empty() {
        questions.append(&mut typed.undescribed);
        let answered: &Defined<'_> = described.insert(Defined::with_programs(target, &questions));
        (typed, diagnostics) = check::check(&ast, catalogue, answered, options);
    }
    let target = described.as_ref().map_or(target, |described| described as &dyn Target);
    if source.is_declarative() {
        check::strict_units(&mut diagnostics);
    }
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(diagnostics);
    }
    let Code { ir, object, emitted } = generate(&typed, Input { source, catalogue, target, options })?;
    Ok(Stages { ast, typed, ir, emitted, object, warnings: diagnostics })
}

/// Instruction limit for functions of scripts with double-buffered maps. Such programs contain
/// their body twice and the verifier has to check both copies.
const MAX_DOUBLED_INSTS: usize = 4 << 10;

/// What the generated code depends on besides the checked program.
#[derive(Clone, Copy)]
struct Input<'a> {
    source: &'a Source,
    catalogue: &'a Catalogue,
    target: &'a dyn Target,
    options: &'a Options,
}

/// The generated code of a checked program.
struct Code {
    ir: ir::Program,
    object: Object,
    emitted: Emitted,
}

/// From this attempt on, a failure splits off all merged blocks, not only those named in
/// diagnostics.
const MOST_TRIES: usize = 3;

/// Generates code. A kernel program that exceeds a limit is split into several.
fn generate(typed: &typed::Program, input: Input<'_>) -> Result<Code, Vec<Diagnostic>> {
    // Double buffering is optional. If the program gets too large, give up double buffering first
    // for the maps that are never emptied, then for all.
    let emptied = typed.windows.iter().filter(|group| !group.keeps).count();
    let mut groups = typed.windows.len();
    loop {
        match generate_with(typed, input, groups) {
            Err(_) if groups > 0 => groups = if groups > emptied { emptied } else { 0 },
            result => return result,
        }
    }
}

fn generate_with(typed: &typed::Program, input: Input<'_>, groups: usize) -> Result<Code, Vec<Diagnostic>> {
    let mut apart = BTreeSet::new();
    if input.options.separate_programs {
        apart.extend(0..typed.probes.len());
    }
    for tries in 1.. {
        let diagnostics = match code(typed, input, &apart, groups) {
            Ok(code) => return Ok(code),
            Err(diagnostics) => diagnostics,
        };
        let merged = lower::merged(typed, &apart);
        let is_named = |index: &usize| diagnostics.iter().any(|it| it.span == typed.probes[*index].span);
        let named: Vec<usize> = merged.iter().copied().filter(is_named).collect();
        if named.is_empty() {
            return Err(diagnostics);
        }
        apart.extend(if tries < MOST_TRIES { named } else { merged });
    }
    Err(Vec::new())
}

fn code(
    typed: &typed::Program,
    input: Input<'_>,
    apart: &BTreeSet<usize>,
    groups: usize,
) -> Result<Code, Vec<Diagnostic>> {
    let Input { source, catalogue, target, .. } = input;
    let lower::Lowered { mut ir, object } = lower::lower(typed, (catalogue, target), apart, groups);
    emit::check_size(&ir, if groups > 0 { MAX_DOUBLED_INSTS } else { emit::MAX_FUNCTION_INSTS })?;
    memory::check(typed, &ir.maps, u64::from(target.possible_cpus()))?;
    debug_assert_eq!(
        ir::verify::verify(&ir),
        Ok(()),
        "lowering made IR that does not hold:\n{}",
        ir::print::print(&ir)
    );
    ir::optimise::optimise(&mut ir);
    ir::joins::widen(&mut ir);
    debug_assert_eq!(ir::verify::verify(&ir), Ok(()), "optimising made IR that does not hold");
    let emitted = emit::emit(&ir, source)?;
    Ok(Code { ir, object, emitted })
}
