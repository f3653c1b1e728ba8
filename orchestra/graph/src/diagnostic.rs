//! Diagnostics: the problem, its location, the reason and the fix.

use crate::page::Page;
use crate::severity::Severity;
use crate::text::{Source, Span};

/// A change of the text that fixes a problem (Attractor 7.1).
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
    /// The text that replaces these bytes.
    pub replacement: String,
}

/// A second location that a diagnostic points at.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let source = Source::new("a.dot", "digraph { goal=ship; start -> exit; goal=build }");
/// let report = load(source.clone(), &Default::default()).report;
/// let diagnostic = report.diagnostics.iter().find(|diagnostic| diagnostic.code == "duplicate_node_attribute");
/// let first = &diagnostic.expect("the goal is set twice").related[0];
/// assert_eq!(source.position(first.span.start).column, 11);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// The location.
    pub span: Span,
    /// A short label for the location.
    pub label: String,
}

/// One error, warning or note about a pipeline (Attractor 7.1).
///
/// The first line (`message`) makes sense alone. `label` is shown beside the caret, `notes` explain the reason, and
/// `help` says how to fix the problem.
///
/// ```
/// use orchestra_graph::{Diagnostic, Severity, Span};
/// let diagnostic = Diagnostic::error("edge_target_exists", "edge points to unknown node `Buidl`", Span::new(3, 8))
///     .help("did you mean `Build`?");
/// assert_eq!(diagnostic.severity, Severity::Error);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The stable identifier of the rule.
    pub code: &'static str,
    /// The severity.
    pub severity: Severity,
    /// One line that makes sense alone and quotes the text that the user wrote.
    pub message: String,
    /// The location in the text.
    pub span: Span,
    /// A short text beside the caret; may be empty.
    pub label: String,
    /// The reasons why this is a problem.
    pub notes: Vec<String>,
    /// A hint on how to fix the problem.
    pub help: Option<String>,
    /// A change of the text that fixes the problem.
    pub fix: Option<Fix>,
    /// Further locations.
    pub related: Vec<Related>,
    /// The id of the node concerned.
    pub node: Option<String>,
    /// The edge concerned, as the ids of source and target.
    pub edge: Option<(String, String)>,
}

/// The length in bytes above which the quotes in a message are shortened.
const LONG_MESSAGE: usize = 400;

/// The maximum number of characters of a quoted text, and of the text between two quotes, in a shortened message.
const LONG_QUOTE: [usize; 2] = [80, 240];

/// Returns the message with long quoted texts, and long texts between them, cut to their beginning.
fn with_short_quotes(message: &str) -> String {
    let parts = message.split('`').enumerate().map(|(at, part)| {
        // A backtick inside a quoted text swaps the roles of quote and text between, so both have a limit.
        let most = LONG_QUOTE[usize::from(at % 2 == 0)];
        match part.char_indices().nth(most) {
            Some((end, _)) => format!("{}..", &part[..end]),
            None => part.to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

impl Diagnostic {
    /// Creates a diagnostic of the given severity. Line breaks in the message are written as `\n` and `\r`. In a long
    /// message, texts in backticks are cut to their beginning.
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

    /// Creates a diagnostic of a rule, with the code and the severity of the rule.
    ///
    /// ```
    /// use orchestra_graph::{Diagnostic, Severity, Span, explain};
    /// let rule = explain("dead_end").expect("a rule of that name");
    /// let diagnostic = Diagnostic::from_rule(rule, "`work` has no outgoing edge", Span::new(3, 7));
    /// assert_eq!((diagnostic.code, diagnostic.severity), ("dead_end", Severity::Warning));
    /// ```
    pub fn from_rule(rule: &Page, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic::new(rule.code, rule.severity, message, span)
    }

    /// Creates an error.
    pub fn error(code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic::new(code, Severity::Error, message, span)
    }

    /// Creates a warning.
    pub fn warning(code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic::new(code, Severity::Warning, message, span)
    }

    /// Creates a note.
    pub fn info(code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic::new(code, Severity::Info, message, span)
    }

    /// Sets the severity, for a rule that has diagnostics of several severities.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Diagnostic {
        self.severity = severity;
        self
    }

    /// Sets the text beside the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Adds a line that explains the reason.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }

    /// Sets the hint on how to fix the problem.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Sets the change of the text that fixes the problem.
    #[must_use]
    pub fn fix(mut self, span: Span, replacement: impl Into<String>) -> Diagnostic {
        self.fix = Some(Fix {
            span,
            replacement: replacement.into(),
        });
        self
    }

    /// Adds a further location.
    #[must_use]
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Diagnostic {
        self.related.push(Related {
            span,
            label: label.into(),
        });
        self
    }

    /// Sets the node concerned.
    #[must_use]
    pub fn node(mut self, id: impl Into<String>) -> Diagnostic {
        self.node = Some(id.into());
        self
    }

    /// Sets the edge concerned.
    #[must_use]
    pub fn edge(mut self, from: impl Into<String>, to: impl Into<String>) -> Diagnostic {
        self.edge = Some((from.into(), to.into()));
        self
    }

    /// Returns whether this is an error, which prevents the pipeline from running.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Diagnostics together with the text that they refer to.
///
/// The diagnostics are sorted by their location. At the same location the more severe one comes first.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> exit; lost [shape=parallelogram, tool_command=true] }";
/// let report = load(Source::new("a.dot", text), &Default::default()).report;
/// assert!(report.has_errors());
/// assert!(report.errors().any(|diagnostic| diagnostic.code == "reachability"));
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    /// The text.
    pub source: Source,
    /// The diagnostics.
    pub diagnostics: Vec<Diagnostic>,
}

impl Report {
    /// Creates a report and sorts the diagnostics.
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

    /// Returns the errors among the diagnostics.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.is_error())
    }

    /// Returns whether there is at least one error.
    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }
}

/// Returns the candidate nearest to a mistyped word, within two edits (insert, delete, replace, swap of neighbours).
///
/// Words of up to three characters allow one edit only. Among equally near candidates, one with the same letters wins.
/// Returns `None` if no candidate is near enough.
///
/// ```
/// assert_eq!(orchestra_graph::did_you_mean("modle", ["mode", "model"]), Some("model"));
/// assert_eq!(orchestra_graph::did_you_mean("Buidl", ["Build", "Test"]), Some("Build"));
/// assert_eq!(orchestra_graph::did_you_mean("x", ["Build", "Test"]), None);
/// ```
pub fn did_you_mean<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let word: Vec<char> = word.chars().take(MAX_WORD).collect();
    let limit = if word.len() <= 3 { 1 } else { 2 };
    let letters = |word: &[char]| {
        let mut letters: Vec<char> = word.iter().map(char::to_ascii_lowercase).collect();
        letters.sort_unstable();
        letters
    };
    let own = letters(&word);
    let near = candidates.into_iter().filter_map(|candidate| {
        let distance = distance(&word, candidate, limit)?;
        let other: Vec<char> = candidate.chars().take(MAX_WORD).collect();
        // Swapped letters are a more likely mistake than missing ones.
        Some((distance, letters(&other) != own, candidate))
    });
    near.min().map(|(.., candidate)| candidate)
}

const MAX_WORD: usize = 64;

/// Returns the edit distance with swaps. Returns `None` if it exceeds the limit, or if the two texts are equal.
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
        // A swap costs one and refers back two rows, so a later row can still be within the limit up to `limit + 1`.
        if least > limit + 1 {
            return None;
        }
        rows.rotate_left(1);
    }
    let result = rows[1][other.len()];
    (result <= limit).then_some(result)
}
