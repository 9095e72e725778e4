//! The whole pipeline on one screen.
//!
//! In: a script, the words, a machine, the command line. Out: an [`Object`], or diagnostics.
//! Guarantee: an object only without errors.

use crate::ast;
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
use crate::words::Catalogue;

/// A compiled script.
#[derive(Debug)]
pub struct Compiled {
    /// What a runtime needs.
    pub object: Object,
    /// What deserves attention.
    pub warnings: Vec<Diagnostic>,
}

/// Everything the stages made, for those who look inside.
#[derive(Debug)]
pub struct Stages {
    /// As written, macros expanded.
    pub ast: ast::Script,
    /// Names resolved.
    pub typed: typed::Program,
    /// Optimised.
    pub ir: ir::Program,
    /// Bytecode.
    pub emitted: Emitted,
    /// The result, with the ELF.
    pub object: Object,
    /// What deserves attention.
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

/// Compiles a script and keeps what each stage made.
pub fn stages(
    source: &Source,
    catalogue: &Catalogue,
    target: &dyn Target,
    options: &Options,
) -> Result<Stages, Vec<Diagnostic>> {
    stages_of(syntax(source)?, source, catalogue, target, options)
}

/// A script as written, with its macros and modules in their places.
pub fn syntax(source: &Source) -> Result<ast::Script, Vec<Diagnostic>> {
    expand::expand(parse::parse(source)?)
}

/// Compiles a tree that may have been changed since it was read from `source`.
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
    let (typed, mut diagnostics) = check::check(&ast, catalogue, target, options);
    if source.is_declarative() {
        check::strict_units(&mut diagnostics);
    }
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(diagnostics);
    }
    let lower::Lowered { mut ir, object } = lower::lower(&typed, target);
    emit::check_size(&ir)?;
    memory::check(&typed, &ir.maps, u64::from(target.possible_cpus()))?;
    debug_assert_eq!(
        ir::verify::verify(&ir),
        Ok(()),
        "lowering made IR that does not hold:\n{}",
        ir::print::print(&ir)
    );
    ir::optimise::optimise(&mut ir);
    debug_assert_eq!(ir::verify::verify(&ir), Ok(()), "optimising made IR that does not hold");
    let emitted = emit::emit(&ir, source)?;
    Ok(Stages { ast, typed, ir, emitted, object, warnings: diagnostics })
}
