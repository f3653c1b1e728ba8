//! Diagnostics as JSON objects.

use serde::Serialize;

use super::Places;
use crate::diagnostic::{Diagnostic, Report};
use crate::text::Span;

/// A diagnostic as machines read it; `line` and `column` count from 1, columns in characters.
///
/// ```
/// use orchestra_graph::{Source, load, render};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit"), &Default::default());
/// let object = &render::objects(&loaded.report)[0];
/// assert_eq!((object.code, object.severity, object.file), ("unterminated_block", "error", "a.dot"));
/// assert!(object.end_line >= object.line);
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct DiagnosticObject<'d> {
    /// `orchestra.diagnostic/1`.
    pub schema: &'static str,
    /// The stable identifier of the rule.
    pub code: &'static str,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// One line that makes sense alone.
    pub message: &'d str,
    /// The name of the text.
    pub file: &'d str,
    /// First line.
    pub line: u32,
    /// First column.
    pub column: u32,
    /// Line of the end.
    pub end_line: u32,
    /// Column behind the end.
    pub end_column: u32,
    /// The node it concerns.
    pub node: Option<&'d str>,
    /// The edge it concerns, as source and target.
    pub edge: Option<[&'d str; 2]>,
    /// A few words for the caret; may be empty.
    pub label: &'d str,
    /// Why it is a fault.
    pub notes: &'d [String],
    /// How to mend it.
    pub help: Option<&'d str>,
    /// A change of the text that mends it.
    pub fix: Option<FixObject<'d>>,
    /// Further places.
    pub related: Vec<PlaceObject<'d>>,
}

/// A change of the text.
///
/// ```
/// use orchestra_graph::{Source, load, render};
/// let loaded = load(Source::new("a.dot", "strict digraph { start -> exit }"), &Default::default());
/// let objects = render::objects(&loaded.report);
/// let fix = objects[0].fix.as_ref().expect("`strict` can be taken away");
/// assert_eq!((fix.column, fix.end_column, fix.replacement), (1, 8, ""));
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct FixObject<'d> {
    /// First line to replace.
    pub line: u32,
    /// First column to replace.
    pub column: u32,
    /// Line of the end.
    pub end_line: u32,
    /// Column behind the end.
    pub end_column: u32,
    /// What to put there.
    pub replacement: &'d str,
}

/// A further place.
///
/// ```
/// use orchestra_graph::{Source, load, render};
/// let text = "digraph { goal=ship; start -> exit; goal=build }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let objects = render::objects(&loaded.report);
/// let twice = objects.iter().find(|object| object.code == "duplicate_node_attribute");
/// assert_eq!(twice.expect("the goal is set twice").related[0].column, 11);
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct PlaceObject<'d> {
    /// First line.
    pub line: u32,
    /// First column.
    pub column: u32,
    /// Line of the end.
    pub end_line: u32,
    /// Column behind the end.
    pub end_column: u32,
    /// What is there, in a few words.
    pub label: &'d str,
}

/// The diagnostics of a report as objects, to be put into whatever JSON the caller writes.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load, render};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit"), &LoadOptions::default());
/// let objects = render::objects(&loaded.report);
/// assert_eq!((objects[0].line, objects[0].column), (1, 11));
/// ```
pub fn objects(report: &Report) -> Vec<DiagnosticObject<'_>> {
    let mut places = Places::new(&report.source);
    report
        .diagnostics
        .iter()
        .map(|diagnostic| object(&mut places, diagnostic))
        .collect()
}

/// The diagnostics of a report as JSON lines, one object a line.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load, render};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit"), &LoadOptions::default());
/// assert!(render::json(&loaded.report).starts_with(r#"{"schema":"orchestra.diagnostic/1","code":"#));
/// ```
pub fn json(report: &Report) -> String {
    let mut text = String::new();
    for object in objects(report) {
        // Text and numbers alone cannot fail to be written.
        text.push_str(&serde_json::to_string(&object).unwrap_or_default());
        text.push('\n');
    }
    text
}

fn object<'d>(places: &mut Places<'d>, diagnostic: &'d Diagnostic) -> DiagnosticObject<'d> {
    let [line, column, end_line, end_column] = bounds(places, diagnostic.span);
    let fix = diagnostic.fix.as_ref().map(|fix| {
        let [line, column, end_line, end_column] = bounds(places, fix.span);
        FixObject {
            line,
            column,
            end_line,
            end_column,
            replacement: &fix.replacement,
        }
    });
    let related = diagnostic.related.iter().map(|related| {
        let [line, column, end_line, end_column] = bounds(places, related.span);
        PlaceObject {
            line,
            column,
            end_line,
            end_column,
            label: &related.label,
        }
    });
    let related = related.collect();
    DiagnosticObject {
        schema: "orchestra.diagnostic/1",
        code: diagnostic.code,
        severity: diagnostic.severity.word(),
        message: &diagnostic.message,
        file: places.source.name(),
        line,
        column,
        end_line,
        end_column,
        node: diagnostic.node.as_deref(),
        edge: diagnostic
            .edge
            .as_ref()
            .map(|(from, to)| [from.as_str(), to.as_str()]),
        label: &diagnostic.label,
        notes: &diagnostic.notes,
        help: diagnostic.help.as_deref(),
        fix,
        related,
    }
}

fn bounds(places: &mut Places<'_>, span: Span) -> [u32; 4] {
    let start = places.position(span.start);
    let end = places.position(span.end.max(span.start));
    [start.line, start.column, end.line, end.column]
}
