//! Variables and functions of files by name.
//!
//! In: an ELF file and the name of a symbol. Out: where it is, and how far from a probed place.
//! Guarantee: the file is read, not mapped, so that one that changes meanwhile can give wrong answers but no fault.

use std::fs;
use std::path::Path;

use object::{Object as _, ObjectKind, ObjectSegment as _, ObjectSymbol, SymbolKind};
use profiler_compiler::similar;
use profiler_compiler::target::{TargetError, Variable};

use super::{NEAR_NAMES, io_error};

/// The symbol of a file; `site` is the offset in the file of the place that is probed.
pub(super) fn find(path: &Path, name: &str, site: Option<u64>) -> Result<Variable, TargetError> {
    let bytes = fs::read(path).map_err(|error| io_error(path, &error))?;
    let file = object::File::parse(bytes.as_slice())
        .map_err(|error| TargetError::Invalid(format!("{}: {error}", path.display())))?;
    let symbols = || file.symbols().chain(file.dynamic_symbols()).filter(ObjectSymbol::is_definition);
    let known = symbols().find(|symbol| symbol.name() == Ok(name) && symbol.kind() != SymbolKind::Tls);
    let Some(symbol) = known else {
        let names = symbols().filter_map(|symbol| symbol.name().ok()).filter(|name| !name.is_empty());
        return Err(TargetError::Missing { near: similar::nearest(name, names, NEAR_NAMES) });
    };
    let is_fixed = file.kind() == ObjectKind::Executable;
    let address_of = |offset: u64| {
        file.segments().find_map(|segment| {
            let (start, length) = segment.file_range();
            let distance = offset.checked_sub(start).filter(|distance| *distance < length)?;
            Some(segment.address() + distance)
        })
    };
    let from_site = site.and_then(address_of).map(|site| symbol.address().wrapping_sub(site) as i64);
    Ok(Variable { address: symbol.address(), size_bytes: symbol.size(), is_fixed, from_site })
}
