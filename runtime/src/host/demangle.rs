//! Demangling of C++ and Rust symbol names.
//!
//! In: a name from a symbol table. Out: the name in the C++ or Rust source.
//! Guarantee: no name is longer than [`MAX_NAME_BYTES`], mangled or demangled. A mangled name can
//! expand exponentially, so demangling stops at the limit.

use std::fmt::{self, Write as _};

use cpp_demangle::{DemangleOptions, Symbol};

/// Limit in bytes of a name. The longest names in known programs, of C++ templates, have a few
/// thousand.
pub const MAX_NAME_BYTES: usize = 4096;

/// Suffix of a truncated name.
const CUT_MARK: &str = "…";

/// A function name as in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceName {
    /// With parameter types (C++): `ns::fn(int)`.
    pub(super) full: String,
    /// Without parameter types: `ns::fn`.
    pub(super) short: String,
}

/// A name for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readable {
    /// The name.
    pub text: String,
    /// Whether it was truncated.
    pub is_cut: bool,
}

/// The demangled name; `None` for a name that is not mangled, and for one above the limit.
pub(super) fn demangle(name: &str) -> Option<SourceName> {
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // The alternate form omits the hash.
        let short = bounded(|out| write!(out, "{rust:#}")).filter(|short| !short.is_cut)?.text;
        return Some(SourceName { full: short.clone(), short });
    }
    if !name.starts_with("_Z") {
        return None;
    }
    let symbol = Symbol::new(name).ok()?;
    let options = DemangleOptions::new().no_return_type();
    let whole = |options: &DemangleOptions| {
        bounded(|out| symbol.structured_demangle(out, options)).filter(|name| !name.is_cut).map(|name| name.text)
    };
    Some(SourceName { full: whole(&options)?, short: whole(&options.no_params())? })
}

/// A symbol as printed in stacks: with its parameters and result type if the symbol has them.
pub fn readable(symbol: &[u8]) -> Readable {
    let is_long = symbol.len() > MAX_NAME_BYTES;
    let text = String::from_utf8_lossy(&symbol[..symbol.len().min(MAX_NAME_BYTES)]);
    let demangled = match rustc_demangle::try_demangle(&text) {
        _ if is_long => None,
        Ok(rust) => bounded(|out| write!(out, "{rust:#}")),
        Err(_) if text.starts_with("_Z") => {
            let symbol = Symbol::new(text.as_bytes()).ok();
            symbol.and_then(|symbol| bounded(|out| symbol.structured_demangle(out, &DemangleOptions::new())))
        }
        Err(_) => None,
    };
    demangled.unwrap_or_else(|| {
        let mut out = Bounded::default();
        // Invalid UTF-8 gets longer, because replacement characters take more bytes.
        let is_cut = out.write_str(&text).is_err() || is_long;
        finished(out.0, is_cut)
    })
}

/// A string of at most `MAX_NAME_BYTES` bytes.
#[derive(Default)]
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = MAX_NAME_BYTES - CUT_MARK.len() - self.0.len();
        if text.len() <= left {
            self.0.push_str(text);
            return Ok(());
        }
        let end = (0..=left).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.0.push_str(&text[..end]);
        Err(fmt::Error)
    }
}

/// The written text, up to the limit; `None` if writing failed for another reason.
fn bounded(write: impl FnOnce(&mut Bounded) -> fmt::Result) -> Option<Readable> {
    let mut out = Bounded::default();
    match write(&mut out) {
        Ok(()) => Some(finished(out.0, false)),
        Err(_) if out.0.len() + CUT_MARK.len() + 4 > MAX_NAME_BYTES => Some(finished(out.0, true)),
        Err(_) => None,
    }
}

fn finished(mut text: String, is_cut: bool) -> Readable {
    if is_cut {
        text.push_str(CUT_MARK);
    }
    Readable { text, is_cut }
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME_BYTES, demangle, readable};

    #[test]
    fn names_of_both_languages() {
        for (name, full, short) in [
            ("_ZN2ns2fnEi", "ns::fn(int)", "ns::fn"),
            ("_Z3fooIiEvT_", "foo<int>(int)", "foo<int>"),
            ("_ZN12_GLOBAL__N_14workEv", "(anonymous namespace)::work()", "(anonymous namespace)::work"),
            (
                "_ZN8workload3sys11static_step17h480999b34dc3a254E",
                "workload::sys::static_step",
                "workload::sys::static_step",
            ),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar", "mycrate::foo::bar"),
        ] {
            let found = demangle(name).expect(name);
            assert_eq!((found.full.as_str(), found.short.as_str()), (full, short));
        }
        assert_eq!(demangle("main"), None);
        assert_eq!(demangle("_Z"), None);
        assert_eq!(readable(b"_Z3fooIiEvT_").text, "void foo<int>(int)");
        assert_eq!(readable(b"caf\xe9").text, "caf\u{fffd}");
    }

    /// Each pair contains the previous one twice, by the substitutions of the C++ ABI: every few
    /// bytes double the length of the name.
    fn doubling(pairs: u32) -> String {
        // Each `std::pair` is a substitution of its own.
        let digit = |pair: u32| char::from_digit(2 * pair, 36).expect("few pairs").to_ascii_uppercase();
        let pair = |pair| format!("St4pairIS{0}_S{0}_E", digit(pair));
        "_Z1fSt4pairIiiE".to_owned() + &(0..pairs).map(pair).collect::<String>()
    }

    #[test]
    fn names_that_grow_are_cut() {
        let name = doubling(17);
        let found = readable(name.as_bytes());
        assert!(found.is_cut && found.text.len() <= MAX_NAME_BYTES && found.text.ends_with('…'), "{}", found.text);
        assert_eq!(demangle(&name), None);
        let small = readable(doubling(2).as_bytes());
        assert!(!small.is_cut && small.text.starts_with("f(std::pair<int, int>"), "{}", small.text);

        for symbol in [vec![b'x'; 100_000], vec![0xff; 4000]] {
            let found = readable(&symbol);
            assert!(found.is_cut && found.text.len() <= MAX_NAME_BYTES, "{}", found.text.len());
        }
    }
}
