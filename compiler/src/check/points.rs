//! Expands attach points to programs.
//!
//! In: an attach point and what its block uses. Out: [`Seed`]s, created by the probe kinds.
//! Guarantee: an attach point that matches nothing is a diagnostic with the nearest names.

use crate::ast::{AttachPoint, Ident};
use crate::btf::BtfId;
use crate::check::{Env, LeftOut, MissingProbes, PidFilter, UsedNames};
use crate::diagnostic::{Code, Diagnostic};
use crate::foreign;
use crate::object::Attach;
use crate::params::{Param, Type as ParamType, Value};
use crate::similar;
use crate::source::Span;
use crate::target::TargetError;
use crate::typed::{Context, ContextKind, ExprKind};
use crate::types::{Space, Type};

/// One BPF program that an attach point needs, before its body is checked.
#[derive(Debug, Clone)]
pub struct Seed {
    /// Full names of the probes that it serves.
    pub names: Vec<String>,
    /// The functions that contain the probes, in the same order; empty if not applicable.
    pub functions: Vec<String>,
    /// Index of the first function among the program's names.
    pub first_function: u32,
    /// The number of attach points that it counts as.
    pub points: u32,
    /// How it is attached.
    pub attach: Attach,
    /// ELF section.
    pub section: String,
    /// The context that the program receives.
    pub context: Context,
    /// Default address space of a pointer.
    pub pointer_space: Space,
    /// The fields of `args`.
    pub args: Vec<ArgField>,
    /// The parameters that `args` lacks because they cannot be read, each with the reason.
    pub unreadable: Vec<(String, String)>,
    /// Help for scripts that use `args` where there are none.
    pub no_args: &'static str,
    /// Why there is no description of the arguments, if there might be one; replaces `no_args`.
    pub undescribed: Option<String>,
    /// Whether `arg0`, `arg1`, ... are the `u64` words of the context.
    pub raw_args: bool,
    /// The value of `retval` at the exit of a function that BTF describes.
    pub retval: Option<ArgField>,
    /// The command-line processes that the program itself must filter for.
    pub pid_filter: PidFilter,
    /// The struct that `ctx` points to, if its fields are available to scripts.
    pub context_struct: Option<BtfId>,
}

/// A field of `args`.
#[derive(Debug, Clone)]
pub struct ArgField {
    pub name: String,
    /// The expression that reads it.
    pub kind: ExprKind,
    pub ty: Type,
}

/// The environment in which an attach point is expanded.
#[derive(Debug)]
pub struct Points<'a, 'e> {
    /// State shared by all bodies.
    pub env: &'a mut Env<'e>,
    /// The names and arguments that the block uses.
    pub facts: UsedNames,
    /// Whether only the existence of a probe is asked. The text of diagnostics is then thrown away,
    /// so nothing is searched for it: similar names take longer than to start a script.
    pub only_asks: bool,
    /// Whether the period is a parameter of 0, which means never.
    is_never: bool,
    /// The parts that are a parameter for a file, and how to give it.
    files: Vec<(Span, String)>,
}

impl Seed {
    /// Whether none of its functions exists here. Its program is checked like others, because other
    /// programs and views may use its maps, and then dropped.
    pub fn is_absent(&self) -> bool {
        is_absent(&self.attach)
    }

    /// Creates the seed of a program for one probe, with default properties.
    pub fn new(name: String, section: String, kind: ContextKind, attach: Attach) -> Seed {
        Seed {
            names: vec![name],
            functions: Vec::new(),
            first_function: 0,
            points: 1,
            attach,
            section,
            context: Context {
                kind,
                syscalls: None,
                first_name: 0,
                preemptible: false,
                static_arguments: Vec::new(),
                typed_words: Vec::new(),
            },
            pointer_space: Space::Kernel,
            args: Vec::new(),
            unreadable: Vec::new(),
            undescribed: None,
            no_args: "tracepoints have `args`; `profiler list -v PROBE` shows them",
            raw_args: false,
            retval: None,
            pid_filter: PidFilter::Nothing,
            context_struct: None,
        }
    }
}

impl<'a, 'e> Points<'a, 'e> {
    /// Creates the environment for one block.
    pub fn new(env: &'a mut Env<'e>, facts: UsedNames) -> Points<'a, 'e> {
        Points { env, facts, only_asks: false, is_never: false, files: Vec::new() }
    }

