//! Tests of routing from a fan-out, and of its branches (rules P1, P2, R3).

use std::collections::BTreeMap;

use orchestra_graph::condition::Facts;
use orchestra_graph::{
    Decision, Next, NodeIndex, Pipeline, RouteError, Rule, Source, branch_id, branches, load, route,
};
use serde_json::Value;

fn pipeline(statements: &str) -> Pipeline {
    let text = format!("digraph {{ {statements} }}");
    let loaded = load(Source::new("fan.dot", text), &Default::default());
    let reported = loaded.report.diagnostics.clone();
    loaded.pipeline().unwrap_or_else(|| panic!("{reported:#?}"))
}

fn at(pipeline: &Pipeline, id: &str) -> NodeIndex {
    pipeline.find(id).unwrap_or_else(|| panic!("no {id}"))
}

fn decided(pipeline: &Pipeline, outcome: &str) -> Decision {
    let facts = Facts {
        outcome,
        suggested_next_ids: &["b".to_owned()],
        preferred_label: "B",
        ..Facts::default()
    };
    route(pipeline, at(pipeline, "fan"), &facts)
}

/// Returns a fan-out of two branches that join at `join`. Labels and conditions on its edges no longer choose anything.
fn block(fan: &str, join: &str) -> String {
    format!(
        "start -> fan; fan [shape=component{fan}]; join [{join}]; mend [label=M]; last [label=L]
        fan -> a; fan -> b [label=B, weight=9, condition=\"outcome=success\"]
        a [label=A]; b [label=B]; a -> join; b -> join; join -> exit; mend -> exit; last -> exit"
    )
}

const FAN_IN: &str = "shape=tripleoctagon";

#[test]
fn joined_branches_lead_to_the_join_in_both_dialects() {
    for dialect in ["", "routing=first_match; "] {
        let pipeline = pipeline(
            &(dialect.to_owned() + &block("", FAN_IN))
                .replace("mend -> exit; last -> exit", "")
                .replace("mend [label=M]; last [label=L]", ""),
        );
        for outcome in ["success", "partial_success", "skipped"] {
            let decision = decided(&pipeline, outcome);
            assert_eq!(
                decision.next,
                Next::Jump(at(&pipeline, "join")),
                "{dialect}{outcome}"
            );
            assert_eq!(decision.rule, Rule::Join);
            assert!(decision.tested.is_empty());
        }
        assert_eq!(
            decided(&pipeline, "success").describe(&pipeline, at(&pipeline, "fan")),
            "fan -> join (branches joined)"
        );
    }
    assert_eq!((Rule::Join.word(), Rule::GoalGate.word()), ("join", "goal_gate"));
}

#[test]
fn a_failed_block_takes_the_first_way_that_is_open() {
    for dialect in ["", "routing=first_match; "] {
        let failed = |statements: &str| {
            let pipeline = pipeline(&format!(
                "{dialect}retry_target=mend; fallback_retry_target=last; {statements}"
            ));
            let decision = decided(&pipeline, "fail");
            let next = match decision.next {
                Next::Jump(to) => pipeline.stage(to).id().to_owned(),
                other => format!("{other:?}"),
            };
            (next, decision.rule)
        };
        let jumps = ", retry_target=mend, fallback_retry_target=last";
        let (join, mend, last) = ("join".to_owned(), "mend".to_owned(), "last".to_owned());
        assert_eq!(
            failed(&block(jumps, "shape=diamond")),
            (join.clone(), Rule::FailureToRouting)
        );
        let route = format!("{jumps}, on_failure=route");
        assert_eq!(
            failed(&block(&route, "shape=diamond")),
            (join.clone(), Rule::FailureToRouting)
        );
        assert_eq!(failed(&block(&route, FAN_IN)), (join, Rule::Join));
        assert_eq!(failed(&block(jumps, FAN_IN)), (mend, Rule::RetryTarget));
        assert_eq!(
            failed(&block(", fallback_retry_target=last", FAN_IN)),
            (last, Rule::FallbackRetryTarget)
        );
        // The targets of the graph are for goal gates (rule R7).
        let nothing = format!("{:?}", Next::Fail(RouteError::StageFailed));
        assert_eq!(failed(&block("", FAN_IN)), (nothing, Rule::Nothing));
    }
}

#[test]
fn branches_are_the_edges_whose_condition_is_absent_or_holds() {
    for dialect in ["", "routing=first_match; "] {
        let pipeline = pipeline(&format!(
            "{dialect}start -> fan; fan [shape=component]; fan -> a; fan -> b [condition=\"context.deep=yes\"]
            fan -> c [condition=\"outcome=success\"]; fan -> a [condition=\"context.deep=no\"]; fan -> join
            a [label=A]; b [label=B]; c [label=C]; a -> join; b -> join; c -> join; join [shape=tripleoctagon]; join -> exit"
        ));
        for (at, edge) in pipeline.edges.iter().enumerate() {
            let earlier = pipeline.edges[..at].iter();
            let parallel = earlier.filter(|other| (other.from, other.to) == (edge.from, edge.to));
            assert_eq!(edge.parallel_index as usize, parallel.count(), "edge {at}");
        }
        let fan = at(&pipeline, "fan");
        let run = |deep: &str| {
            let context = BTreeMap::from([("deep".to_owned(), Value::from(deep))]);
            let facts = Facts {
                outcome: "success",
                context: &context,
                ..Facts::default()
            };
            let (edges, tested) = branches(&pipeline, fan, &facts);
            let ids: Vec<String> = edges.iter().map(|edge| branch_id(&pipeline, *edge)).collect();
            let held: Vec<bool> = tested.iter().map(|tested| tested.held).collect();
            (ids.join(" "), held)
        };
        assert_eq!(run("yes"), ("a b c join".to_owned(), vec![true, true, false]));
        // The id does not depend on the edges that run.
        assert_eq!(run("no"), ("a c a~2 join".to_owned(), vec![false, true, true]));
        assert_eq!(
            branches(&pipeline, NodeIndex(99), &Facts::default()),
            (Vec::new(), Vec::new())
        );
    }
}
