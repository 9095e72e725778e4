//! Parameters of a script: their types, and their values as text, numbers and bytes in `.rodata`.
//!
//! In: declarations, and values as written on the command line or in the script. Out: [`Value`]s
//! and their bytes.
//! Guarantee: a value returned by [`Param::read`] is of the parameter's type and within its range;
//! its encoding has exactly [`Type::size_bytes`] bytes. Defaults, ranges and the command line share
//! one parser.

pub mod automaton;
pub mod pattern;
mod text;

use serde::{Deserialize, Serialize};

use pattern::Pattern;

use crate::source::Span;

/// A parameter that a script declares: `param NAME: TYPE = DEFAULT "help" in LOW..HIGH`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// Its name; a module's parameter is prefixed with the module's name and a dot.
    pub name: String,
    pub ty: Type,
    /// The default value; a parameter without one is required.
    pub default: Option<Value>,
    /// Minimum and maximum value, for numeric types.
    pub range: Option<(i64, i64)>,
    /// The help text.
    pub help: String,
    /// Whether it can be set on the command line. Private parameters of a module always have their
    /// default.
    pub is_public: bool,
    /// Where its value is in `.rodata`, if a program reads it.
    pub place: Option<RodataLocation>,
    /// Whether its value affects what is attached or displayed (probe names, `every`, `top`,
    /// `expire`, `limit`). The object is then valid for this value only.
    pub in_plan: bool,
    /// The value that the object was compiled with.
    pub value: Value,
    /// The source span of its name in the declaration.
    pub span: Span,
}

/// Where a parameter's value is in `.rodata`. A different value can be written there before the
/// object is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RodataLocation {
    /// Offset of the first byte.
    pub offset_bytes: u32,
    pub size_bytes: u32,
    /// The hash map for a set of more than [`MOST_COMPARED`] numbers, filled before anything is
    /// attached.
    pub overflow: Option<String>,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    User,
    Regex,
    Glob,
}

/// A parameter's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// Matches every value.
    Any,
    /// A number; durations are in nanoseconds.
    Number(i64),
    /// A text.
    Text(String),
    /// Ids of processes, cgroups or users, sorted.
    Set(Vec<u64>),
}

/// A value as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its characters, without quotes.
    pub text: String,
    /// Whether it was quoted; keywords such as `any` have no special meaning in quotes.
    pub quoted: bool,
}

/// Looks up numbers by names; else says why there is none.
pub trait Ids {
    /// The cgroup id of a path.
    fn cgroup(&self, path: &str) -> Result<u64, String>;
    /// The user id of a login name.
    fn user(&self, name: &str) -> Result<u64, String>;
}

/// Maximum size of a set that is compared element by element; larger sets are looked up in a map.
pub const MOST_COMPARED: usize = 8;

/// Maximum number of elements of a set.
const MOST_IN_SET: usize = 4096;

/// Linux's limit of process ids.
const MOST_PID: u64 = 1 << 22;

/// The largest user id; the one above it means none.
const MOST_UID: u64 = u32::MAX as u64 - 1;

const TYPES: [(&str, Type); 12] = [
    ("bool", Type::Bool),
    ("bytes", Type::Bytes),
    ("cgroup", Type::Cgroup),
    ("duration", Type::Duration),
    ("glob", Type::Glob),
    ("int", Type::Int),
    ("path", Type::Path),
    ("percent", Type::Percent),
    ("pid", Type::Pid),
    ("regex", Type::Regex),
    ("string", Type::String),
    ("user", Type::User),
];

impl Type {
    /// The type with this name.
    pub fn named(name: &str) -> Option<Type> {
        TYPES.iter().find(|(known, _)| *known == name).map(|(_, ty)| *ty)
    }

