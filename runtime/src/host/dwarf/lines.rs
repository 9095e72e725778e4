//! The code of a line of a source file.
//!
//! In: the end of a file's path, a line. Out: addresses, each with its function.
//! Guarantee: the first instruction of the line in each copy of the function that contains it. A
//! name that several files have is an error, as is a line without code.
//!
//! A compiler writes down each instruction at which a statement begins (`is_stmt`). Several lines
//! may begin at one instruction.

use std::collections::{BTreeMap, BTreeSet};

use gimli::{LineProgramHeader, LineRow, Unit};
use profiler_compiler::similar;
use profiler_compiler::target::TargetError;

use super::code;
use super::entries::{Entries, Position};
use super::file::Slice;

/// Limit of the code places of a line.
const MAX_PLACES: usize = 10_000;

/// Limits of what is kept of files: names for suggestions, files that share a name.
const MAX_NAMES: usize = 100_000;
const MAX_SHOWN: usize = 8;

/// How many similar names are suggested.
const NEAR_NAMES: usize = 3;

/// Limit of files in the table of a unit.
const MAX_FILES: u64 = 100_000;

/// An address at which a line begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub address: u64,
    /// The name of the function that contains the line.
    pub function: String,
    /// That function, or its inlined copy.
    pub scope: Position,
}

/// What line tables say about one source file.
#[derive(Debug, Default)]
struct SourceFile {
    /// Lines with code.
    lines: BTreeSet<u64>,
    /// Where the wanted line begins: unit and address.
    rows: BTreeSet<(usize, u64)>,
    /// The number of the file in each unit.
    numbers: BTreeSet<(usize, u64)>,
}

/// The code of a line.
pub(super) fn places(entries: &Entries<'_, '_>, file: &str, line: u64) -> Result<Vec<Place>, TargetError> {
    let Search { files, names, .. } = searched(entries, Wanted::File(file, line));
    let mut files: Vec<(String, SourceFile)> = files.into_iter().filter(|(_, found)| !found.lines.is_empty()).collect();
    if files.len() > 1 {
        let shown: Vec<String> = files.iter().take(MAX_SHOWN).map(|(path, _)| format!("`{path}`")).collect();
        let dots = if files.len() > MAX_SHOWN { ", …" } else { "" };
        let words = "several source files have this name; write more of the path of one";
        return Err(TargetError::Invalid(format!("{words}: {}{dots}", shown.join(", "))));
    }
    let Some((_, source)) = files.pop() else {
        let near = similar::nearest(file, names.iter().map(String::as_str), NEAR_NAMES);
        return Err(TargetError::Missing { near });
    };
    if source.rows.is_empty() {
        return Err(TargetError::Invalid(nearest(&source.lines, line)));
    }
    Ok(first_of_each_copy(entries, &source, line))
}

/// What is said about a line without code.
fn nearest(lines: &BTreeSet<u64>, line: u64) -> String {
    let near = [lines.range(..line).next_back(), lines.range(line..).next()];
    let near: Vec<String> = near.into_iter().flatten().map(u64::to_string).collect();
    let words = if near.len() > 1 { "lines with code are" } else { "line with code is" };
    format!("the compiler made no code for this line; the nearest {words} {}", near.join(" and "))
}

