//! Fuzz targets for readers of files that the kernel, the linker and other programs write.
//!
//! In: valid and invalid contents of such files. Guarantee: every query of each reader is
//! exercised.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use profiler_compiler::ast::TypeTag;
use profiler_compiler::btf::{Added, Btf, BtfId, Kind};
use profiler_compiler::target::{Arch, ProgramInstruction, ProgramQuestions, ProgramType, ProgramVariable};
use profiler_compiler::{glob as patterns, similar, tracepoint_format as formats, usdt as static_probes};
use profiler_runtime::elf;
use profiler_runtime::host::dwarf::DebugInformation;
use profiler_runtime::host::elf::Symbols;
use profiler_runtime::host::{library, mapped};
use profiler_runtime::load;
use profiler_runtime::symbols::kernel::KernelSymbols;
use profiler_runtime::symbols::parse_passwd;

/// Types with higher ids are not queried: a query may walk the whole blob.
const TYPES_ASKED: u32 = 200;

/// A BTF blob.
pub fn btf(input: &[u8]) {
    let Some(btf) = Btf::new(Box::new(input.to_vec())) else { return };
    for number in (0..TYPES_ASKED).chain([u32::MAX >> 1, u32::MAX]) {
        let id = BtfId(number);
        let _ = (btf.kind(id), btf.name(id), btf.strip(id), btf.pointee(id), btf.array(id), btf.int(id));
        let _ = (btf.size_bytes(id), btf.enum_signed(id), btf.func_proto(id), btf.to_type(id).describe(Some(&btf)));
        assert!(!btf.describe(id).is_empty());
        for member in btf.members(id).take(TYPES_ASKED as usize) {
            let _ = (member.byte_offset(), btf.size_bytes(member.ty));
            // In a corrupt blob, a member's offset may overflow. The member is not found then.
            let _ = btf.find_member(id, member.name);
        }
        let _ = btf.find_member(id, "no such member");
        let _ = btf.enumerators(id).count();
        if let (Some(kind), Some(name)) = (btf.kind(id), btf.name(id)) {
            let _ = btf.find(kind, name);
        }
    }
    for name in ["task_struct", "struct task_struct", "pid_t", ""] {
        let _ = btf.find_named(name);
    }
    let _ = (btf.find_enumerator("RED"), btf.functions().count(), btf.names(Kind::Struct).count());
    let _ = (
        btf.raw_tracepoints().find("sched_switch"),
        btf.raw_tracepoints().contains("sched_switch"),
        btf.raw_tracepoints().all().count(),
    );
    let _ = btf.raw_tracepoints().named(|_| true);
}

/// A program with debug information.
pub fn dwarf(input: &[u8]) {
    let Ok(symbols) = Symbols::parse(Path::new("x"), input) else { return };
    let functions = symbols.functions("*").unwrap_or_default();
    for arch in [Arch::X86_64, Arch::Aarch64] {
        let Ok(information) = DebugInformation::parse(input, arch) else { continue };
        let offsets: BTreeSet<u64> = functions.iter().map(|function| function.file_offset).collect();
        let names_only = arch == Arch::Aarch64;
        let mut questions = ProgramQuestions { functions: offsets, names_only, ..ProgramQuestions::new("x") };
        for (file, line) in [("seed.c", 1), ("seed.c", 8), ("no/seed.c", 2)] {
            let sites = information.line_sites(file, line).unwrap_or_default();
            questions.instructions.extend(sites.iter().map(|site| site.at));
        }
        // Those of no line, too.
        for (at, scope) in questions.functions.iter().zip([11, 0x40, 0x80]) {
            questions.instructions.insert(ProgramInstruction { file_offset: at + 1, scope });
        }
        for (tag, name) in [(TypeTag::Struct, "point"), (TypeTag::None, "kind"), (TypeTag::Enum, "kind")] {
            let site = questions.functions.first().copied();
            questions.types.insert(ProgramType { tag, name: name.into(), site });
            questions.types.insert(ProgramType { tag, name: name.into(), site: None });
        }
        questions.variables.insert(ProgramVariable { name: "text".into(), address: 0x0040_0000 });
        let mut types = Added::default();
        let answers = information.describe(&questions, &symbols.clones(&questions.functions), &mut types);
        assert_eq!(answers.functions.len(), questions.functions.len());
        assert_eq!(answers.instructions.len(), questions.instructions.len());
        let types = Btf::with(None, types);
        assert_eq!((answers.types.len(), answers.variables.len()), (questions.types.len(), 1));
        let named = answers.types.into_values().flatten().flatten();
        for ty in named.chain(answers.variables.into_values().flatten()) {
            let _ = (types.to_type(ty), types.describe(ty), types.member_names(ty));
        }
        for function in answers.functions.into_values().chain(answers.instructions.into_values()).flatten() {
            let _ = (function.described(&types), types.to_type(function.result));
            for parameter in &function.parameters {
                let pointee = types.pointee(parameter.ty).unwrap_or(parameter.ty);
                for member in types.members(pointee).take(TYPES_ASKED as usize) {
                    let _ = (types.find_member(pointee, member.name), types.size_bytes(member.ty));
                }
            }
        }
    }
}

