//! `state NAME by KEY { field: type, ... }`: records with declared types, per thread or other key.
//!
//! In: the declarations. Out: a map for each, with its key and value types.
//! Guarantee: the fields of a state keep their declared types; a thread's state is accessible from
//! that thread only.

use crate::ast::{self, Expr, ExprKind, Ident, STATE_MARK, Script, State, StatePart, TypeName, TypeSuffix, TypeTag};
use crate::btf::Btf;
use crate::check::maps::StateTraits;
use crate::check::{Body, Env, InferredMap, Seed, records, tuples, unify};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;
use crate::similar;
use crate::source::Span;
use crate::typed::{self, ContextKind, Declared, DeclaredKind, MapIndex, MapValue};
use crate::types::{Int, Space, StackType, Type, Walk};
use crate::units::Unit;

/// Default and maximum number of frames of a stack.
const STACK_FRAMES: u8 = 127;
/// Size of `comm` in bytes.
const COMM_BYTES: u32 = 16;
/// Maximum number of entries of a state.
const MAX_ENTRIES: u64 = 1 << 26;

/// Types that exist only in state declarations.
const TYPES: [&str; 6] = ["time", "duration", "bytes", "comm", "ustack", "kstack"];

impl Body<'_, '_> {
    /// Reports an operation over the states of all threads that this kernel does not support;
    /// returns whether the kernel supports it.
    pub fn is_walkable(&mut self, map: MapIndex, what: &str, span: Span) -> bool {
        let info = self.env.maps.get(map);
        // Since 6.7.
        if !info.is_of_threads() || self.env.target.btf().is_some_and(Btf::has_task_walk) {
            return true;
        }
        let message = format!("on this kernel, {what} cannot iterate over `{}` of all threads", info.name);
        let help = format!(
            "`print` and `clear` can; a probe of `iter:task` visits each thread in turn; or use a map: `@{}[tid]`",
            info.name
        );
        self.error(Diagnostic::error(Code(453), span, message).help(help));
        false
    }

    /// Reports an operation over the states of all threads that no kernel supports; returns false
    /// for states of threads.
    pub fn is_in_one_place(&mut self, map: MapIndex, what: &str, span: Span) -> bool {
        let info = self.env.maps.get(map);
        if info.is_of_threads() {
            let message = format!("{what} cannot iterate over the `{}` of all threads", info.name);
            self.error(Diagnostic::error(Code(219), span, message).help("`clear` removes them all"));
            return false;
        }
        true
    }
}

/// Declares the maps of a script's states.
pub(super) fn declare(script: &Script, env: &mut Env<'_>) {
    let seed = Seed::new(String::new(), String::new(), ContextKind::Empty, Attach::Begin);
    let mut known: Vec<&Ident> = Vec::new();
    for state in &script.states {
        let id = format!("{STATE_MARK}{}", state.name.text);
        if let Some(problem) = name_taken(state, script, env, &known) {
            env.report.push(problem);
        }
        known.push(&state.name);
        let used = env.maps.list.iter().any(|info| info.id == id);
        if !used {
            let message = format!("the state `{}` is declared, and no probe uses it", state.name.text);
            env.report.push(Diagnostic::warning(Code(902), state.name.span, message).help("remove the declaration"));
            continue;
        }
        let mut body = Body::new(env, &seed, Vec::new());
        let made = declaration(&mut body, state);
        let info = env.maps.list.iter_mut().find(|info| info.id == id);
        if let (Some(info), Some((info_of, key, value, declared))) = (info, made) {
            info.fields = state.fields.iter().map(|field| (field.name.text.clone(), field.name.span)).collect();
            info.field_units = state.fields.iter().map(declared_unit).collect();
            info.key = Some(Some(key));
            info.key_span = state.key[0].name.span;
            info.value = Some(MapValue::Plain(value));
            info.value_span = state.name.span;
            info.span = state.name.span;
            info.declared = declared;
            info.state = Some(info_of);
        }
    }
}

/// The unit of a field, if its type implies one.
fn declared_unit(field: &StatePart) -> (String, Option<Unit>) {
    let unit = match field.ty.as_ref().map_or("", |ty| ty.name.as_str()) {
        "time" => Some(Unit::Time),
        "duration" => Some(Unit::Duration),
        "bytes" => Some(Unit::Bytes),
        _ => None,
    };
    (field.name.text.clone(), unit)
}

