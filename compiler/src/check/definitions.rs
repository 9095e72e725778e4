//! C definitions: the types that a script defines itself.
//!
//! In: definitions as written, and the target for the types that they mention. Out: types in BTF,
//! and diagnostics.
//! Guarantee: sizes and offsets are those of C on 64-bit machines; a type with an error is not
//! defined at all.

mod constants;
mod layout;

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::{
    CType, CTypeKind, Declarator, DefinitionKind, EnumDefinition, Ident, RecordDefinition, Script, TypeTag,
};
use crate::btf::{Added, BtfId, Kind};
use crate::check::named_int;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::target::Target;

/// Maximum size of a defined type, in bytes.
const MAX_SIZE_BYTES: u64 = 1 << 20;

/// Maximum number of members of a struct and of values of an enum: BTF stores the count in 16 bits.
const MAX_PARTS: usize = 65_535;

/// Size and alignment of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    size_bytes: u32,
    align_bytes: u32,
    /// Whether the contents are known.
    complete: bool,
    /// Whether it is an integer, a boolean or an enum.
    is_integer: bool,
}

/// Defines the types of a script.
pub fn define(script: &Script, target: &dyn Target) -> (Added, Vec<Diagnostic>) {
    let mut definer = Definer {
        script,
        target,
        added: Added::default(),
        extents: BTreeMap::new(),
        tagged: BTreeMap::new(),
        typedefs: BTreeMap::new(),
        constants: BTreeMap::new(),
        basic: BTreeMap::new(),
        problems: Vec::new(),
    };
    for definition in &script.definitions {
        match &definition.kind {
            DefinitionKind::Type(ty) => {
                definer.base(ty);
            }
            DefinitionKind::Typedef(ty, declarators) => {
                let Some(base) = definer.base(ty) else { continue };
                for declarator in declarators {
                    definer.typedef(base, declarator);
                }
            }
        }
    }
    definer.finish()
}

/// The names of the script's `typedef`s.
pub(super) fn typedefs(script: &Script) -> BTreeSet<String> {
    let declarators = script.definitions.iter().flat_map(|definition| match &definition.kind {
        DefinitionKind::Typedef(_, declarators) => declarators.as_slice(),
        DefinitionKind::Type(_) => &[],
    });
    declarators.filter_map(|declarator| Some(declarator.name.as_ref()?.text.clone())).collect()
}

struct Definer<'a> {
    script: &'a Script,
    target: &'a dyn Target,
    added: Added,
    /// Size and alignment of each added type.
    extents: BTreeMap<BtfId, Extent>,
    /// Structs, unions and enums of the script; the span is that of the definition, `None` while
    /// there is none.
    tagged: BTreeMap<(Kind, String), (BtfId, Option<Span>)>,
    typedefs: BTreeMap<String, (BtfId, Span)>,
    /// Values of the script's enums.
    constants: BTreeMap<String, (i64, Span)>,
    /// Integer and pointer types created so far.
    basic: BTreeMap<String, BtfId>,
    problems: Vec<Diagnostic>,
}

