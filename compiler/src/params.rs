//! Parameters of a script: their types, and their values as text, as numbers and as bytes of the object's read-only data.
//!
//! In: declarations, and values as the command line or the script writes them. Out: [`Value`]s and their bytes.
//! Guarantee: a value that [`Param::read`] yields is of the parameter's type and within its range; its bytes always have
//! [`Type::size_bytes`] bytes. One reader serves defaults, ranges and the command line.

pub mod pattern;
mod text;

use crate::source::Span;
use crate::target::TargetError;

/// A parameter that a script declares: `param NAME: TYPE = DEFAULT "help" in LOW..HIGH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Its name; that of a module's parameter has the module's name and a dot before it.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// What it is when nothing is given; a parameter without one must be given.
    pub default: Option<Value>,
    /// Least and most value, of types that are numbers.
    pub range: Option<(i64, i64)>,
    /// What it is for.
    pub help: String,
    /// Whether the command line may give it: those that a module keeps to itself always have their default.
    pub is_public: bool,
    /// Where its value is, when a program reads it.
    pub place: Option<Place>,
    /// Whether what is attached or shown depends on its value (names of probes, `every`, `top`, `expire`, `limit`): then the object is for this
    /// value only.
    pub in_plan: bool,
    /// The value that the object was made with.
    pub value: Value,
    /// Its name in the declaration.
    pub span: Span,
}

/// Where a parameter's value is in `.rodata`: another value can be put there before the object is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// Its first byte.
    pub offset_bytes: u32,
    /// So many of them.
    pub size_bytes: u32,
    /// The hash map that holds a set of more than [`MOST_COMPARED`] numbers, filled before anything is attached.
    pub overflow: Option<String>,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the type of its name, which `spec/param.md` explains")]
pub enum Type {
    Int,
    Bool,
    String,
    Path,
    Duration,
    Bytes,
    Percent,
    Pid,
    Cgroup,
    Regex,
}

/// A parameter's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Whatever it is compared with.
    Any,
    /// A number: durations in nanoseconds.
    Number(i64),
    /// A text.
    Text(String),
    /// Processes or control groups, sorted.
    Set(Vec<u64>),
}

/// A value as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its characters, without quotes.
    pub text: String,
    /// Whether it stood in quotes, where no word has a meaning of its own.
    pub quoted: bool,
}

/// Looks up the number of a control group by its path, as [`crate::target::Target::cgroup_id`] does.
pub type Cgroups<'a> = dyn Fn(&str) -> Result<u64, TargetError> + 'a;

/// Sets up to this size are compared one by one; larger ones are looked up in a map.
pub const MOST_COMPARED: usize = 8;

/// Most numbers of a set.
const MOST_IN_SET: usize = 4096;

/// Linux gives no process a higher number.
const MOST_PID: u64 = 1 << 22;

const TYPES: [(&str, Type); 10] = [
    ("bool", Type::Bool),
    ("bytes", Type::Bytes),
    ("cgroup", Type::Cgroup),
    ("duration", Type::Duration),
    ("int", Type::Int),
    ("path", Type::Path),
    ("percent", Type::Percent),
    ("pid", Type::Pid),
    ("regex", Type::Regex),
    ("string", Type::String),
];

impl Type {
    /// The type of this name.
    pub fn named(name: &str) -> Option<Type> {
        TYPES.iter().find(|(known, _)| *known == name).map(|(_, ty)| *ty)
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        TYPES.iter().map(|(name, _)| *name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        TYPES.iter().find(|(_, ty)| *ty == self).map_or("", |(name, _)| name)
    }

    /// Whether values are numbers, which may have a range.
    pub fn is_number(self) -> bool {
        matches!(self, Type::Int | Type::Duration | Type::Bytes | Type::Percent)
    }

    /// Whether several values may be given, of which one must be met.
    pub fn is_set(self) -> bool {
        matches!(self, Type::Pid | Type::Cgroup)
    }

    /// Whether values are texts.
    pub fn is_text(self) -> bool {
        matches!(self, Type::String | Type::Path)
    }

    /// Whether `any` is a value: what is only ever compared.
    pub fn has_any(self) -> bool {
        self.is_set() || self.is_text() || self == Type::Regex
    }

    /// Room of a text with its NUL.
    pub fn room_bytes(self) -> u32 {
        if self == Type::Path { 256 } else { 64 }
    }

    /// Bytes of a value in `.rodata`. A text is a `u64` that is 1 for `any`, then its room. A set is a `u64` (0: any; up to
    /// [`MOST_COMPARED`]: so many; else: look into the map), then that many numbers. A regex is a `u64` that is 1 for `any`, then its table.
    pub fn size_bytes(self) -> u32 {
        match self {
            _ if self.is_set() => 8 * (1 + MOST_COMPARED as u32),
            _ if self.is_text() => 8 + self.room_bytes(),
            Type::Regex => pattern::SIZE_BYTES,
            _ => 8,
        }
    }

    /// The range of values when the declaration gives none.
    fn natural_range(self) -> Option<(i64, i64)> {
        match self {
            Type::Int => Some((i64::MIN, i64::MAX)),
            Type::Duration | Type::Bytes => Some((0, i64::MAX)),
            Type::Percent => Some((0, 100)),
            _ => None,
        }
    }

    /// How values are written, for a message.
    fn form(self) -> &'static str {
        match self {
            Type::Int => "a whole number, such as 100, -1 or 0x2a",
            Type::Bool => "true or false",
            Type::String => "a text of at most 63 bytes",
            Type::Path => "a path of at most 255 bytes",
            Type::Duration => "a number with a unit (ns, us, ms, s, m, h, d), such as 5ms",
            Type::Bytes => "a number of bytes, alone or with a unit (KiB, MiB, GiB, kB, MB, GB), such as 64KiB",
            Type::Percent => "a whole number of percent, such as 5%",
            Type::Pid => "numbers of processes from 1 to 4194304, such as 12 or 12,13",
            Type::Cgroup => "the path of a control group, such as /system.slice, or its number",
            Type::Regex => "literal characters, `.*`, and `^` or `$` at the ends",
        }
    }

