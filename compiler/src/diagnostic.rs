//! What a user did wrong, as data.
//!
//! In: a code, a span and words. Out: a [`Diagnostic`] that the command renders.
//! Guarantee: a code once released keeps its meaning; each has a page under `spec/errors/`.

use crate::source::Span;

/// How much a diagnostic weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The script does not compile.
    Error,
    /// The script compiles, and something about it deserves attention.
    Warning,
}

/// A stable diagnostic code, shown as `E0201` (or `W0901` for warnings).
/// Ranges: 01xx syntax, 02xx names, 03xx types, 04xx probes, 05xx limits, 06xx permissions and gates, 09xx warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u16);

/// One message with its place, further places, and advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Stable code.
    pub code: Code,
    /// What is wrong, in the user's terms: one sentence, no full stop.
    pub message: String,
    /// The exact characters.
    pub span: Span,
    /// Short words under the main span (may be empty).
    pub label: String,
    /// Other places that matter, with their words.
    pub related: Vec<(Span, String)>,
    /// What to write instead, or what to do.
    pub help: Option<String>,
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letter = if self.0 >= 900 { 'W' } else { 'E' };
        write!(f, "{letter}{:04}", self.0)
    }
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            span,
            label: String::new(),
            related: Vec::new(),
            help: None,
        }
    }

    /// A warning at `span`.
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Adds the words under the main span.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Adds another place.
    #[must_use]
    pub fn related(mut self, span: Span, words: impl Into<String>) -> Diagnostic {
        self.related.push((span, words.into()));
        self
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Whether it stops the compilation.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
