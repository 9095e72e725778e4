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
            Location::Module(path, position) => {
                let module = file_name(&path);
                let function = position.function.map(|offset| format!("+{offset:#x}")).unwrap_or_default();
                found.push(Function { name: format!("[{module}{function}]"), module });
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

#[cfg(test)]
mod tests {
    use profiler_model::strftime::Zone;
    use profiler_model::types::StackMode;
    use profiler_model::value::{FilePosition, SymbolName};

    use super::*;

    /// A program without symbols, which has unwind information from 0x40 on.
    struct Stripped;

    impl Symbols for Stripped {
        fn kernel(&self, _: u64) -> Option<SymbolName> {
            None
        }
        fn user(&self, _: u32, _: u64) -> Option<SymbolName> {
            None
        }
        fn username(&self, _: u32) -> Option<String> {
            None
        }
        fn boot_time_ns(&self) -> u64 {
            0
        }
        fn zone(&self, _: u64) -> Zone {
            Zone::default()
        }
        fn locate_user(&self, _: u32, addresses: &[u64]) -> Vec<Location> {
            let function = |offset| (offset >= 0x40).then_some(0x40);
            let position = |offset| FilePosition { build_id: None, offset, function: function(offset) };
            addresses.iter().map(|address| Location::Module("/bin/a".into(), position(*address))).collect()
        }
    }

    #[test]
    fn a_function_without_a_symbol_is_named_by_its_beginning() {
        let frames = vec![0x44, 0x48, 0x10];
        let stack =
            Stack { space: Space::User, mode: StackMode::Bpftrace, pid: 7, frames, interrupted: Vec::new(), end: None };
        let names = functions(&Value::Stack(stack), &Stripped).into_iter().map(|function| function.name);
        assert_eq!(names.collect::<Vec<_>>(), ["[a+0x40]", "[a+0x40]", "[a]"]);
    }
}
