//! What a run shows: a random test shows nothing of what it never meets, so what it meets is counted.

use std::collections::{BTreeMap, BTreeSet};

use crate::description::{Attributes, Graph};
use crate::trace::{End, Step, Trace, Way, node_of};

/// How many runs show each thing.
#[derive(Clone, Debug, Default)]
pub struct Coverage(BTreeMap<String, usize>);

impl Coverage {
    /// Counts what a run shows.
    pub fn add(&mut self, graph: &Graph, trace: &Trace) {
        for thing in things(graph, trace) {
            *self.0.entry(thing).or_default() += 1;
        }
    }

    /// Takes over what was counted elsewhere.
    pub fn join(&mut self, other: Coverage) {
        for (thing, runs) in other.0 {
            *self.0.entry(thing).or_default() += runs;
        }
    }

    /// The things that fewer runs than wanted show, with how many do.
    pub fn missing<'a>(&self, least: usize, wanted: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let count = |thing: &str| self.0.get(thing).copied().unwrap_or(0);
        let wanted = wanted.into_iter().filter(|thing| count(thing) < least);
        wanted.map(|thing| format!("{thing}: {}", count(thing))).collect()
    }
}

fn of<'a>(attributes: &'a Attributes, key: &str) -> &'a str {
    attributes.get(key).map_or("", String::as_str)
}

fn attributes<'a>(graph: &'a Graph, id: &str) -> &'a Attributes {
    let node = graph.nodes.iter().find(|node| node.id == id);
    &node.expect("a node of the graph").attributes
}

/// The branch of an attempt; empty for the main line.
fn branch_of(name: &str) -> &str {
    let name = match name.strip_prefix("restart-") {
        Some(rest) => rest.split_once('/').map_or("", |(_, rest)| rest),
        None => name,
    };
    name.rsplit_once('/')
        .and_then(|(before, _)| before.rsplit_once('/'))
        .map_or("", |(branch, _)| branch)
}

