//! Reads name components from a mangled C++ or Rust symbol without demangling it.
//!
//! In: a symbol. Out: the first components of its name, as far as they appear literally. Guarantee:
//! demangling yields a name with the same components.

/// Name components that are readable without demangling.
pub(super) struct Quick<'a> {
    /// The first components.
    pub(super) parts: Vec<&'a str>,
    /// The beginning of the next one; `None` if there is none.
    pub(super) stem: Option<&'a str>,
}

/// Reads the components of a symbol, as long as they are plain names.
pub(super) fn quick_parts(symbol: &[u8]) -> Option<Quick<'_>> {
    let mut quick = match symbol {
        [b'_', b'Z', b'N', rest @ ..] => nested(rest),
        [b'_', b'Z', b'0'..=b'9', ..] => {
            let (part, rest) = counted(&symbol[2..])?;
            // Whatever else follows are parameters.
            if is_more_of_it(rest) {
                Quick { parts: Vec::new(), stem: Some(part) }
            } else {
                Quick { parts: vec![part], stem: None }
            }
        }
        [b'_', b'R', rest @ ..] => rust(rest).unwrap_or(Quick { parts: Vec::new(), stem: Some("") }),
        [b'_', b'Z', _, ..] => Quick { parts: Vec::new(), stem: Some("") },
        _ => return None,
    };
    let is_plain = |part: &&&str| {
        part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !part.starts_with("_GLOBAL_")
    };
    let plain = quick.parts.iter().take_while(is_plain).count();
    if plain < quick.parts.len() {
        quick.parts.truncate(plain);
        quick.stem = Some("");
    }
    Some(quick)
}

/// Whether template arguments or an ABI tag follow; both belong to the preceding component.
fn is_more_of_it(rest: &[u8]) -> bool {
    matches!(rest.first(), Some(b'I' | b'B'))
}

/// `3foo3barE…`: C++ names, and Rust names, where the last component is a hash.
fn nested(mut rest: &[u8]) -> Quick<'_> {
    while let [b'K' | b'V' | b'r' | b'R' | b'O', after @ ..] = rest {
        rest = after;
    }
    let mut parts = Vec::new();
    if let [b'S', b't', after @ ..] = rest {
        parts.push("std");
        rest = after;
    }
    while let Some((part, after)) = counted(rest) {
        parts.push(part);
        rest = after;
    }
    if is_more_of_it(rest) {
        let stem = parts.pop();
        return Quick { parts, stem: stem.or(Some("")) };
    }
    let ends = rest.first() == Some(&b'E');
    let is_hash = |part: &&str| {
        part.len() == 17 && part.starts_with('h') && part[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    if ends && parts.len() > 1 && parts.last().is_some_and(is_hash) {
        parts.pop();
    }
    // Otherwise a constructor, an operator or an abbreviation follows.
    Quick { parts, stem: if ends { None } else { Some("") } }
}

/// `NvNtCs1234_7mycrate3foo3bar`: paths in Rust's v0 mangling.
fn rust(mut rest: &[u8]) -> Option<Quick<'_>> {
    let mut inner = 0;
    while let [b'N', _, after @ ..] = rest {
        (inner, rest) = (inner + 1, after);
    }
    rest = rest.strip_prefix(b"C")?;
    let mut parts = Vec::new();
    for _ in 0..=inner {
        if let Some(after) = rest.strip_prefix(b"s") {
            rest = &after[after.iter().position(|byte| *byte == b'_')? + 1..];
        }
        // A name that begins with a digit or `_` follows another `_`.
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let length: usize = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        let name = rest[digits..].strip_prefix(b"_").unwrap_or(&rest[digits..]);
        let (part, after) = name.split_at_checked(length)?;
        parts.push(std::str::from_utf8(part).ok()?);
        rest = after;
    }
    // Unnamed items are shown in braces.
    let stem = parts.iter().any(|part| part.is_empty()).then_some("");
    parts.retain(|part| !part.is_empty());
    Some(Quick { parts, stem })
}

/// Splits `3foo` from the text after it.
pub(super) fn counted(text: &[u8]) -> Option<(&str, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let length: usize = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    let (part, rest) = text[digits..].split_at_checked(length)?;
    Some((std::str::from_utf8(part).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::quick_parts;

    #[test]
    fn names_of_c_plus_plus_are_read_as_well() {
        let quick = |symbol: &str| {
            quick_parts(symbol.as_bytes()).map(|quick| (quick.parts.join("::"), quick.stem.map(str::to_owned)))
        };
        let is = |parts: &str, stem: Option<&str>| Some((parts.to_owned(), stem.map(str::to_owned)));
        assert_eq!(quick("_ZN2ns2fnEi"), is("ns::fn", None));
        assert_eq!(quick("_ZNK4node2fs4ReadEv"), is("node::fs::Read", None));
        assert_eq!(quick("_Z3fooIiEvT_"), is("", Some("foo")));
        assert_eq!(quick("_Z3foov"), is("foo", None));
        assert_eq!(quick("_ZNSt6vectorIiE4pushEv"), is("std", Some("vector")));
        assert_eq!(quick("_ZN3FooC1Ev"), is("Foo", Some("")));
        assert_eq!(quick("_ZN12_GLOBAL__N_14workEv"), is("", Some("")));
        assert_eq!(quick("_RNvNtCs1234_7mycrate3foo3bar"), is("mycrate::foo::bar", None));
        assert_eq!(quick("_Z"), None);
        assert_eq!(quick("main"), None);
    }
}
