//! Links modules: what `use` names becomes part of the script.
//!
//! In: a script with its modules. Out: one script in which every name of a module is prefixed by
//! the module's name.
//! Guarantee: names never collide. A public name becomes `module.name`; a script writes it with the
//! prefix that it chose for the module. A private name other than a span's becomes `module'name`,
//! which no script can write. Each module appears once, before those that use it; cycles are
//! rejected.

mod views;

use std::collections::BTreeMap;

use crate::ast::visit::PartMut;
use crate::ast::{
    AttachPoint, Expr, ExprKind, Ident, Macro, MacroParamKind, Module, PublicKind, STATE_MARK, Script, Stmt, Use, View,
    default_prefix,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::similar;
use crate::source::Span;

/// Links the modules that a script uses into it.
pub(super) fn link(mut script: Script) -> Result<Script, Vec<Diagnostic>> {
    let modules = std::mem::take(&mut script.modules);
    if modules.is_empty() && script.uses.is_empty() {
        return Ok(script);
    }
    let mut linker = Linker { names: names(&script, &modules), modules: &modules, problems: Vec::new() };
    let order = linker.order(&script);
    if !linker.problems.is_empty() {
        return Err(linker.problems);
    }
    let mut whole = Script::default();
    for module in order {
        let mut part = module.script.clone();
        linker.refuse_in_module(&part);
        linker.rename(&mut part, Some(&module.path));
        // Keeps the public views. Titles need not be unique, so views are compared by span.
        let is_shown = |view: &View| module.script.public.iter().any(|public| public.name.span == view.title.span);
        part.views.retain(is_shown);
        append(&mut whole, part);
    }
    linker.rename(&mut script, None);
    if linker.problems.is_empty() {
        let config = std::mem::take(&mut script.config);
        append(&mut whole, script);
        return Ok(Script { config, ..whole });
    }
    Err(linker.problems)
}

fn append(whole: &mut Script, part: Script) {
    whole.defines.extend(part.defines);
    whole.imports.extend(part.imports);
    whole.macros.extend(part.macros);
    whole.maps.extend(part.maps);
    whole.definitions.extend(part.definitions);
    whole.blocks.extend(part.blocks);
    whole.params.extend(part.params);
    whole.states.extend(part.states);
    whole.views.extend(part.views);
    whole.spans.extend(part.spans);
}

/// The name of each module in the linked script: the script's prefix for it, else the last part of
/// its path, else its whole path with `_` for `/` and `-`.
fn names(script: &Script, modules: &[Module]) -> BTreeMap<String, String> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for of in &script.uses {
        names.entry(of.module.text.clone()).or_insert_with(|| of.prefix());
    }
    for module in modules {
        let short = default_prefix(&module.path);
        let is_taken = names.iter().any(|(path, name)| *name == short && *path != module.path);
        let name = if is_taken { module.path.replace(['/', '-'], "_") } else { short };
        names.entry(module.path.clone()).or_insert(name);
    }
    names
}

struct Linker<'a> {
    modules: &'a [Module],
    /// Names of the modules by path.
    names: BTreeMap<String, String>,
    problems: Vec<Diagnostic>,
}

/// Name resolution in one file.
struct Scope<'a> {
    /// The module whose file this is; `None` for the script itself.
    own: Option<Own<'a>>,
    /// Prefixes (before the dot) and the modules they refer to.
    prefixes: Vec<(String, &'a Module)>,
    /// Parameters of the current macro, which shadow other names.
    shadowed: Vec<(MacroParamKind, String)>,
}

/// A module and its name in the linked script.
struct Own<'a> {
    name: &'a str,
    script: &'a Script,
}

impl Own<'_> {
    /// The final name of a name that this module defines.
    fn renamed(&self, kind: PublicKind, name: &str) -> String {
        let mark = if is_public(self.script, kind, name) { '.' } else { '\'' };
        format!("{}{mark}{name}", self.name)
    }
}

fn is_public(script: &Script, kind: PublicKind, name: &str) -> bool {
    script.public.iter().any(|public| public.kind == kind && public.name.text == name)
}