/// What a run shows.
fn things(graph: &Graph, trace: &Trace) -> BTreeSet<String> {
    let mut things = BTreeSet::new();
    let mut show = |thing: String| {
        things.insert(thing);
    };
    show(format!("end {}", trace.end.kind()));
    if let End::GoalGate { limit, .. } = trace.end {
        show(format!("end GoalGate, target {}", limit.is_some()));
    }
    let mut last_choice = "";
    for (at, step) in trace.steps.iter().enumerate() {
        match step {
            Step::Choice {
                branch,
                from,
                way,
                rule,
                ..
            } => {
                last_choice = branch;
                show(format!("rule {rule}"));
                let edges = graph.edges.iter().filter(|edge| edge.from == *from);
                let condition = |position: usize| {
                    let edge = edges.clone().nth(position);
                    edge.map_or("", |edge| of(&edge.attributes, "condition"))
                };
                if let Way::Edge { position, .. } = way {
                    for (key, kind) in [("visits.", "visits"), ("stages.", "an outcome")] {
                        if condition(*position).starts_with(key) {
                            show(format!("{kind} of a stage decide"));
                        }
                    }
                }
                if let Way::Fail(problem) = way {
                    show(format!("fault {problem}"));
                }
                if *way == Way::End(true) && !branch.is_empty() {
                    show("a success end in a branch".to_owned());
                }
            }
            Step::Start(name) => {
                let branch = branch_of(name);
                let is = |kind: &str, shape: &str| {
                    let own = attributes(graph, node_of(name));
                    of(own, "type") == kind || of(own, "type").is_empty() && of(own, "shape") == shape
                };
                if branch.is_empty() {
                    continue;
                }
                if is("wait.human", "hexagon") {
                    show("a human gate in a branch".to_owned());
                }
                if !name.contains("#1/") {
                    show("a further visit in a branch".to_owned());
                }
            }
            Step::Outcome {
                name,
                word,
                reason,
                again,
            } => {
                if reason.starts_with("the gate offers no choice") {
                    show("a gate offers no choice".to_owned());
                }
                let own = attributes(graph, node_of(name));
                let attempt = name.rsplit('/').next();
                let more = of(own, "max_retries")
                    .parse()
                    .is_ok_and(|retries: u32| retries > 0);
                if *again {
                    show(format!(
                        "an attempt that ends as {word} and is followed by another"
                    ));
                } else if attempt != Some("1") {
                    show(format!("the last of several attempts ends as {word}"));
                } else if word == "fail" && more {
                    show("a terminal failure is not tried again".to_owned());
                }
                if !again && word == "fail" && more && of(own, "allow_partial") == "true" {
                    show("a terminal failure is not made partial".to_owned());
                }
                if word == "partial_success" && of(own, "allow_partial") == "true" {
                    show("an exhausted attempt is made partial".to_owned());
                }
                if graph.joins.contains_key(node_of(name)) {
                    show(format!("a block ends as {word}"));
                    if *again {
                        show("a block is tried again".to_owned());
                    }
                    if reason.contains("`foreach_max` allows") {
                        show("a list with too many items".to_owned());
                    }
                    if reason.contains(" list `") || reason.contains("` is no list") {
                        show("a list that is none".to_owned());
                    }
                    if reason.starts_with("timed out") {
                        show("a block times out".to_owned());
                    }
                }
            }
            Step::Wait { delay, .. } => show(match delay.least {
                0 => "a wait of no time".to_owned(),
                60_000 => "a wait of the longest time".to_owned(),
                _ => "a wait".to_owned(),
            }),
            Step::Fork {
                name,
                branches,
                tested,
            } => {
                let id = node_of(name);
                let join = attributes(graph, &graph.joins[id]);
                let kind = match (of(join, "type"), of(join, "shape")) {
                    ("parallel.fan_in", _) | ("", "tripleoctagon") => "fan-in",
                    ("", "diamond") => "routing node",
                    _ => "plain node",
                };
                show(format!("a block that joins at a {kind}"));
                if tested.iter().any(|(_, held)| !held) {
                    show("a branch whose condition is false".to_owned());
                }
                if !of(attributes(graph, id), "foreach").is_empty() {
                    show(match branches {
                        0 => "a list without items".to_owned(),
                        1 => "a list with one item".to_owned(),
                        _ => "a list with several items".to_owned(),
                    });
                } else if *branches == 0 {
                    show("a block without branches".to_owned());
                }
                if !branch_of(name).is_empty() {
                    show("a nested block".to_owned());
                }
                if branch_of(name).contains('/') {
                    show("a block two deep".to_owned());
                }
                if !name.ends_with("#1/1") {
                    show("a block that runs once more".to_owned());
                }
                if graph
                    .joins
                    .values()
                    .filter(|other| **other == graph.joins[id])
                    .count()
                    > 1
                {
                    show("a block that shares its join".to_owned());
                }
                let own = attributes(graph, id);
                let join_policy = Some(of(own, "join_policy")).filter(|policy| !policy.is_empty());
                let error_policy = Some(of(own, "error_policy")).filter(|policy| !policy.is_empty());
                show(format!(
                    "policy {} {}",
                    join_policy.unwrap_or("wait_all"),
                    error_policy.unwrap_or("continue")
                ));
            }
            Step::BranchStart { branch, .. } => {
                let waits = matches!(trace.steps[at - 1], Step::BranchEnd { .. } | Step::Choice { .. });
                if waits {
                    show("a branch that waits for another".to_owned());
                }
                if branch.contains('~') {
                    show("a second branch to one node".to_owned());
                }
            }
            Step::BranchEnd {
                status,
                reason,
                lasted,
                ..
            } => {
                show(format!("a branch ends as {status}"));
                if status == "cancelled" && *lasted > 0 {
                    show("a branch that runs is cancelled".to_owned());
                }
                if let Some(reason) = reason {
                    let kinds = [
                        ("stage `", "a branch fails by a stage"),
                        ("no edge of", "a branch fails by its edges"),
                        ("the run came to", "a branch fails at a dead end"),
                        ("the run ended at", "a branch fails at an end"),
                        ("the branch leads back", "a branch fails by leading back"),
                        ("the edge `", "a branch fails by going in a circle"),
                    ];
                    let kind = kinds.iter().find(|(start, _)| reason.starts_with(start));
                    show(
                        kind.map_or("a branch ends with a failure", |(_, kind)| kind)
                            .to_owned(),
                    );
                }
            }
            Step::Restart { .. } => {
                show("a restart".to_owned());
                if !last_choice.is_empty() {
                    show("a restart from a branch".to_owned());
                }
            }
            Step::Reroute { gate, .. } => {
                show("a reroute".to_owned());
                let node = graph.nodes.iter().find(|node| node.id == *gate);
                let own = node.and_then(|node| node.attributes.get("goal_gate"));
                if own.is_some_and(|own| own != "true") {
                    let exit = ["exit", "end", "done"].contains(&gate.as_str());
                    show(format!("a reroute by a condition, of the exit {exit}"));
                }
                let from_end = matches!(
                    trace.steps[at - 1],
                    Step::Choice {
                        way: Way::End(true),
                        ..
                    }
                );
                if from_end {
                    show("a reroute from a success end".to_owned());
                }
            }
            Step::Answered { name, answer } => {
                let offered = trace.steps.iter().find_map(|step| match step {
                    Step::Asked {
                        name: asked, choices, ..
                    } if asked == name => Some(choices),
                    _ => None,
                });
                let chosen = offered.is_some_and(|all| all.iter().any(|(_, label, _)| label == answer));
                show(match (answer.as_str(), chosen) {
                    ("skipped", false) => "a question is skipped".to_owned(),
                    (_, true) => "a choice is made".to_owned(),
                    _ => "a text is given".to_owned(),
                });
            }
            Step::Unanswered { default, .. } => show(match default {
                Some(_) => "silence stands for a choice".to_owned(),
                None => "silence wants another attempt".to_owned(),
            }),
            Step::Cancelled(name) => {
                let asked = |step: &Step| matches!(step, Step::Asked { name: asked, .. } if asked == name);
                let waits = |step: &Step| matches!(step, Step::Wait { name: next, .. } if next == name);
                let begun = |step: &Step| matches!(step, Step::Start(begun) if begun == name);
                let steps = &trace.steps[..at];
                if steps.iter().any(asked) {
                    show("a question is cancelled".to_owned());
                }
                if steps.iter().any(waits) && !steps.iter().any(begun) {
                    show("a wait is cancelled".to_owned());
                }
                let last = matches!(trace.steps[at..], [.., Step::Cancelled(_)]);
                if last && graph.joins.contains_key(node_of(name)) {
                    show("a run ends from within a block".to_owned());
                }
            }
            Step::Asked { name, withheld, .. } => {
                if !withheld.is_empty() {
                    show("a choice is withheld".to_owned());
                }
                let own = attributes(graph, node_of(name));
                let guarded = graph.edges.iter().filter(|edge| edge.from == node_of(name));
                let labels: Vec<&str> = guarded
                    .filter(|edge| edge.attributes.contains_key("condition"))
                    .map(|edge| of(&edge.attributes, "label"))
                    .filter(|label| !label.is_empty())
                    .collect();
                let twice = |label: &&&str| labels.iter().filter(|other| *other == *label).count() > 1;
                if labels.iter().any(|label| twice(&label)) {
                    show("a choice of several edges".to_owned());
                }
                let default = of(own, "human.default_choice");
                if !default.is_empty() && withheld.iter().any(|reported| reported.contains(default)) {
                    show("a default that is withheld".to_owned());
                }
            }
            Step::Run { .. } | Step::Join { .. } => {}
        }
    }
    things
}