    /// The names of all types.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        TYPES.iter().map(|(name, _)| *name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        TYPES.iter().find(|(_, ty)| *ty == self).map_or("", |(name, _)| name)
    }

    /// Whether values are numbers, which can have a range.
    pub fn is_number(self) -> bool {
        matches!(self, Type::Int | Type::Duration | Type::Bytes | Type::Percent)
    }

    /// Whether several values can be given, any of which may match.
    pub fn is_set(self) -> bool {
        matches!(self, Type::Pid | Type::Cgroup | Type::User)
    }

    /// Whether values are texts.
    pub fn is_text(self) -> bool {
        matches!(self, Type::String | Type::Path)
    }

    /// Whether values are patterns that texts match.
    pub fn is_pattern(self) -> bool {
        matches!(self, Type::Regex | Type::Glob)
    }

    /// Whether `any` is allowed; true for types that are only compared.
    pub fn has_any(self) -> bool {
        self.is_set() || self.is_text() || self.is_pattern()
    }

    /// Capacity of a text including its NUL.
    pub fn capacity_bytes(self) -> u32 {
        if self == Type::Path { 256 } else { 64 }
    }

    /// Size of a value in `.rodata`. A text is a `u64` that is 1 for `any`, then its capacity. A
    /// set is a `u64` (0: any; up to [`MOST_COMPARED`]: the number of elements; greater: look in
    /// the map), then the elements. A pattern is a `u64` that is 1 for `any`, then its table.
    pub fn size_bytes(self) -> u32 {
        match self {
            _ if self.is_set() => 8 * (1 + MOST_COMPARED as u32),
            _ if self.is_text() => 8 + self.capacity_bytes(),
            _ if self.is_pattern() => automaton::SIZE_BYTES,
            _ => 8,
        }
    }

    /// The range if the declaration gives none.
    fn natural_range(self) -> Option<(i64, i64)> {
        match self {
            Type::Int => Some((i64::MIN, i64::MAX)),
            Type::Duration | Type::Bytes => Some((0, i64::MAX)),
            Type::Percent => Some((0, 100)),
            _ => None,
        }
    }

    /// The syntax of values, for messages.
    fn form(self) -> &'static str {
        match self {
            Type::Int => "a whole number, such as 100, -1 or 0x2a",
            Type::Bool => "true or false",
            Type::String => "a text of at most 63 bytes",
            Type::Path => "a path of at most 255 bytes",
            Type::Duration => "a number with a unit (ns, us, ms, s, m, h, d), such as 5ms",
            Type::Bytes => "a number of bytes, alone or with a unit (KiB, MiB, GiB, kB, MB, GB), such as 64KiB",
            Type::Percent => "a whole number of percent, such as 5%",
            Type::Pid => "process ids from 1 to 4194304, such as 12 or 12,13",
            Type::Cgroup => "the path of a control group, such as /system.slice, its number, or a container's id",
            Type::User => "login names or user ids, such as postgres or 0,1000",
            Type::Regex => "a regular expression, such as ^(read|write)v?$",
            Type::Glob => "a pattern with `*`, such as vfs_*",
        }
    }

    /// Parses one value.
    fn read_one(self, text: &str, ids: &dyn Ids) -> Result<Value, String> {
        let number = match self {
            Type::Int => text::whole(text),
            Type::Bool => text::truth(text),
            Type::Duration => text::with_unit(text, &text::DURATIONS),
            Type::Bytes => text::with_unit(text, &text::SIZES),
            Type::Percent => text::whole(text.strip_suffix('%').unwrap_or(text)),
            Type::Pid | Type::Cgroup | Type::User => {
                return self.read_member(text, ids).map(|member| Value::Set(vec![member]));
            }
            Type::String | Type::Path => {
                let fits = text.len() < self.capacity_bytes() as usize && !text.contains('\0');
                return if fits { Ok(Value::Text(text.into())) } else { Err(self.form().into()) };
            }
            Type::Regex => return Pattern::regex(text).map(|_| Value::Text(text.into())),
            Type::Glob if text.contains('\0') => return Err(self.form().into()),
            Type::Glob => return Ok(Value::Text(text.into())),
        };
        number.map(Value::Number).ok_or_else(|| self.form().into())
    }

    fn read_member(self, text: &str, ids: &dyn Ids) -> Result<u64, String> {
        let most = match self {
            Type::Pid => MOST_PID,
            Type::User => MOST_UID,
            _ => u64::MAX,
        };
        let least = u64::from(self == Type::Pid);
        match (text.parse::<u64>(), self) {
            (Ok(number), _) if (least..=most).contains(&number) => Ok(number),
            (Err(_), Type::Cgroup) => ids.cgroup(text),
            (Err(_), Type::User) => ids.user(text),
            _ => Err(format!("it takes {}", self.form())),
        }
    }
}

impl Written {
    /// A value from a command line: a duration without a unit is of seconds, as for `sleep`.
    pub fn on_command_line(ty: Type, text: &str) -> Written {
        let is_bare = ty == Type::Duration && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        Written { text: if is_bare { format!("{text}s") } else { text.to_owned() }, quoted: false }
    }
}

/// A duration that is given on a command line, in nanoseconds: a number with a unit, as of a
/// parameter, or without one, of seconds. `None` if it is no duration.
pub fn duration_ns(text: &str) -> Option<i64> {
    text::with_unit(text, &text::DURATIONS).or_else(|| text::with_unit(&format!("{text}s"), &text::DURATIONS))
}

impl Param {
    /// A parameter with this name and type; the other fields have defaults.
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

