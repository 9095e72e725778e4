//! Finds variables and functions of files by name.
//!
//! In: an ELF file and a symbol name. Out: its address, and its distance from a probed location.
//! Guarantee: the file is read, not mapped, so a file that changes meanwhile can give wrong answers
//! but cannot crash us.

use std::path::Path;

use object::{Object as _, ObjectKind, ObjectSegment as _, ObjectSymbol, SymbolKind};
use profiler_compiler::similar;
use profiler_compiler::target::{TargetError, Variable};

use super::bounded::{Bounded, MAX_TABLE_BYTES, open_regular};
use super::{NEAR_NAMES, io_error};

/// Finds a symbol in a file; `site` is the file offset of the probed location.
pub(super) fn find(path: &Path, name: &str, site: Option<u64>) -> Result<Variable, TargetError> {
    let file = open_regular(path).map_err(|error| io_error(path, &error))?;
    let bounded = Bounded::new(file, MAX_TABLE_BYTES);
    let file =
        object::File::parse(&bounded).map_err(|error| TargetError::Invalid(format!("{}: {error}", path.display())))?;
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
