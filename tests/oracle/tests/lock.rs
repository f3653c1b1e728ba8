//! The comparison of two versions against the real carry-over: where it says compatible, the state of a run can be carried
//! over at every position; where it says that runs break, there is such a run (rules U1, U2).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use orchestra_core::{Answer, Context, Event, Machine, Outcome, Status};
use orchestra_graph::{
    ChangeClass, Compatibility, LoadOptions, Loaded, Mapping, Pipeline, Source, Subject, kind, load,
};
use orchestra_oracle_tests::description::{Edge, Node};
use orchestra_oracle_tests::driver::record;
use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{Graph, case_count, cases, seed};

fn loaded(dot: &str) -> Option<Loaded> {
    let loaded = load(Source::new("oracle.dot", dot), &LoadOptions::default());
    (!loaded.report.has_errors()).then_some(loaded)
}

fn attributes(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn edge(from: &str, to: &str, given: &[(&str, &str)]) -> Edge {
    Edge {
        from: from.to_owned(),
        to: to.to_owned(),
        attributes: attributes(given),
    }
}

/// Changes a graph in one way.
fn change(random: &mut Random, graph: &mut Graph) {
    if graph.nodes.is_empty() || graph.edges.is_empty() {
        return;
    }
    let at = random.below(graph.nodes.len());
    let id = graph.nodes[at].id.clone();
    let edge_at = random.below(graph.edges.len());
    match random.below(8) {
        // Removes a node; its predecessors lead to its first target.
        0 | 1 => {
            let next = graph.edges.iter().find(|edge| edge.from == id && edge.to != id);
            let Some(next) = next.map(|edge| edge.to.clone()) else {
                return;
            };
            graph.nodes.remove(at);
            graph.edges.retain(|edge| edge.from != id);
            for edge in graph.edges.iter_mut().filter(|edge| edge.to == id) {
                edge.to.clone_from(&next);
            }
        }
        2 => {
            graph.nodes[at].id = format!("{id}_x");
            for edge in &mut graph.edges {
                for end in [&mut edge.from, &mut edge.to] {
                    if *end == id {
                        end.push_str("_x");
                    }
                }
            }
        }
        3 => {
            let shape = *random.pick(&["hexagon", "box", "diamond", "component", "tripleoctagon"]);
            graph.nodes[at].attributes.remove("type");
            graph.nodes[at]
                .attributes
                .insert("shape".to_owned(), shape.to_owned());
        }
        4 => {
            let other = random.below(graph.edges.len());
            graph.edges.swap(edge_at, other);
        }
        5 => {
            let added = format!("added{at}");
            let to = std::mem::replace(&mut graph.edges[edge_at].to, added.clone());
            graph.edges.push(edge(&added, &to, &[]));
            graph.nodes.push(Node {
                id: added,
                attributes: attributes(&[("type", "added")]),
            });
        }
        6 => drop(graph.edges.remove(edge_at)),
        _ => drop(
            graph.nodes[at]
                .attributes
                .insert("timeout".to_owned(), "7m".to_owned()),
        ),
    }
}

/// Two versions with their comparison.
struct Versions {
    old: Pipeline,
    new: Pipeline,
    mapping: Mapping,
    found: Compatibility,
}

impl Versions {
    fn new(old: &Graph, new: &Graph) -> Option<Versions> {
        let (old, new) = (loaded(&old.dot())?, loaded(&new.dot())?);
        let found = Compatibility::between(&old, &new)?;
        let (old, new) = (old.pipeline()?, new.pipeline()?);
        Some(Versions {
            mapping: Mapping::between(&old, &new),
            old,
            new,
            found,
        })
    }

    fn breaks(&self) -> bool {
        self.found.class() == ChangeClass::Breaks
    }

    /// Carries the state of a machine over, and restores it.
    fn carry_over(&self, machine: &Machine) -> Result<(), String> {
        let saved = machine.saved();
        let carried = saved.carry_over(&self.old, &self.new, &self.mapping);
        let restored = carried.and_then(|saved| saved.restore(&self.new));
        restored.map(drop).map_err(|error| error.to_string())
    }

    fn show(&self, seed: u64) -> String {
        let changes: Vec<String> = self
            .found
            .changes
            .iter()
            .map(|change| format!("{}: {change}", change.class.word()))
            .collect();
        format!(
            "seed {seed}\n{}\n{}\n{}",
            self.old.source,
            self.new.source,
            changes.join("\n")
        )
    }
}

#[test]
fn compatible_versions_carry_every_state_over() {
    let wanted = case_count(600);
    let (mut compatible, mut states, mut breaking, mut broken) = (0, 0, 0, 0);
    for case in cases(seed(60_000), wanted) {
        let mut random = Random::new(case.seed);
        let mut graph = case.graph.clone();
        for _ in 0..random.between(1, 2) {
            change(&mut random, &mut graph);
        }
        let Some(versions) = Versions::new(&case.graph, &graph) else {
            continue;
        };
        breaking += usize::from(versions.breaks());
        compatible += usize::from(!versions.breaks());
        let mut has_broken = false;
        for script in &case.scripts {
            let recording = record(versions.old.clone(), script);
            let mut machine = recording.before.clone();
            machine.begin(&mut Vec::new());
            let events = recording.turns.iter().map(|(event, _)| Some(event));
            for event in std::iter::once(None).chain(events) {
                if let Some(event) = event {
                    machine.on(event.clone(), &mut Vec::new());
                }
                if machine.pending().is_empty() {
                    continue;
                }
                states += 1;
                let carried = versions.carry_over(&machine);
                has_broken |= carried.is_err();
                assert!(
                    versions.breaks() || carried.is_ok(),
                    "{}: {carried:?}",
                    versions.show(case.seed)
                );
            }
        }
        broken += usize::from(has_broken);
    }
    println!("{compatible} compatible, {states} states; {broken} of {breaking} broke a scripted run");
    if wanted >= 600 {
        assert!(compatible > 150 && states > 2_000 && broken * 3 > breaking && broken > 50);
    }
}

/// Makes a small graph without loops. Its conditions are only on outcomes.
fn small(random: &mut Random) -> Graph {
    let count = random.between(2, 4) as usize;
    let mut graph = Graph {
        attributes: BTreeMap::new(),
        nodes: Vec::new(),
        edges: vec![edge("start", "n0", &[])],
        joins: BTreeMap::new(),
    };
    for (id, shape) in [("start", "Mdiamond"), ("exit", "Msquare")] {
        graph.nodes.push(Node {
            id: id.to_owned(),
            attributes: attributes(&[("shape", shape)]),
        });
    }
    let block = random.chance(60).then(|| random.below(count));
    for at in 0..count {
        let id = format!("n{at}");
        let target = |random: &mut Random| match random.between(at as i64 + 1, count as i64) as usize {
            to if to == count => "exit".to_owned(),
            to => format!("n{to}"),
        };
        if block == Some(at) {
            let kinds = ["t", "t", "t"].map(|word| attributes(&[("type", word)]));
            let [left, right, _] = kinds;
            let parts = [
                (format!("n{at}"), attributes(&[("shape", "component")])),
                (format!("l{at}"), left),
                (format!("r{at}"), right),
                (format!("j{at}"), attributes(&[("shape", "tripleoctagon")])),
            ];
            let [fan, left, right, join] = parts.clone().map(|(id, _)| id);
            for (id, attributes) in parts {
                graph.nodes.push(Node { id, attributes });
            }
            for (from, to) in [(&fan, &left), (&fan, &right), (&left, &join), (&right, &join)] {
                graph.edges.push(edge(from, to, &[]));
            }
            graph.edges.push(edge(&join, &target(random), &[]));
            continue;
        }
        let given = *random.pick(&[("type", "t"), ("shape", "hexagon"), ("shape", "diamond")]);
        graph.nodes.push(Node {
            id: id.clone(),
            attributes: attributes(&[given]),
        });
        for number in 0..random.between(1, 2) {
            let to = target(random);
            let label = format!("L{number}");
            let given = match (given.1, number) {
                ("hexagon", _) => vec![("label", label.as_str())],
                (_, 0) => vec![],
                _ => vec![("condition", *random.pick(&["outcome=fail", "outcome=success"]))],
            };
            graph.edges.push(edge(&id, &to, &given));
        }
    }
    graph
}

/// Finds all states of a small graph. Returns `None` if there are too many.
fn states(pipeline: &Pipeline) -> Option<Vec<Machine>> {
    const MAX_STATES: usize = 2_000;
    let mut machine = Machine::prepare(pipeline.clone(), Context::new(), 1);
    machine.begin(&mut Vec::new());
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    let mut queue = VecDeque::from([machine]);
    while let Some(machine) = queue.pop_front() {
        let text = serde_json::to_string(&machine.saved()).unwrap();
        if machine.pending().is_empty() || !seen.insert(text) {
            continue;
        }
        if found.len() > MAX_STATES {
            return None;
        }
        let questions = machine.questions();
        for id in machine.pending() {
            let stage = pipeline.stage(id.node);
            let mut events: Vec<Event> = Vec::new();
            if questions.iter().any(|(asked, _)| *asked == id) {
                let labels = stage
                    .edges()
                    .map(|(_, edge)| pipeline.text(edge.label).to_owned());
                let mut answers: Vec<Answer> = labels.map(Answer::choice).collect();
                answers.push(Answer::skipped());
                let answered = answers.into_iter().map(|answer| Event::Answered {
                    id: id.clone(),
                    answer,
                });
                events.extend(answered);
            } else if stage.kind() != kind::PARALLEL {
                for word in ["success", "fail", "skipped"] {
                    let outcome = match word {
                        "fail" => Outcome::fail("no"),
                        word => Outcome::new(Status::from_name(word)),
                    };
                    let id = id.clone();
                    events.push(Event::NodeFinished { id, outcome });
                }
            }
            for event in events {
                let mut next = machine.clone();
                next.on(event, &mut Vec::new());
                queue.push_back(next);
            }
        }
        found.push(machine);
    }
    Some(found)
}

#[test]
fn what_breaks_breaks_a_state_of_some_run() {
    let wanted = case_count(800);
    let (mut breaking, mut compatible) = (0, 0);
    for at in 0..wanted as u64 {
        let seed = seed(70_000) + at;
        let mut random = Random::new(seed);
        let old = small(&mut random);
        let mut new = old.clone();
        change(&mut random, &mut new);
        let Some(versions) = Versions::new(&old, &new) else {
            continue;
        };
        let Some(states) = states(&versions.old) else {
            continue;
        };
        let results: Vec<Result<(), String>> = states
            .iter()
            .map(|machine| versions.carry_over(machine))
            .collect();
        let fails = results.iter().any(Result::is_err);
        assert_eq!(fails, versions.breaks(), "{}\n{results:?}", versions.show(seed));
        if !versions.breaks() {
            compatible += 1;
            continue;
        }
        breaking += 1;
        let waits: BTreeSet<&str> = states
            .iter()
            .flat_map(|machine| machine.pending())
            .map(|id| versions.old.stage(id.node).id())
            .collect();
        for change in versions.found.breaking() {
            if let Subject::Node { id, kind } = &change.subject
                && kind != kind::PARALLEL
            {
                assert!(
                    waits.contains(&**id),
                    "no run waits at `{id}`: {}",
                    versions.show(seed)
                );
            }
        }
    }
    println!("{breaking} break runs, {compatible} do not");
    if wanted >= 800 {
        assert!(breaking > 40 && compatible > 100, "{breaking} {compatible}");
    }
}
