//! A change between two versions of a pipeline, with what it means for unfinished runs.

use std::fmt;

use serde::Serialize;

use crate::table::{Change, Subject, What};
use crate::text::{Position, Span};

/// The effect of a change on the unfinished runs of the earlier version.
///
/// ```
/// use orchestra_graph::ChangeClass;
/// assert!(ChangeClass::Same < ChangeClass::Compatible && ChangeClass::Compatible < ChangeClass::Breaks);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeClass {
    /// Nothing changed that a run depends on.
    Same,
    /// Every run can go on, wherever it waits.
    Compatible,
    /// A run that waits at some position cannot go on.
    Breaks,
}

impl ChangeClass {
    /// Returns the class as a word.
    pub fn word(self) -> &'static str {
        match self {
            ChangeClass::Same => "same",
            ChangeClass::Compatible => "compatible",
            ChangeClass::Breaks => "breaks",
        }
    }
}

/// A change between two versions of a pipeline.
///
/// ```
/// use orchestra_graph::{Compatibility, Source, load};
/// let of = |text: &str| load(Source::new("a.dot", text), &Default::default());
/// let old = of("digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship] }");
/// let new = of("digraph { start -> work -> exit; work [type=work] }");
/// let found = Compatibility::between(&old, &new).expect("both are sound");
/// let change = found.breaking().next().expect("the gate is gone");
/// assert_eq!(change.to_string(), "`ask` was removed; a run that waits there cannot go on");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct VersionChange {
    /// The effect on unfinished runs.
    pub class: ChangeClass,
    /// The file of today that changed: the pipeline, or a child pipeline.
    pub file: String,
    /// The position in the file of today.
    #[serde(serialize_with = "position")]
    pub position: Position,
    /// The part that changed. For a break, the node or edge at which a run may wait.
    #[serde(flatten)]
    pub subject: Subject,
    /// The change, in one sentence.
    pub message: String,
    /// Further explanations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// A way to keep the runs of the earlier version; empty for a change that does not break them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub keep: String,
    #[serde(skip)]
    pub(crate) span: Span,
}

impl fmt::Display for VersionChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Serializes a position as `LINE:COLUMN`.
fn position<S: serde::Serializer>(position: &Position, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{}:{}", position.line, position.column))
}

/// Describes a change that breaks no run, in one sentence.
pub(super) fn describe(change: &Change) -> String {
    let names: Vec<String> = change
        .attributes
        .iter()
        .map(|attribute| format!("`{}`", attribute.name))
        .collect();
    let names = match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => "nothing".to_owned(),
    };
    let part = match &change.subject {
        Subject::Graph => return format!("{names} of the pipeline changed"),
        Subject::Node { id, .. } => format!("`{id}`"),
        Subject::Edge {
            from,
            to,
            label,
            condition,
        } => {
            let said = [label, condition].into_iter().find(|text| !text.is_empty());
            let said = said.map_or_else(String::new, |said| format!(" ({said})"));
            format!("the edge `{from} -> {to}`{said}")
        }
    };
    let is_node = matches!(change.subject, Subject::Node { .. });
    match change.what {
        What::Added => format!("{part} was added"),
        What::Removed if is_node => format!("{part} was removed; no run waits there"),
        What::Removed => format!("{part} was removed"),
        What::Reshaped => format!("{part} has another function in the flow; no run waits there"),
        What::Moved => format!("{part} is at another position in the file"),
        What::Changed => format!("{names} of {part} changed"),
    }
}
