//! Completions after `.` and `->`.
//!
//! In: the expression before it, the attach points of the block, the preceding text. Out: names
//! with their types.
//! Guarantee: an expression that is not understood has no members; nothing is guessed.

use profiler_compiler::btf::{Btf, BtfId};
use profiler_compiler::catalogue::Reads;
use profiler_compiler::target::Target;
use profiler_compiler::{CATALOGUE, glob};

use super::context::around_unless;
use super::programs::Program;
use crate::list::{arguments, names};

/// Limit of variables followed from one to the next.
const STEPS: u32 = 8;

/// Limit of attach points compared for common arguments.
const MOST_POINTS: usize = 8;

/// The types that an expression may have.
#[derive(Clone, Copy)]
struct Types<'a> {
    btf: &'a Btf,
    /// The program of the block's probe.
    program: Option<&'a Program>,
}

impl Types<'_> {
    /// The struct that a C type names or points to: the program's before the kernel's.
    fn named(self, ty: &str) -> Option<BtfId> {
        let of_program = self.program.and_then(|program| structure(self.btf, program.named(ty)?));
        of_program.or_else(|| named(self.btf, ty))
    }
}

/// The surroundings of an expression.
pub(super) struct Context<'a> {
    pub(super) target: &'a dyn Target,
    /// The attach points of the block.
    pub(super) header: &'a str,
    /// The script up to the expression.
    pub(super) before: &'a str,
}

/// Types and names of members, as in a C declaration.
pub(super) fn members(context: &Context<'_>, expression: &str) -> Vec<(String, String)> {
    // A cast applies to everything after it, including what is being typed.
    let mut expression = expression.trim();
    while let Some((_, behind)) = cast(expression) {
        expression = behind;
    }
    let program = Program::of(context.target, context.header, context.before);
    if let Some(program) = program.as_ref().filter(|_| expression == "args") {
        return program.arguments();
    }
    if expression == "args" || (expression == "ctx" && context.is_iterator()) {
        return context.arguments();
    }
    let Some(btf) = program.as_ref().map(Program::types).or(context.target.btf()) else { return Vec::new() };
    let types = Types { btf, program: program.as_ref() };
    let Some(id) = context.type_of(types, expression, STEPS) else { return Vec::new() };
    let named = |name: &str| Some((btf.describe(btf.find_member(id, name)?.ty), name.to_owned()));
    btf.member_names(id).into_iter().filter_map(named).collect()
}

impl Context<'_> {
    /// Whether the arguments are members of the context.
    fn is_iterator(&self) -> bool {
        let kind = self.header.split(':').next().and_then(|kind| CATALOGUE.probe(kind));
        kind.is_some_and(|kind| kind.reads() == Reads::Members("ctx"))
    }

    /// The arguments common to all attach points.
    fn arguments(&self) -> Vec<(String, String)> {
        let points =
            self.header.split(',').flat_map(|point| self.matching(around_unless(point.trim()).0)).take(MOST_POINTS);
        let arguments =
            points.map(|point| arguments(self.target, &point).iter().filter_map(|line| argument(line)).collect());
        let common = arguments.reduce(|mut common: Vec<(String, String)>, other| {
            common.retain(|(_, name)| other.iter().any(|(_, same)| same == name));
            common
        });
        common.unwrap_or_default()
    }

    /// The probes that an attach point refers to: several for a pattern.
    fn matching(&self, point: &str) -> Vec<String> {
        let Some((kind, name)) = point.split_once(':') else { return Vec::new() };
        // At a return that is probed by breakpoint, the arguments are gone.
        if CATALOGUE.probe(kind).is_some_and(|kind| matches!(kind.reads(), Reads::Text(_))) {
            return Vec::new();
        }
        // Kernel functions may have this prefix.
        let name = name.strip_prefix("vmlinux:").unwrap_or(name);
        let names = if glob::is_pattern(name) { names(self.target, kind, name) } else { vec![name.to_owned()] };
        names.iter().take(MOST_POINTS).map(|name| format!("{kind}:{name}")).collect()
    }

    /// The struct that an expression has as its type or points to.
    fn type_of(&self, types: Types<'_>, expression: &str, steps: u32) -> Option<BtfId> {
        let btf = types.btf;
        let steps = steps.checked_sub(1)?;
        let expression = expression.trim();
        if let Some((ty, _)) = cast(expression) {
            return types.named(ty);
        }
        if let Some(program) = types.program
            && let Some(id) = program.result().filter(|_| expression == "retval")
        {
            return structure(btf, id);
        }
        if let Some((base, member)) = last_member(expression) {
            if let Some(program) = types.program.filter(|_| base.trim() == "args") {
                return structure(btf, program.argument(member)?);
            }
            if base.trim() == "args" || (base.trim() == "ctx" && self.is_iterator()) {
                let (ty, _) = self.arguments().into_iter().find(|(_, name)| name == member)?;
                return named(btf, ty.split('[').next()?);
            }
            let base = self.type_of(types, base, steps)?;
            return structure(btf, btf.find_member(base, member)?.ty);
        }
        if expression == "curtask" {
            return named(btf, "struct task_struct");
        }
        if let Some(inner) = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            return self.type_of(types, inner, steps);
        }
        let variable = expression.strip_prefix('$').filter(|name| name.chars().all(is_of_name))?;
        let (at, _) = self.before.match_indices(&format!("${variable} = ")).last()?;
        let value = self.before[at..].split_once('=')?.1;
        self.type_of(types, value.split(';').next()?, steps)
    }
}

