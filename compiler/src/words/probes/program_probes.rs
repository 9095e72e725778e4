//! Listings and completion of probes in programs, from debug information.
//!
//! In: names of probes, as written after the kind. Out: parameters, results and types.
//! Guarantee: a program without debug information, or a name that is not there, has none.

use std::collections::{BTreeMap, BTreeSet};

use crate::btf::{Added, Btf, BtfId, describe_in_c};
use crate::catalogue::DescribedProbe;
use crate::target::{ProgramAnswers, ProgramFunction, ProgramQuestions, ProgramType, Target};
use crate::words::probes::uprobe::number;

/// Functions that are described at once: types are converted once for all of them.
const AT_ONCE: usize = 1000;

/// The parameters of functions as C declares them, or their results: the names are `PATH:FUNCTION`.
pub(super) fn arguments(target: &dyn Target, names: &[&str], at_return: bool) -> Vec<Vec<String>> {
    let mut lines = vec![Vec::new(); names.len()];
    let mut files: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for (index, name) in names.iter().enumerate() {
        if let Some((file, function)) = name.split_once(':') {
            files.entry(file).or_default().push((index, function));
        }
    }
    for (file, functions) in files {
        for path in target.binaries(file, None).unwrap_or_default() {
            let Some(offsets) = offsets(target, &path, &functions) else { continue };
            for part in offsets.chunks(AT_ONCE) {
                described_lines(target, (&path, at_return), part, &mut lines);
            }
        }
    }
    lines
}

/// The offsets of functions in a file, each with its index.
fn offsets(target: &dyn Target, path: &str, functions: &[(usize, &str)]) -> Option<Vec<(usize, u64)>> {
    // One pass over the symbols instead of one per function.
    let pattern = if let [(_, function)] = functions { function } else { "*" };
    let symbols = target.functions(path, pattern).ok()?;
    let offsets: BTreeMap<&str, u64> = symbols.iter().map(|found| (found.name.as_str(), found.file_offset)).collect();
    Some(functions.iter().filter_map(|(index, function)| Some((*index, *offsets.get(function)?))).collect())
}

fn described_lines(
    target: &dyn Target,
    (path, at_return): (&str, bool),
    functions: &[(usize, u64)],
    lines: &mut [Vec<String>],
) {
    let offsets = functions.iter().map(|(_, offset)| *offset).collect();
    let questions = ProgramQuestions { functions: offsets, names_only: true, ..ProgramQuestions::new(path) };
    let mut types = Added::default();
    let answers = target.describe_program(&questions, &mut types);
    let btf = Btf::with(None, types);
    for (index, offset) in functions {
        let (Some(Ok(function)), Some(line)) = (answers.functions.get(offset), lines.get_mut(*index)) else { continue };
        *line = if at_return {
            vec![format!("{} retval", describe_in_c(&btf, function.result))]
        } else {
            function.described(&btf)
        };
    }
}

/// What a block of the probe with this name can read, and these types of the program.
pub(super) fn described(
    target: &dyn Target,
    name: &str,
    wanted: &BTreeSet<ProgramType>,
    at_return: bool,
) -> Option<DescribedProbe> {
    let (file, place) = name.split_once(':')?;
    let path = target.binaries(file, None).ok()?.into_iter().next()?;
    let mut questions = place_of(target, &path, place)?;
    questions.types.clone_from(wanted);
    let mut types = Added::default();
    let ProgramAnswers { functions, instructions, types: named, .. } = target.describe_program(&questions, &mut types);
    let function = functions.into_values().chain(instructions.into_values()).flatten().next();
    let of_function = |function: ProgramFunction| -> (Vec<(String, BtfId)>, Option<BtfId>) {
        if at_return {
            return (Vec::new(), Some(function.result));
        }
        (function.parameters.into_iter().map(|parameter| (parameter.name, parameter.ty)).collect(), None)
    };
    let (arguments, result) = function.map(of_function).unwrap_or_default();
    let named = named.into_iter().filter_map(|(ty, id)| Some((ty, id.ok()??))).collect();
    Some(DescribedProbe { types: Btf::with(target.btf(), types), named, arguments, result })
}

/// The questions about the function or line of a probe.
fn place_of(target: &dyn Target, path: &str, place: &str) -> Option<ProgramQuestions> {
    let mut questions = ProgramQuestions::new(path);
    let by_source_name = place.strip_prefix("cpp:").or_else(|| place.strip_prefix("rust:"));
    let name = by_source_name.unwrap_or(place).trim_matches('"');
    let line = name.rsplit_once(':').and_then(|(file, line)| Some((file, number(line)?)));
    if let (Some((file, line)), None) = (line, by_source_name) {
        questions.instructions.extend(target.line_sites(path, file, line).ok()?.first().map(|site| site.at));
        return Some(questions);
    }
    let found = if by_source_name.is_some() || name.contains("::") {
        target.functions_by_source_name(path, name).ok()?
    } else {
        target.functions(path, name).ok()?
    };
    questions.functions.extend(found.first().map(|found| found.file_offset));
    Some(questions)
}
