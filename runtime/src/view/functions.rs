//! The functions of the stacks in a key.
//!
//! In: a key, the names of addresses. Out: [`Function`]s, from the innermost one.
//! Guarantee: there is at least one. A kernel stack is further in than a user stack.

use profiler_model::types::Space;
use profiler_model::value::{Location, Stack, Symbols, Value};

/// The module of the kernel's own functions.
const KERNEL: &str = "kernel";
/// Code without a name in memory without a file.
const UNKNOWN: &str = "[unknown]";
/// A key whose stacks could not be taken.
const NO_STACK: &str = "[no stack]";

/// A function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Function {
    pub name: String,
    /// The file name of its program or library, the kernel module, or [`KERNEL`].
    pub module: String,
}

/// The functions of a key's stacks; one that calls itself occurs several times.
pub(super) fn functions(key: &Value, symbols: &dyn Symbols) -> Vec<Function> {
    let parts: Vec<&Value> = match key {
        Value::Tuple(parts) => parts.iter().collect(),
        Value::Record(fields) => fields.iter().map(|(_, part)| part).collect(),
        whole => vec![whole],
    };
    let mut found = Vec::new();
    for space in [Space::Kernel, Space::User] {
        for part in &parts {
            if let Value::Stack(stack) = part
                && stack.space == space
            {
                add(stack, symbols, &mut found);
            }
        }
    }
    if found.is_empty() {
        found.push(Function { name: NO_STACK.into(), module: String::new() });
    }
    found
}

fn add(stack: &Stack, symbols: &dyn Symbols, found: &mut Vec<Function>) {
    for location in symbols.locate_stack(stack) {
        match location {
            Location::Symbol(symbol, origin) => {
                let module = match (symbol.module.as_deref(), stack.space) {
                    (Some(path), _) => file_name(path),
                    (None, Space::Kernel) => KERNEL.to_owned(),
                    (None, Space::User) => String::new(),
                };
                let inlined = origin.inlined.into_iter().map(|inlined| inlined.name);
                let names = inlined.chain([symbol.name]);
                found.extend(names.map(|name| Function { name, module: module.clone() }));
            }
            Location::Module(path, _) => {
                let module = file_name(&path);
                found.push(Function { name: format!("[{module}]"), module });
            }
            Location::Unknown => found.push(Function { name: UNKNOWN.into(), module: String::new() }),
            // What follows is no code either.
            Location::NoCode => return,
        }
    }
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}
