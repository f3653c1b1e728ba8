//! The machine against the second reading of the rules, on random graphs and scripts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use orchestra_oracle_tests::coverage::Coverage;
use orchestra_oracle_tests::shrink::shrink;
use orchestra_oracle_tests::{
    Case, Graph, Script, bounds, case_count, cases, load_drawn, reference, seed, trace_of,
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

/// What is rarer, with how many runs must show it.
const RARE: &[(&str, usize)] = &[
    ("rule partial_as_success", 10),
    ("a default that is withheld", 5),
    ("a branch fails at a dead end", 25),
    ("a reroute from a success end", 5),
    ("a terminal failure is not made partial", 25),
];

/// What at least fifty of ten thousand runs must show.
const SHOWN: &[&str] = &[
    "end Success",
    "end StageFailed",
    "end NoMatchingEdge",
    "end DeadEnd",
    "end FailureEnd",
    "end MaxVisits",
    "end FailureBreaker",
    "end Circular",
    "end GoalGate, target true",
    "end GoalGate, target false",
    "end MaxRestarts",
    "end WaitsForHuman",
    "rule condition",
    "rule preferred_label",
    "rule suggested_next",
    "rule weight",
    "rule lowest_target",
    "rule only_edge",
    "rule choice",
    "a choice is withheld",
    "a choice of several edges",
    "a gate offers no choice",
    "visits of a stage decide",
    "an outcome of a stage decide",
    "rule failure_to_routing",
    "rule retry_target",
    "rule fallback_retry_target",
    "rule first_match",
    "rule join",
    "rule goal_gate",
    "rule end",
    "rule nothing",
    "an attempt that ends as fail and is followed by another",
    "an attempt that ends as retry and is followed by another",
    "the last of several attempts ends as success",
    "the last of several attempts ends as fail",
    "a terminal failure is not tried again",
    "an exhausted attempt is made partial",
    "a wait",
    "a wait of no time",
    "a wait of the longest time",
    "a wait is cancelled",
    "a reroute",
    "a reroute by a condition, of the exit false",
    "a reroute by a condition, of the exit true",
    "a restart",
    "a restart from a branch",
    "a run ends from within a block",
    "a block that joins at a fan-in",
    "a block that joins at a routing node",
    "a block that joins at a plain node",
    "a block that shares its join",
    "a block without branches",
    "a block that runs once more",
    "a block is tried again",
    "a block times out",
    "a block ends as success",
    "a block ends as partial_success",
    "a block ends as fail",
    "a nested block",
    "a block two deep",
    "a list without items",
    "a list with one item",
    "a list with several items",
    "a list with too many items",
    "a list that is none",
    "a branch whose condition is false",
    "a branch that waits for another",
    "a second branch to one node",
    "a branch ends as success",
    "a branch ends as partial_success",
    "a branch ends as fail",
    "a branch ends as cancelled",
    "a branch that runs is cancelled",
    "a branch fails by a stage",
    "a branch fails by its edges",
    "a branch fails at an end",
    "a branch fails by leading back",
    "a branch fails by going in a circle",
    "a further visit in a branch",
    "a success end in a branch",
    "a human gate in a branch",
    "a choice is made",
    "a text is given",
    "a question is skipped",
    "a question is cancelled",
    "silence stands for a choice",
    "silence wants another attempt",
];

/// What a part of the cases gave.
#[derive(Default)]
struct Compared {
    made: usize,
    rejected: Vec<String>,
    runs: usize,
    coverage: Coverage,
}

/// Compares every second case from a seed on, until there are as many runs as wanted.
fn compare(first: u64, wanted: usize) -> Compared {
    let mut compared = Compared::default();
    let seeds = (first..).step_by(2).take(wanted);
    for case in seeds.flat_map(|seed| cases(seed, 1)) {
        if compared.runs >= wanted {
            break;
        }
        compared.made += 1;
        let pipeline = match load_drawn(&case.graph, &case.dot) {
            Ok((pipeline, others)) => {
                assert_eq!(others, [""; 0], "joins of seed {}\n{}", case.seed, case.dot);
                Arc::new(pipeline)
            }
            Err(reported) => {
                compared.rejected.push(reported);
                continue;
            }
        };
        for script in &case.scripts {
            compared.runs += 1;
            let mut expected = reference::run(&case.graph, script);
            let found = trace_of(pipeline.clone(), script);
            expected.settle(&found);
            if expected != found {
                panic!("{}", explain(&case, script));
            }
            bounds::hold(&case.graph, &found);
            compared.coverage.add(&case.graph, &found);
        }
    }
    compared
}

#[test]
fn machine_and_rules_give_the_same_trace() {
    let wanted = case_count(10_000);
    let first = seed(1);
    let [mut all, other] = std::thread::scope(|scope| {
        let half = |at: u64, wanted| scope.spawn(move || compare(first + at, wanted));
        let halves = [half(0, wanted.div_ceil(2)), half(1, wanted / 2)];
        halves.map(|half| {
            half.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    });
    all.made += other.made;
    all.runs += other.runs;
    all.rejected.extend(other.rejected);
    all.coverage.join(other.coverage);
    println!("{} graphs, {} runs, {:#?}", all.made, all.runs, all.coverage);
    assert!(
        all.rejected.len() * 10 <= all.made,
        "too many graphs are rejected: {:?}",
        &all.rejected[..3]
    );
    // The numbers are those of the cases that every run of the suite takes.
    if wanted == 10_000 && first == 1 {
        assert_eq!(all.coverage.missing(50, SHOWN.iter().copied()), [""; 0]);
        for (thing, least) in RARE {
            assert_eq!(all.coverage.missing(*least, [*thing]), [""; 0]);
        }
        for join in ["wait_all", "k_of_n", "first_success", "quorum"] {
            for error in ["continue", "ignore", "fail_fast"] {
                let policies = format!("policy {join} {error}");
                assert_eq!(all.coverage.missing(100, [policies.as_str()]), [""; 0]);
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