    /// One value.
    fn read_one(self, text: &str, cgroups: &Cgroups<'_>) -> Result<Value, String> {
        let number = match self {
            Type::Int => text::whole(text),
            Type::Bool => text::truth(text),
            Type::Duration => text::with_unit(text, &text::DURATIONS),
            Type::Bytes => text::with_unit(text, &text::SIZES),
            Type::Percent => text::whole(text.strip_suffix('%').unwrap_or(text)),
            Type::Pid | Type::Cgroup => return self.read_member(text, cgroups).map(|member| Value::Set(vec![member])),
            Type::String | Type::Path => {
                let fits = text.len() < self.room_bytes() as usize && !text.contains('\0');
                return if fits { Ok(Value::Text(text.into())) } else { Err(self.form().into()) };
            }
            Type::Regex => return text::pattern(text).map(|_| Value::Text(text.into())),
        };
        number.map(Value::Number).ok_or_else(|| self.form().into())
    }

    fn read_member(self, text: &str, cgroups: &Cgroups<'_>) -> Result<u64, String> {
        let number = text.parse::<u64>().ok();
        if self == Type::Pid {
            return number.filter(|pid| (1..=MOST_PID).contains(pid)).ok_or_else(|| self.form().into());
        }
        if let Some(id) = number {
            return Ok(id);
        }
        cgroups(text).map_err(|error| match error {
            TargetError::Missing { .. } => "there is no such control group here".into(),
            TargetError::Refused(words) | TargetError::Invalid(words) => words,
        })
    }
}

impl Param {
    /// A parameter of a type, to be completed.
    pub fn new(name: impl Into<String>, ty: Type, span: Span) -> Param {
        Param {
            name: name.into(),
            ty,
            default: None,
            range: None,
            help: String::new(),
            is_public: true,
            place: None,
            in_plan: false,
            value: Value::Any,
            span,
        }
    }

    /// Reads what was given for it, one text for each time. What is wrong comes as a sentence that has value, type and range.
    pub fn read(&self, given: &[Written], cgroups: &Cgroups<'_>) -> Result<Value, String> {
        let Some(last) = given.last() else { return Err(format!("`{}` needs a value", self.name)) };
        let texts: Vec<&str> = given.iter().map(|written| written.text.as_str()).collect();
        let shown = texts.join(",");
        if !self.ty.is_set() && given.len() > 1 {
            return Err(format!("`{}` is given {} times ({shown}), and takes one value", self.name, given.len()));
        }
        if self.ty.has_any() && given.iter().any(|written| !written.quoted && written.text == "any") {
            return if given.len() == 1 {
                Ok(Value::Any)
            } else {
                Err(format!("`{}` is both `any` and something ({shown})", self.name))
            };
        }
        let wrong = |text: &str, words: String| format!("`{}` cannot be `{text}`: {words}", self.name);
        if self.ty.is_set() {
            return self.read_set(&texts, cgroups);
        }
        match self.ty.read_one(&last.text, cgroups) {
            Ok(Value::Number(number)) if !self.allows(number) => Err(wrong(&last.text, self.words_of_range())),
            Ok(value) => Ok(value),
            Err(words) if self.range.is_some() => {
                Err(wrong(&last.text, format!("it takes {words}, {}", self.bounds())))
            }
            Err(words) if self.ty == Type::Cgroup || self.ty == Type::Regex => Err(wrong(&last.text, words)),
            Err(words) => Err(wrong(&last.text, format!("it takes {words}"))),
        }
    }

    fn read_set(&self, texts: &[&str], cgroups: &Cgroups<'_>) -> Result<Value, String> {
        let mut members = Vec::new();
        for text in texts.iter().flat_map(|text| text.split(',')).map(str::trim) {
            match self.ty.read_member(text, cgroups) {
                Ok(member) => members.push(member),
                Err(words) if self.ty == Type::Cgroup => {
                    return Err(format!("`{}` cannot be `{text}`: {words}", self.name));
                }
                Err(words) => return Err(format!("`{}` cannot be `{text}`: it takes {words}", self.name)),
            }
        }
        members.sort_unstable();
        members.dedup();
        if members.len() > MOST_IN_SET {
            return Err(format!("`{}` has {} values, and {MOST_IN_SET} are the most", self.name, members.len()));
        }
        Ok(Value::Set(members))
    }