    /// The programs of one attach point; none if another is used instead (`unless`).
    pub fn expand(&mut self, point: &AttachPoint) -> Vec<Seed> {
        if self.is_left_to_another(point) { Vec::new() } else { self.programs(point) }
    }

    /// The programs of one attach point, regardless of `unless`.
    pub(super) fn programs(&mut self, point: &AttachPoint) -> Vec<Seed> {
        self.is_never = self.has_no_period(point);
        let Some(point) = self.substitute(point) else { return Vec::new() };
        let catalogue = self.env.catalogue;
        if let Some(kind) = catalogue.probe(&point.kind.text) {
            return kind.expand(self, &point);
        }
        let name = point.kind.text.as_str();
        if let Some((_, instead)) = catalogue.absent_probes.iter().find(|(absent, _)| absent.eq_ignore_ascii_case(name))
        {
            let message = format!("`{name}` probes are not supported yet");
            self.error(Diagnostic::error(Code(408), point.kind.span, message).help(*instead));
            return Vec::new();
        }
        if let Some(foreign) = foreign::probe(name) {
            let message = format!("`{name}` is a kind of probe from {}", foreign.language);
            self.error(Diagnostic::error(Code(248), point.kind.span, message).help(foreign.instead));
            return Vec::new();
        }
        let spans = self.env.spans.list.iter().map(|info| info.name.as_str());
        let known = catalogue.probes.iter().map(|w| w.name()).chain(spans);
        let mut diagnostic =
            Diagnostic::error(Code(401), point.kind.span, format!("there is no probe kind `{}`", point.kind.text));
        diagnostic = match similar::nearest(&point.kind.text, known.clone(), 1).first() {
            Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
            None => diagnostic.help(format!("the kinds: {}", known.collect::<Vec<_>>().join(", "))),
        };
        self.error(diagnostic);
        Vec::new()
    }

    /// A program for checking the body of a block whose attach point was reported.
    pub(super) fn stand_in(&mut self, point: &AttachPoint) -> Option<Seed> {
        let kind = self.env.catalogue.probe(&point.kind.text)?;
        kind.stand_in(self, point)
    }

    /// Reports a diagnostic.
    pub fn error(&mut self, diagnostic: Diagnostic) {
        self.env.report.push(diagnostic);
    }

    /// Substitutes `$1`, `$2`, ... in the parts and in the kind, which may then consist of several
    /// parts (`interval:s:1`).
    fn substitute(&mut self, point: &AttachPoint) -> Option<AttachPoint> {
        let mut point = point.clone();
        if point.kind.text.contains('$') {
            let (span, text) = (point.kind.span, self.positional(&point.kind)?);
            let mut texts = text.split(':').map(|text| Ident { text: text.to_owned(), span });
            point.kind = texts.next()?;
            point.parts.splice(0..0, texts);
        }
        for part in &mut point.parts {
            if part.text.contains('$') {
                self.files.extend(self.file_param(part));
                part.text = self.positional(part)?;
            }
        }
        Some(point)
    }

    /// How to give the file, if the part is a parameter for one.
    fn file_param(&self, part: &Ident) -> Option<(Span, String)> {
        let name = part.text.strip_prefix('$')?;
        let param = self.env.params.iter().find(|param| param.name == name)?;
        let is_file = param.is_public && param.ty == ParamType::Path;
        is_file.then(|| (part.span, format!("give the file with `--{name}`: {}", param.help)))
    }

    /// Whether the only part is a parameter for a duration, and that is 0.
    fn has_no_period(&self, point: &AttachPoint) -> bool {
        let [part] = point.parts.as_slice() else { return false };
        let Some(name) = part.text.strip_prefix('$') else { return false };
        let is_none = |param: &Param| param.ty == ParamType::Duration && param.value == Value::Number(0);
        self.env.params.iter().find(|param| param.name == name).is_some_and(is_none)
    }

