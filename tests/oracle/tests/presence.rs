//! Declared values against the real machine: no run enters a node without a value that is claimed to be set there, and
//! where the choices of a run are few, every value that may be missing is missing in some run (rules T2, T3).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use orchestra_core::{Context, Effect, EffectId, Event, Machine, Outcome, Status};
use orchestra_graph::{
    Contract, LoadOptions, Loaded, MissingValues, NodeIndex, Pipeline, Source, kind, load,
};
use orchestra_oracle_tests::driver::record_with;
use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{Graph, case_count, cases, load_drawn, seed};
use serde_json::{Value, json};

/// The keys that graphs declare. Their scripts set them, and their conditions read them.
const KEYS: &[&str] = &["flag", "tries", "mode", "score", "size"];

/// Adds random declarations to a graph.
fn declare(random: &mut Random, graph: &mut Graph) {
    let list = |random: &mut Random, most: usize| {
        let count = random.between(1, most as i64);
        let keys: BTreeSet<&str> = (0..count).map(|_| *random.pick(KEYS)).collect();
        let declared = keys.into_iter().map(|key| {
            let optional = if random.chance(30) { "?" } else { "" };
            format!("{key}: any{optional}")
        });
        declared.collect::<Vec<_>>().join(", ")
    };
    if random.chance(50) {
        graph.attributes.insert("inputs".to_owned(), list(random, 2));
    }
    if random.chance(50) {
        let kept: Vec<&str> = (0..2).map(|_| *random.pick(KEYS)).collect();
        graph
            .attributes
            .insert("restart_keep".to_owned(), kept.join(", "));
    }
    for node in &mut graph.nodes {
        for (attribute, chance) in [
            ("outputs", 50),
            ("outputs.fail", 15),
            ("outputs.partial_success", 15),
            ("outputs.needs_work", 15),
        ] {
            if random.chance(chance) {
                node.attributes.insert(attribute.to_owned(), list(random, 3));
            }
        }
    }
}

/// Returns whether a value is there.
fn is_set(context: &Context, key: &str) -> bool {
    context.get(key).is_some_and(|value| !value.is_null())
}

/// Changes the values that a stage sets, so that they keep the contract, but as little as it allows.
fn keep_contract(
    contract: &Contract,
    random: &mut Random,
    pipeline: &Pipeline,
    id: &EffectId,
    outcome: &mut Outcome,
) {
    contract.rename_keys(&mut outcome.context_updates);
    let word = outcome.status.word().to_owned();
    let kept = |updates: &BTreeMap<String, Value>| contract.check_outcome(id.node, &word, updates).is_ok();
    let declared: Vec<String> = contract.keys().map(|(key, _)| key.to_owned()).collect();
    outcome.context_updates.retain(|key, _| !declared.contains(key));
    if !matches!(pipeline.stage(id.node).kind(), kind::PARALLEL | kind::WAIT_HUMAN) {
        for field in contract.outputs(id.node, &word) {
            let value = random
                .pick(&[json!("full"), json!(2), json!(""), json!(false)])
                .clone();
            match random.below(4) {
                0 if field.optional => drop(outcome.context_updates.insert(field.key.clone(), Value::Null)),
                1 if field.optional => {}
                _ if !field.optional && word == "fail" && random.chance(70) => {}
                _ => drop(outcome.context_updates.insert(field.key.clone(), value)),
            }
        }
    }
    assert!(
        kept(&outcome.context_updates),
        "{word}: {:?}",
        outcome.context_updates
    );
}

fn loaded(dot: &str) -> Loaded {
    load(Source::new("oracle.dot", dot), &LoadOptions::default())
}

/// Returns the initial values: the required inputs, and some of the others.
fn given(contract: &Contract, random: &mut Random) -> Context {
    let mut context = Context::new();
    for input in contract.inputs() {
        if !input.optional || random.chance(50) {
            context.set(input.key.as_str(), "full");
        }
    }
    context
}

#[derive(Default, Debug)]
struct Counted {
    graphs: usize,
    /// How often a run entered a node with a value that is claimed to be set.
    set: usize,
    /// Pairs of node and key that may be missing.
    claimed: usize,
    /// Those that were missing in one of the runs.
    seen: usize,
}

