//! Assertions against the real machine, on random graphs and scripts: no run breaks an assertion that was proved
//! (rules V1 to V3).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use orchestra_graph::{LoadOptions, Source, load};
use orchestra_oracle_tests::description::Node;
use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{End, Graph, Step, Trace, Way, case_count, cases, load_drawn, seed, trace_of};

/// An assertion.
#[derive(Clone, Debug)]
enum Claim {
    Requires {
        target: String,
        stage: String,
        result: Option<String>,
        since: Option<String>,
    },
    Handled(String),
}

impl Claim {
    fn text(&self) -> String {
        match self {
            Claim::Handled(stage) => format!("handled({stage})"),
            Claim::Requires {
                target,
                stage,
                result,
                since,
            } => {
                let result = result.as_ref().map(|result| format!("='{result}'"));
                let since = since.as_ref().map(|since| format!(", since={since}"));
                format!(
                    "requires({target}, {stage}{}{})",
                    result.unwrap_or_default(),
                    since.unwrap_or_default()
                )
            }
        }
    }
}

/// Makes an assertion about nodes of a graph.
fn claim(random: &mut Random, graph: &Graph) -> Claim {
    let node = |random: &mut Random| random.pick(&graph.nodes).id.clone();
    if random.chance(25) {
        return Claim::Handled(node(random));
    }
    // The start has always passed, so all depends on `since`.
    let is_start = |node: &&Node| {
        let shape = node
            .attributes
            .get("shape")
            .is_some_and(|shape| shape == "Mdiamond");
        shape || node.id.eq_ignore_ascii_case("start")
    };
    let start = graph.nodes.iter().find(is_start).filter(|_| random.chance(25));
    let stage = start.unwrap_or_else(|| random.pick(&graph.nodes)).clone();
    let is_gate = stage
        .attributes
        .get("shape")
        .is_some_and(|shape| shape == "hexagon");
    let labels: Vec<&String> = graph
        .edges
        .iter()
        .filter(|edge| edge.from == stage.id && !edge.attributes.contains_key("freeform"))
        .filter_map(|edge| edge.attributes.get("label"))
        .collect();
    let result = match (random.chance(50), is_gate) {
        (false, _) => None,
        (true, true) if labels.is_empty() => None,
        (true, true) => Some((*random.pick(&labels)).clone()),
        (true, false) => Some((*random.pick(&["success", "partial_success", "fail", "skipped"])).to_owned()),
    };
    Claim::Requires {
        target: if random.chance(25) {
            "exit".to_owned()
        } else {
            node(random)
        },
        stage: stage.id,
        result,
        since: (start.is_some() || random.chance(30)).then(|| node(random)),
    }
}

/// Returns the innermost branch around an attempt, as a choice names it, and the node.
fn place(name: &str) -> (&str, &str) {
    let name = match name
        .strip_prefix("restart-")
        .and_then(|rest| rest.split_once('/'))
    {
        Some((_, name)) => name,
        None => name,
    };
    let visit = name.rfind('#').unwrap_or(name.len());
    let (branch, node) = name[..visit].rsplit_once('/').unwrap_or(("", &name[..visit]));
    (branch, node)
}

/// Something that matters for a requirement.
enum Happened {
    Ended(bool),
    Stale,
}

/// Returns how often a run entered the target, and whether it ever did so against the requirement.
fn entered(trace: &Trace, claim: &Claim) -> (usize, bool) {
    let Claim::Requires {
        target,
        stage,
        result,
        since,
    } = claim
    else {
        return (0, false);
    };
    let mut latest: Option<Happened> = None;
    let mut answers: BTreeMap<&str, &str> = BTreeMap::new();
    let (mut count, mut broken, mut last) = (0, false, "");
    let met = |latest: &Option<Happened>| matches!(latest, Some(Happened::Ended(true)));
    for step in &trace.steps {
        match step {
            Step::Restart { .. } => latest = None,
            Step::Start(name) => {
                let node = place(name).1;
                last = node;
                if name.ends_with("/1") && node == target {
                    count += 1;
                    broken |= !met(&latest);
                }
                if since.as_deref() == Some(node) {
                    latest = Some(Happened::Stale);
                }
            }
            Step::Answered { name, answer } => drop(answers.insert(name, answer)),
            Step::Unanswered {
                name,
                default: Some(default),
            } => drop(answers.insert(name, default)),
            Step::Outcome {
                name,
                word,
                again: false,
                ..
            } if place(name).1 == stage => {
                let answer = answers.remove(name.as_str());
                let ended = match result {
                    None => word != "fail",
                    Some(result) => match answer {
                        Some(answer) => {
                            orchestra_graph::normalize_label(answer)
                                == orchestra_graph::normalize_label(result)
                        }
                        None => word == result,
                    },
                };
                latest = Some(Happened::Ended(ended));
            }
            _ => {}
        }
    }
    // A run may end as a success elsewhere.
    if trace.end == End::Success && target == "exit" && last != "exit" {
        count += 1;
        broken |= !met(&latest);
    }
    (count, broken)
}

