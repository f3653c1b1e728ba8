//! The answers of a human gate: its outgoing edges (Attractor 4.6, rules H1, H4).

use crate::label::{accelerator_key, normalize_label};
use crate::model::{EdgeIndex, NodeIndex};
use crate::table::{Constant, EdgeRow, Pipeline};

/// One answer of a human gate.
///
/// ```
/// use orchestra_graph::{Source, choices, load};
/// let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label="[Y] Yes, ship"]; ask -> mend; mend -> ask }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let choices = choices(&pipeline, pipeline.find("ask").expect("declared"));
/// assert_eq!((choices[0].key.as_str(), choices[0].label.as_str()), ("Y", "[Y] Yes, ship"));
/// assert_eq!((choices[1].key.as_str(), choices[1].label.as_str()), ("M", "mend"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The edge; the first one where several conditions share a label.
    pub edge: EdgeIndex,
    /// The key that answers for it.
    pub key: String,
    /// What a person reads: the edge's label, else the id of its target.
    pub label: String,
    /// Where the edge leads.
    pub to: NodeIndex,
    /// Whether it takes any text (rule H4).
    pub freeform: bool,
}

impl Choice {
    /// Whether a text names this choice: by its key, its label with or without the key, or the target's id.
    ///
    /// ```
    /// use orchestra_graph::{Source, choices, load};
    /// let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label="[Y] Yes, ship"] }"#;
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let yes = &choices(&pipeline, pipeline.find("ask").expect("declared"))[0];
    /// for answer in ["y", "[Y] Yes, ship", "yes, ship", " Y "] {
    ///     assert!(yes.is_named_by(answer, "exit"), "{answer}");
    /// }
    /// assert!(!yes.is_named_by("ye", "exit") && !yes.is_named_by("", "exit"));
    /// ```
    pub fn is_named_by(&self, answer: &str, target: &str) -> bool {
        let answer = answer.trim();
        !answer.is_empty()
            && (self.key.to_lowercase() == answer.to_lowercase()
                || target == answer
                || normalize_label(&self.label) == normalize_label(answer))
    }
}

/// The answers of a human gate, in the order of the file (rule H1).
///
/// An edge with a condition but no label is decided by its condition and not by a person.
pub fn choices(pipeline: &Pipeline, gate: NodeIndex) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    for (at, edge) in pipeline.stage(gate).edges() {
        let freeform = is_freeform(pipeline, edge);
        if edge.label.is_empty() && edge.condition.is_some() && !freeform {
            continue;
        }
        let label = match &*edge.label {
            "" => pipeline.stage(edge.to).id(),
            label => label,
        };
        let known = |choice: &Choice| normalize_label(&choice.label) == normalize_label(label);
        if edge.condition.is_some() && choices.iter().any(known) {
            continue;
        }
        choices.push(Choice {
            edge: at,
            key: accelerator_key(label),
            label: label.to_owned(),
            to: edge.to,
            freeform,
        });
    }
    choices
}

fn is_freeform(pipeline: &Pipeline, edge: &EdgeRow) -> bool {
    let row = pipeline
        .attributes(edge.attributes)
        .iter()
        .find(|row| row.key == "freeform");
    row.is_some_and(|row| row.value == Constant::Boolean(true))
}
