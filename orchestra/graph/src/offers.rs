//! The choices that a human gate offers, by the conditions of its edges (rule H5).

use serde_json::{Map, Value};

use crate::choice::{Choice, choices};
use crate::condition::{Facts, Lookup};
use crate::model::{EdgeIndex, NodeIndex};
use crate::route::{Tested, edge_of_choice};
use crate::table::Pipeline;

/// The choices that a human gate offers, and those that it withholds (rule H5).
///
/// ```
/// use orchestra_graph::condition::Facts;
/// use orchestra_graph::{Source, load, offers};
/// let text = r#"digraph { start -> ask; ask [shape=hexagon]
///     ask -> exit [label="[A] Approve", condition="context.tests_passed"]; ask -> mend [label="Reject"]; mend -> ask }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let offers = offers(&pipeline, pipeline.find("ask").expect("declared"), &Facts::default());
/// assert_eq!(offers.offered[0].label, "Reject");
/// assert_eq!(offers.withheld[0].choice.label, "[A] Approve");
/// assert_eq!(offers.withheld[0].tested[0].values[0].0, "context.tests_passed");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// The choices that a person may make, in the order of the file. Edge and target are those that the choice would
    /// follow.
    pub offered: Vec<Choice>,
    /// The choices without an edge whose condition is true.
    pub withheld: Vec<Withheld>,
}

/// A choice that is not offered, because the condition of none of its edges is true.
///
/// ```
/// use orchestra_graph::condition::Facts;
/// use orchestra_graph::{Source, load, offers};
/// let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship, condition="context.ready"]
///     ask -> mend [label=Fix]; mend -> ask }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let withheld = offers(&pipeline, pipeline.find("ask").expect("declared"), &Facts::default()).withheld;
/// assert_eq!((withheld[0].choice.key.as_str(), withheld[0].tested.len()), ("S", 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// The choice.
    pub choice: Choice,
    /// The conditions that are false, with the values that they read.
    pub tested: Vec<Tested>,
}

/// Returns the choices that a human gate offers (rule H5).
///
/// Each condition is evaluated as if its choice had been made: `outcome`, `preferred_label` and `human.gate.*` have the
/// values of that answer, given by a person. A condition on the text that a person has yet to write cannot be decided
/// before the answer, so it never withholds a choice.
pub fn offers(pipeline: &Pipeline, gate: NodeIndex, facts: &Facts<'_>) -> Offers {
    let mut offers = Offers::default();
    for choice in choices(pipeline, gate) {
        let target = [pipeline.stage(choice.to).id().to_owned()];
        let id = pipeline.stage(gate).id();
        let answered = Answered::new(&choice, id, facts.context);
        let as_if = Facts {
            outcome: "success",
            preferred_label: &choice.label,
            failure_reason: "",
            suggested_next_ids: &target,
            current_node: id,
            last_stage: id,
            context: &answered,
            output: &answered.gate,
            stages: facts.stages,
        };
        let mut tested = Vec::new();
        let edge = edge_of_choice(pipeline, gate, &as_if, &mut tested).or_else(|| {
            let undecided = |tested: &Tested| choice.freeform && reads_text(pipeline, tested.edge);
            tested
                .iter()
                .find(|tested| undecided(tested))
                .map(|tested| tested.edge)
        });
        match edge {
            Some(edge) => offers.offered.push(Choice {
                edge,
                to: pipeline.edge(edge).to,
                ..choice
            }),
            None => offers.withheld.push(Withheld { choice, tested }),
        }
    }
    offers
}

/// The context key of the text that a person wrote.
const TEXT: &str = "human.gate.text";

/// Returns whether the condition of an edge reads the text of an answer.
fn reads_text(pipeline: &Pipeline, edge: EdgeIndex) -> bool {
    let condition = pipeline.condition(pipeline.edge(edge));
    condition.is_some_and(|condition| condition.keys().any(|key| key.ends_with(TEXT)))
}

/// A context in which a choice has been made.
struct Answered<'c> {
    /// The keys that the gate sets.
    gate: Map<String, Value>,
    /// The keys that the engine sets after the answer.
    engine: Map<String, Value>,
    context: &'c (dyn Lookup + Sync),
}

impl<'c> Answered<'c> {
    fn new(choice: &Choice, gate: &str, context: &'c (dyn Lookup + Sync)) -> Answered<'c> {
        let gives = [
            ("human.gate.selected", choice.key.as_str()),
            ("human.gate.label", choice.label.as_str()),
            ("human.gate.answered_by", "person"),
        ];
        let sets = [
            ("outcome", "success"),
            ("preferred_label", choice.label.as_str()),
            ("last_stage", gate),
        ];
        let map = |pairs: [(&str, &str); 3]| {
            let pairs = pairs.map(|(key, value)| (key.to_owned(), Value::from(value)));
            pairs.into_iter().collect()
        };
        Answered {
            gate: map(gives),
            engine: map(sets),
            context,
        }
    }
}

impl Lookup for Answered<'_> {
    fn lookup(&self, key: &str) -> Option<&Value> {
        match key {
            TEXT => None,
            _ => {
                let known = self.gate.get(key).or_else(|| self.engine.get(key));
                known.or_else(|| self.context.lookup(key))
            }
        }
    }
}