impl Definer<'_> {
    fn fail<T>(&mut self, code: Code, span: Span, message: String, help: &str) -> Option<T> {
        let problem = Diagnostic::error(code, span, message);
        self.problems.push(if help.is_empty() { problem } else { problem.help(help) });
        None
    }

    fn twice<T>(&mut self, name: &Ident, first: Span) -> Option<T> {
        let problem = Diagnostic::error(Code(373), name.span, format!("`{}` is defined twice", name.text));
        self.problems.push(problem.related(first, "the first time").help("give one of them another name"));
        None
    }

    /// The base type of a declaration, without its declarators.
    fn base(&mut self, ty: &CType) -> Option<BtfId> {
        match &ty.kind {
            CTypeKind::Name(name) => self.named(name, ty.span),
            CTypeKind::Tagged(tag, name) => Some(self.tagged(*tag, name)),
            CTypeKind::Record(record) => self.record(record, ty.span),
            CTypeKind::Enum(definition) => self.enumeration(definition, ty.span),
        }
    }

    /// Resolves `struct x`: the script's type, else the kernel's, else a forward declaration.
    fn tagged(&mut self, tag: TypeTag, name: &Ident) -> BtfId {
        let kind = kind_of(tag);
        if let Some((id, _)) = self.tagged.get(&(kind, name.text.clone())) {
            return *id;
        }
        let btf = self.target.btf();
        let kernel = btf.and_then(|btf| match kind {
            Kind::Enum => btf.find(Kind::Enum, &name.text).or_else(|| btf.find(Kind::Enum64, &name.text)),
            kind => btf.find(kind, &name.text),
        });
        // A type that the script defines later hides the kernel's type of that name from the start.
        let defined_later =
            self.script.definitions.iter().any(|definition| defines(&definition.kind, kind, &name.text));
        kernel.filter(|_| !defined_later).unwrap_or_else(|| self.announce(kind, &name.text))
    }

    fn announce(&mut self, kind: Kind, name: &str) -> BtfId {
        let id = self.added.reserve();
        self.extents.insert(id, Extent { size_bytes: 0, align_bytes: 1, complete: false, is_integer: false });
        self.tagged.insert((kind, name.to_string()), (id, None));
        id
    }

    /// The BTF id of a struct, union or enum whose definition begins.
    fn begin(&mut self, kind: Kind, name: Option<&Ident>) -> Option<BtfId> {
        let Some(name) = name else { return Some(self.added.reserve()) };
        let key = (kind, name.text.clone());
        let id = match self.tagged.get(&key) {
            Some((_, Some(first))) => {
                let first = *first;
                return self.twice(name, first);
            }
            Some((id, None)) => *id,
            None => self.announce(kind, &name.text),
        };
        self.tagged.insert(key, (id, Some(name.span)));
        Some(id)
    }

    fn record(&mut self, record: &RecordDefinition, span: Span) -> Option<BtfId> {
        let kind = if record.is_union { Kind::Union } else { Kind::Struct };
        let id = self.begin(kind, record.name.as_ref())?;
        let (members, extent) = self.lay_out(record, span)?;
        if members.len() > MAX_PARTS {
            return self.fail(Code(371), span, format!("this has more than {MAX_PARTS} members"), "");
        }
        let name = record.name.as_ref().map_or("", |name| &name.text);
        self.added.record_type(id, name, record.is_union, extent.size_bytes, &members);
        self.extents.insert(id, extent);
        Some(id)
    }

    fn enumeration(&mut self, definition: &EnumDefinition, span: Span) -> Option<BtfId> {
        let id = self.begin(Kind::Enum, definition.name.as_ref())?;
        let mut values = Vec::with_capacity(definition.values.len());
        let mut next = 0_i64;
        for (name, value) in &definition.values {
            if let Some(value) = value {
                next = self.constant(value)?;
            }
            if let Some((_, first)) = self.constants.get(&name.text) {
                let first = *first;
                return self.twice(name, first);
            }
            self.constants.insert(name.text.clone(), (next, name.span));
            values.push((name.text.clone(), next));
            next = next.wrapping_add(1);
        }
        if values.len() > MAX_PARTS {
            return self.fail(Code(371), span, format!("this has more than {MAX_PARTS} values"), "");
        }
        let name = definition.name.as_ref().map_or("", |name| &name.text);
        let size_bytes = self.added.enumeration(id, name, &values);
        self.extents.insert(id, Extent { size_bytes, align_bytes: size_bytes, complete: true, is_integer: true });
        Some(id)
    }

    fn typedef(&mut self, base: BtfId, declarator: &Declarator) {
        let (Some(of), Some(name)) = (self.declared(base, declarator), &declarator.name) else { return };
        if let Some((_, first)) = self.typedefs.get(&name.text) {
            let first = *first;
            let _: Option<()> = self.twice(name, first);
            return;
        }
        let id = self.added.typedef(&name.text, of);
        let extent = self.extent(of);
        self.extents.insert(id, extent);
        self.typedefs.insert(name.text.clone(), (id, name.span));
    }

    /// The type of a declarator: the base type with its pointers, parameter list and array lengths.
    fn declared(&mut self, base: BtfId, declarator: &Declarator) -> Option<BtfId> {
        let mut id = base;
        for _ in 0..declarator.pointers {
            id = self.pointer(id);
        }
        if declarator.is_function {
            // A function pointer becomes `void *`: probes have no use for the function type.
            id = self.pointer(BtfId::VOID);
        }
        for (place, length) in declarator.dimensions.iter().enumerate().rev() {
            let len = match length {
                Some(length) => {
                    let len = self.constant(length)?;
                    match u32::try_from(len) {
                        Ok(len) => len,
                        Err(_) => {
                            return self.fail(
                                Code(374),
                                length.span,
                                format!("an array cannot have {len} elements"),
                                "",
                            );
                        }
                    }
                }
                None if place == 0 => 0,
                None => {
                    let message = "only the first length of an array may be left out".to_string();
                    return self.fail(Code(374), declarator.span, message, "write a number between the brackets");
                }
            };
            id = self.array(id, len, declarator.span)?;
        }
        Some(id)
    }

    fn array(&mut self, of: BtfId, len: u32, span: Span) -> Option<BtfId> {
        let element = self.extent(of);
        self.must_be_complete(of, element, span)?;
        let size = u64::from(element.size_bytes) * u64::from(len);
        if size > MAX_SIZE_BYTES {
            return self.too_large(span, size);
        }
        let id = self.added.array(of, len);
        self.extents.insert(id, Extent { size_bytes: size as u32, is_integer: false, ..element });
        Some(id)
    }

    fn too_large<T>(&mut self, span: Span, size_bytes: u64) -> Option<T> {
        let message = format!("this type takes {size_bytes} bytes, and the limit is {MAX_SIZE_BYTES}");
        self.fail(Code(371), span, message, "")
    }

    fn must_be_complete(&mut self, id: BtfId, extent: Extent, span: Span) -> Option<()> {
        if extent.complete {
            return Some(());
        }
        let name = self.tagged.iter().find(|(_, (known, _))| *known == id).map(|((_, name), _)| name.clone());
        let message = match name {
            Some(name) => format!("the size of `{name}` is not known here"),
            None => "this type has no size".to_string(),
        };
        self.fail(Code(371), span, message, "define the type before it is used, or use a pointer to it")
    }

    fn pointer(&mut self, to: BtfId) -> BtfId {
        let key = format!("*{}", to.0);
        if let Some(id) = self.basic.get(&key) {
            return *id;
        }
        let id = self.added.pointer(to);
        self.extents.insert(id, Extent { size_bytes: 8, align_bytes: 8, complete: true, is_integer: false });
        self.basic.insert(key, id);
        id
    }

    /// Resolves a type name without a tag.
    fn named(&mut self, name: &str, span: Span) -> Option<BtfId> {
        if name == "void" {
            return Some(BtfId::VOID);
        }
        if let Some((id, _)) = self.typedefs.get(name) {
            return Some(*id);
        }
        if let Some(id) = self.integer(name).or_else(|| self.float(name)) {
            return Some(id);
        }
        let btf = self.target.btf();
        if let Some(id) = btf.and_then(|btf| btf.find(Kind::Typedef, name).or_else(|| btf.find(Kind::Int, name))) {
            return Some(id);
        }
        let tagged = [(Kind::Struct, "struct"), (Kind::Union, "union"), (Kind::Enum, "enum")];
        let is = |kind: Kind| {
            self.tagged.contains_key(&(kind, name.to_string())) || btf.is_some_and(|btf| btf.find(kind, name).is_some())
        };
        let help = match tagged.into_iter().find(|(kind, _)| is(*kind)) {
            Some((_, word)) => format!("write `{word} {name}`"),
            None if btf.is_none() => "kernel types need the kernel's BTF, which cannot be read here".into(),
            None => "define it above, or use a type of C or of the kernel, such as `int` or `u64`".into(),
        };
        self.fail(Code(370), span, format!("type `{name}` is not known"), &help)
    }

    /// Resolves an integer type by its name in C, in the kernel or in scripts.
    fn integer(&mut self, name: &str) -> Option<BtfId> {
        if let Some(id) = self.basic.get(name) {
            return Some(*id);
        }
        let (id, size_bytes) = match name {
            "bool" | "_Bool" => (self.added.boolean(), 1),
            // Arrays of `char` are strings; they are recognized by this name.
            "char" => (self.added.int("char", 1, true), 1),
            _ => {
                let plain = plain_integer(name);
                let int = named_int(&plain)?;
                (self.added.int(&int.to_string(), u32::from(int.size_bytes), int.signed), u32::from(int.size_bytes))
            }
        };
        self.extents.insert(id, Extent { size_bytes, align_bytes: size_bytes, complete: true, is_integer: true });
        self.basic.insert(name.to_string(), id);
        Some(id)
    }

    /// Resolves a floating-point type. Its members are laid out, but have no values in scripts.
    fn float(&mut self, name: &str) -> Option<BtfId> {
        if let Some(id) = self.basic.get(name) {
            return Some(*id);
        }
        let size_bytes = match name {
            "float" => 4,
            "double" => 8,
            _ => return None,
        };
        let id = self.added.float(name, size_bytes);
        self.extents.insert(id, Extent { size_bytes, align_bytes: size_bytes, complete: true, is_integer: false });
        self.basic.insert(name.to_string(), id);
        Some(id)
    }

    /// Size and alignment of a type of the script or of the kernel.
    fn extent(&self, id: BtfId) -> Extent {
        if let Some(extent) = self.extents.get(&id) {
            return *extent;
        }
        let Some(btf) = self.target.btf().filter(|_| id != BtfId::VOID) else {
            return Extent { size_bytes: 0, align_bytes: 1, complete: false, is_integer: false };
        };
        let is_integer = matches!(btf.kind(btf.strip(id)), Some(Kind::Int | Kind::Enum | Kind::Enum64));
        let complete =
            !matches!(btf.kind(btf.strip(id)), None | Some(Kind::Void | Kind::Forward | Kind::FunctionProto));
        Extent { size_bytes: btf.size_bytes(id), align_bytes: btf.align_bytes(id), complete, is_integer }
    }

    /// Types that are mentioned but never defined become forward declarations.
    fn finish(mut self) -> (Added, Vec<Diagnostic>) {
        for ((kind, name), (id, _)) in &self.tagged {
            if !self.added.is_complete(*id) {
                self.added.forward(*id, name, *kind == Kind::Union);
            }
        }
        (self.added, self.problems)
    }
}