/// The first instruction of the line in each function or inlined copy of it.
fn first_of_each_copy(entries: &Entries<'_, '_>, source: &SourceFile, line: u64) -> Vec<Place> {
    let mut units: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for (unit, address) in &source.rows {
        units.entry(*unit).or_default().insert(*address);
    }
    let mut places: BTreeMap<u64, Place> = BTreeMap::new();
    for (unit, addresses) in units {
        let code = code::of_addresses(entries, unit, &addresses);
        let is_here = |(file, call): (u64, u64)| call == line && source.numbers.contains(&(unit, file));
        let mut seen = BTreeSet::new();
        for address in addresses {
            let scopes = code.get(&address).map_or(&[][..], Vec::as_slice);
            // A call in this line that was inlined begins at the same instruction as the line.
            let call = scopes.iter().rposition(|scope| scope.call.is_some_and(is_here));
            let scope = match call {
                Some(call) => call.checked_sub(1).and_then(|outer| scopes.get(outer)),
                None => scopes.last(),
            };
            let scope = scope.map_or(Position::UNKNOWN, |scope| scope.at);
            if seen.insert(scope) {
                let function = entries.text(scope, gimli::DW_AT_name).unwrap_or_default();
                places.entry(address).or_insert(Place { address, function, scope });
            }
        }
    }
    places.into_values().collect()
}

/// The names of source files with code, without directories, that start like this.
pub(super) fn files_beginning(entries: &Entries<'_, '_>, beginning: &str) -> BTreeSet<String> {
    let search = searched(entries, Wanted::Beginning(beginning));
    let name = |path: String| path.rsplit('/').next().map(str::to_owned);
    search.files.into_iter().filter(|(_, found)| !found.lines.is_empty()).filter_map(|(path, _)| name(path)).collect()
}

/// The lines of a source file that have code; none if several files have the name.
pub(super) fn lines(entries: &Entries<'_, '_>, file: &str) -> BTreeSet<u64> {
    let mut files = searched(entries, Wanted::File(file, 0)).files.into_values().filter(|it| !it.lines.is_empty());
    files.next().filter(|_| files.next().is_none()).map(|file| file.lines).unwrap_or_default()
}

fn searched<'a>(entries: &Entries<'_, '_>, wanted: Wanted<'a>) -> Search<'a> {
    let mut search = Search { wanted, files: BTreeMap::new(), names: BTreeSet::new() };
    for start in entries.unit_starts() {
        search.unit(entries, start);
    }
    search
}

/// Which files are searched.
#[derive(Debug, Clone, Copy)]
enum Wanted<'a> {
    /// Files whose paths end like this, and where this line of them begins.
    File(&'a str, u64),
    /// Files whose names start like this.
    Beginning(&'a str),
}

impl Wanted<'_> {
    /// Whether the name of a file, without directories, is searched.
    fn is_named(self, name: &str) -> bool {
        match self {
            Wanted::File(file, _) => file.rsplit('/').next() == Some(name),
            Wanted::Beginning(beginning) => name.starts_with(beginning),
        }
    }
}

/// The search for files in the line tables of all units.
struct Search<'a> {
    wanted: Wanted<'a>,
    /// By path.
    files: BTreeMap<String, SourceFile>,
    /// The names of all files, without directories.
    names: BTreeSet<String>,
}