/// The diagnostic for a state whose name is taken.
fn name_taken(state: &State, script: &Script, env: &Env<'_>, earlier: &[&Ident]) -> Option<Diagnostic> {
    let (name, span) = (&state.name.text, state.name.span);
    let taken = |what: &str| {
        let message = format!("`{name}` is {what}, so no state can have this name");
        Diagnostic::error(Code(217), span, message).help("use another name")
    };
    if let Some(first) = earlier.iter().find(|other| other.text == *name) {
        let message = format!("the state `{name}` is declared twice");
        return Some(Diagnostic::error(Code(217), span, message).related(first.span, "declared here"));
    }
    let catalogue = env.catalogue;
    if catalogue.builtin(name).is_some() || name == "args" {
        return Some(taken("a builtin"));
    }
    if script.defines.iter().any(|define| define.name.text == *name) {
        return Some(taken("a constant of this script"));
    }
    let of_macro = |m: &&ast::Macro| m.name.text == *name || m.params.iter().any(|param| param.name.text == *name);
    script.macros.iter().find(of_macro).map(|m| taken("of a macro").related(m.span, "this one"))
}

type Declaration = (StateTraits, Type, Type, Option<Declared>);

fn declaration(cx: &mut Body<'_, '_>, state: &State) -> Option<Declaration> {
    let (mut key, mut is_thread_number) = (Vec::new(), false);
    for part in &state.key {
        match &part.ty {
            Some(ty) => key.push(state_type(cx, ty)?),
            None => {
                let Some(word) = cx.env.catalogue.builtin(&part.name.text) else {
                    cx.error(not_a_key(&part.name, cx.env.catalogue.builtins.iter().map(|word| word.name())));
                    return None;
                };
                is_thread_number = word.is_thread_number();
                key.push(word.check(cx, part.name.span).ty);
            }
        }
    }
    let of_threads = is_thread_number && key.len() == 1;
    let value = declared_fields(cx, state)?;
    let declared = match &state.limit {
        Some(limit) if of_threads => {
            let message = "a per-thread state has no limit: it is freed with its thread";
            cx.error(Diagnostic::error(Code(222), limit.span, message).help("remove it"));
            return None;
        }
        Some(Expr { kind: ExprKind::Int(entries @ 1..=MAX_ENTRIES), span }) => {
            let kind = DeclaredKind { per_cpu: false, evicts: false };
            Some(Declared { kind, max_entries: *entries as u32, span: *span })
        }
        Some(limit) => {
            let message = format!("the limit of a state is a number from 1 to {MAX_ENTRIES}");
            cx.error(Diagnostic::error(Code(222), limit.span, message));
            return None;
        }
        None => None,
    };
    let key = if let [one] = key.as_slice() { one.clone() } else { Type::Tuple(key) };
    Some((StateTraits { of_threads, key: state.key.clone(), pointers: Vec::new() }, key, value, declared))
}

fn declared_fields(cx: &mut Body<'_, '_>, state: &State) -> Option<Type> {
    let mut parts: Vec<(String, Type)> = Vec::new();
    for field in &state.fields {
        if parts.iter().any(|(name, _)| *name == field.name.text) {
            let message = format!("the state `{}` has two fields `{}`", state.name.text, field.name.text);
            cx.error(Diagnostic::error(Code(218), field.name.span, message));
            return None;
        }
        let ty = state_type(cx, field.ty.as_ref()?)?;
        parts.push((field.name.text.clone(), ty));
    }
    if parts.is_empty() {
        let message = format!("the state `{}` has no fields", state.name.text);
        cx.error(Diagnostic::error(Code(218), state.name.span, message).help("for example `{ since: time }`"));
        return None;
    }
    Some(Type::Record(parts))
}

