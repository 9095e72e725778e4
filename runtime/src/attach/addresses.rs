//! Addresses of kernel functions that have the same name as others.
//!
//! In: the names. Out: the addresses of all functions of each name, also for one module only.
//! Guarantee: the kernel's symbols are read once, however many names there are, and only when an
//! address is asked for. No address is 0, by which the kernel hides them.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// The kernel's symbols.
const SYMBOLS: &str = "/proc/kallsyms";

/// Where the functions of some names are.
#[derive(Debug)]
pub(super) struct Addresses<'a> {
    names: HashSet<&'a str>,
    found: OnceCell<HashMap<String, Vec<Place>>>,
}

/// A function's module, which is `vmlinux` for the kernel itself, and its address.
type Place = (String, u64);

impl<'a> Addresses<'a> {
    pub(super) fn of(names: impl Iterator<Item = &'a str>) -> Addresses<'a> {
        Addresses { names: names.collect(), found: OnceCell::new() }
    }

    /// Where the functions of one of the names start: at least one. Without a module, those of all
    /// modules and of the kernel itself.
    pub(super) fn all(&self, name: &str, module: Option<&str>) -> io::Result<Vec<u64>> {
        if self.found.get().is_none() {
            // It was empty.
            let _ = self.found.set(self.read()?);
        }
        let places = self.found.get().and_then(|found| found.get(name)).map_or([].as_slice(), Vec::as_slice);
        let wanted = places.iter().filter(|(of, _)| module.is_none_or(|module| module == of));
        let addresses: Vec<u64> = wanted.map(|(_, address)| *address).collect();
        if addresses.contains(&0) {
            let words = "/proc/kallsyms hides the addresses of functions (see kernel.kptr_restrict)";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
        }
        if addresses.is_empty() { Err(io::Error::from_raw_os_error(libc::ENOENT)) } else { Ok(addresses) }
    }

    fn read(&self) -> io::Result<HashMap<String, Vec<Place>>> {
        let mut found: HashMap<String, Vec<Place>> = HashMap::new();
        for line in BufReader::with_capacity(1 << 16, File::open(SYMBOLS)?).lines() {
            let line = line?;
            if let Some((address, (name, module))) = code_symbol(&line)
                && self.names.contains(name)
            {
                found.entry(name.to_owned()).or_default().push((module.to_owned(), address));
            }
        }
        Ok(found)
    }
}

/// `ffffffff81000000 T vfs_read`, or for a module `ffffffffc0000000 t init\t[ext4]`: the address,
/// the name and the module, if the symbol is code.
fn code_symbol(line: &str) -> Option<(u64, (&str, &str))> {
    let (address, rest) = line.split_once(' ')?;
    let (kind, rest) = rest.split_once(' ')?;
    let (name, module) = rest.split_once('\t').unwrap_or((rest, "[vmlinux]"));
    let is_code = matches!(kind, "t" | "T" | "w" | "W");
    let address = u64::from_str_radix(address, 16).ok().filter(|_| is_code)?;
    Some((address, (name, module.trim_matches(['[', ']']))))
}

#[cfg(test)]
mod tests {
    use super::{Addresses, code_symbol};

    #[test]
    fn lines_have_addresses_names_and_modules() {
        assert_eq!(code_symbol("ffffffff81000000 T vfs_read"), Some((0xffff_ffff_8100_0000, ("vfs_read", "vmlinux"))));
        assert_eq!(code_symbol("ffffffffc0000000 t init\t[ext4]"), Some((0xffff_ffff_c000_0000, ("init", "ext4"))));
        assert_eq!(code_symbol("ffffffff81000000 D jiffies"), None);
        assert_eq!(code_symbol("nonsense"), None);
    }

    #[test]
    fn a_name_that_no_function_has_is_an_error() {
        assert!(Addresses::of(["no such function"].into_iter()).all("no such function", None).is_err());
    }
}