    fn positional(&mut self, part: &Ident) -> Option<String> {
        let mut text = String::new();
        let mut rest = part.text.as_str();
        while let Some(at) = rest.find('$') {
            text.push_str(&rest[..at]);
            if let Some((value, len)) = self.param_in_target(&rest[at + 1..], part.span)? {
                text.push_str(&value);
                rest = &rest[at + 1 + len..];
                continue;
            }
            let digits: String = rest[at + 1..].chars().take_while(char::is_ascii_digit).collect();
            let index: usize = digits.parse().unwrap_or(0);
            let Some(value) = index.checked_sub(1).and_then(|i| self.env.options.positional.get(i)) else {
                let (message, help) = if index > 0 {
                    let help = "parameters follow the script's name on the command line".to_string();
                    (format!("the parameter `${digits}` is not given"), help)
                } else {
                    self.unknown_param(&rest[at + 1..])
                };
                self.error(Diagnostic::error(Code(402), part.span, message).help(help));
                return None;
            };
            text.push_str(value);
            rest = &rest[at + 1 + digits.len()..];
        }
        text.push_str(rest);
        Some(text)
    }

    /// The parts of an attach point, if it has this number of them; reports any other number.
    pub fn parts<const N: usize>(&mut self, point: &AttachPoint, form: &str) -> Option<[String; N]> {
        let texts: Vec<String> = point.parts.iter().map(|p| p.text.clone()).collect();
        if let Ok(parts) = <[String; N]>::try_from(texts) {
            return Some(parts);
        }
        self.wrong_form(point, form);
        None
    }

    /// Reports an attach point that does not have the form of its kind.
    pub fn wrong_form(&mut self, point: &AttachPoint, form: &str) {
        let message = format!("`{}` probes are not written like this", point.kind.text);
        self.error(Diagnostic::error(Code(403), point.span, message).help(format!("write `{form}`")));
    }

    /// The period of a probe that runs on its own; 0 means never, which only a parameter can say.
    pub fn period_ns(&mut self, point: &AttachPoint, form: &str) -> Option<u64> {
        use crate::object::Rate;
        if self.is_never {
            return Some(0);
        }
        self.rate(point, form).map(|rate| match rate {
            Rate::Period(ns) => ns,
            Rate::Hertz(n) => 1_000_000_000 / n,
        })
    }

    /// Parses a period or frequency: `s:1`, `ms:10`, `us:50`, `hz:99`, `10ms`, or nanoseconds.
    pub fn rate(&mut self, point: &AttachPoint, form: &str) -> Option<crate::object::Rate> {
        use crate::object::Rate;
        let texts: Vec<&str> = point.parts.iter().map(|p| p.text.as_str()).collect();
        let rate = match texts.as_slice() {
            ["hz", n] => n.parse().ok().map(Rate::Hertz),
            [unit, n] => n.parse::<u64>().ok().and_then(|n| Some(period(n, unit_ns(unit)?))),
            [whole] => {
                let digits = whole.find(|c: char| !c.is_ascii_digit()).unwrap_or(whole.len());
                let unit = if digits == whole.len() { Some(1) } else { unit_ns(&whole[digits..]) };
                whole[..digits].parse::<u64>().ok().and_then(|n| Some(period(n, unit?)))
            }
            _ => None,
        };
        match rate {
            Some(Rate::Hertz(1..=1_000_000)) => rate,
            Some(Rate::Period(1_000..=LONGEST_PERIOD_NS)) => rate,
            Some(_) => {
                let message =
                    "the period must be from 1 microsecond to 365 days, the frequency from 1 to 1000000 a second";
                self.error(Diagnostic::error(Code(404), point.span, message));
                None
            }
            None => {
                self.wrong_form(point, form);
                None
            }
        }
    }

    /// Reports the target's error for a function in a program, library or the kernel. A script may
    /// refer to functions that exist only in other versions. Returns whether it is left out without
    /// a word, so that its block is to be checked for the types of its maps.
    pub fn refused_in_program(&mut self, span: Span, (what, file): (&str, &str), error: TargetError) -> bool {
        let missing = self.env.missing.unwrap_or(self.env.options.missing_in_programs);
        let probe = LeftOut::new(span, what, None);
        if missing == MissingProbes::IgnoreBeside && !matches!(error, TargetError::Refused(_)) {
            // Of several files, near names say little.
            let words = "a program that is linked statically and stripped does not say where its functions are";
            let remedy = file.starts_with('*').then(|| words.to_owned());
            let diagnostic = refusal(LeftOut { remedy, ..LeftOut::new(span, what, None) }, error);
            self.env.missing_in_files.push((file.to_owned(), diagnostic));
            self.env.left_out.push(LeftOut { has_stand_in: true, ..probe });
            return true;
        }
        self.report_refusal(probe, error, missing);
        false
    }

