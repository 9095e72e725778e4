//! Parser for the `format` files of tracefs.
//!
//! In: the text of a file. Out: the fields of the tracepoint's record.
//! Guarantee: a file that does not have the kernel's format yields `None`; the common fields are
//! omitted.
//!
//! ```text
//! ID: 372
//! format:
//!     field:unsigned short common_type;   offset:0;   size:2; signed:0;
//!
//!     field:char prev_comm[16];   offset:8;   size:16;    signed:0;
//!     field:__data_loc char[] name;   offset:24;  size:4; signed:0;
//! ```

use crate::target::{TracepointField, TracepointFormat};

/// The fields of a tracepoint's record; `None` if the text has no id or contains a line that is not
/// a field.
pub fn parse(text: &str) -> Option<TracepointFormat> {
    let mut id = None;
    let mut fields = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("print fmt:") {
            break;
        }
        if let Some(number) = line.strip_prefix("ID:") {
            id = Some(number.trim().parse().ok()?);
        } else if let Some(field) = line.strip_prefix("field:") {
            let field = parse_field(field)?;
            if !field.name.starts_with("common_") {
                fields.push(field);
            }
        }
    }
    Some(TracepointFormat { id: id?, fields })
}

/// `char prev_comm[16];   offset:8;   size:16;    signed:0;`
fn parse_field(line: &str) -> Option<TracepointField> {
    let (declaration, rest) = line.split_once(';')?;
    let number = |key: &str| -> Option<u32> {
        let (_, value) = rest.split(';').filter_map(|part| part.trim().split_once(':')).find(|(k, _)| *k == key)?;
        value.parse().ok()
    };
    let (offset_bytes, size_bytes) = (number("offset")?, number("size")?);
    let declaration = declaration.trim();
    let data_loc = declaration.starts_with("__data_loc ") || declaration.starts_with("__rel_loc ");
    let (c_type, name, array) = split_declaration(declaration)?;
    let element_size_bytes = |c_type: &str| size_of_c_type(c_type).unwrap_or(size_bytes);
    let array_len = array.map(|written| {
        // The length is usually a number. Older kernels print the name of a constant; then compute
        // it from the sizes.
        written.parse().unwrap_or_else(|_| size_bytes / element_size_bytes(c_type).max(1))
    });
    Some(TracepointField {
        name: name.to_owned(),
        c_type: c_type.to_owned(),
        array_len,
        offset_bytes,
        size_bytes,
        signed: number("signed")? != 0,
        data_loc,
    })
}

/// Type, name and the text in the brackets after the name.
fn split_declaration(declaration: &str) -> Option<(&str, &str, Option<&str>)> {
    let (declared, array) = match declaration.strip_suffix(']') {
        Some(open) => {
            let (declared, len) = open.rsplit_once('[')?;
            (declared.trim_end(), Some(len.trim()))
        }
        None => (declaration, None),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let c_type = declared.trim_end_matches(is_name);
    let (c_type, name) = (c_type.trim_end(), &declared[c_type.len()..]);
    (!name.is_empty() && !c_type.is_empty()).then_some((c_type, name, array))
}

/// Size of the C types that occur as array elements in records.
fn size_of_c_type(c_type: &str) -> Option<u32> {
    let words = c_type.split_whitespace().filter(|word| !matches!(*word, "const" | "volatile" | "unsigned" | "signed"));
    Some(match words.collect::<Vec<_>>().as_slice() {
        [.., last] if last.ends_with('*') => 8,
        ["char" | "u8" | "s8" | "__u8" | "__s8" | "uint8_t" | "int8_t" | "bool"] => 1,
        ["short" | "u16" | "s16" | "__u16" | "__s16" | "__be16" | "__le16" | "uint16_t" | "int16_t"] => 2,
        [] | ["int" | "u32" | "s32" | "__u32" | "__s32" | "__be32" | "__le32" | "uint32_t" | "int32_t"] => 4,
        ["long", ..] | ["u64" | "s64" | "__u64" | "__s64" | "__be64" | "__le64" | "uint64_t" | "int64_t"] => 8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::target::TracepointField;

    const SAMPLE: &str = "name: sample
ID: 372
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;
\tfield:unsigned long args[6];\toffset:32;\tsize:48;\tsigned:0;
\tfield:__data_loc char[] name;\toffset:80;\tsize:4;\tsigned:0;
\tfield:__rel_loc u32[] ids;\toffset:84;\tsize:4;\tsigned:0;
\tfield:long prev_state;\toffset:88;\tsize:8;\tsigned:1;
\tfield:struct file *file;\toffset:96;\tsize:8;\tsigned:0;
\tfield:u32 named[NR_ENTRIES];\toffset:104;\tsize:12;\tsigned:0;

print fmt: \"field:%s\", REC->comm
";

    #[test]
    fn reads_every_form() {
        let format = parse(SAMPLE).expect("a format");
        assert_eq!(format.id, 372);
        let brief = |f: &TracepointField| format!("{}|{}|{:?}|{}", f.c_type, f.name, f.array_len, f.data_loc);
        let fields: Vec<String> = format.fields.iter().map(brief).collect();
        assert_eq!(
            fields,
            [
                "char|comm|Some(16)|false",
                "const char *|filename|None|false",
                "unsigned long|args|Some(6)|false",
                "__data_loc char[]|name|None|true",
                "__rel_loc u32[]|ids|None|true",
                "long|prev_state|None|false",
                "struct file *|file|None|false",
                "u32|named|Some(3)|false",
            ]
        );
        let state = &format.fields[5];
        assert_eq!((state.offset_bytes, state.size_bytes, state.signed), (88, 8, true));
    }

    #[test]
    fn refuses_other_texts() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("ID: x\n"), None);
        assert_eq!(parse("ID: 1\nfield:int;\toffset:0;\tsize:4;\tsigned:1;"), None);
        assert_eq!(parse("ID: 1\nfield:int x;\toffset:0;\tsize:-4;\tsigned:1;"), None);
    }

    #[test]
    fn damaged_texts_never_panic() {
        for end in 0..SAMPLE.len() {
            let _ = parse(&SAMPLE[..end]);
            let _ = parse(&SAMPLE.replace(&SAMPLE[end..=end], ""));
        }
    }

    #[test]
    fn reads_every_format_of_this_machine() {
        const EVENTS: &str = "/sys/kernel/tracing/events";
        let Ok(categories) = std::fs::read_dir(EVENTS) else {
            println!("SKIPPED: {EVENTS} is not readable");
            return;
        };
        let (mut files, mut fields) = (0, 0);
        let directories = categories.flatten().filter_map(|category| std::fs::read_dir(category.path()).ok());
        for path in directories.flatten().flatten().map(|event| event.path().join("format")) {
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let format = parse(&text).unwrap_or_else(|| panic!("{}:\n{text}", path.display()));
            for field in &format.fields {
                let whole = field.array_len.is_none_or(|len| len == 0 || field.size_bytes.is_multiple_of(len));
                assert!(whole, "{}: {field:?}", path.display());
            }
            files += 1;
            fields += format.fields.len();
        }
        println!("{files} formats with {fields} fields");
        assert!(files > 100);
    }
}
