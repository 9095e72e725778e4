//! Names of functions as their sources have them.
//!
//! In: a name of a symbol table. Out: the name that it was made of by a compiler of C++ or Rust.

use cpp_demangle::{DemangleOptions, Symbol};

/// A source's name of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceName {
    /// With the types of the parameters (C++): `ns::fn(int)`.
    pub(super) full: String,
    /// Without: `ns::fn`.
    pub(super) short: String,
}

/// The source's name; `None` for a name that no compiler made.
pub(super) fn demangle(name: &str) -> Option<SourceName> {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // The alternate form leaves out the hash.
        let short = format!("{rust:#}");
        return Some(SourceName { full: short.clone(), short });
    }
    if !name.starts_with("_Z") {
        return None;
    }
    let symbol = Symbol::new(name).ok()?;
    let full = symbol.demangle_with_options(&DemangleOptions::new().no_return_type()).ok()?;
    let short = symbol.demangle_with_options(&DemangleOptions::new().no_return_type().no_params()).ok()?;
    Some(SourceName { full, short })
}

#[cfg(test)]
mod tests {
    use super::demangle;

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
    }
}
