//! The kernel's symbols.
//!
//! In: the text of `/proc/kallsyms`. Out: names of addresses.
//! Guarantee: about 14 bytes plus the name per symbol; malformed lines and hidden (zero) addresses
//! are skipped.

use std::collections::HashMap;

use profiler_model::value::SymbolName;

/// All symbols, sorted by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    addresses: Vec<u64>,
    names: Vec<NameRef>,
    /// All names, concatenated.
    text: String,
    modules: Vec<String>,
}

/// Start and length of a symbol's name, and its module.
#[derive(Debug, Clone, Copy)]
struct NameRef {
    start: u32,
    len: u16,
    /// Index into the modules plus one; 0 is the kernel itself.
    module: u16,
}

impl KernelSymbols {
    /// Parses the text of `/proc/kallsyms`.
    pub fn parse(text: &[u8]) -> KernelSymbols {
        let text = String::from_utf8_lossy(text);
        let mut symbols = KernelSymbols::default();
        let mut modules: HashMap<&str, u16> = HashMap::new();
        let mut found: Vec<(u64, NameRef)> = Vec::new();
        for (address, name, module) in text.lines().filter_map(parse_line) {
            let (Ok(start), Ok(len)) = (u32::try_from(symbols.text.len()), u16::try_from(name.len())) else { continue };
            symbols.text.push_str(name);
            let module = module.map_or(0, |module| {
                *modules.entry(module).or_insert_with(|| {
                    symbols.modules.push(module.to_string());
                    symbols.modules.len() as u16
                })
            });
            found.push((address, NameRef { start, len, module }));
        }
        // Stable, so that the first of several names for one address stays first; the kernel picks
        // that one too.
        found.sort_by_key(|(address, _)| *address);
        found.dedup_by_key(|(address, _)| *address);
        (symbols.addresses, symbols.names) = found.into_iter().unzip();
        symbols
    }

    /// Whether there are no symbols: the kernel hides them.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The symbol that starts at an address, or the last one before it.
    pub fn find(&self, address: u64) -> Option<SymbolName> {
        let index = self.addresses.partition_point(|&start| start <= address).checked_sub(1)?;
        let NameRef { start, len, module } = *self.names.get(index)?;
        let name = self.text.get(start as usize..start as usize + usize::from(len))?;
        let module = usize::from(module).checked_sub(1).and_then(|module| self.modules.get(module));
        Some(SymbolName { name: name.to_string(), offset: address - self.addresses[index], module: module.cloned() })
    }
}

/// `ffffffff81000000 T _stext`, or for a module `ffffffffc0000000 t init_once\t[ext4]`. Absolute
/// symbols are skipped: they are offsets of per-CPU variables, not addresses.
fn parse_line(line: &str) -> Option<(u64, &str, Option<&str>)> {
    let (address, rest) = line.split_once(' ')?;
    let (kind, rest) = rest.split_once(' ')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    if address == 0 || matches!(kind, "A" | "a") {
        return None;
    }
    let (name, module) = match rest.split_once('\t') {
        Some((name, module)) => (name, Some(module.trim_start_matches('[').trim_end_matches(']'))),
        None => (rest, None),
    };
    Some((address, name, module))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &[u8] = b"\
0000000000005000 A fixed_percpu_data
ffffffff81000200 T second
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffffc0001000 t init_once\t[ext4]
ffffffffc0003000 t helper\t[xfs]
ffffffffc0002000 t other\t[ext4]
not a line
ffffffff81000300 T caf\xe9
";

    fn name(symbols: &KernelSymbols, address: u64) -> String {
        symbols.find(address).map_or("-".into(), |symbol| {
            let module = symbol.module.map(|module| format!(" [{module}]")).unwrap_or_default();
            format!("{}+{}{module}", symbol.name, symbol.offset)
        })
    }

    #[test]
    fn addresses_belong_to_the_symbol_before_them() {
        let symbols = KernelSymbols::parse(KALLSYMS);
        let table = [
            (0, "-"),
            (0x5000, "-"),
            (0xffff_ffff_8100_0000, "_stext+0"),
            (0xffff_ffff_8100_01ff, "_stext+511"),
            (0xffff_ffff_8100_0210, "second+16"),
            (0xffff_ffff_8100_0300, "caf\u{fffd}+0"),
            (0xffff_ffff_c000_1001, "init_once+1 [ext4]"),
            (0xffff_ffff_c000_2000, "other+0 [ext4]"),
            (u64::MAX, "helper+1073729535 [xfs]"),
        ];
        for (address, expected) in table {
            assert_eq!(name(&symbols, address), expected, "{address:#x}");
        }
        assert_eq!(symbols.modules, ["ext4", "xfs"]);
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        let symbols = KernelSymbols::parse(b"0000000000000000 T _stext\n0000000000000000 T vfs_read\n");
        assert!(symbols.is_empty());
        assert_eq!(symbols.find(u64::MAX), None);
    }
}