impl<'a> Linker<'a> {
    fn module(&self, path: &str) -> Option<&'a Module> {
        self.modules.iter().find(|module| module.path == path)
    }

    fn name_of(&self, module: &Module) -> String {
        self.names.get(&module.path).cloned().unwrap_or_default()
    }

    /// The modules in dependency order: each after those that it uses.
    fn order(&mut self, script: &Script) -> Vec<&'a Module> {
        let (mut order, mut chain) = (Vec::new(), Vec::new());
        self.visit(&script.uses, &mut chain, &mut order);
        order
    }

    fn visit(&mut self, uses: &[Use], chain: &mut Vec<String>, order: &mut Vec<&'a Module>) {
        for (at, of) in uses.iter().enumerate() {
            let path = &of.module.text;
            let prefix = of.prefix();
            if let Some(other) = uses[..at].iter().find(|other| other.prefix() == prefix) {
                let message = format!("two modules are called `{prefix}` here");
                self.problems.push(
                    Diagnostic::error(Code(224), of.span, message)
                        .related(other.span, "the first one is here")
                        .help(format!("give one of them another name: `use {path} as NAME`")),
                );
                continue;
            }
            if let Some(start) = chain.iter().position(|open| open == path) {
                let circle: Vec<&str> = chain[start..].iter().chain([path]).map(String::as_str).collect();
                let message = format!("the module `{path}` uses itself");
                self.problems.push(
                    Diagnostic::error(Code(227), of.span, message)
                        .help(format!("{}: put what they share into a module that uses neither", circle.join(" → "))),
                );
                continue;
            }
            let Some(module) = self.module(path) else {
                self.problems.push(missing(path, of.span));
                continue;
            };
            if order.iter().any(|known| known.path == *path) {
                continue;
            }
            chain.push(path.clone());
            self.visit(&module.script.uses, chain, order);
            chain.pop();
            order.push(module);
        }
    }

    /// Rejects what a module cannot contain.
    fn refuse_in_module(&mut self, script: &Script) {
        let refused = |span: Span, what: &str, help: &str| {
            Diagnostic::error(Code(228), span, format!("a module has no {what}")).help(help)
        };
        for import in &script.imports {
            self.problems.push(refused(import.path.span, "imports", "use another module: `use a/b`"));
        }
        for definition in &script.definitions {
            self.problems.push(refused(
                definition.span,
                "definitions of types",
                "kernel types need no definition; define other types in the script",
            ));
        }
    }

    /// Replaces all names in a file by their final form.
    fn rename(&mut self, script: &mut Script, path: Option<&str>) {
        let original = path.and_then(|path| self.module(path));
        let name = original.map(|module| self.name_of(module)).unwrap_or_default();
        let own = original.map(|module| Own { name: &name, script: &module.script });
        let prefixes = script.uses.iter().filter_map(|of| Some((of.prefix(), self.module(&of.module.text)?)));
        let mut scope = Scope { own, prefixes: prefixes.collect(), shadowed: Vec::new() };
        if let Some(own) = &scope.own {
            for define in &mut script.defines {
                define.name.text = format!("{}'{}", own.name, define.name.text);
            }
            for param in &mut script.params {
                param.name.text = own.renamed(PublicKind::Param, &param.name.text);
            }
            for map in &mut script.maps {
                map.name.text = own.renamed(PublicKind::Map, &map.name.text);
            }
            // States are private to their module.
            for state in &mut script.states {
                state.name.text = format!("{}'{}", own.name, state.name.text);
            }
        }
        for span in &mut script.spans {
            for point in span.stages.iter_mut().flat_map(|stage| &mut stage.points) {
                self.point(point, &scope);
            }
            span.exprs_mut().for_each(|expr| self.expr(expr, &scope));
            span.expire.iter_mut().chain(&mut span.limit).for_each(|expr| self.expr(expr, &scope));
            if let Some(name) = scope.span(&span.name.text) {
                span.name.text = name;
            }
        }
        for define in &mut script.defines {
            self.expr(&mut define.value, &scope);
        }
        for map in &mut script.maps {
            self.expr(&mut map.entries, &scope);
        }
        for of in &mut script.macros {
            self.of_macro(of, &mut scope);
        }
        for block in &mut script.blocks {
            for point in &mut block.points {
                self.point(point, &scope);
            }
            if let Some(predicate) = &mut block.predicate {
                self.expr(predicate, &scope);
            }
            self.stmts(&mut block.body, &scope);
        }
        for view in &mut script.views {
            self.view(view, &scope);
        }
    }

    fn of_macro(&mut self, of: &mut Macro, scope: &mut Scope<'_>) {
        scope.shadowed = of.params.iter().map(|param| (param.kind, param.name.text.clone())).collect();
        self.stmts(&mut of.body, scope);
        if let Some(value) = &mut of.value {
            self.expr(value, scope);
        }
        scope.shadowed.clear();
        if let Some(own) = &scope.own {
            of.name.text = own.renamed(PublicKind::Macro, &of.name.text);
        }
    }

    /// Resolves a probe kind that names a span, and `$name` in the parts of a probe.
    fn point(&mut self, point: &mut AttachPoint, scope: &Scope<'_>) {
        let kind = &mut point.kind;
        if let Some(name) = scope.span(&kind.text) {
            kind.text = name;
        } else if let Some((prefix, _)) = kind.text.split_once('.') {
            if scope.prefixes.iter().any(|(known, _)| known == prefix) {
                self.reference(&mut kind.text, PublicKind::Span, kind.span, scope);
            } else {
                let message = format!("there is no module called `{prefix}` here");
                let help =
                    format!("the events of a module's span are those of a module that is used: `use a/{prefix}`");
                self.problems.push(Diagnostic::error(Code(226), kind.span, message).help(help));
            }
        }
        for part in std::iter::once(&mut point.kind).chain(&mut point.parts).filter(|part| part.text.contains('$')) {
            let (mut text, mut rest) = (String::new(), part.text.as_str());
            while let Some(at) = rest.find('$') {
                text.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
                let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let mut name = rest[..len].to_owned();
                let mut end = len;
                if let Some(behind) = rest[len..].strip_prefix('.')
                    && scope.prefixes.iter().any(|(prefix, _)| *prefix == name)
                {
                    let more = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(behind.len());
                    name = rest[..=(len + more)].to_owned();
                    end = len + 1 + more;
                }
                self.reference(&mut name, PublicKind::Param, part.span, scope);
                text.push_str(&name);
                rest = &rest[end..];
            }
            part.text = text + rest;
        }
        for other in &mut point.unless {
            self.point(other, scope);
        }
    }

    fn stmts(&mut self, stmts: &mut [Stmt], scope: &Scope<'_>) {
        for stmt in stmts {
            if let Some(name) = stmt.kind.variable_mut() {
                self.reference(&mut name.text, PublicKind::Param, name.span, scope);
            }
            stmt.kind.for_each_part_mut(&mut |part| self.part(part, scope));
        }
    }

    fn part(&mut self, part: PartMut<'_>, scope: &Scope<'_>) {
        match part {
            PartMut::Expr(expr) => self.expr(expr, scope),
            PartMut::Stmts(stmts) => self.stmts(stmts, scope),
        }
    }

    fn expr(&mut self, expr: &mut Expr, scope: &Scope<'_>) {
        let span = expr.span;
        match &mut expr.kind {
            ExprKind::Var(name) if !scope.shadows(MacroParamKind::Var, name) => {
                self.reference(name, PublicKind::Param, span, scope);
            }
            ExprKind::Map { name, .. } if name.starts_with(STATE_MARK) => {
                if let Some(own) = &scope.own {
                    *name = format!("{STATE_MARK}{}'{}", own.name, name.trim_start_matches(STATE_MARK));
                }
            }
            ExprKind::Map { name, .. } if !scope.shadows(MacroParamKind::Map, name) => {
                if name.is_empty() && scope.own.is_some() {
                    let message = "a map of a module must have a name";
                    let help = "write `@name`; without a name it would be confused with the script's own";
                    self.problems.push(Diagnostic::error(Code(228), span, message).help(help));
                }
                self.reference(name, PublicKind::Map, span, scope);
            }
            ExprKind::Name(name) if !scope.shadows(MacroParamKind::Expr, name) && scope.span(name).is_some() => {
                *name = scope.span(name).unwrap_or_default();
            }
            ExprKind::Name(name) if !scope.shadows(MacroParamKind::Expr, name) => {
                self.constant_or_macro(name, span, scope);
            }
            ExprKind::Call { name: Ident { text, span }, .. } => {
                let span = *span;
                self.reference(text, PublicKind::Macro, span, scope);
            }
            ExprKind::Positional(_) | ExprKind::PositionalCount if scope.own.is_some() => {
                let message = "a module cannot use `$1` and `$#`: they belong to the script";
                let help = "declare a parameter: `pub param limit: int = 10 \"…\"`";
                self.problems.push(Diagnostic::error(Code(228), span, message).help(help));
            }
            _ => {}
        }
        expr.kind.for_each_part_mut(&mut |part| self.part(part, scope));
    }

    /// A bare name: a `#define`d constant, a macro, or a span.
    fn constant_or_macro(&mut self, name: &mut String, span: Span, scope: &Scope<'_>) {
        if let Some(own) = &scope.own
            && own.script.defines.iter().any(|define| define.name.text == *name)
        {
            *name = format!("{}'{name}", own.name);
            return;
        }
        // In handlers, a span's name has the same form as a macro's.
        let is_span = name.split_once('.').is_some_and(|(prefix, rest)| {
            let module = scope.prefixes.iter().find(|(known, _)| known == prefix);
            module.is_some_and(|(_, module)| module.script.spans.iter().any(|span| span.name.text == rest))
        });
        let kind = if is_span { PublicKind::Span } else { PublicKind::Macro };
        self.reference(name, kind, span, scope);
    }

    /// Resolves a name of a kind that can be public.
    fn reference(&mut self, name: &mut String, kind: PublicKind, span: Span, scope: &Scope<'_>) {
        if let Some((prefix, rest)) = name.split_once('.')
            && let Some((_, module)) = scope.prefixes.iter().find(|(known, _)| known == prefix)
        {
            if is_public(&module.script, kind, rest) {
                *name = format!("{}.{rest}", self.name_of(module));
            } else {
                self.problems.push(not_public(module, kind, prefix, rest, span));
            }
            return;
        }
        let Some(own) = &scope.own else { return };
        let is_own = match kind {
            PublicKind::Map => true,
            PublicKind::Macro => own.script.macros.iter().any(|of| of.name.text == *name),
            PublicKind::Param => own.script.params.iter().any(|param| param.name.text == *name),
            // `Scope::span` resolves the names of spans; views are not referenced by name.
            PublicKind::Span | PublicKind::View => false,
        };
        if is_own {
            *name = own.renamed(kind, name);
        }
    }
}