    fn allows(&self, number: i64) -> bool {
        let range = self.range.or_else(|| self.ty.natural_range());
        range.is_none_or(|(low, high)| (low..=high).contains(&number))
    }

    fn words_of_range(&self) -> String {
        let article = if self.ty == Type::Int { "an" } else { "a" };
        format!("it takes {article} {} {}", self.ty.name(), self.bounds())
    }

    /// The bounds of its values in words.
    fn bounds(&self) -> String {
        match self.range.or_else(|| self.ty.natural_range()) {
            Some((low, high)) if self.ty != Type::Int && high == i64::MAX => {
                format!("from {} on", text::shown(self.ty, low))
            }
            Some((low, high)) => format!("from {} to {}", text::shown(self.ty, low), text::shown(self.ty, high)),
            None => String::new(),
        }
    }

    /// Its range as a declaration writes it; empty without one.
    pub fn shown_range(&self) -> String {
        self.range.map_or(String::new(), |(low, high)| {
            format!("{}..{}", text::shown(self.ty, low), text::shown(self.ty, high))
        })
    }

    /// A value as it may be written.
    pub fn shown(&self, value: &Value) -> String {
        match value {
            Value::Any => "any".into(),
            Value::Number(number) => text::shown(self.ty, *number),
            Value::Text(text) => format!("\"{text}\""),
            Value::Set(members) => members.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        }
    }

    /// Notes that a program reads it.
    pub fn is_read(&mut self) {
        let size_bytes = self.ty.size_bytes();
        self.place.get_or_insert(Place { size_bytes, ..Place::default() });
    }

    /// The value as a part of a probe; nothing when it is several.
    pub fn as_part(&self) -> Option<String> {
        match &self.value {
            Value::Any => Some("*".into()),
            Value::Number(number) if self.ty == Type::Duration => Some(format!("{number}ns")),
            Value::Number(number) => Some(number.to_string()),
            Value::Text(text) if self.ty == Type::Regex => text::pattern(text).ok(),
            Value::Text(text) => Some(text.clone()),
            Value::Set(members) => match members.as_slice() {
                [one] => Some(one.to_string()),
                _ => None,
            },
        }
    }

    /// A value's bytes in `.rodata`.
    pub fn bytes(&self, value: &Value) -> Vec<u8> {
        let mut bytes = match value {
            Value::Any if !self.ty.is_set() => 1_u64.to_le_bytes().to_vec(),
            Value::Any => Vec::new(),
            Value::Number(number) => number.to_le_bytes().to_vec(),
            Value::Text(_) if self.ty == Type::Regex => [&0_u64.to_le_bytes()[..], &Self::table(value)].concat(),
            Value::Text(text) => [&0_u64.to_le_bytes(), text.as_bytes()].concat(),
            Value::Set(members) => {
                // One more than can be compared says that the map has them.
                let compared = members.len().min(MOST_COMPARED + 1) as u64;
                let listed = members.iter().take(MOST_COMPARED);
                std::iter::once(&compared).chain(listed).flat_map(|number| number.to_le_bytes()).collect()
            }
        };
        bytes.resize(self.ty.size_bytes() as usize, 0);
        bytes
    }

    /// The table of a regex; empty where [`Param::is_comparable`] says no.
    fn table(value: &Value) -> Vec<u8> {
        let Value::Text(text) = value else { return Vec::new() };
        let table = text::pattern(text).ok().and_then(|pattern| pattern::Table::new(&pattern));
        table.map_or_else(Vec::new, |table| table.bytes())
    }

    /// Whether programs can compare with this value: a regex may be too long for it.
    pub fn is_comparable(&self, value: &Value) -> bool {
        self.ty != Type::Regex || *value == Value::Any || !Self::table(value).is_empty()
    }

    /// What is said of a value that programs cannot compare with.
    pub fn too_long(&self, value: &Value) -> String {
        format!(
            "`${}` cannot be {}: a regex that strings are compared with has at most {} characters",
            self.name,
            self.shown(value),
            pattern::MOST_CHARACTERS
        )
    }

    /// The numbers of a set that are looked up in its map.
    pub fn in_map<'a>(&self, value: &'a Value) -> &'a [u64] {
        match value {
            Value::Set(members) if members.len() > MOST_COMPARED => members,
            _ => &[],
        }
    }
}

/// The parameter that a name on the command line means: in full, or without the module's name where no other has the same.
/// `-` may stand for `_`.
pub fn find<'a>(params: &'a [Param], given: &str) -> Option<&'a Param> {
    let name = given.replace('-', "_");
    let is_named = |param: &&Param| param.is_public && param.name.replace('-', "_") == name;
    if let Some(param) = params.iter().find(is_named) {
        return Some(param);
    }
    let ends_so = |param: &&Param| param.is_public && param.name.rsplit_once('.').is_some_and(|(_, last)| last == name);
    let mut found = params.iter().filter(ends_so);
    found.next().filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests;