    /// The same for a program or library, once for all probes that need it.
    pub fn no_binary(&mut self, span: Span, name: &str, error: TargetError) {
        let (first, what) = (self.env.report.mark(), format!("`{name}`"));
        let missing = self.env.missing.unwrap_or(self.env.options.missing_in_programs);
        let remedy = self.files.iter().find(|(part, _)| *part == span).map(|(_, remedy)| remedy.clone());
        self.report_refusal(LeftOut { remedy, ..LeftOut::new(span, &what, None) }, error, missing);
        self.env.report.say_once(first);
    }

    /// The same for a kernel function, with help on what to use instead.
    pub fn refused_in_kernel(&mut self, span: Span, what: &str, error: TargetError, instead: String) {
        let missing = self.env.missing.unwrap_or(self.env.options.missing_in_programs);
        self.report_refusal(LeftOut::new(span, what, Some(instead)), error, missing);
    }

    /// Reports the target's error for a probe.
    pub fn refused(&mut self, span: Span, what: &str, error: TargetError) {
        self.report_refusal(LeftOut::new(span, what, None), error, self.env.missing.unwrap_or_default());
    }

    /// Reports that this kernel has no probes of the kind of this attach point.
    pub fn unsupported(&mut self, point: &AttachPoint, diagnostic: Diagnostic) {
        if self.env.missing.unwrap_or_default() == MissingProbes::Error {
            return self.error(diagnostic);
        }
        let parts = [&point.kind].into_iter().chain(&point.parts).map(|part| part.text.as_str());
        let what = format!("`{}`", parts.collect::<Vec<_>>().join(":"));
        self.env.left_out.push(LeftOut { exists: true, ..LeftOut::new(point.span, &what, None) });
    }

    fn report_refusal(&mut self, probe: LeftOut, error: TargetError, missing: MissingProbes) {
        // Only an explicit setting covers what exists and cannot be probed.
        let exists = matches!(error, TargetError::Invalid(_));
        let is_covered = matches!(error, TargetError::Missing { .. }) || exists && self.env.missing.is_some();
        if is_covered && matches!(missing, MissingProbes::Warn | MissingProbes::Ignore) {
            self.env.left_out.push(LeftOut { exists, ..probe });
            return;
        }
        self.error(refusal(probe, error));
    }
}

/// Whether this is the attachment of a program that is only checked.
pub(super) fn is_absent(attach: &Attach) -> bool {
    matches!(attach, Attach::Uprobe { sites, .. } if sites.is_empty())
}

/// The diagnostic for a probe that is not left out.
fn refusal(probe: LeftOut, error: TargetError) -> Diagnostic {
    let LeftOut { span, what, instead, remedy, .. } = probe;
    match error {
        TargetError::Missing { near } => {
            let diagnostic = Diagnostic::error(Code(405), span, format!("{what} does not exist here"));
            match (near.as_slice(), remedy) {
                (_, Some(remedy)) => diagnostic.help(remedy),
                ([], None) => diagnostic.help("`profiler list PATTERN` shows what there is"),
                (near, None) => diagnostic.help(format!("near names: {}", near.join(", "))),
            }
        }
        TargetError::Refused(words) => {
            Diagnostic::error(Code(602), span, format!("{what} cannot be looked up")).help(words)
        }
        TargetError::Invalid(words) => {
            let diagnostic = Diagnostic::error(Code(406), span, format!("{what} cannot be probed")).label(words);
            instead.into_iter().fold(diagnostic, Diagnostic::help)
        }
    }
}

/// One year: longer periods are assumed to be mistakes.
const LONGEST_PERIOD_NS: u64 = 365 * 86_400_000_000_000;

/// A period of `count` units; saturates at the maximum.
fn period(count: u64, unit_ns: u64) -> crate::object::Rate {
    crate::object::Rate::Period(count.saturating_mul(unit_ns))
}

fn unit_ns(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    })
}
