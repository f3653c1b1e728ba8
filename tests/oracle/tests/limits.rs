//! Limits against the real machine, on random graphs and scripts: no run exceeds them (rule V4).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use orchestra_graph::{LoadOptions, RunLimits, Source, load};
use orchestra_oracle_tests::{Graph, Step, Trace, case_count, cases, load_drawn, node_of, seed, trace_of};

/// Returns the limits of a drawn graph. Returns `None` if its text alone does not determine its joins.
fn limits(graph: &Graph) -> Option<RunLimits> {
    let dot = graph.dot();
    let (_, others) = load_drawn(graph, &dot).ok()?;
    if !others.is_empty() {
        return None;
    }
    let loaded = load(Source::new("oracle.dot", dot.as_str()), &LoadOptions::default());
    loaded.limits()
}

/// Counts the visits and the attempts of each node.
fn counted(trace: &Trace) -> BTreeMap<&str, (u64, u64)> {
    let mut counted: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for step in &trace.steps {
        if let Step::Start(name) = step {
            let (visits, attempts) = counted.entry(node_of(name)).or_default();
            *visits += u64::from(name.ends_with("/1"));
            *attempts += 1;
        }
    }
    counted
}

#[test]
fn no_run_exceeds_the_limits() {
    let wanted = case_count(3_000);
    let (mut runs, mut reached, mut looped, mut exact) = (0, 0, 0, 0);
    for case in cases(seed(40_000), wanted) {
        let Ok((pipeline, others)) = load_drawn(&case.graph, &case.dot) else {
            continue;
        };
        if !others.is_empty() {
            continue;
        }
        let Some(limits) = limits(&case.graph) else {
            continue;
        };
        for script in &case.scripts {
            let trace = trace_of(pipeline.clone(), script);
            let counted = counted(&trace);
            let fail = |what: &str| {
                panic!(
                    "{what}; again with ORACLE_SEED={} ORACLE_CASES=1\n{}\n{trace}\n{counted:?}\n{limits:#?}",
                    case.seed, case.dot
                )
            };
            runs += 1;
            for (node, (visits, attempts)) in &counted {
                let limit = limits.node(node).unwrap();
                if *visits > limit.visits {
                    fail(&format!("`{node}` has {visits} visits"));
                }
                if *attempts > limit.attempts {
                    fail(&format!("`{node}` has {attempts} attempts"));
                }
                reached += 1;
                looped += usize::from(limit.attempts > 1);
                exact += usize::from(limit.attempts > 1 && limit.attempts == *attempts);
            }
            let visits: u64 = counted.values().map(|(visits, _)| visits).sum();
            let attempts: u64 = counted.values().map(|(_, attempts)| attempts).sum();
            if visits > limits.visits || attempts > limits.attempts {
                fail(&format!("the run has {visits} visits and {attempts} attempts"));
            }
        }
    }
    println!(
        "{runs} runs, {reached} nodes reached, {looped} of them with more than one attempt, {exact} at their limit"
    );
    if wanted >= 3_000 {
        assert!(runs > 2_000 && looped > 1_000 && exact > 100);
    }
}
