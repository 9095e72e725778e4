//! What can stand behind `.` and `->`.
//!
//! In: the expression before it, the attach points of the block, the text before. Out: names with their types.
//! Guarantee: an expression that is not understood has no members; nothing is guessed.

use profiler_compiler::btf::{Btf, BtfId};
use profiler_compiler::target::Target;

use crate::list::arguments;

/// How many variables lead to each other.
const STEPS: u32 = 8;

/// Where an expression stands.
pub(super) struct Context<'a> {
    pub(super) target: &'a dyn Target,
    /// The attach points of the block.
    pub(super) header: &'a str,
    /// The script up to the expression.
    pub(super) before: &'a str,
}

/// Types and names, as a C declaration has them.
pub(super) fn members(context: &Context<'_>, expression: &str) -> Vec<(String, String)> {
    let expression = expression.trim();
    if expression == "args" {
        return context.arguments();
    }
    let Some(btf) = context.target.btf() else { return Vec::new() };
    let Some(id) = context.type_of(btf, expression, STEPS) else { return Vec::new() };
    let named = |name: &str| Some((btf.describe(btf.find_member(id, name)?.ty), name.to_owned()));
    btf.member_names(id).into_iter().filter_map(named).collect()
}

impl Context<'_> {
    /// The arguments that all attach points have, by the first one.
    fn arguments(&self) -> Vec<(String, String)> {
        let point = self.header.split(',').next().unwrap_or_default().trim();
        let declared = |line: String| {
            let (ty, name) = line.rsplit_once([' ', '*'])?;
            let pointer = if line[ty.len()..].starts_with('*') { "*" } else { "" };
            let (name, length) = name.find('[').map_or((name, ""), |at| name.split_at(at));
            Some((format!("{}{length}", format!("{ty}{pointer}").trim()), name.to_owned()))
        };
        arguments(self.target, point).into_iter().filter_map(declared).collect()
    }

    /// The struct that an expression is or points to.
    fn type_of(&self, btf: &Btf, expression: &str, steps: u32) -> Option<BtfId> {
        let steps = steps.checked_sub(1)?;
        let expression = expression.trim();
        if let Some((base, member)) = last_member(expression) {
            if base.trim() == "args" {
                let (ty, _) = self.arguments().into_iter().find(|(_, name)| name == member)?;
                return named(btf, ty.split('[').next()?);
            }
            let base = self.type_of(btf, base, steps)?;
            return structure(btf, btf.find_member(base, member)?.ty);
        }
        if expression == "curtask" {
            return named(btf, "struct task_struct");
        }
        if let Some(inner) = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            return self.type_of(btf, inner, steps);
        }
        if let Some(cast) = expression.strip_prefix('(') {
            return named(btf, cast.split(')').next()?);
        }
        let variable = expression.strip_prefix('$').filter(|name| name.chars().all(is_of_name))?;
        let (at, _) = self.before.match_indices(&format!("${variable} = ")).last()?;
        let value = self.before[at..].split_once('=')?.1;
        self.type_of(btf, value.split(';').next()?, steps)
    }
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// An expression that ends with a member, and the member.
fn last_member(expression: &str) -> Option<(&str, &str)> {
    let start = expression.rfind(|character| !is_of_name(character))? + 1;
    let (base, member) = expression.split_at(start);
    let base = base.strip_suffix('.').or_else(|| base.strip_suffix("->"))?;
    (!member.is_empty()).then_some((base, member))
}

/// The struct that a C type is or points to: `const struct file *`, `struct file`.
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

/// The expression that ends a text: names, members, and whatever stands in brackets.
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
    use super::{last_expression, last_member};

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
    fn a_member_stands_behind_its_base() {
        assert_eq!(last_member("args.file"), Some(("args", "file")));
        assert_eq!(last_member("((struct sock *)arg0)->sk"), Some(("((struct sock *)arg0)", "sk")));
        assert_eq!(last_member("curtask"), None);
        assert_eq!(last_member("args."), None);
    }
}
