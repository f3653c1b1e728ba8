//! Diagnostics: what is wrong, where, why, and how to mend it.

use crate::text::{Source, Span};

/// How grave a [`Diagnostic`] is (Attractor 7.1); a graver one is greater.
///
/// ```
/// use orchestra_graph::{Severity, Source, load};
/// let report = load(Source::new("a.dot", "digraph { start -> exit "), &Default::default()).report;
/// let gravest = report.diagnostics.iter().map(|diagnostic| diagnostic.severity).max();
/// assert_eq!(gravest, Some(Severity::Error));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// A note; nothing need be done.
    Info,
    /// The pipeline runs, but may not do what was meant.
    Warning,
    /// The pipeline does not run.
    Error,
}

impl Severity {
    /// The word shown: `error`, `warning` or `note`.
    pub const fn word(self) -> &'static str {
        match self {
            Severity::Info => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A change of the text that mends a fault (Attractor 7.1).
///
/// ```
/// use orchestra_graph::{Source, load};
/// let mut text = "strict digraph { start -> exit }".to_owned();
/// let report = load(Source::new("a.dot", text.as_str()), &Default::default()).report;
/// let fix = report.diagnostics[0].fix.as_ref().expect("`strict` can be taken away");
/// text.replace_range(fix.span.start as usize..fix.span.end as usize, &fix.replacement);
/// assert_eq!(text, "digraph { start -> exit }");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The bytes to replace.
    pub span: Span,
    /// What to put there.
    pub replacement: String,
}

/// A second place that a diagnostic points at.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let source = Source::new("a.dot", "digraph { goal=ship; start -> exit; goal=build }");
/// let report = load(source.clone(), &Default::default()).report;
/// let fault = report.diagnostics.iter().find(|fault| fault.code == "duplicate_node_attribute");
/// let first = &fault.expect("the goal is set twice").related[0];
/// assert_eq!(source.position(first.span.start).column, 11);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// Where.
    pub span: Span,
    /// What is there, in a few words.
    pub label: String,
}

/// One fault or remark about a pipeline (Attractor 7.1).
///
/// The first line (`message`) makes sense alone; `label` stands beside the caret; `notes` say why; `help`
/// says how to mend it.
///
/// ```
/// use orchestra_graph::{Diagnostic, Severity, Span};
/// let fault = Diagnostic::error("edge_target_exists", "edge points to unknown node `Buidl`", Span::new(3, 8))
///     .help("did you mean `Build`?");
/// assert_eq!(fault.severity, Severity::Error);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The stable identifier of the rule.
    pub code: &'static str,
    /// How grave it is.
    pub severity: Severity,
    /// One line that makes sense alone and quotes the user's own word.
    pub message: String,
    /// Where.
    pub span: Span,
    /// A few words for the caret; may be empty.
    pub label: String,
    /// Why it is a fault.
    pub notes: Vec<String>,
    /// How to mend it.
    pub help: Option<String>,
    /// A change of the text that mends it.
    pub fix: Option<Fix>,
    /// Further places.
    pub related: Vec<Related>,
    /// The node it concerns.
    pub node: Option<String>,
    /// The edge it concerns, as source and target.
    pub edge: Option<(String, String)>,
}

/// From how many bytes on a message is too long to be read in one line.
const LONG_MESSAGE: usize = 400;

/// How many characters of a quoted text, and of the words between two, a long message keeps.
const LONG_QUOTE: [usize; 2] = [80, 240];

