//! Diagnostics as plain data.
//!
//! In: a code, a source span and texts. Out: a [`Diagnostic`] that the command renders.
//! Guarantee: a released code keeps its meaning; each code has a page under `spec/errors/`.

use crate::source::Span;

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The script does not compile.
    Error,
    /// The script compiles, but something about it is suspicious.
    Warning,
}

/// A stable diagnostic code, shown as `E0201` (or `W0901` for warnings).
/// Ranges: 01xx syntax, 02xx names, 03xx types, 04xx probes, 05xx limits, 06xx permissions and
/// gates, 09xx warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u16);

/// One message with its source span, related spans and advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Stable code.
    pub code: Code,
    /// What is wrong, in the user's terms: one sentence without a full stop.
    pub message: String,
    /// The characters that it is about.
    pub span: Span,
    /// Short text under the main span (may be empty).
    pub label: String,
    /// Related spans, each with its text.
    pub related: Vec<(Span, String)>,
    /// Advice: what to write instead, or what to do.
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

    /// Sets the text under the main span.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Adds a related span.
    #[must_use]
    pub fn related(mut self, span: Span, words: impl Into<String>) -> Diagnostic {
        self.related.push((span, words.into()));
        self
    }

    /// Sets the advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Whether it prevents compilation.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
