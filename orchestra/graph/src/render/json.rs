//! Diagnostics as JSON objects.

use serde::Serialize;

use super::Positions;
use crate::diagnostic::{Diagnostic, Report};
use crate::text::Span;

/// The schema of [`DiagnosticObject`].
pub const DIAGNOSTIC_SCHEMA: &str = "orchestra.diagnostic/1";

/// A diagnostic for machines. `line` and `column` count from 1, columns in characters.
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
    /// The schema, always [`DIAGNOSTIC_SCHEMA`].
    pub schema: &'static str,
    /// The stable identifier of the rule.
    pub code: &'static str,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// One line that makes sense alone.
    pub message: &'d str,
    /// The name of the text.
    pub file: &'d str,
    /// The first line.
    pub line: u32,
    /// The first column.
    pub column: u32,
    /// The line of the end.
    pub end_line: u32,
    /// The column after the end.
    pub end_column: u32,
    /// The id of the node concerned.
    pub node: Option<&'d str>,
    /// The edge concerned, as the ids of source and target.
    pub edge: Option<[&'d str; 2]>,
    /// A short text beside the caret; may be empty.
    pub label: &'d str,
    /// The reasons why this is a problem.
    pub notes: &'d [String],
    /// A hint on how to fix the problem.
    pub help: Option<&'d str>,
    /// A change of the text that fixes the problem.
    pub fix: Option<FixObject<'d>>,
    /// Further locations.
    pub related: Vec<LocationObject<'d>>,
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
    /// The first line to replace.
    pub line: u32,
    /// The first column to replace.
    pub column: u32,
    /// The line of the end.
    pub end_line: u32,
    /// The column after the end.
    pub end_column: u32,
    /// The text that replaces it.
    pub replacement: &'d str,
}

/// A further location.
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
pub struct LocationObject<'d> {
    /// The first line.
    pub line: u32,
    /// The first column.
    pub column: u32,
    /// The line of the end.
    pub end_line: u32,
    /// The column after the end.
    pub end_column: u32,
    /// A short label for the location.
    pub label: &'d str,
}

/// Returns the diagnostics of a report as objects that the caller can embed in any JSON.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load, render};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit"), &LoadOptions::default());
/// let objects = render::objects(&loaded.report);
/// assert_eq!((objects[0].line, objects[0].column), (1, 11));
/// ```
pub fn objects(report: &Report) -> Vec<DiagnosticObject<'_>> {
    let mut positions = Positions::new(&report.source);
    report
        .diagnostics
        .iter()
        .map(|diagnostic| object(&mut positions, diagnostic))
        .collect()
}

/// Returns the diagnostics of a report as JSON lines, one object per line.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load, render};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit"), &LoadOptions::default());
/// assert!(render::json(&loaded.report).starts_with(r#"{"schema":"orchestra.diagnostic/1","code":"#));
/// ```
pub fn json(report: &Report) -> String {
    let mut text = String::new();
    for object in objects(report) {
        // Objects of text and numbers cannot fail to serialize.
        text.push_str(&serde_json::to_string(&object).unwrap_or_default());
        text.push('\n');
    }
    text
}

fn object<'d>(positions: &mut Positions<'d>, diagnostic: &'d Diagnostic) -> DiagnosticObject<'d> {
    let [line, column, end_line, end_column] = bounds(positions, diagnostic.span);
    let fix = diagnostic.fix.as_ref().map(|fix| {
        let [line, column, end_line, end_column] = bounds(positions, fix.span);
        FixObject {
            line,
            column,
            end_line,
            end_column,
            replacement: &fix.replacement,
        }
    });
    let related = diagnostic.related.iter().map(|related| {
        let [line, column, end_line, end_column] = bounds(positions, related.span);
        LocationObject {
            line,
            column,
            end_line,
            end_column,
            label: &related.label,
        }
    });
    let related = related.collect();
    DiagnosticObject {
        schema: DIAGNOSTIC_SCHEMA,
        code: diagnostic.code,
        severity: diagnostic.severity.word(),
        message: &diagnostic.message,
        file: positions.source.name(),
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

fn bounds(positions: &mut Positions<'_>, span: Span) -> [u32; 4] {
    let start = positions.position(span.start);
    let end = positions.position(span.end.max(span.start));
    [start.line, start.column, end.line, end.column]
}