/// A message with the beginnings of the texts that it quotes in backticks.
fn with_short_quotes(message: &str) -> String {
    let parts = message.split('`').enumerate().map(|(at, part)| {
        // A text that holds a backtick itself makes quotes of the words behind it.
        let most = LONG_QUOTE[usize::from(at % 2 == 0)];
        match part.char_indices().nth(most) {
            Some((end, _)) => format!("{}..", &part[..end]),
            None => part.to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

impl Diagnostic {
    /// A diagnostic of the given severity. Line breaks that the message quotes are written as `\n` and `\r`, and of a long
    /// text in backticks only the beginning is kept.
    pub fn new(code: &'static str, severity: Severity, message: impl Into<String>, span: Span) -> Diagnostic {
        let mut message = message.into();
        if message.contains(['\n', '\r']) {
            message = message.replace('\n', "\\n").replace('\r', "\\r");
        }
        if message.len() > LONG_MESSAGE {
            message = with_short_quotes(&message);
        }
        Diagnostic {
            code,
            severity,
            message,
            span,
            label: String::new(),
            notes: Vec::new(),
            help: None,
            fix: None,
            related: Vec::new(),
            node: None,
            edge: None,
        }
    }

    /// An error.
    pub fn error(code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic::new(code, Severity::Error, message, span)
    }

    /// A warning.
    pub fn warning(code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic::new(code, Severity::Warning, message, span)
    }

    /// A note.
    pub fn info(code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic::new(code, Severity::Info, message, span)
    }

    /// Sets the words beside the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Adds a line that says why.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }

    /// Says how to mend it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Adds a change of the text that mends it.
    #[must_use]
    pub fn fix(mut self, span: Span, replacement: impl Into<String>) -> Diagnostic {
        self.fix = Some(Fix {
            span,
            replacement: replacement.into(),
        });
        self
    }

    /// Points at a further place.
    #[must_use]
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Diagnostic {
        self.related.push(Related {
            span,
            label: label.into(),
        });
        self
    }

    /// Names the node it concerns.
    #[must_use]
    pub fn node(mut self, id: impl Into<String>) -> Diagnostic {
        self.node = Some(id.into());
        self
    }

    /// Names the edge it concerns.
    #[must_use]
    pub fn edge(mut self, from: impl Into<String>, to: impl Into<String>) -> Diagnostic {
        self.edge = Some((from.into(), to.into()));
        self
    }

    /// Whether it keeps the pipeline from running.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Diagnostics together with the text they speak of.
///
/// The order is the order of the text; of two at one place the graver comes first.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> exit; lost [shape=parallelogram, tool_command=true] }";
/// let report = load(Source::new("a.dot", text), &Default::default()).report;
/// assert!(report.has_errors());
/// assert!(report.errors().any(|fault| fault.code == "reachability"));
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    /// The text.
    pub source: Source,
    /// The diagnostics.
    pub diagnostics: Vec<Diagnostic>,
}

impl Report {
    /// Makes a report and puts the diagnostics in order.
    pub fn new(source: Source, mut diagnostics: Vec<Diagnostic>) -> Report {
        diagnostics.sort_by(|a, b| {
            (a.span.start, std::cmp::Reverse(a.severity), a.code).cmp(&(
                b.span.start,
                std::cmp::Reverse(b.severity),
                b.code,
            ))
        });
        Report { source, diagnostics }
    }

    /// The errors.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.is_error())
    }

    /// Whether any error is among them.
    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }
}

/// The candidate nearest to a mistyped word, within two edits (insert, delete, replace, swap of neighbours).
///
/// ```
/// assert_eq!(orchestra_graph::did_you_mean("Buidl", ["Build", "Test"]), Some("Build"));
/// assert_eq!(orchestra_graph::did_you_mean("x", ["Build", "Test"]), None);
/// ```
pub fn did_you_mean<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let word: Vec<char> = word.chars().take(MAX_WORD).collect();
    let limit = if word.len() <= 3 { 1 } else { 2 };
    candidates
        .into_iter()
        .filter_map(|candidate| distance(&word, candidate, limit).map(|distance| (distance, candidate)))
        .min()
        .map(|(_, candidate)| candidate)
}

const MAX_WORD: usize = 64;

/// Edit distance with swaps, or nothing where it exceeds the limit.
fn distance(word: &[char], candidate: &str, limit: usize) -> Option<usize> {
    if word.len().abs_diff(candidate.chars().take(MAX_WORD).count()) > limit {
        return None;
    }
    let other: Vec<char> = candidate.chars().take(MAX_WORD).collect();
    if word == other.as_slice() {
        return None;
    }
    let width = other.len() + 1;
    let mut rows: [Vec<usize>; 3] = [vec![0; width], (0..width).collect(), vec![0; width]];
    for (i, a) in word.iter().enumerate() {
        rows[2][0] = i + 1;
        let mut least = i + 1;
        for (j, b) in other.iter().enumerate() {
            let case_only = a.eq_ignore_ascii_case(b);
            let replace = rows[1][j] + usize::from(a != b && !case_only);
            let mut best = replace.min(rows[1][j + 1] + 1).min(rows[2][j] + 1);
            if i > 0 && j > 0 && word[i - 1] == *b && *a == other[j - 1] {
                best = best.min(rows[0][j - 1] + 1);
            }
            rows[2][j + 1] = best;
            least = least.min(best);
        }
        // Two rows are looked back on, because of swaps; a swap costs one.
        if least > limit + 1 {
            return None;
        }
        rows.rotate_left(1);
    }
    let result = rows[1][other.len()];
    (result <= limit).then_some(result)
}
