//! Scripts for every edge and jump against a second driver, on random graphs: a run by a script takes its targets, the
//! search finds what exploration reaches, and what it calls infeasible never happens (rule V5).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orchestra_core::{
    Answer, Context, Effect, EffectId, Event, ExploreOptions, FoundPaths, Machine, Observation, Outcome,
    PathEntry, PathOptions, PathScript, PathVerdict, Reply, explore, find_paths,
};
use orchestra_graph::{LoadOptions, Loaded, Next, PathStep, Rule, SharedPipeline, Source, load};
use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{case_count, cases, load_drawn, seed};

/// Maximum number of events of a run.
const MAX_EVENTS: usize = 3_000;

/// Something that happens at a time, after what was begun before it.
struct Due {
    at: Duration,
    number: u64,
    id: EffectId,
    event: Event,
}

/// A simulated run by a script, in simulated time.
struct Simulated<'s> {
    script: &'s PathScript,
    machine: Machine,
    now: Duration,
    number: u64,
    due: Vec<Due>,
    turns: BTreeMap<u32, usize>,
    jumps: BTreeSet<String>,
}

/// Returns the steps that a run by a script takes, as texts.
fn taken_by(pipeline: &SharedPipeline, script: &PathScript) -> BTreeSet<String> {
    let context: Context = script.inputs.clone().into_iter().collect();
    let mut effects = Vec::new();
    let mut run = Simulated {
        script,
        machine: Machine::start(pipeline.clone(), context, 0, &mut effects),
        now: Duration::ZERO,
        number: 0,
        due: Vec::new(),
        turns: BTreeMap::new(),
        jumps: BTreeSet::new(),
    };
    run.apply(effects);
    for _ in 0..MAX_EVENTS {
        let Some(first) = (0..run.due.len()).min_by_key(|at| (run.due[*at].at, run.due[*at].number)) else {
            break;
        };
        let Due { at, id, event, .. } = run.due.remove(first);
        run.now = at;
        if !matches!(event, Event::TimerFired { .. }) {
            run.due.retain(|due| due.id != id);
        }
        let mut effects = Vec::new();
        run.machine.on(event, &mut effects);
        run.apply(effects);
    }
    let taken = run.machine.state().totals.taken.iter().enumerate();
    let edges = taken
        .filter(|(_, count)| **count > 0)
        .map(|(edge, _)| format!("edge {edge}"));
    edges.chain(run.jumps).collect()
}

impl Simulated<'_> {
    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::RunNode { id, .. } => {
                    let (outcome, takes) = match self.entry(&id) {
                        Some(PathEntry::Ends { outcome, takes }) => (outcome, takes),
                        Some(entry) => panic!("a stage has the entry {entry:?}"),
                        None => (Outcome::success(), Duration::ZERO),
                    };
                    let limit = self.machine.pipeline().stage(id.node).duration("timeout");
                    let (outcome, takes) = match limit {
                        Some(limit) if takes >= limit => (Outcome::fail("timed out"), limit),
                        _ => (outcome, takes),
                    };
                    let event = Event::NodeFinished {
                        id: id.clone(),
                        outcome,
                    };
                    self.push(id, takes, event);
                }
                Effect::AskHuman { id, .. } => match self.entry(&id) {
                    Some(PathEntry::Answers(answer)) if answer.reply == Reply::TimedOut => {}
                    Some(PathEntry::Answers(answer)) => self.answer(id, answer),
                    Some(entry) => panic!("a gate has the entry {entry:?}"),
                    // The run would wait for a person.
                    None => {}
                },
                Effect::StartTimer { id, delay } => {
                    let event = Event::TimerFired { id: id.clone() };
                    self.push(id, delay, event);
                }
                Effect::CancelEffect { id } => self.due.retain(|due| due.id != id),
                Effect::Finish { .. } => self.due.clear(),
                Effect::Observe(observation) => self.observe(&observation),
                _ => {}
            }
        }
    }

    fn answer(&mut self, id: EffectId, answer: Answer) {
        let event = Event::Answered {
            id: id.clone(),
            answer,
        };
        self.push(id, Duration::ZERO, event);
    }

    fn push(&mut self, id: EffectId, after: Duration, event: Event) {
        self.number += 1;
        self.due.push(Due {
            at: self.now + after,
            number: self.number,
            id,
            event,
        });
    }

    /// Returns the next entry of a node; the last one repeats.
    fn entry(&mut self, id: &EffectId) -> Option<PathEntry> {
        let entries = self
            .script
            .nodes
            .get(self.machine.pipeline().stage(id.node).id())?;
        let turn = self.turns.entry(id.node.0).or_default();
        *turn += 1;
        entries.get(*turn - 1).or(entries.last()).cloned()
    }

    fn observe(&mut self, observation: &Observation) {
        self.jumps.extend(match observation {
            Observation::StageRetrying { id, .. } => Some(format!("retry {}", id.node.0)),
            Observation::InterviewTimeout { id, .. } => Some(format!("time-out {}", id.node.0)),
            Observation::GoalGateUnsatisfied { gate, .. } => Some(format!("goal gate {}", gate.0)),
            Observation::Routed { from, decision, .. } if matches!(decision.next, Next::Jump(_)) => {
                match decision.rule {
                    Rule::RetryTarget | Rule::FallbackRetryTarget => Some(format!("failure {}", from.0)),
                    Rule::GoalGate => None,
                    _ => Some(format!("join {}", from.0)),
                }
            }
            _ => None,
        });
    }
}