/// The type of a field or key part.
fn state_type(cx: &mut Body<'_, '_>, ty: &TypeName) -> Option<Type> {
    let limit = match ty.suffixes.as_slice() {
        [] => Some(STACK_FRAMES),
        [TypeSuffix::Array(frames @ 1..=127)] => Some(*frames as u8),
        _ => None,
    };
    let stack = |space| {
        limit.map(|limit| {
            let walk = if space == Space::User { cx.user_walk() } else { Walk::Kernel };
            Type::Stack(StackType { space, mode: cx.env.stack_mode, limit, walk })
        })
    };
    let own = match ty.name.as_str() {
        _ if ty.tag != TypeTag::None => None,
        "ustack" => stack(Space::User),
        "kstack" => stack(Space::Kernel),
        _ if !ty.suffixes.is_empty() => None,
        "time" | "bytes" => Some(Type::U64),
        "duration" => Some(Type::I64),
        "comm" => Some(Type::Str { capacity_bytes: COMM_BYTES }),
        _ => None,
    };
    if own.is_some() {
        return own;
    }
    let is_own = TYPES.contains(&ty.name.as_str()) && ty.tag == TypeTag::None;
    let found = if is_own { None } else { Some(cx.type_named(ty)?) };
    let fits = |ty: &Type| {
        let is_room = matches!(ty, Type::Str { capacity_bytes } | Type::Buf { capacity_bytes } if *capacity_bytes > 0);
        ty.is_scalar() || is_room || *ty == Type::Inet
    };
    match found {
        Some(found) if fits(&found) => Some(found),
        _ => {
            let message = "a state cannot hold this type";
            let help = "it holds integers (`u8` to `u64`, `int8` to `int64`), `bool`, `time`, `duration`, `bytes`, `string[N]`, `comm`, `ustack`, `kstack`, `inet` and pointers";
            cx.error(Diagnostic::error(Code(220), ty.span, message).help(help));
            None
        }
    }
}

/// The key of a use of a state: the keys in brackets, or the current values of its builtins.
pub(super) fn key(cx: &mut Body<'_, '_>, map: MapIndex, keys: &[Expr], span: Span) -> Option<typed::Expr> {
    let info = cx.env.maps.get(map);
    let (state, key_type, name) = (info.state.clone()?, info.key.clone().flatten()?, info.name.clone());
    if state.of_threads {
        return thread_key(cx, &state, keys, &name, span);
    }
    let mut parts = Vec::new();
    if keys.is_empty() {
        for part in &state.key {
            let Some(word) = cx.env.catalogue.builtin(&part.name.text).filter(|_| part.ty.is_none()) else {
                let message = format!("`{name}` needs a key here: `{}` has no value of its own", part.name.text);
                let names: Vec<&str> = state.key.iter().map(|part| part.name.text.as_str()).collect();
                let help = format!("write its key: `{name}[{}]`", names.join(", "));
                cx.error(Diagnostic::error(Code(223), span, message).help(help));
                return None;
            };
            parts.push(word.check(cx, span));
        }
    } else {
        parts = keys.iter().map(|key| cx.value_for(key)).collect();
    }
    let key = if parts.len() == 1 { parts.remove(0) } else { tuples::tuple(cx, parts, span) };
    if key.ty == Type::Unknown {
        return Some(key);
    }
    if unify(&key_type, &key.ty).is_none() || !same_width(&key_type, &key.ty) {
        let (wanted, given) = (cx.one(&key_type), cx.one(&key.ty));
        let message = format!("the key of `{name}` is {wanted}, this is {given}");
        let first = cx.env.maps.get(map).key_span;
        cx.error(Diagnostic::error(Code(304), key.span, message).related(first, "declared here"));
        return None;
    }
    Some(typed::Expr::convert(key, &key_type))
}