#[test]
fn no_run_enters_a_node_without_a_value_that_is_claimed_to_be_set() {
    let wanted = case_count(500);
    let mut counted = Counted::default();
    for case in cases(seed(30_000), wanted) {
        if load_drawn(&case.graph, &case.dot).is_err() {
            continue;
        }
        let mut random = Random::new(case.seed);
        let mut graph = case.graph.clone();
        declare(&mut random, &mut graph);
        let dot = graph.dot();
        let declared = loaded(&dot);
        let analysis = declared.analysis();
        let Some(missing) = MissingValues::new(&analysis) else {
            continue;
        };
        counted.graphs += 1;
        let contract = missing.contract().clone();
        let mut claims: BTreeMap<(NodeIndex, &str), bool> = BTreeMap::new();
        let table = Pipeline::from_analysis(&analysis).unwrap();
        for script in &case.scripts {
            let context = given(&contract, &mut random);
            let recording = record_with(table.clone(), script, context, &mut |id, outcome| {
                keep_contract(&contract, &mut random, &table, id, outcome);
            });
            let mut entered = |node: NodeIndex, context: &Context, what: &str| {
                for (key, _) in contract.keys() {
                    let may = match what {
                        "end" => missing.may_be_missing_at_end(key),
                        _ => missing.may_be_missing(node, key),
                    };
                    let is_missing = !is_set(context, key);
                    counted.set += usize::from(!may);
                    if what != "end" && may {
                        *claims.entry((node, key)).or_default() |= is_missing;
                    }
                    assert!(
                        may || !is_missing,
                        "`{key}` is missing at `{}` ({what}); again with ORACLE_SEED={} ORACLE_CASES=1\n{dot}\n{}",
                        table.stage(node).id(),
                        case.seed,
                        recording.trace(),
                    );
                }
            };
            let mut ended = false;
            for effect in recording.effects() {
                match effect {
                    Effect::RunNode { id, context } => entered(id.node, context, "run"),
                    Effect::Finish { failure: None, .. } => ended = true,
                    _ => {}
                }
            }
            if ended {
                let state = recording.machine.state();
                entered(table.exit, &state.main.context, "end");
            }
        }
        counted.claimed += claims.len();
        counted.seen += claims.values().filter(|seen| **seen).count();
    }
    println!("{counted:?}");
    // Otherwise the test would show nothing.
    if wanted >= 500 {
        assert!(
            counted.graphs > 300
                && counted.set > 500
                && counted.claimed > 500
                && counted.seen * 2 > counted.claimed,
            "{counted:?}"
        );
    }
}

/// Makes the text of a small graph without loops.
fn small(random: &mut Random, with_values: bool) -> String {
    let count = random.between(3, 5) as usize;
    let mut dot = String::from("digraph {\n");
    let declared = |random: &mut Random| {
        let key = *random.pick(&["a", "b"]);
        let optional = if random.chance(25) { "?" } else { "" };
        format!("{key}: x|y{optional}")
    };
    if random.chance(30) {
        dot += &format!("graph [inputs=\"{}\"]\n", declared(random));
    }
    let mut diamonds = BTreeSet::new();
    for node in 0..count {
        dot += &match random.below(6) {
            0 if diamonds.insert(node) => format!("n{node} [shape=diamond]\n"),
            1 => format!("n{node} [type=t]\n"),
            2 => format!("n{node} [type=t, outputs.fail=\"{}\"]\n", declared(random)),
            _ => format!("n{node} [type=t, outputs=\"{}\"]\n", declared(random)),
        };
    }
    // The first node of a block, with two branches and a join, stands at a random position.
    let block = random.chance(40).then(|| random.below(count));
    dot += "start -> n0\n";
    for node in 0..count {
        let target = |random: &mut Random| {
            let to = random.between(node as i64 + 1, count as i64) as usize;
            if to == count {
                "exit".to_owned()
            } else {
                format!("n{to}")
            }
        };
        if block == Some(node) {
            let to = target(random);
            let (left, right) = (declared(random), declared(random));
            dot += &format!("f{node} [shape=component]\nl{node} [type=t, outputs=\"{left}\"]\n");
            dot += &format!("r{node} [type=t, outputs=\"{right}\"]\nj{node} [shape=tripleoctagon]\n");
            dot += &format!(
                "n{node} -> f{node}\nf{node} -> l{node} -> j{node}\nf{node} -> r{node} -> j{node}\n"
            );
            dot += &format!("j{node} -> {to}\n");
            continue;
        }
        for edge in 0..random.between(1, 3) {
            let to = target(random);
            let key = *random.pick(&["a", "b"]);
            let condition = match random.below(if with_values { 6 } else { 3 }) {
                _ if edge == 0 => String::new(),
                // Nobody suggests a target after the start.
                0 if !diamonds.contains(&node) => String::new(),
                0 => " [condition=\"outcome=skipped\"]".to_owned(),
                1 => " [condition=\"outcome=success\"]".to_owned(),
                2 => " [condition=\"outcome=fail\"]".to_owned(),
                3 => format!(" [condition=\"context.{key} = x\"]"),
                4 => format!(" [condition=\"context.{key}\"]"),
                _ => format!(" [condition=\"outcome=success && context.{key} = y\"]"),
            };
            dot += &format!("n{node} -> {to}{condition}\n");
        }
    }
    dot + "}\n"
}