fn name(step: PathStep) -> String {
    match step {
        PathStep::Edge(edge) | PathStep::Restart(edge) => format!("edge {}", edge.0),
        PathStep::Retry(node) => format!("retry {}", node.0),
        PathStep::TimeOut(node) => format!("time-out {}", node.0),
        PathStep::GoalGate(node) => format!("goal gate {}", node.0),
        PathStep::Failure(node) => format!("failure {}", node.0),
        PathStep::Join(node) => format!("join {}", node.0),
        step => panic!("{step:?}"),
    }
}

#[derive(Debug, Default)]
struct Counts {
    pipelines: usize,
    targets: usize,
    covered: usize,
    infeasible: usize,
    jumps: usize,
    scripts: usize,
    timed: usize,
    /// Reached by exploration, but only by an order of events that no simulated run has.
    out_of_order: usize,
}

fn check(loaded: &Loaded, fail: &dyn Fn(&str, &FoundPaths), counts: &mut Counts) {
    let pipeline = SharedPipeline::from(loaded.pipeline().unwrap());
    let found = find_paths(loaded, &PathOptions { max_states: 500 }).unwrap();
    counts.pipelines += 1;
    counts.scripts += found.scripts.len();
    for (at, script) in found.scripts.iter().enumerate() {
        let taken = taken_by(&pipeline, script);
        counts.timed += usize::from(script.to_yaml().contains("takes"));
        for target in &script.targets {
            let target = &found.targets[*target].target;
            if !taken.contains(&name(target.step)) {
                fail(
                    &format!("script {} does not take the {}", at + 1, target.text),
                    &found,
                );
            }
        }
    }
    let options = ExploreOptions {
        max_states: 500,
        ..ExploreOptions::default()
    };
    let explored = explore(loaded, &options).unwrap();
    for found_target in &found.targets {
        let target = &found_target.target;
        counts.targets += 1;
        let (edge, is_edge) = match target.step {
            PathStep::Edge(edge) | PathStep::Restart(edge) => (edge.at(), true),
            _ => (0, false),
        };
        match &found_target.verdict {
            PathVerdict::Covered { script, .. } => {
                counts.covered += 1;
                counts.jumps += usize::from(!is_edge);
                let at = found
                    .targets
                    .iter()
                    .position(|other| other.target == *target)
                    .unwrap();
                assert!(found.scripts[*script].targets.contains(&at));
            }
            PathVerdict::Infeasible { .. } => {
                counts.infeasible += 1;
                if is_edge && explored.taken[edge] {
                    fail(&format!("the {} is called infeasible", target.text), &found);
                }
            }
            PathVerdict::NotFound { reason } => {
                // A restart that `max_restarts` refuses has been chosen, but does not happen.
                let is_refused = matches!(target.step, PathStep::Restart(_));
                if is_edge && !is_refused && explored.taken[edge] && explored.is_complete {
                    if !reason.contains("order of events") {
                        fail(&format!("the {} is not found: {reason}", target.text), &found);
                    }
                    counts.out_of_order += 1;
                }
            }
        }
    }
}

#[test]
fn every_script_takes_its_targets_on_drawn_graphs() {
    let wanted = case_count(80);
    let mut counts = Counts::default();
    for case in cases(seed(90_000), wanted) {
        let Ok((_, others)) = load_drawn(&case.graph, &case.dot) else {
            continue;
        };
        if !others.is_empty() {
            continue;
        }
        let dot = case.graph.dot();
        let loaded = load(Source::new("oracle.dot", dot.as_str()), &LoadOptions::default());
        if loaded.pipeline().is_none() {
            continue;
        }
        let fail = |what: &str, found: &FoundPaths| {
            let scripts: Vec<String> = found.scripts.iter().map(PathScript::to_yaml).collect();
            panic!(
                "{what}; again with ORACLE_SEED={} ORACLE_CASES=1\n{dot}\n{}",
                case.seed,
                scripts.join("---\n")
            )
        };
        check(&loaded, &fail, &mut counts);
    }
    println!("{counts:?}");
    if wanted >= 80 {
        assert!(counts.covered > 500 && counts.jumps > 50 && counts.timed > 50);
        assert!(counts.out_of_order * 50 < counts.covered);
    }
}

