//! The machine against the second reading of the rules, on random graphs and scripts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use orchestra_core::{Context, Effect, Event, Machine};
use orchestra_oracle_tests::driver::record;
use orchestra_oracle_tests::generate::SCRIPTS;
use orchestra_oracle_tests::shrink::shrink;
use orchestra_oracle_tests::{
    Case, Graph, Script, Step, Way, case_count, cases, load_drawn, reference, seed, trace_of,
};

fn differs(graph: &Graph, script: &Script) -> bool {
    load_drawn(graph, &graph.dot()).is_ok_and(|(pipeline, _)| {
        // Removing things may leave a graph that the reference cannot read; that is no smaller case.
        let expected = std::panic::catch_unwind(|| reference::run(graph, script));
        expected.is_ok_and(|mut expected| {
            let found = trace_of(pipeline, script);
            expected.settle(&found);
            expected != found
        })
    })
}

fn explain(case: &Case, script: &Script) -> String {
    let (pipeline, _) = load_drawn(&case.graph, &case.dot).unwrap();
    std::panic::set_hook(Box::new(|_| {}));
    let (graph, small) = shrink(&case.graph, script, differs);
    let _ = std::panic::take_hook();
    let (small_pipeline, _) = load_drawn(&graph, &graph.dot()).unwrap();
    format!(
        "the machine and the rules differ; again with ORACLE_SEED={} ORACLE_CASES=1\n{}\n{script:#?}\n\
         == machine\n{}\n== rules\n{}\n\n==== shrunk\n{}\n{small:#?}\n== machine\n{}\n== rules\n{}",
        case.seed,
        case.dot,
        trace_of(pipeline, script),
        reference::run(&case.graph, script),
        graph.dot(),
        trace_of(small_pipeline, &small),
        reference::run(&graph, &small),
    )
}

#[test]
fn machine_and_rules_give_the_same_trace() {
    let wanted = case_count(10_000);
    let (mut made, mut pairs) = (0, 0);
    let mut rejected: Vec<String> = Vec::new();
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    for case in cases(seed(1), wanted) {
        if pairs >= wanted {
            break;
        }
        made += 1;
        let pipeline = match load_drawn(&case.graph, &case.dot) {
            Ok((pipeline, _)) => std::sync::Arc::new(pipeline),
            Err(told) => {
                rejected.push(told);
                continue;
            }
        };
        for script in &case.scripts {
            pairs += 1;
            let mut expected = reference::run(&case.graph, script);
            let found = trace_of(pipeline.clone(), script);
            expected.settle(&found);
            if expected != found {
                panic!("{}", explain(&case, script));
            }
            let end = format!("{:?}", found.end);
            let kind = end.split([' ', '(']).next().unwrap_or_default();
            *seen.entry(format!("end {kind}")).or_default() += 1;
            for step in &found.steps {
                if let Step::Choice { rule, way, .. } = step {
                    *seen.entry(format!("rule {rule}")).or_default() += 1;
                    if let Way::Fail(fault) = way {
                        *seen.entry(format!("fault {fault}")).or_default() += 1;
                    }
                }
            }
        }
    }
    println!(
        "{made} graphs, {} rejected, {pairs} runs, {seen:#?}",
        rejected.len()
    );
    assert!(
        rejected.len() * 2 < made,
        "too many graphs are rejected: {:?}",
        &rejected[..3]
    );
    if wanted >= 10_000 {
        // A random test shows nothing of what it never meets.
        let rules = [
            "condition",
            "preferred_label",
            "suggested_next",
            "weight",
            "lowest_target",
            "only_edge",
            "failure_to_routing",
            "retry_target",
            "fallback_retry_target",
            "first_match",
            "end",
            "nothing",
        ];
        let ends = [
            "Success",
            "StageFailed",
            "NoMatchingEdge",
            "DeadEnd",
            "FailureEnd",
            "MaxVisits",
            "FailureBreaker",
            "Circular",
        ];
        let all = rules
            .map(|rule| format!("rule {rule}"))
            .into_iter()
            .chain(ends.map(|end| format!("end {end}")));
        for thing in all {
            let count = seen.get(&thing).copied().unwrap_or(0);
            assert!(count >= 50, "`{thing}` was met {count} times only");
        }
    }
}

fn text(effects: &[Effect]) -> Vec<String> {
    effects.iter().map(|effect| format!("{effect:?}")).collect()
}

#[test]
fn same_events_give_the_same_effects_from_every_prefix() {
    let wanted = case_count(10_000) / 20;
    for case in cases(seed(500_000), wanted / SCRIPTS) {
        let Ok((pipeline, _)) = load_drawn(&case.graph, &case.dot) else {
            continue;
        };
        // Each run has a table of its own: nothing may hang on which one it is.
        let (again, _) = load_drawn(&case.graph, &case.dot).unwrap();
        let (pipeline, again) = (std::sync::Arc::new(pipeline), std::sync::Arc::new(again));
        for script in &case.scripts {
            let one = record(pipeline.clone(), script);
            let other = record(again.clone(), script);
            let told = |turns: &[(Event, Vec<Effect>)]| -> Vec<Vec<String>> {
                turns.iter().map(|(_, effects)| text(effects)).collect()
            };
            assert_eq!(text(&one.first), text(&other.first), "seed {}", case.seed);
            assert_eq!(told(&one.turns), told(&other.turns), "seed {}", case.seed);
            assert_eq!(one.machine.state(), other.machine.state(), "seed {}", case.seed);
            let expected = told(&one.turns);
            let mut effects = Vec::new();
            let mut machine = Machine::start(again.clone(), Context::new(), 0, &mut effects);
            assert_eq!(text(&one.first), text(&effects), "seed {}", case.seed);
            let most = one.turns.len().min(40);
            for prefix in 0..most {
                // The state after the prefix holds all that the rest needs.
                let mut copy = machine.clone();
                for (at, (event, _)) in one.turns.iter().enumerate().skip(prefix) {
                    let mut effects = Vec::new();
                    copy.on(event.clone(), &mut effects);
                    assert_eq!(text(&effects), expected[at], "seed {} from {prefix}", case.seed);
                }
                assert_eq!(
                    copy.state(),
                    one.machine.state(),
                    "seed {} from {prefix}",
                    case.seed
                );
                let event = &one.turns[prefix].0;
                machine.on(event.clone(), &mut Vec::new());
                let before = machine.state().clone();
                let mut late = Vec::new();
                machine.on(event.clone(), &mut late);
                assert!(
                    late.is_empty() && *machine.state() == before,
                    "a late event changes nothing"
                );
            }
        }
    }
}

#[test]
fn cases_do_not_change_between_calls() {
    let text = || -> Vec<String> { cases(7, 20).map(|case| format!("{case:?}")).collect() };
    assert_eq!(text(), text());
    assert_eq!(
        format!("{:?}", cases(12, 1).next()),
        format!("{:?}", cases(7, 20).nth(5))
    );
}
