//! Limits against the real machine, on random graphs and scripts: no run exceeds them (rule V4).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use orchestra_core::{ExploreOptions, explore};
use orchestra_graph::{LoadOptions, RunLimits, Source, load};
use orchestra_oracle_tests::random::Random;
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

/// Returns a small pipeline whose limits are so low that all its runs can be explored.
fn small(random: &mut Random) -> String {
    let mut text = format!(
        "digraph small {{ graph [max_node_visits={}, max_restarts={}, max_goal_gate_reroutes={}{}]
         start [shape=Mdiamond]; exit [shape=Msquare]\n",
        random.between(2, 4),
        random.between(0, 2),
        random.between(0, 2),
        if random.chance(20) {
            ", routing=first_match"
        } else {
            ""
        },
    );
    let first_match = text.contains("first_match");
    let count = random.between(2, 5);
    let has_gates = random.chance(25);
    for at in 0..count {
        let mut attributes = vec!["shape=box".to_owned()];
        if random.chance(30) {
            attributes.push(format!("max_visits={}", random.between(1, 3)));
        }
        if random.chance(25) {
            attributes.push(format!("max_retries={}", random.between(1, 2)));
        }
        if random.chance(15) {
            attributes.push(format!("retry_target=n{}", random.between(0, count - 1)));
        }
        if has_gates && random.chance(30) {
            attributes.push(format!(
                "goal_gate=true, retry_target=n{}",
                random.between(0, count - 1)
            ));
        }
        text.push_str(&format!("n{at} [{}]\n", attributes.join(", ")));
    }
    let has_block = random.chance(35);
    if has_block {
        let shared = if random.chance(40) { "x" } else { "y" };
        let policy = *random.pick(&[
            "",
            ", error_policy=fail_fast",
            ", error_policy=fail_fast, max_retries=1",
        ]);
        let loops = if random.chance(40) {
            "x -> x [condition=\"outcome=skipped\"];"
        } else {
            ""
        };
        text.push_str(&format!(
            "fan [shape=component, max_visits=2{policy}]; x [max_visits={}]; y; join [shape=tripleoctagon]
             start -> fan; fan -> x; fan -> {shared}; {loops} x -> join; y -> join; join -> n0\n",
            random.between(1, 2)
        ));
        if shared == "x" {
            text.push_str("fan -> y\n");
        }
        if random.chance(30) {
            text.push_str(&format!(
                "n{} -> fan [condition=\"outcome=fail\"]\n",
                random.between(0, count - 1)
            ));
        }
    } else {
        text.push_str("start -> n0\n");
    }
    for at in 0..count {
        let next = if at + 1 < count {
            format!("n{}", at + 1)
        } else {
            "exit".to_owned()
        };
        text.push_str(&format!(
            "n{at} -> {next}{}\n",
            if first_match {
                " [condition_type=success]"
            } else {
                ""
            }
        ));
        if random.chance(60) {
            let to = random.between(0, count - 1);
            let mut attributes = Vec::new();
            if first_match {
                attributes.push("condition_type=failure".to_owned());
                if random.chance(60) {
                    attributes.push("allow_revisit=true".to_owned());
                    if random.chance(50) {
                        attributes.push(format!("max_revisits={}", random.between(1, 2)));
                    }
                }
            } else {
                let more = match random.below(4) {
                    0 => format!(" && visits.n{at} < {}", random.between(1, 3)),
                    1 => format!(" && visits.n{to} <= {}", random.between(1, 3)),
                    _ => String::new(),
                };
                attributes.push(format!("condition=\"outcome=fail{more}\""));
                if random.chance(20) {
                    attributes.push("loop_restart=true".to_owned());
                }
            }
            text.push_str(&format!("n{at} -> n{to} [{}]\n", attributes.join(", ")));
        }
        if random.chance(25) && !first_match {
            text.push_str(&format!(
                "n{at} -> n{} [condition=\"outcome=skipped\"]\n",
                random.between(0, count - 1)
            ));
        }
    }
    text.push('}');
    text
}

/// Counts how many limits are the true maximum, and how many are at most twice that.
#[derive(Default, Debug)]
struct Tightness {
    all: usize,
    exact: usize,
    at_most_twice: usize,
}

impl Tightness {
    fn add(&mut self, limit: u64, most: u64) {
        self.all += 1;
        self.exact += usize::from(limit == most);
        self.at_most_twice += usize::from(limit <= 2 * most);
    }

    fn share(&self, count: usize) -> f64 {
        count as f64 / self.all.max(1) as f64
    }
}

#[test]
fn limits_are_close_to_the_most_that_any_run_does() {
    let wanted = case_count(400);
    let first = seed(70_000);
    let options = ExploreOptions {
        max_states: 30_000,
        counts_all: true,
    };
    let (mut nodes, mut looped, mut sums) =
        (Tightness::default(), Tightness::default(), Tightness::default());
    let mut explored = 0;
    for case in 0..wanted as u64 {
        let text = small(&mut Random::new(first + case));
        let loaded = load(Source::new("small.dot", text.as_str()), &LoadOptions::default());
        let Some(limits) = loaded.limits() else {
            continue;
        };
        let found = explore(&loaded, &options).unwrap();
        assert!(
            found.violations.is_empty(),
            "{:#?}; again with ORACLE_SEED={} ORACLE_CASES=1\n{text}\n{limits:#?}",
            found.violations,
            first + case
        );
        if !found.is_complete {
            continue;
        }
        explored += 1;
        for (limit, [_, attempts]) in limits.nodes.iter().zip(&found.most) {
            nodes.add(limit.attempts, u64::from(*attempts));
            if limit.attempts > 1 {
                looped.add(limit.attempts, u64::from(*attempts));
            }
        }
        sums.add(limits.attempts, found.most_in_all[1]);
    }
    let show = |what: &str, of: &Tightness| {
        println!(
            "{what}: {} of {} exact ({:.1} %), {:.1} % at most twice",
            of.exact,
            of.all,
            100.0 * of.share(of.exact),
            100.0 * of.share(of.at_most_twice)
        );
    };
    println!("{explored} of {wanted} pipelines explored completely");
    show("nodes", &nodes);
    show("nodes with a limit above 1", &looped);
    show("all attempts of a run", &sums);
    // The targets are 80 % and twice the maximum; a few pipelines do not say much.
    if wanted >= 400 {
        assert!(nodes.share(nodes.exact) > 0.85 && nodes.share(nodes.at_most_twice) > 0.95);
        assert!(sums.share(sums.at_most_twice) > 0.95);
    }
}

#[test]
fn every_example_is_explored() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut files = Vec::new();
    let mut folders = vec![std::path::PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                Some(extension) if extension == "dot" => files.push(path),
                _ if path.is_dir() => folders.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    assert!(files.len() >= 10);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let loaded = load(Source::new("example.dot", text.as_str()), &LoadOptions::default());
        // The examples whose child pipelines are in other files are explored by the program.
        let Some(found) = explore(&loaded, &ExploreOptions::default()) else {
            continue;
        };
        assert!(found.is_complete, "{}", file.display());
        assert_eq!(found.violations, [""; 0], "{}", file.display());
    }
}