/// An ELF file whose functions are to be traced.
pub fn elf_symbols(input: &[u8]) {
    let Ok(symbols) = Symbols::parse(Path::new("x"), input) else { return };
    for pattern in ["*", "m*n", "main", "", "*_*_*"] {
        if let Ok(functions) = symbols.functions(pattern) {
            assert!(functions.windows(2).all(|pair| pair[0].name <= pair[1].name), "unsorted");
        }
    }
    for address in [0, 0x1000, 0x0040_1000, u64::MAX] {
        let _ = symbols.file_offset(address);
    }
}

/// An ELF file to be listed.
pub fn elf_listing(input: &[u8]) {
    assert!(!elf::describe(input).is_empty() || input.starts_with(b"\x7fELF"));
}

/// A pattern in the first line, names in the others.
pub fn glob(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.lines();
    let pattern = lines.next().unwrap_or_default();
    for name in lines.clone() {
        let _ = patterns::matches(pattern, name);
        assert!(patterns::is_pattern(name) || patterns::matches(name, name));
    }
    assert!(similar::nearest(pattern, lines, 3).len() <= 3);
}

/// The text of `/proc/kallsyms`.
pub fn kallsyms(input: &[u8]) {
    let symbols = KernelSymbols::parse(input);
    for address in [0, 1, 0xffff_ffff_8100_0000, 0xffff_ffff_c000_0001, u64::MAX] {
        let found = symbols.find(address);
        assert!(found.is_none() || !symbols.is_empty());
        assert!(found.is_none_or(|symbol| symbol.offset <= address));
    }
}

/// The cache of the dynamic linker.
pub fn library_cache(input: &[u8]) {
    let _ = library::cache_entries(input).count();
}

/// The text of `/etc/passwd`.
pub fn passwd(input: &[u8]) {
    let _ = parse_passwd(input);
}

/// The text of `/proc/PID/maps`.
pub fn process_maps(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for name in ["libc", "libc.so.6", "", "é"] {
        let _ = mapped::mappings_named(&text, name);
    }
}

/// The `format` file of a tracepoint.
pub fn tracepoint_format(input: &[u8]) {
    let Some(format) = formats::parse(&String::from_utf8_lossy(input)) else { return };
    for field in &format.fields {
        assert!(!field.name.is_empty() || field.c_type.is_empty(), "{field:?}");
    }
}

/// libbpf's output for a refused object, including the verifier's log.
pub fn verifier_log(input: &[u8]) {
    let text = String::from_utf8_lossy(input).into_owned();
    assert!(!load::explain(io::Error::from_raw_os_error(22), text).to_string().is_empty());
}

/// The notes of static probes, for both address sizes, and the arguments parsed from them and from
/// any text.
pub fn usdt(input: &[u8]) {
    for address_bytes in [4, 8] {
        for note in static_probes::notes(input, address_bytes) {
            static_probes::arguments(&note.arguments, Arch::X86_64);
        }
    }
    for mut argument in static_probes::arguments(&String::from_utf8_lossy(input), Arch::X86_64) {
        argument.resolve(|name| (name.len() % 2 == 0).then_some(name.len() as i64));
        assert!(matches!(argument.size_bytes, 1 | 2 | 4 | 8), "{argument:?}");
    }
}
