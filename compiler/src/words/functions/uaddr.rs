//! `uaddr(name)`: the address of a variable of the probed program.
//!
//! The load address is known only in a probe of that program: it is the probed instruction's
//! address in memory minus its address in the file. At a return, the kernel tells the address of
//! the function's entry.

use crate::ast;
use crate::ast::BinaryOp;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Arg, Helper};
use crate::lower::{self, Value};
use crate::object::Attach;
use crate::results::WordName;
use crate::source::Span;
use crate::target::{ProgramQuestions, ProgramVariable, Variable};
use crate::typed::{self, Call, ExprKind};
use crate::types::{Int, Space, Type};
use crate::words::functions::reg::register_offset;

/// The kernel version since which `bpf_get_func_ip` returns the function of a user probe, also at
/// its return (commit a3c485a5d8d4).
const FUNCTION_SINCE: (u32, u32) = (6, 6);

/// `uaddr`.
#[derive(Debug)]
pub(super) struct Uaddr;

impl Function for Uaddr {
    word!("uaddr", "functions/uaddr");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("uaddr", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(name) = cx.constant_str(&args[0]) else {
            return cx.fail(Diagnostic::error(Code(339), args[0].span, "the symbol's name must be a string constant"));
        };
        let name = String::from_utf8_lossy(&name).into_owned();
        let Attach::Uprobe { path, at_return, sites, .. } = &cx.seed.attach else {
            let message = "only probes in a program know where its variables are";
            let help = "`uprobe`, `uretprobe` and `usdt` do";
            return cx.fail(Diagnostic::error(Code(447), span, message).help(help));
        };
        let site = match sites.as_slice() {
            [site] if !at_return || cx.env.target.kernel() >= FUNCTION_SINCE => Some(site.file_offset),
            _ => None,
        };
        let (path, at_return) = (path.clone(), *at_return);
        match cx.env.target.variable(&path, &name, site) {
            Ok(variable) => {
                let Some(to) = pointee(cx, &path, &name, &variable) else { return typed::Expr::poison(span) };
                let found = place(&variable).and_then(|place| address(cx, place, at_return, span));
                let Some(address) = found else { return cx.fail(unknown_place(&path, span)) };
                typed::Expr::convert(address, &Type::Pointer { to: Box::new(to), space: Space::User })
            }
            Err(error) => {
                let what = format!("the symbol `{name}` of `{path}`");
                let diagnostic = match error {
                    crate::target::TargetError::Missing { near } => {
                        let diagnostic = Diagnostic::error(Code(448), args[0].span, format!("{what} does not exist"));
                        match near.as_slice() {
                            [] => diagnostic.help("it may be stripped, or a variable of one function"),
                            near => diagnostic.help(format!("near names: {}", near.join(", "))),
                        }
                    }
                    crate::target::TargetError::Refused(words) | crate::target::TargetError::Invalid(words) => {
                        Diagnostic::error(Code(448), args[0].span, format!("{what} cannot be looked up")).help(words)
                    }
                };
                cx.fail(diagnostic)
            }
        }
    }

    /// The address of the function whose return is probed.
    fn lower(&self, cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::Scalar(cx.b.call(Helper::GetFuncIp, &[Arg::Context]).into())
    }
}

/// The type of a variable by the program's debug information, else an unsigned integer of its size;
/// `None` if the target is yet to be asked.
fn pointee(cx: &mut check::Body<'_, '_>, path: &str, name: &str, variable: &Variable) -> Option<Type> {
    let target = cx.env.target;
    let asked = ProgramVariable { name: name.to_owned(), address: variable.address };
    let Some(answer) = target.described_program(path).and_then(|answers| answers.variables.get(&asked)) else {
        cx.env.undescribed.push(ProgramQuestions { variables: [asked].into(), ..ProgramQuestions::new(path) });
        return None;
    };
    let described = answer.as_ref().ok().zip(target.btf()).map(|(id, btf)| btf.to_type(*id));
    if let Some(mut ty) = described.filter(|ty| !matches!(ty, Type::Unknown | Type::None)) {
        check::retarget(&mut ty, Space::User);
        return Some(ty);
    }
    let size_bytes = match variable.size_bytes {
        size @ (1 | 2 | 4) => size as u8,
        _ => 8,
    };
    Some(Type::Int(Int { size_bytes, signed: false }))
}

/// Where a variable is in memory.
#[derive(Clone, Copy)]
enum Place {
    Fixed(u64),
    /// Bytes from the probed instruction.
    FromSite(i64),
}

/// Where a variable is; `None` if the load address is not known.
fn place(variable: &Variable) -> Option<Place> {
    let from_site = || variable.from_site.map(Place::FromSite);
    if variable.is_fixed { Some(Place::Fixed(variable.address)) } else { from_site() }
}

fn address(cx: &mut check::Body<'_, '_>, place: Place, at_return: bool, span: Span) -> Option<typed::Expr> {
    let number = |n: i64| typed::Expr { kind: ExprKind::Int(n), ty: Type::U64, span };
    let distance = match place {
        Place::Fixed(address) => return Some(number(address as i64)),
        Place::FromSite(distance) => distance,
    };
    let kind = if at_return {
        ExprKind::Call(Call { word: WordName::new(Uaddr.name()), args: Vec::new(), constants: Vec::new() })
    } else {
        ExprKind::Register(register_offset(cx.env.target.arch(), "pc")?)
    };
    let site = typed::Expr { kind, ty: Type::U64, span };
    Some(cx.binary(BinaryOp::Add, site, number(distance), span))
}

fn unknown_place(path: &str, span: Span) -> Diagnostic {
    let message = format!("where `{path}` is loaded is not known in this probe");
    let help = "it is known where one place is probed: at the entry of one function, and since Linux 6.6 at its return";
    Diagnostic::error(Code(447), span, message).help(help)
}
