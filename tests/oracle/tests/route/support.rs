//! What the tests of the router share: what is known when an edge is chosen, and tables of decisions.

use std::collections::BTreeMap;

use orchestra_graph::condition::Facts;
use orchestra_graph::{Decision, Next, Pipeline, RouteError, route};
use orchestra_oracle_tests::{Script, ScriptedOutcome, unchecked_pipeline};
use serde_json::Value;

/// A pipeline of some statements, with start and exit by id.
pub(crate) fn pipeline(statements: &str) -> Pipeline {
    unchecked_pipeline(&format!("digraph {{ {statements} }}"))
        .unwrap_or_else(|reported| panic!("{statements}\n{reported}"))
}

/// What is known when an edge is chosen, written shortly.
#[derive(Clone, Default)]
pub(crate) struct Known {
    outcome: &'static str,
    label: &'static str,
    suggested: &'static [&'static str],
    context: BTreeMap<String, Value>,
    output: BTreeMap<String, Value>,
}

/// Returns what is known after a stage with this outcome.
pub(crate) fn known(outcome: &'static str) -> Known {
    Known {
        outcome,
        ..Known::default()
    }
}

pub(crate) fn success() -> Known {
    known("success")
}

pub(crate) fn failure() -> Known {
    known("fail")
}

impl Known {
    pub(crate) fn label(self, label: &'static str) -> Known {
        Known { label, ..self }
    }

    pub(crate) fn suggested(self, suggested: &'static [&'static str]) -> Known {
        Known { suggested, ..self }
    }

    pub(crate) fn with(mut self, key: &str, value: Value) -> Known {
        self.context.insert(key.to_owned(), value);
        self
    }

    pub(crate) fn output(mut self, key: &str, value: Value) -> Known {
        self.output.insert(key.to_owned(), value);
        self
    }
}

pub(crate) fn decide(pipeline: &Pipeline, node: &str, known: &Known) -> Decision {
    let suggested: Vec<String> = known.suggested.iter().map(|id| (*id).to_owned()).collect();
    let facts = Facts {
        outcome: known.outcome,
        preferred_label: known.label,
        failure_reason: if known.outcome == "fail" { "disk full" } else { "" },
        suggested_next_ids: &suggested,
        current_node: node,
        last_stage: node,
        context: &known.context,
        output: &known.output,
        ..Facts::default()
    };
    route(pipeline, pipeline.find(node).unwrap(), &facts)
}

/// Where a decision leads and by which rule, such as `fix by condition` or `fail stage_failed by nothing`.
pub(crate) fn reported(pipeline: &Pipeline, decision: &Decision) -> String {
    let way = match decision.next {
        Next::Edge(edge) => pipeline.stage(pipeline.edge(edge).to).id().to_owned(),
        Next::Jump(target) => format!("jump {}", pipeline.stage(target).id()),
        Next::End { success } => format!("end {success}"),
        Next::Fail(RouteError::StageFailed) => "fail stage_failed".to_owned(),
        Next::Fail(RouteError::NoMatchingEdge) => "fail no_matching_edge".to_owned(),
        Next::Fail(RouteError::DeadEnd) => "fail dead_end".to_owned(),
    };
    format!("{way} by {}", decision.rule.word())
}

/// Holds what is decided at `t` to a table.
pub(crate) fn table(statements: &str, rows: &[(Known, &str)]) {
    let pipeline = pipeline(&format!("start -> t; {statements}"));
    for (at, (known, expected)) in rows.iter().enumerate() {
        let decision = decide(&pipeline, "t", known);
        assert_eq!(
            reported(&pipeline, &decision),
            *expected,
            "row {at} of {statements}"
        );
        // One function of its arguments, nothing else.
        assert_eq!(decision, decide(&pipeline, "t", known));
    }
}

pub(crate) fn script(outcomes: &[(&str, ScriptedOutcome)]) -> Script {
    Script::new(outcomes.iter().map(|(node, said)| (*node, vec![said.clone()])))
}

pub(crate) fn failed() -> ScriptedOutcome {
    ScriptedOutcome::fail("disk full")
}