/// Splits a line such as `char prev_comm[16]` into type and name.
pub fn argument(line: &str) -> Option<(String, String)> {
    let (ty, name) = line.rsplit_once([' ', '*'])?;
    let pointer = if line[ty.len()..].starts_with('*') { "*" } else { "" };
    // An offset into the record; the language reads the data it points to.
    let ty = match ty.strip_prefix("__data_loc ").or_else(|| ty.strip_prefix("__rel_loc ")) {
        Some("char[]") => "string",
        Some(elements) => elements,
        None => ty,
    };
    let (name, length) = name.find('[').map_or((name, ""), |at| name.split_at(at));
    Some((format!("{}{length}", format!("{ty}{pointer}").trim()), name.to_owned()))
}

/// Splits off a cast at the start of an expression.
fn cast(expression: &str) -> Option<(&str, &str)> {
    let (ty, behind) = expression.strip_prefix('(')?.split_once(')')?;
    let is_type =
        ty.trim_end().ends_with('*') || ["struct ", "union "].iter().any(|tag| ty.trim_start().starts_with(tag));
    (is_type && !ty.contains('(') && !behind.is_empty()).then_some((ty, behind.trim_start()))
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Splits an expression into the part before its last member, and that member.
fn last_member(expression: &str) -> Option<(&str, &str)> {
    let start = expression.rfind(|character| !is_of_name(character))? + 1;
    let (base, member) = expression.split_at(start);
    let base = base.strip_suffix('.').or_else(|| base.strip_suffix("->"))?;
    (!member.is_empty()).then_some((base, member))
}

/// The struct that a C type names or points to: `const struct file *`, `struct file`.
fn named(btf: &Btf, ty: &str) -> Option<BtfId> {
    let ty = ty.trim_end_matches(|c: char| c == '*' || c.is_whitespace()).trim();
    structure(btf, btf.find_named(ty.strip_prefix("const ").unwrap_or(ty))?)
}

fn structure(btf: &Btf, id: BtfId) -> Option<BtfId> {
    let mut id = btf.strip(id);
    while let Some(to) = btf.pointee(id) {
        id = btf.strip(to);
    }
    (!btf.member_names(id).is_empty()).then_some(id)
}

/// The expression at the end of a text: names, members, and anything in brackets.
pub(super) fn last_expression(text: &str) -> &str {
    let mut depth = 0_u32;
    let mut start = text.len();
    for (at, character) in text.char_indices().rev() {
        match character {
            ')' | ']' => depth += 1,
            '(' | '[' if depth == 0 => break,
            '(' | '[' => depth -= 1,
            _ if depth > 0 || is_of_name(character) || "$@.".contains(character) => {}
            '>' if text[..at].ends_with('-') => {}
            '-' if text[at..].starts_with("->") => {}
            _ => break,
        }
        start = at;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::{argument, cast, last_expression, last_member};

    #[test]
    fn an_expression_goes_back_to_where_it_begins() {
        for (text, expression) in [
            ("@x = args", "args"),
            ("$a + curtask->mm", "curtask->mm"),
            ("f(args.file->f_path.dentry", "args.file->f_path.dentry"),
            ("x = ((struct sock *)arg0)->sk", "((struct sock *)arg0)->sk"),
            ("1 > $x", "$x"),
            ("", ""),
        ] {
            assert_eq!(last_expression(text), expression, "{text}");
        }
    }

    #[test]
    fn arguments_have_a_type_and_a_name() {
        let is = |line: &str, ty: &str, name: &str| assert_eq!(argument(line), Some((ty.to_owned(), name.to_owned())));
        is("char prev_comm[16]", "char[16]", "prev_comm");
        is("struct file * file", "struct file *", "file");
        is("const char *name", "const char *", "name");
        is("__data_loc char[] comm", "string", "comm");
        assert_eq!(argument("alone"), None);
    }

    #[test]
    fn a_cast_has_a_type_and_something_behind_it() {
        assert_eq!(cast("(struct file *)args.file"), Some(("struct file *", "args.file")));
        for none in ["((struct file *)args.file)", "(a + b)", "(a)->b", "args"] {
            assert_eq!(cast(none), None, "{none}");
        }
    }

    #[test]
    fn a_member_stands_behind_its_base() {
        assert_eq!(last_member("args.file"), Some(("args", "file")));
        assert_eq!(last_member("((struct sock *)arg0)->sk"), Some(("((struct sock *)arg0)", "sk")));
        assert_eq!(last_member("curtask"), None);
        assert_eq!(last_member("args."), None);
    }
}
