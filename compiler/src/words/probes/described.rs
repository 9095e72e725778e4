//! The parameters and results of functions of programs, from debug information.
//!
//! In: the sites of a uprobe or uretprobe, and what its block uses. Out: the fields of `args`, the
//! type of `retval`.
//! Guarantee: debug information is read only for blocks that use it. A parameter is a field only if
//! it is at the same place in all functions of the probe.

use crate::ast::BinaryOp;
use crate::btf::Btf;
use crate::check::{ArgField, Dialect, Points, Seed, retarget};
use crate::object::Attach;
use crate::source::Span;
use crate::target::{Arch, LineSite, ParameterPlace, ProgramFunction, ProgramParameter, ProgramQuestions, Target};
use crate::typed::{self, ExprKind};
use crate::types::{Space, Type};
use crate::words::builtins::retval::result_register;
use crate::words::functions::reg::register_offset;

/// Maximum number of functions of a probe with `args`.
const MAX_FUNCTIONS: usize = 1000;

/// What the sites of a probe are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// Entries or returns of functions.
    Functions,
    /// Instructions of a source line.
    Line(&'a [LineSite]),
    /// Instructions at other places.
    Offsets,
}

/// Gives a program its `args` or the type of its `retval`, if its block uses them.
pub(super) fn describe(cx: &mut Points<'_, '_>, seed: &mut Seed, place: Place<'_>) {
    let Attach::Uprobe { path, at_return, sites, .. } = &seed.attach else { return };
    let is_used = match at_return {
        true if cx.env.options.dialect == Dialect::Bpftrace => cx.facts.follows("retval"),
        true => cx.facts.uses("retval"),
        false => cx.facts.uses("args"),
    };
    if !is_used {
        return;
    }
    if place == Place::Offsets {
        seed.undescribed = Some("parameters are known only at the entry of a function: leave the offset out".into());
        return;
    }
    let (path, at_return, mut questions) = (path.clone(), *at_return, ProgramQuestions::new(path));
    match place {
        Place::Line(sites) => questions.instructions.extend(sites.iter().map(|site| site.at)),
        Place::Functions | Place::Offsets => questions.functions.extend(sites.iter().map(|site| site.file_offset)),
    }
    match described(cx, &path, at_return, questions) {
        Ok(Some(function)) if at_return => result(cx.env.target, seed, &function),
        Ok(Some(function)) => parameters(cx.env.target, seed, &function),
        Ok(None) => {}
        Err(why) => seed.undescribed = Some(why),
    }
}

/// The description that the functions in question share; `None` if the target is yet to be asked.
fn described(
    cx: &mut Points<'_, '_>,
    path: &str,
    at_return: bool,
    questions: ProgramQuestions,
) -> Result<Option<ProgramFunction>, String> {
    if questions.functions.len() > MAX_FUNCTIONS {
        return Err(format!("at most {MAX_FUNCTIONS} functions can have `args`: narrow the wildcards"));
    }
    let target = cx.env.target;
    let answers = target.described_program(path);
    let functions = questions.functions.iter().map(|at| answers?.functions.get(at));
    let answers = functions.chain(questions.instructions.iter().map(|at| answers?.instructions.get(at)));
    let mut known: Option<&ProgramFunction> = None;
    for answer in answers {
        let function = match answer {
            None => {
                cx.env.undescribed.push(questions);
                return Ok(None);
            }
            Some(Err(why)) => return Err(why.clone()),
            Some(Ok(function)) => function,
        };
        let first = *known.get_or_insert(function);
        let (is_same, what) = if at_return {
            (target.btf().is_some_and(|btf| btf.to_type(function.result) == btf.to_type(first.result)), "results")
        } else {
            (target.btf().is_some_and(|btf| function.has_parameters_of(first, btf)), "parameters")
        };
        if !is_same {
            let names = format!("`{}` and `{}`", first.name, function.name);
            return Err(format!("{names} have different {what}: name one function, or write a block for each"));
        }
    }
    Ok(known.cloned())
}