    /// Parses the values given for the parameter, one text per occurrence. An error is a sentence
    /// with the value, type and range.
    pub fn read(&self, given: &[Written], ids: &dyn Ids) -> Result<Value, String> {
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
            return self.read_set(&texts, ids);
        }
        match self.ty.read_one(&last.text, ids) {
            Ok(Value::Number(number)) if !self.allows(number) => Err(wrong(&last.text, self.words_of_range())),
            Ok(value) => Ok(value),
            Err(words) if self.range.is_some() => {
                Err(wrong(&last.text, format!("it takes {words}, {}", self.bounds())))
            }
            Err(words) if self.ty == Type::Regex => Err(wrong(&last.text, words)),
            Err(words) => Err(wrong(&last.text, format!("it takes {words}"))),
        }
    }

    fn read_set(&self, texts: &[&str], ids: &dyn Ids) -> Result<Value, String> {
        let mut members = Vec::new();
        for text in texts.iter().flat_map(|text| text.split(',')).map(str::trim) {
            match self.ty.read_member(text, ids) {
                Ok(member) => members.push(member),
                Err(words) => return Err(format!("`{}` cannot be `{text}`: {words}", self.name)),
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

    /// The bounds of its values, as text.
    fn bounds(&self) -> String {
        match self.range.or_else(|| self.ty.natural_range()) {
            Some((low, high)) if self.ty != Type::Int && high == i64::MAX => {
                format!("from {} on", text::shown(self.ty, low))
            }
            Some((low, high)) => format!("from {} to {}", text::shown(self.ty, low), text::shown(self.ty, high)),
            None => String::new(),
        }
    }

    /// Its range in the syntax of a declaration; empty without one.
    pub fn shown_range(&self) -> String {
        self.range.map_or(String::new(), |(low, high)| {
            format!("{}..{}", text::shown(self.ty, low), text::shown(self.ty, high))
        })
    }

    /// A value in the syntax that [`Param::read`] accepts.
    pub fn shown(&self, value: &Value) -> String {
        match value {
            Value::Any => "any".into(),
            Value::Number(number) => text::shown(self.ty, *number),
            Value::Text(text) => format!("\"{text}\""),
            Value::Set(members) => members.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        }
    }

    /// Records that a program reads it.
    pub fn is_read(&mut self) {
        let size_bytes = self.ty.size_bytes();
        self.place.get_or_insert(RodataLocation { size_bytes, ..RodataLocation::default() });
    }

    /// The value as part of a probe name; `None` for a set and for a regex that is not equivalent
    /// to a glob.
    pub fn as_part(&self) -> Option<String> {
        match &self.value {
            Value::Any => Some("*".into()),
            Value::Number(number) if self.ty == Type::Duration => Some(format!("{number}ns")),
            Value::Number(number) => Some(number.to_string()),
            Value::Text(text) if self.ty == Type::Regex => Pattern::regex(text).ok().and_then(|regex| regex.as_glob()),
            Value::Text(text) => Some(text.clone()),
            Value::Set(members) => match members.as_slice() {
                [one] => Some(one.to_string()),
                _ => None,
            },
        }
    }

    /// The encoding of a value in `.rodata`.
    pub fn bytes(&self, value: &Value) -> Vec<u8> {
        let mut bytes = match value {
            Value::Any if !self.ty.is_set() => 1_u64.to_le_bytes().to_vec(),
            Value::Any => Vec::new(),
            Value::Number(number) => number.to_le_bytes().to_vec(),
            Value::Text(text) if self.ty.is_pattern() => {
                let table = self.pattern(text).and_then(|pattern| pattern.table().ok());
                [&0_u64.to_le_bytes()[..], &table.map_or_else(Vec::new, |table| table.bytes())].concat()
            }
            Value::Text(text) => [&0_u64.to_le_bytes(), text.as_bytes()].concat(),
            Value::Set(members) => {
                // A length greater than [`MOST_COMPARED`] means that the elements are in the map.
                let compared = members.len().min(MOST_COMPARED + 1) as u64;
                let listed = members.iter().take(MOST_COMPARED);
                std::iter::once(&compared).chain(listed).flat_map(|number| number.to_le_bytes()).collect()
            }
        };
        bytes.resize(self.ty.size_bytes() as usize, 0);
        bytes
    }

    fn pattern(&self, text: &str) -> Option<Pattern> {
        if self.ty == Type::Glob { Some(Pattern::glob(text)) } else { Pattern::regex(text).ok() }
    }

    /// The processes that a value chooses, if the parameter is named `pid`, in the script or in a
    /// module: its probes are for them.
    pub fn processes(&self, value: &Value) -> impl Iterator<Item = u32> {
        let is_it = self.ty == Type::Pid && self.name.rsplit('.').next() == Some("pid");
        let numbers: &[u64] = match value {
            Value::Set(numbers) if is_it => numbers,
            _ => &[],
        };
        numbers.iter().filter_map(|number| u32::try_from(*number).ok())
    }

    /// The message for a pattern that programs cannot compare with; `None` for other values.
    pub fn too_large(&self, value: &Value) -> Option<String> {
        let Value::Text(text) = value else { return None };
        let problem = self.pattern(text).filter(|_| self.ty.is_pattern())?.table().err()?;
        Some(format!("`${}` cannot be {}: {problem}", self.name, self.shown(value)))
    }

    /// The elements of a set that are stored in its map.
    pub fn in_map<'a>(&self, value: &'a Value) -> &'a [u64] {
        match value {
            Value::Set(members) if members.len() > MOST_COMPARED => members,
            _ => &[],
        }
    }
}

/// The parameter meant by a name on the command line: the full name, or the name without the
/// module's prefix if it is unambiguous. `-` may be used for `_`.
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