/// Returns how often a stage failed for good, and whether the failure ever led nowhere.
fn failed(graph: &Graph, trace: &Trace, stage: &str) -> (usize, bool) {
    let routes = |id: &str| {
        let node = graph.nodes.iter().find(|node| node.id == id);
        node.is_some_and(|node| match node.attributes.get("type") {
            Some(kind) => kind == "conditional",
            None => node
                .attributes
                .get("shape")
                .is_some_and(|shape| shape == "diamond"),
        })
    };
    // The stage that failed last in each branch, while only routing nodes follow.
    let mut open: BTreeMap<String, String> = BTreeMap::new();
    let (mut count, mut lost) = (0, false);
    for step in &trace.steps {
        match step {
            Step::Outcome {
                name,
                word,
                again: false,
                ..
            } => {
                let (branch, node) = place(name);
                if word == "fail" {
                    count += usize::from(node == stage);
                    open.insert(branch.to_owned(), node.to_owned());
                } else if !routes(node) {
                    open.remove(branch);
                }
            }
            // The failure has led to the exit, from which a goal gate sends the run back.
            Step::Reroute { .. } => drop(open.remove("")),
            Step::Choice {
                branch,
                way: Way::Fail(_) | Way::End(false),
                ..
            } => lost |= open.get(branch).is_some_and(|node| node == stage),
            _ => {}
        }
    }
    (count, lost)
}

/// The number of assertions for each graph.
const CLAIMS: usize = 12;

#[derive(Default, Debug)]
struct Counted {
    proved: usize,
    refused: usize,
    /// How often a run came to the target of a proved assertion, or handled a failure.
    used: usize,
    /// The refused assertions that one of the four scripts breaks.
    broken: usize,
}

#[test]
fn no_run_breaks_an_assertion_that_was_proved() {
    let wanted = case_count(1_500);
    let mut counted = [Counted::default(), Counted::default()];
    for case in cases(seed(20_000), wanted) {
        let Ok((pipeline, others)) = load_drawn(&case.graph, &case.dot) else {
            continue;
        };
        if !others.is_empty() || case.graph.attributes.contains_key("assert") {
            continue;
        }
        let mut random = Random::new(case.seed);
        let claims: Vec<Claim> = (0..CLAIMS).map(|_| claim(&mut random, &case.graph)).collect();
        let texts: Vec<String> = claims.iter().map(Claim::text).collect();
        let mut graph = case.graph.clone();
        graph.attributes.insert("assert".to_owned(), texts.join("; "));
        let dot = graph.dot();
        let report = load(Source::new("oracle.dot", dot.as_str()), &LoadOptions::default()).report;
        // Joins that the text alone does not determine.
        let drawn = load_drawn(&case.graph, &case.graph.dot()).map(|(_, others)| others.is_empty());
        if drawn != Ok(true) || report.errors().any(|error| error.code != "assertion_failed") {
            continue;
        }
        let refused: Vec<&str> = report
            .errors()
            .map(|error| &dot[error.span.start as usize..error.span.end as usize])
            .collect();
        let traces: Vec<Trace> = case
            .scripts
            .iter()
            .map(|script| trace_of(pipeline.clone(), script))
            .collect();
        for (claim, text) in claims.iter().zip(&texts) {
            let (at, found): (usize, Vec<(usize, bool)>) = match claim {
                Claim::Handled(stage) => (
                    1,
                    traces
                        .iter()
                        .map(|trace| failed(&case.graph, trace, stage))
                        .collect(),
                ),
                Claim::Requires { .. } => (0, traces.iter().map(|trace| entered(trace, claim)).collect()),
            };
            let broken = found.iter().any(|(_, broken)| *broken);
            let counted = &mut counted[at];
            if refused.contains(&text.as_str()) {
                counted.refused += 1;
                counted.broken += usize::from(broken);
                continue;
            }
            counted.proved += 1;
            counted.used += found.iter().map(|(count, _)| count).sum::<usize>();
            if broken {
                let at = found.iter().position(|(_, broken)| *broken).unwrap();
                panic!(
                    "`{text}` was proved, but a run breaks it; again with ORACLE_SEED={} ORACLE_CASES=1\n{}\n{}",
                    case.seed, case.dot, traces[at]
                );
            }
        }
    }
    println!("requires {:?}, handled {:?}", counted[0], counted[1]);
    // Otherwise the test would show nothing.
    for counted in counted.iter().filter(|_| wanted >= 1_500) {
        assert!(
            counted.proved > 100 && counted.used > 100 && counted.refused > 100 && counted.broken > 50,
            "{counted:?}"
        );
    }
}
