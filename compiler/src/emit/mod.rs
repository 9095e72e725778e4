//! The emit stage: compiles IR to one BPF object file in memory.
//!
//! In: an [`ir::Program`] that its verifier accepts. Out: [`Emitted`], an ELF file that libbpf,
//! bpftool and aya load.
//! Guarantees: the same input gives the same bytes. Exceeded limits (stack, size) are diagnostics
//! at the function's span. Every instruction has a span in the script.
//!
//! The steps, one file each: `frame` places the slots, `select` selects instructions over virtual
//! registers, `allocate` (with `liveness`, `graph`, `spill`) assigns machine registers, `homes`
//! lets spilled registers share stack, `layout` orders blocks and resolves jumps, `btf_encode` and
//! `object_file` write the object.

mod allocate;
pub mod bpf;
mod btf_encode;
mod chains;
mod frame;
mod graph;
mod homes;
mod layout;
mod lines;
mod listing;
mod liveness;
mod machine;
mod object_file;
mod overlap;
mod select;
mod select_memory;
mod spill;

use std::collections::BTreeSet;

use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{self, FunctionId, Helper, MapId, Section};
use crate::source::{Source, Span};

pub use listing::{helper_name, listing};

/// A compiled program.
#[derive(Debug, Clone)]
pub struct Emitted {
    /// The relocatable object file.
    pub elf: Vec<u8>,
    /// The BPF programs, in the order of the IR's functions.
    pub functions: Vec<EmittedFunction>,
    /// The subprograms, in the order of the IR's subprograms.
    pub subprograms: Vec<EmittedFunction>,
}

/// One BPF program or subprogram of the object.
#[derive(Debug, Clone)]
pub struct EmittedFunction {
    /// Symbol name.
    pub name: String,
    /// ELF section.
    pub section: String,
    /// The instructions as in the object; an `ld_imm64` takes two.
    pub insns: Vec<bpf::Insn>,
    /// For each instruction, its span in the script.
    pub spans: Vec<Span>,
    /// For each instruction, what its immediate refers to.
    pub notes: Vec<Option<Note>>,
    /// Stack use in bytes: slots and spilled registers.
    pub stack_bytes: u32,
}

impl Emitted {
    /// The script span of an instruction of a loaded program. libbpf lays out a program as its own
    /// instructions followed by each subprogram where it is first referenced, and that subprogram
    /// is directly followed by those that it references.
    pub fn span_in_program(&self, name: &str, at: usize) -> Option<Span> {
        let program = self.functions.iter().find(|function| function.name == name)?;
        let (mut spans, mut placed) = (program.spans.clone(), BTreeSet::new());
        self.place_subprograms(program, &mut spans, &mut placed);
        spans.get(at).copied()
    }

    fn place_subprograms(&self, function: &EmittedFunction, spans: &mut Vec<Span>, placed: &mut BTreeSet<u32>) {
        for note in function.notes.iter().flatten() {
            let (Note::Function(id) | Note::Call(id)) = note else { continue };
            if let Some(subprogram) = self.subprograms.get(id.0 as usize).filter(|_| placed.insert(id.0)) {
                spans.extend(&subprogram.spans);
                self.place_subprograms(subprogram, spans, placed);
            }
        }
    }
}

/// What an instruction's immediate refers to, or what else is known about the instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// A map's address.
    Map(MapId),
    /// The address of a byte of a data section.
    Data(Section, u32),
    /// The address of a subprogram.
    Function(FunctionId),
    /// A call of a subprogram.
    Call(FunctionId),
    /// A helper call.
    Helper(Helper),
    /// The immediate refers to nothing; the instruction is a load of memory that may be unmapped.
    Peek,
}

/// The maximum number of IR instructions in a function, before optimisation. A jump reaches 32767
/// BPF instructions, and the verifier processes at most a million in total.
pub const MAX_FUNCTION_INSTS: usize = 32 << 10;

/// Rejects functions with more than `most` instructions, before the expensive passes run.
pub fn check_size(program: &ir::Program, most: usize) -> Result<(), Vec<Diagnostic>> {
    let size = |function: &ir::Function| function.blocks.iter().map(|block| block.insts.len() + 1).sum::<usize>();
    let too_large: Vec<Diagnostic> = program
        .functions
        .iter()
        .chain(&program.subprograms)
        .filter(|function| size(function) > most)
        .map(|function| {
            let label = format!("about {} instructions, and the limit is {most}", size(function));
            too_large(function.span).label(label)
        })
        .collect();
    if too_large.is_empty() { Ok(()) } else { Err(too_large) }
}