/// The current thread as the key.
fn thread_key(
    cx: &mut Body<'_, '_>,
    state: &StateTraits,
    keys: &[Expr],
    name: &str,
    span: Span,
) -> Option<typed::Expr> {
    let word = cx.env.catalogue.builtin(&state.key[0].name.text)?;
    if matches!(&cx.seed.attach, Attach::Iterator { objects, .. } if objects != "task") {
        let message = format!("this iterator is not at a thread whose `{name}` could be meant");
        cx.error(Diagnostic::error(Code(221), span, message).help("`iter:task` goes over the threads"));
        return None;
    }
    if matches!(cx.seed.attach, Attach::Iterator { .. }) && cx.env.target.pid_namespace().is_some() {
        let message =
            format!("in a pid namespace, an iterator does not know the number of a thread whose `{name}` it makes");
        cx.error(Diagnostic::error(Code(221), span, message).help("run it outside of the container"));
        return None;
    }
    let own = word.check(cx, span);
    let Some(first) = keys.first() else { return Some(own) };
    let given = cx.expr(first);
    let is_own = match &given.kind {
        typed::ExprKind::Builtin(word, constants) => {
            cx.env.catalogue.builtin_of(word).is_thread_number() && constants.is_empty()
        }
        _ => false,
    };
    if given.ty == Type::Unknown || (keys.len() == 1 && is_own) {
        return Some(own);
    }
    let message = format!("`{name}` is in thread-local storage, so only the current thread's can be accessed");
    let help = format!("write `{name}` alone, or keep it in a map: `@{name}[…]`, which outlives the threads");
    cx.error(Diagnostic::error(Code(221), first.span, message).help(help));
    None
}

/// Checks a whole record that is assigned to a state.
pub(super) fn holds(cx: &mut Body<'_, '_>, map: MapIndex, ty: &Type, span: Span) -> Option<()> {
    let info = cx.env.maps.get(map);
    let Some(MapValue::Plain(known)) = info.value.clone() else { return None };
    if *ty == Type::Unknown {
        return Some(());
    }
    if let Some(diagnostic) = records::other_fields(cx, map, &known, ty, span) {
        cx.error(diagnostic);
        return None;
    }
    let clash = match (&known, ty) {
        (Type::Record(known), Type::Record(new)) => known.iter().find_map(|(name, known)| {
            let (_, new) = new.iter().find(|(other, _)| other == name)?;
            records::takes(known, new).is_none().then(|| (name.clone(), known.clone(), new.clone()))
        }),
        _ => {
            let message =
                format!("`{}` holds {}, so it cannot take {}", cx.env.maps.get(map).name, cx.one(&known), cx.one(ty));
            let first = cx.env.maps.get(map).value_span;
            cx.error(Diagnostic::error(Code(302), span, message).related(first, "declared here"));
            return None;
        }
    };
    let Some((field, known, new)) = clash else { return Some(()) };
    let message = format!(
        "the field `{field}` of `{}` is {}, so it cannot take {}",
        cx.env.maps.get(map).name,
        cx.one(&known),
        cx.one(&new)
    );
    let first = cx.env.maps.get(map).value_span;
    cx.error(Diagnostic::error(Code(352), span, message).related(first, "declared here"));
    None
}

impl InferredMap {
    /// Whether it has one state per thread.
    fn is_of_threads(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.of_threads)
    }

    /// Whether a pointer field accepts pointers into this address space; the first assignment
    /// determines it.
    pub(super) fn points_into(&mut self, field: &str, declared: &mut Type, given: &Type) -> bool {
        let (Type::Pointer { space, .. }, Type::Pointer { space: given, .. }, Some(state)) =
            (declared, given, &mut self.state)
        else {
            return true;
        };
        if state.pointers.iter().any(|known| known == field) {
            return *space == *given;
        }
        state.pointers.push(field.to_string());
        *space = *given;
        true
    }
}

/// Whether a declared key can hold any key of this type: integers are converted as in C, strings
/// must fit.
fn same_width(declared: &Type, given: &Type) -> bool {
    match (declared, given) {
        (Type::Tuple(declared), Type::Tuple(given)) => declared.iter().zip(given).all(|(d, g)| same_width(d, g)),
        (Type::Str { capacity_bytes: room }, Type::Str { capacity_bytes: given }) => room >= given,
        (Type::Int(Int { .. }), given) => given.as_int().is_some(),
        _ => true,
    }
}

fn not_a_key<'w>(name: &Ident, builtins: impl Iterator<Item = &'w str>) -> Diagnostic {
    let message = format!("`{}` is not a builtin, so it needs a type to be part of a key", name.text);
    let near = similar::nearest(&name.text, builtins, 1);
    let help = match near.first() {
        Some(near) => format!("did you mean `{near}`? Or write `{}: u64`", name.text),
        None => format!("write `{}: u64`", name.text),
    };
    Diagnostic::error(Code(223), name.span, message).help(help)
}