fn parameters(target: &dyn Target, seed: &mut Seed, function: &ProgramFunction) {
    if function.parameters.is_empty() {
        seed.undescribed = Some(format!("the function `{}` has no parameters", function.name));
    }
    let Some(btf) = target.btf() else { return };
    for parameter in function.parameters.iter().filter(|parameter| !parameter.name.is_empty()) {
        match value(target.arch(), btf, parameter) {
            Ok((kind, ty)) => seed.args.push(ArgField { name: parameter.name.clone(), kind, ty }),
            Err(why) => seed.unreadable.push((parameter.name.clone(), why)),
        }
    }
}

/// The expression that reads a struct whose members are in several places: a record of them.
fn members(
    arch: Arch,
    btf: &Btf,
    parameter: &ProgramParameter,
    places: &[ParameterPlace],
) -> Result<(ExprKind, Type), String> {
    let members: Vec<_> = btf.members(btf.strip(parameter.ty)).collect();
    if members.len() != places.len() {
        return Err("has a type whose place in a call is not known".into());
    }
    let (mut values, mut types) = (Vec::new(), Vec::new());
    for (member, place) in members.iter().zip(places) {
        let part = ProgramParameter { name: member.name.to_owned(), ty: member.ty, place: place.clone() };
        let (kind, ty) = value(arch, btf, &part)?;
        values.push(typed::Expr { kind, ty: ty.clone(), span: Span::default() });
        types.push((part.name, ty));
    }
    Ok((ExprKind::Tuple(values), Type::Record(types)))
}

/// The expression that reads a parameter at the described instruction, with its type.
fn value(arch: Arch, btf: &Btf, parameter: &ProgramParameter) -> Result<(ExprKind, Type), String> {
    let mut ty = btf.to_type(parameter.ty);
    retarget(&mut ty, Space::User);
    let memory = |register: u32, distance: i64| {
        let expr = |kind, ty| typed::Expr { kind, ty, span: Span::default() };
        let base = Box::new(expr(ExprKind::Register(register), Type::I64));
        let address = ExprKind::Binary(BinaryOp::Add, base, Box::new(expr(ExprKind::Int(distance), Type::I64)));
        let pointer = Type::Pointer { to: Box::new(ty.clone()), space: Space::User };
        let address = typed::Expr::convert(expr(address, Type::I64), &pointer);
        ExprKind::Deref { base: Box::new(address), offset_bytes: 0, bits: None }
    };
    let kind = match &parameter.place {
        ParameterPlace::Unreadable(why) => return Err(why.clone()),
        ParameterPlace::Members(places) => return members(arch, btf, parameter, places),
        ParameterPlace::Register(offset) => ExprKind::Register(*offset),
        ParameterPlace::Constant(number) => {
            let number = typed::Expr { kind: ExprKind::Int(*number), ty: Type::I64, span: Span::default() };
            typed::Expr::convert(number, &ty).kind
        }
        ParameterPlace::Memory(register, distance) => memory(*register, (*distance).into()),
        ParameterPlace::Stack(offset_bytes) => {
            memory(register_offset(arch, "sp").unwrap_or_default(), (*offset_bytes).into())
        }
    };
    if ty.is_scalar() {
        Ok((kind, ty))
    } else {
        Err(format!("has the type `{}`, which has no value in scripts", btf.describe(parameter.ty)))
    }
}

/// `retval` has the function's type if that is a number, a pointer or the like; any other result
/// stays the register.
fn result(target: &dyn Target, seed: &mut Seed, function: &ProgramFunction) {
    let Some(btf) = target.btf() else { return };
    if !function.has_result {
        let why = "the compiler may have left it out, as it does if no caller needs it";
        seed.undescribed = Some(format!("what `{}` returns is not certain: {why}", function.name));
        return;
    }
    let mut ty = btf.to_type(function.result);
    retarget(&mut ty, Space::User);
    let is_struct = matches!(&ty, Type::Pointer { to, .. } if matches!(**to, Type::Struct { .. }));
    if ty.is_scalar() {
        let kind = ExprKind::Register(result_register(target.arch()));
        seed.retval = Some(ArgField { name: "retval".into(), kind, ty });
    }
    if !is_struct {
        let result = btf.describe(function.result);
        seed.undescribed = Some(format!("the function `{}` returns `{result}`, which has no members", function.name));
    }
}