fn kind_of(tag: TypeTag) -> Kind {
    match tag {
        TypeTag::Union => Kind::Union,
        TypeTag::Enum => Kind::Enum,
        TypeTag::Struct | TypeTag::None => Kind::Struct,
    }
}

/// Whether a definition defines this tag.
fn defines(definition: &DefinitionKind, kind: Kind, name: &str) -> bool {
    let (DefinitionKind::Type(ty) | DefinitionKind::Typedef(ty, _)) = definition;
    let named = |ident: &Option<Ident>| ident.as_ref().is_some_and(|ident| ident.text == name);
    match &ty.kind {
        CTypeKind::Record(record) => named(&record.name) && (kind == Kind::Union) == record.is_union,
        CTypeKind::Enum(definition) => named(&definition.name) && kind == Kind::Enum,
        CTypeKind::Name(_) | CTypeKind::Tagged(..) => false,
    }
}

/// Normalizes an integer type name to the form that scripts use: `long unsigned int` is `uint64`,
/// `__u32` is `u32`.
fn plain_integer(name: &str) -> String {
    let words: Vec<&str> = name.split(' ').collect();
    let has = |word: &str| words.contains(&word);
    let is_c = words.iter().all(|word| matches!(*word, "unsigned" | "signed" | "char" | "short" | "int" | "long"));
    if !is_c {
        let known = match name {
            "pid_t" | "key_t" | "clockid_t" => "int32",
            "uid_t" | "gid_t" | "dev_t" | "mode_t" | "uint" | "__be32" | "__le32" => "uint32",
            "__be16" | "__le16" | "sa_family_t" | "ushort" | "umode_t" => "uint16",
            "loff_t" | "off_t" | "time_t" | "ptrdiff_t" | "intptr_t" | "clock_t" | "suseconds_t" => "int64",
            "__be64" | "__le64" | "ulong" | "sector_t" | "ino_t" | "dma_addr_t" => "uint64",
            other => other.strip_prefix("__").unwrap_or(other),
        };
        return known.to_string();
    }
    let bits = match () {
        () if has("char") => 8,
        () if has("short") => 16,
        () if has("long") => 64,
        () => 32,
    };
    format!("{}int{bits}", if has("unsigned") { "u" } else { "" })
}