/// Follows all runs from a state of the machine, and notes the keys that are missing when a stage begins.
fn explore(
    contract: &Contract,
    machine: &Machine,
    effects: &[Effect],
    waiting: &[EffectId],
    found: &mut BTreeSet<(NodeIndex, String)>,
    left: &mut usize,
) {
    let mut waiting = waiting.to_vec();
    for effect in effects {
        match effect {
            Effect::RunNode { id, context } => {
                for (key, _) in contract.keys().filter(|(key, _)| !is_set(context, key)) {
                    found.insert((id.node, key.to_owned()));
                }
                waiting.push(id.clone());
            }
            Effect::CancelEffect { id } => waiting.retain(|known| known != id),
            _ => {}
        }
    }
    let Some(id) = waiting.first().cloned() else {
        return;
    };
    *left = left.saturating_sub(1);
    if *left == 0 {
        return;
    }
    waiting.remove(0);
    for word in ["success", "fail", "skipped", "odd"] {
        // All combinations of values that the contract allows.
        let mut updates: Vec<BTreeMap<String, Value>> = vec![BTreeMap::new()];
        for field in contract.outputs(id.node, word) {
            let mut values = vec![Some(json!("x")), Some(json!("y"))];
            if field.optional {
                values.push(Some(Value::Null));
            }
            if word == "fail" {
                values.push(None);
            }
            let with = |update: &BTreeMap<String, Value>, value: &Option<Value>| {
                let mut update = update.clone();
                if let Some(value) = value {
                    update.insert(field.key.clone(), value.clone());
                }
                update
            };
            updates = updates
                .iter()
                .flat_map(|update| values.iter().map(move |value| with(update, value)))
                .collect();
        }
        // Of several edges without a condition, the stage suggests one.
        let stage = machine.pipeline().stage(id.node);
        let suggested = stage
            .edges()
            .map(|(_, edge)| machine.pipeline().stage(edge.to).id().to_owned());
        let suggested: Vec<String> = suggested.filter(|_| word != "fail").collect();
        let ways = updates.iter().flat_map(|update| {
            let some = suggested.iter().map(move |id| (update, vec![id.clone()]));
            some.chain([(update, Vec::new())])
        });
        for (update, suggested) in ways {
            let mut outcome = Outcome::new(Status::from_name(word));
            outcome.context_updates = update.clone();
            outcome.suggested_next_ids = suggested;
            assert!(
                contract
                    .check_outcome(id.node, word, &outcome.context_updates)
                    .is_ok()
            );
            let mut machine = machine.clone();
            let mut effects = Vec::new();
            machine.on(
                Event::NodeFinished {
                    id: id.clone(),
                    outcome,
                },
                &mut effects,
            );
            explore(contract, &machine, &effects, &waiting, found, left);
        }
    }
}

/// Explores random small graphs. Returns the number of values that may be missing, and of those that are missing in a run.
fn explored(first: u64, with_values: bool) -> (usize, usize) {
    let (mut claimed, mut seen) = (0, 0);
    for at in 0..case_count(100) as u64 {
        let mut random = Random::new(first + at);
        let dot = small(&mut random, with_values);
        let loaded = loaded(&dot);
        let analysis = loaded.analysis();
        // Unreachable nodes and the like.
        let others = |code: &str| !matches!(code, "maybe_unset");
        if loaded.report.errors().any(|error| others(error.code)) {
            continue;
        }
        let Some(missing) = MissingValues::new(&analysis) else {
            continue;
        };
        let contract = missing.contract().clone();
        let table = Pipeline::from_analysis(&analysis).unwrap();
        let mut found = BTreeSet::new();
        let mut left = 20_000;
        // Without and with the optional inputs.
        for optional in [false, true] {
            let mut context = Context::new();
            for input in contract
                .inputs()
                .iter()
                .filter(|input| optional || !input.optional)
            {
                context.set(input.key.as_str(), "x");
            }
            let mut machine = Machine::prepare(table.clone(), context, 1);
            let mut effects = Vec::new();
            machine.begin(&mut effects);
            explore(&contract, &machine, &effects, &[], &mut found, &mut left);
        }
        if left == 0 {
            continue;
        }
        for node in table.stages().filter(|stage| stage.kind() == "t") {
            for (key, _) in contract.keys() {
                let may = missing.may_be_missing(node.index(), key);
                let was = found.contains(&(node.index(), key.to_owned()));
                let again = format!("`{key}` at `{}`; seed {}\n{dot}", node.id(), first + at);
                assert!(may || !was, "claimed to be set, but missing: {again}");
                assert!(with_values || was || !may, "never missing: {again}");
                claimed += usize::from(may);
                seen += usize::from(was);
            }
        }
    }
    (claimed, seen)
}

#[test]
fn every_value_that_may_be_missing_is_missing_in_a_run() {
    let (claimed, seen) = explored(seed(40_000), false);
    println!("{seen} of {claimed}");
    assert!(claimed == seen && claimed > 20, "{seen} of {claimed}");
}

#[test]
fn conditions_on_values_are_almost_exact() {
    let (claimed, seen) = explored(seed(50_000), true);
    println!("{seen} of {claimed}");
    // Two conditions on one value may exclude each other.
    assert!(seen * 10 > claimed * 8 && claimed > 20, "{seen} of {claimed}");
}