impl Scope<'_> {
    /// The final name of a span of this module. It always has the public form: other files can use
    /// it if it is public, and the ledger shows which module it belongs to.
    fn span(&self, name: &str) -> Option<String> {
        let own = self.own.as_ref()?;
        own.script.spans.iter().any(|span| span.name.text == name).then(|| format!("{}.{name}", own.name))
    }

    /// Whether a parameter of the current macro shadows this name.
    fn shadows(&self, kind: MacroParamKind, name: &str) -> bool {
        self.shadowed.iter().any(|(known, shadowed)| *known == kind && shadowed == name)
    }
}

fn missing(path: &str, span: Span) -> Diagnostic {
    Diagnostic::error(Code(226), span, format!("there is no module `{path}`"))
        .help("modules are looked for in the standard library, then next to the script; `profiler list modules` shows the library's")
}

fn not_public(module: &Module, kind: PublicKind, prefix: &str, name: &str, span: Span) -> Diagnostic {
    let (sigil, what) = match kind {
        PublicKind::Map => ("@", "map"),
        PublicKind::Macro => ("", "macro"),
        PublicKind::Param => ("$", "parameter"),
        PublicKind::Span | PublicKind::View => ("", "span"),
    };
    let message = format!("the module `{}` has no public {what} `{name}`", module.path);
    let public = module.script.public.iter().filter(|public| public.kind == kind);
    let known: Vec<&str> = public.map(|public| public.name.text.as_str()).collect();
    let help = match similar::nearest(name, known.iter().copied(), 1).first() {
        Some(near) => format!("did you mean `{sigil}{prefix}.{near}`?"),
        None if known.is_empty() => format!("it has no public {what} at all: `pub` makes one public"),
        None => format!("it has `{sigil}{prefix}.{}`", known.join(&format!("`, `{sigil}{prefix}."))),
    };
    Diagnostic::error(Code(226), span, message).help(help)
}

#[cfg(test)]
#[path = "modules_tests.rs"]
mod tests;