/// Compiles a program. All functions are compiled even if one fails, so that every exceeded limit
/// is reported.
pub fn emit(program: &ir::Program, source: &Source) -> Result<Emitted, Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    let mut all = |functions: &[ir::Function]| -> Vec<EmittedFunction> {
        let results = functions.iter().map(|function| {
            let mut emitted = emit_function(function)?;
            name_kernel_functions(&mut emitted, &program.kernel_functions);
            Ok(emitted)
        });
        results.filter_map(|result| result.map_err(|diagnostic| diagnostics.push(diagnostic)).ok()).collect()
    };
    let (subprograms, functions) = (all(&program.subprograms), all(&program.functions));
    if diagnostics.is_empty() {
        diagnostics = chains::check(program, &functions, &subprograms);
        let with_spans = functions.iter().zip(program.functions.iter().map(|function| function.span));
        diagnostics.extend(with_spans.filter_map(|(function, span)| check_maps(function, &subprograms, span).err()));
    }
    if !diagnostics.is_empty() {
        return Err(diagnostics);
    }
    let elf = object_file::write(program, &functions, &subprograms, source).map_err(|error| {
        let span = program.functions.first().map_or(Span::default(), |function| function.span);
        vec![Diagnostic::error(Code(512), span, format!("the object file cannot be written: {error}"))]
    })?;
    Ok(Emitted { elf, functions, subprograms })
}

/// Inserts the BTF ids of kfuncs into their calls; they differ from kernel to kernel.
fn name_kernel_functions(function: &mut EmittedFunction, numbers: &[(Helper, u32)]) {
    for (insn, note) in function.insns.iter_mut().zip(&function.notes) {
        if let Some(Note::Helper(helper)) = note
            && let Some((_, number)) = numbers.iter().find(|(known, _)| known == helper)
        {
            *insn = bpf::Insn::call_kernel(*number);
        }
    }
}

fn emit_function(function: &ir::Function) -> Result<EmittedFunction, Diagnostic> {
    let frame = frame::Frame::new(function);
    frame::check(frame.size_bytes, function.span)?;
    let mut machine = select::select(function, &frame);
    allocate::allocate(&mut machine).ok_or_else(|| too_large(function.span))?;
    homes::share(&mut machine, frame.size_bytes);
    frame::check(machine.frame_bytes, function.span)?;
    let code = layout::encode(&machine).ok_or_else(|| too_large(function.span))?;
    Ok(EmittedFunction {
        name: function.name.clone(),
        section: function.section.clone(),
        insns: code.insns,
        spans: code.spans,
        notes: code.notes,
        stack_bytes: machine.frame_bytes,
    })
}

/// The maximum number of maps that a program may use; each data section counts as one (the kernel's
/// `MAX_USED_MAPS`).
const MAX_USED_MAPS: usize = 64;

/// Checks the number of maps of a program, including those of its subprograms.
fn check_maps(function: &EmittedFunction, subprograms: &[EmittedFunction], span: Span) -> Result<(), Diagnostic> {
    let mut used = BTreeSet::new();
    let mut waiting = vec![function];
    while let Some(function) = waiting.pop() {
        for note in function.notes.iter().flatten() {
            match note {
                Note::Map(map) => _ = used.insert(map.0),
                // No map has these ids.
                Note::Data(Section::Rodata, _) => _ = used.insert(u32::MAX),
                Note::Data(Section::Bss, _) => _ = used.insert(u32::MAX - 1),
                Note::Function(id) | Note::Call(id) => waiting.extend(subprograms.get(id.0 as usize)),
                Note::Helper(_) | Note::Peek => {}
            }
        }
    }
    if used.len() <= MAX_USED_MAPS {
        return Ok(());
    }
    let message = format!("this block uses {} maps of the kernel, and the limit is {MAX_USED_MAPS}", used.len());
    Err(Diagnostic::error(Code(513), span, message)
        .label("each map with keys counts, as does each ring buffer; maps without keys count as one")
        .help("split it into several blocks of the same probe"))
}

fn too_large(span: Span) -> Diagnostic {
    Diagnostic::error(Code(510), span, "this block is too large for a BPF program")
        .label("its parts are further apart than a jump can reach")
        .help("split it into several blocks of the same probe, or repeat less with `unroll`")
}

#[cfg(test)]
mod frame_tests;

#[cfg(test)]
mod tests {
    use super::{MAX_FUNCTION_INSTS, check_size};
    use crate::ir::Program;
    use crate::ir::build::FunctionBuilder;
    use crate::source::Span;

    #[test]
    fn a_function_has_a_size_limit_and_the_others_do_not_count() {
        let function = |insts: usize| {
            let mut b = FunctionBuilder::new("f", "s", Span::new(3, 5));
            for _ in 0..insts {
                b.copy(0);
            }
            b.ret(0);
            b.finish()
        };
        let program = |sizes: &[usize]| Program {
            functions: sizes.iter().map(|size| function(*size)).collect(),
            ..Program::default()
        };
        let most = MAX_FUNCTION_INSTS - 1;
        assert!(check_size(&program(&[most, most]), MAX_FUNCTION_INSTS).is_ok());
        let diagnostics = check_size(&program(&[most + 1, 1]), MAX_FUNCTION_INSTS).expect_err("too large");
        let [diagnostic] = diagnostics.as_slice() else { panic!("{diagnostics:?}") };
        assert_eq!((diagnostic.code.0, diagnostic.span), (510, Span::new(3, 5)));
    }
}