/// Returns a pipeline with what scripts must set: context values, gates with time-outs, blocks, goal gates, retries,
/// restarts.
fn mixed(random: &mut Random) -> String {
    let count = random.between(3, 7);
    let mut text = format!(
        "digraph mixed {{ graph [max_node_visits=4, max_restarts=1, max_goal_gate_reroutes={}]
         start [shape=Mdiamond]; exit [shape=Msquare]; start -> n0\n",
        random.between(0, 2)
    );
    for at in 0..count {
        let next = if at + 1 < count {
            format!("n{}", at + 1)
        } else {
            "exit".to_owned()
        };
        let back = random.between(0, at);
        match random.below(6) {
            0 => {
                let default = if random.chance(50) {
                    ", human.default_choice=Go"
                } else {
                    ", max_retries=1"
                };
                let time = if random.chance(70) {
                    format!(", timeout=1h{default}")
                } else {
                    String::new()
                };
                text.push_str(&format!(
                    "n{at} [shape=hexagon{time}]; n{at} -> {next} [label=Go]; n{at} -> n{back} [label=Back]\n"
                ));
                if random.chance(40) {
                    text.push_str(&format!(
                        "n{at} -> n{back} [label=More, condition=\"visits.n{at}<2\"]\n"
                    ));
                }
            }
            1 => {
                let policy = *random.pick(&[
                    "",
                    ", error_policy=fail_fast",
                    ", join_policy=first_success",
                    ", timeout=1m",
                    ", max_parallel=1",
                ]);
                text.push_str(&format!(
                    "n{at} [shape=component{policy}]; a{at} [max_retries={}]; b{at}; c{at}; j{at} [shape={}]
                     n{at} -> a{at}; n{at} -> b{at}; b{at} -> c{at} [condition=\"outcome=success\"]
                     b{at} -> j{at} [condition=\"outcome!=success\"]; a{at} -> j{at}; c{at} -> j{at}; j{at} -> {next}\n",
                    random.between(0, 1),
                    if random.chance(70) { "tripleoctagon" } else { "diamond" }
                ));
            }
            2 => {
                let bound = random.between(1, 9);
                text.push_str(&format!(
                    "n{at} [shape=box]; n{at} -> {next} [condition=\"context.k{back} > {bound} && outcome=success\"]
                     n{at} -> n{back} [condition=\"context.k{back} <= {bound} && outcome=success\"]; n{at} -> {next}\n"
                ));
            }
            3 => {
                text.push_str(&format!(
                    "n{at} [shape=box, goal_gate=true, retry_target=n{back}]; n{at} -> {next}; n{at} -> {next} [condition=\"outcome=fail\"]\n"
                ));
            }
            4 => {
                let restart = if random.chance(50) {
                    ", loop_restart=true"
                } else {
                    ""
                };
                text.push_str(&format!(
                    "n{at} [shape=box, max_retries=1]; n{at} -> {next}; n{at} -> n{back} [condition=\"outcome=fail\"{restart}]\n"
                ));
            }
            _ => {
                let label = if random.chance(50) { "Next" } else { "Skip" };
                text.push_str(&format!(
                    "n{at} [shape=box, retry_target=n{back}]; n{at} -> {next} [label={label}]; n{at} -> n{back} [label=Again]\n"
                ));
            }
        }
    }
    text.push('}');
    text
}

#[test]
fn every_script_takes_its_targets_on_mixed_pipelines() {
    let wanted = case_count(100);
    let first = seed(120_000);
    let mut counts = Counts::default();
    for case in 0..wanted as u64 {
        let text = mixed(&mut Random::new(first + case));
        let loaded = load(Source::new("mixed.dot", text.as_str()), &LoadOptions::default());
        if loaded.pipeline().is_none() {
            continue;
        }
        let fail = |what: &str, found: &FoundPaths| {
            let scripts: Vec<String> = found.scripts.iter().map(PathScript::to_yaml).collect();
            panic!(
                "{what}; again with ORACLE_SEED={} ORACLE_CASES=1\n{text}\n{}",
                first + case,
                scripts.join("---\n")
            )
        };
        check(&loaded, &fail, &mut counts);
    }
    println!("{counts:?}");
    if wanted >= 100 {
        assert!(counts.pipelines > 50 && counts.covered > 500 && counts.jumps > 100 && counts.timed > 20);
        assert!(counts.out_of_order * 50 < counts.covered);
    }
}

/// Returns a chain of stages, each of which sets a value that its own edges read, and perhaps a loop around it.
fn chain(stages: usize, more: &str) -> Loaded {
    let parts = (0..stages).map(|at| {
        let next = at + 1;
        format!(
            "s{at} -> s{next} [condition=\"context.x{at} > 3 && outcome=success\"]
             s{at} -> t{at} [condition=\"context.x{at} <= 3 && outcome=success\"]; t{at} -> s{next}\n"
        )
    });
    let text = format!(
        "digraph chain {{ start -> s0; {} {more} }}",
        parts.collect::<String>()
    );
    load(Source::new("chain.dot", text.as_str()), &LoadOptions::default())
}

fn all_covered(found: &FoundPaths) -> bool {
    let mut verdicts = found.targets.iter().map(|found| &found.verdict);
    verdicts.all(|verdict| matches!(verdict, PathVerdict::Covered { .. }))
}

#[test]
fn values_that_nothing_reads_any_longer_do_not_multiply_the_states() {
    let loaded = chain(40, "s40 -> exit");
    let found = find_paths(&loaded, &PathOptions { max_states: 2_000 }).unwrap();
    assert!(found.is_complete && all_covered(&found), "{:#?}", found.targets);
}

/// Returns a large pipeline of stages, gates, blocks and loops.
fn large(random: &mut Random, count: u64) -> String {
    let mut text = "digraph large { start [shape=Mdiamond]; exit [shape=Msquare]; start -> n0\n".to_owned();
    for at in 0..count {
        let next = if at + 1 < count {
            format!("n{}", at + 1)
        } else {
            "exit".to_owned()
        };
        let back = at.saturating_sub(random.below(10) as u64);
        let more = match random.below(6) {
            0 => format!(
                "n{at} [shape=hexagon, timeout=1h, human.default_choice=Go]
                 n{at} -> {next} [label=Go]; n{at} -> n{back} [label=Back]"
            ),
            1 => format!(
                "n{at} [shape=component]; a{at}; b{at}; j{at} [shape=tripleoctagon]
                 n{at} -> a{at}; n{at} -> b{at}; a{at} -> j{at}; b{at} -> j{at}; j{at} -> {next}"
            ),
            2 => format!(
                "n{at} -> {next} [condition=\"context.k{at} > 3 && outcome=success\"]; n{at} -> {next}
                 n{at} -> n{back} [condition=\"context.k{at} <= 3 && outcome=success\"]"
            ),
            3 => format!(
                "n{at} [max_retries=1, max_visits=9]; n{at} -> {next}; n{at} -> n{back} [condition=\"outcome=fail\"]"
            ),
            _ => format!("n{at} -> {next}"),
        };
        text.push_str(&more);
        text.push('\n');
    }
    text.push('}');
    text
}

#[test]
fn large_pipelines_are_covered() {
    for case in 0..case_count(2) as u64 {
        let text = large(&mut Random::new(seed(150_000) + case), 200);
        let loaded = load(Source::new("large.dot", text.as_str()), &LoadOptions::default());
        let began = std::time::Instant::now();
        let found = find_paths(&loaded, &PathOptions::default()).unwrap();
        println!(
            "{} targets, {} scripts, {} states in {:?}",
            found.targets.len(),
            found.scripts.len(),
            found.states,
            began.elapsed()
        );
        let open = found
            .targets
            .iter()
            .filter(|found| found.verdict.word() != "covered");
        let open: Vec<&str> = open.map(|found| &*found.target.text).collect();
        assert_eq!(open, [""; 0], "{text}");
    }
}

#[test]
fn a_search_that_is_too_large_goes_on_without_the_context() {
    let loaded = chain(
        12,
        "s12 -> exit; s12 -> s0 [condition=\"outcome=skipped && visits.s0 < 3\"]",
    );
    let found = find_paths(&loaded, &PathOptions { max_states: 300 }).unwrap();
    assert!(all_covered(&found), "{:#?}", found.targets);
    let pipeline = SharedPipeline::from(loaded.pipeline().unwrap());
    for script in &found.scripts {
        let taken = taken_by(&pipeline, script);
        let targets = script.targets.iter().map(|at| found.targets[*at].target.step);
        assert!(targets.map(name).all(|name| taken.contains(&name)));
    }
}