impl Search<'_> {
    fn unit(&mut self, entries: &Entries<'_, '_>, start: usize) {
        let Some(unit) = entries.unit_at(start) else { return };
        let Some(program) = unit.line_program.clone() else { return };
        let wanted = self.wanted(entries, &unit, program.header());
        if wanted.is_empty() {
            return;
        }
        let mut rows = program.rows();
        let mut is_left_out = None;
        while let (Ok(Some((_, row))), Some(())) = (rows.next_row(), entries.step()) {
            // Code that the linker has left out is at address 0.
            let is_from_zero = *is_left_out.get_or_insert(row.address() == 0);
            if row.end_sequence() {
                is_left_out = None;
            } else if !is_from_zero {
                self.row(start, &wanted, *row);
            }
        }
        // A table may have a file twice.
        for (number, path) in wanted {
            if let Some(source) = self.files.get_mut(&path) {
                source.numbers.insert((start, number));
            }
        }
    }

    fn row(&mut self, unit: usize, wanted: &BTreeMap<u64, String>, row: LineRow) {
        let (Some(path), Some(line), true) = (wanted.get(&row.file_index()), row.line(), row.is_stmt()) else {
            return;
        };
        let source = self.files.entry(path.clone()).or_default();
        source.lines.insert(line.get());
        let is_line = matches!(self.wanted, Wanted::File(_, wanted) if wanted == line.get());
        if is_line && source.rows.len() < MAX_PLACES {
            source.rows.insert((unit, row.address()));
        }
    }

    /// The files in a unit's table whose paths end like the wanted one.
    fn wanted(
        &mut self,
        entries: &Entries<'_, '_>,
        unit: &Unit<Slice<'_>>,
        header: &LineProgramHeader<Slice<'_>>,
    ) -> BTreeMap<u64, String> {
        let mut wanted = BTreeMap::new();
        let text = |value| {
            let text = entries.dwarf().attr_string(unit, value).ok()?;
            std::str::from_utf8(text.slice()).ok().map(str::to_owned)
        };
        for index in 0..=MAX_FILES {
            let Some(entry) = header.file(index) else {
                if index == 0 {
                    // Before DWARF 5 the first file has the number 1.
                    continue;
                }
                break;
            };
            if entries.step().is_none() {
                break;
            }
            let Some(name) = text(entry.path_name()) else { continue };
            let short = name.rsplit('/').next().unwrap_or_default();
            if !self.wanted.is_named(short) {
                if self.names.len() < MAX_NAMES && !self.names.contains(short) {
                    self.names.insert(short.to_owned());
                }
                continue;
            }
            let directory = entry.directory(header).and_then(text).unwrap_or_default();
            let unit_directory = unit.comp_dir.and_then(|name| std::str::from_utf8(name.slice()).ok());
            let path = joined(&[unit_directory.unwrap_or_default(), &directory, &name]);
            if !matches!(self.wanted, Wanted::File(file, _) if !ends_like(&path, file)) {
                wanted.insert(index, path);
            }
        }
        wanted
    }
}

/// The path that these parts are, without `.` and `..`; an absolute part replaces those before it.
fn joined(parts: &[&str]) -> String {
    let first = parts.iter().rposition(|part| part.starts_with('/'));
    let mut path: Vec<&str> = Vec::new();
    for piece in parts.iter().skip(first.unwrap_or(0)).flat_map(|part| part.split('/')) {
        match piece {
            "" | "." => {}
            ".." if path.last().is_some_and(|last| *last != "..") => {
                path.pop();
            }
            piece => path.push(piece),
        }
    }
    format!("{}{}", if first.is_some() { "/" } else { "" }, path.join("/"))
}

/// Whether a path ends with the components of another one; an absolute one must be the same.
fn ends_like(path: &str, written: &str) -> bool {
    let plain = joined(&[written]);
    if plain.starts_with('/') {
        return path == plain;
    }
    path.strip_suffix(plain.as_str()).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::{ends_like, joined, nearest};
    use std::collections::BTreeSet;

    #[test]
    fn paths_are_compared_by_their_last_components() {
        assert_eq!(joined(&["/home/me", "src/../lib", "./a.c"]), "/home/me/lib/a.c");
        assert_eq!(joined(&["/home/me", "/usr/include", "x.h"]), "/usr/include/x.h");
        assert_eq!(joined(&["", "src", "../../a.c"]), "../a.c");
        for (written, is_end) in [("a.c", true), ("lib/a.c", true), ("./a.c", true), ("b/a.c", false), ("/a.c", false)]
        {
            assert_eq!(ends_like("/me/lib/a.c", written), is_end, "{written}");
        }
        assert!(!ends_like("/me/lib/aa.c", "a.c") && ends_like("/me/a.c", "/me/a.c") && ends_like("a.c", "a.c"));
    }

    #[test]
    fn the_nearest_lines_are_named() {
        let lines = BTreeSet::from([10, 20]);
        assert!(nearest(&lines, 12).ends_with("the nearest lines with code are 10 and 20"));
        assert!(nearest(&lines, 99).ends_with("the nearest line with code is 20"));
    }
}
