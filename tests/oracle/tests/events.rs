//! What must hold of events and effects whatever the rules say: on random graphs and scripts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{
    Answer, BranchStep, Effect, EffectId, Event, Machine, Observation, Outcome, Phase, SavedState,
    SharedPipeline,
};
use orchestra_graph::NodeIndex;
use orchestra_oracle_tests::driver::{Recording, record};
use orchestra_oracle_tests::generate::SCRIPTS;
use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{Script, Step, case_count, cases, load_drawn, seed};

fn text(effects: &[Effect]) -> Vec<String> {
    effects.iter().map(|effect| format!("{effect:?}")).collect()
}

fn reported(turns: &[(Event, Vec<Effect>)]) -> Vec<Vec<String>> {
    turns.iter().map(|(_, effects)| text(effects)).collect()
}

/// Pipelines of random graphs with a script each, until there are as many as wanted.
fn runs(first: u64, wanted: usize) -> impl Iterator<Item = (u64, SharedPipeline, Script)> {
    let sound = cases(first, 2 * wanted).filter_map(|case| {
        let (pipeline, _) = load_drawn(&case.graph, &case.dot).ok()?;
        Some((case.seed, SharedPipeline::from(Arc::new(pipeline)), case.scripts))
    });
    let each = |(seed, pipeline, scripts): (u64, SharedPipeline, Vec<Script>)| {
        scripts
            .into_iter()
            .map(move |script| (seed, pipeline.clone(), script))
    };
    sound.flat_map(each).take(wanted)
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
        let (pipeline, again) = (Arc::new(pipeline), Arc::new(again));
        for script in &case.scripts {
            let one = record(pipeline.clone(), script);
            let other = record(again.clone(), script);
            assert_eq!(text(&one.first), text(&other.first), "seed {}", case.seed);
            assert_eq!(reported(&one.turns), reported(&other.turns), "seed {}", case.seed);
            assert_eq!(one.machine.state(), other.machine.state(), "seed {}", case.seed);
            let expected = reported(&one.turns);
            let mut effects = Vec::new();
            let mut machine = other.before.clone();
            machine.begin(&mut effects);
            assert_eq!(text(&one.first), text(&effects), "seed {}", case.seed);
            // Long runs are tried from some prefixes only.
            let stride = 1 + one.turns.len() / 24;
            for prefix in 0..one.turns.len() {
                if prefix % stride == 0 {
                    // The state after the prefix holds all that the rest needs.
                    let mut copy = machine.clone();
                    for (at, (event, _)) in one.turns.iter().enumerate().skip(prefix) {
                        let mut effects = Vec::new();
                        copy.on(event.clone(), &mut effects);
                        assert_eq!(text(&effects), expected[at], "seed {} from {prefix}", case.seed);
                    }
                    let end = one.machine.state();
                    assert_eq!(copy.state(), end, "seed {} from {prefix}", case.seed);
                }
                machine.on(one.turns[prefix].0.clone(), &mut Vec::new());
            }
        }
    }
}

/// Keeps a run and takes it up again, as another process would.
fn taken_up(machine: &Machine) -> Machine {
    let written = serde_json::to_string(&machine.saved()).unwrap();
    let read: SavedState = serde_json::from_str(&written).unwrap();
    let state = read.restore(machine.pipeline()).unwrap();
    assert_eq!(&state, machine.state());
    Machine::resume(machine.pipeline().clone(), state)
}

#[test]
fn a_run_that_is_kept_and_taken_up_at_any_event_goes_on_as_if_nothing_had_happened() {
    let wanted = case_count(10_000) / 20;
    for (seed, _, run) in recordings(seed(700_000), wanted) {
        let expected = reported(&run.turns);
        let mut machine = run.before.clone();
        machine.begin(&mut Vec::new());
        let stride = 1 + run.turns.len() / 12;
        for prefix in 0..run.turns.len() {
            if prefix % stride == 0 {
                let mut copy = taken_up(&machine);
                let mut asked = Vec::new();
                copy.reissue(&mut asked);
                let mut asked: Vec<EffectId> = asked.iter().filter_map(wanted_of).cloned().collect();
                let mut pending = machine.pending();
                asked.sort();
                asked.dedup();
                pending.sort();
                assert_eq!(asked, pending, "seed {seed} from {prefix}");
                for (at, (event, _)) in run.turns.iter().enumerate().skip(prefix) {
                    // The journal keeps events as text, too.
                    let written = serde_json::to_string(event).unwrap();
                    let mut effects = Vec::new();
                    copy.on(serde_json::from_str(&written).unwrap(), &mut effects);
                    assert_eq!(text(&effects), expected[at], "seed {seed} from {prefix}");
                }
                assert_eq!(copy.state(), run.machine.state(), "seed {seed} from {prefix}");
            }
            machine.on(run.turns[prefix].0.clone(), &mut Vec::new());
        }
        assert_eq!(taken_up(&run.machine).state(), run.machine.state(), "seed {seed}");
    }
}

fn wanted_of(effect: &Effect) -> Option<&EffectId> {
    match effect {
        Effect::RunNode { id, .. } | Effect::StartTimer { id, .. } | Effect::AskHuman { id, .. } => Some(id),
        _ => None,
    }
}

#[test]
fn runs_that_nobody_observes_have_the_same_other_effects() {
    for (seed, _, run) in recordings(seed(600_000), case_count(10_000) / 10) {
        let silent = |effects: &[Effect]| -> Vec<String> {
            let others = effects
                .iter()
                .filter(|effect| !matches!(effect, Effect::Observe(_)));
            others.map(|effect| format!("{effect:?}")).collect()
        };
        let mut machine = run.before.clone();
        machine.observe(false);
        let mut effects = Vec::new();
        machine.begin(&mut effects);
        assert_eq!(text(&effects), silent(&run.first), "seed {seed}");
        for (event, expected) in &run.turns {
            effects.clear();
            machine.on(event.clone(), &mut effects);
            assert_eq!(text(&effects), silent(expected), "seed {seed}");
        }
        assert_eq!(machine.state(), run.machine.state(), "seed {seed}");
    }
}

fn recordings(first: u64, wanted: usize) -> impl Iterator<Item = (u64, Script, Recording)> {
    runs(first, wanted).map(|(seed, pipeline, script)| {
        let run = record(pipeline, &script);
        (seed, script, run)
    })
}

/// The name of the effect that an event answers.
fn name(event: &Event) -> Option<&EffectId> {
    match event {
        Event::NodeFinished { id, .. }
        | Event::TimerFired { id }
        | Event::Answered { id, .. }
        | Event::Unanswerable { id, .. } => Some(id),
        _ => None,
    }
}

/// What a machine waits for under a name.
fn phase_of(machine: &Machine, id: &EffectId) -> Option<Phase> {
    let mut line = &machine.state().main;
    for step in id.branch.steps() {
        let Phase::Parallel(block) = &line.phase else {
            return None;
        };
        let branch = block
            .branches()
            .iter()
            .find(|branch| branch.edge() == step.edge)?;
        line = branch.path().filter(|_| branch.status().is_none())?;
    }
    machine.pending().contains(id).then(|| line.phase.clone())
}

/// An event that fits nothing that is waited for, and what is wrong with it.
fn foreign(
    random: &mut Random,
    machine: &Machine,
    before: &[(Event, Vec<Effect>)],
) -> Option<(Event, &'static str)> {
    let pending = machine.pending();
    let answered: Vec<&Event> = before
        .iter()
        .map(|(event, _)| event)
        .filter(|event| name(event).is_some())
        .collect();
    let finished = |id| Event::NodeFinished {
        id,
        outcome: Outcome::success().set("foreign", true),
    };
    let kind = random.below(8);
    if kind < 2 {
        let (last, _) = answered.split_last()?;
        let event = if random.chance(50) {
            last
        } else {
            random.pick(&answered)
        };
        let phase = phase_of(machine, name(event)?);
        // The wait before an attempt has the name of the attempt, and so has the time that the attempt itself may
        // take; what keeps them apart is that a driver lets each ring once.
        let clock = matches!(phase, Some(Phase::Asking(_) | Phase::Parallel(_)));
        if clock && matches!(event, Event::TimerFired { .. }) {
            return None;
        }
        return Some(((*event).clone(), "an event that was reported before"));
    }
    let others: Vec<&EffectId> = pending
        .iter()
        .filter(|id| phase_of(machine, id).is_some_and(|phase| phase != Phase::Running))
        .collect();
    let id = if !others.is_empty() {
        (*random.pick(&others)).clone()
    } else if pending.is_empty() {
        return None;
    } else {
        random.pick(&pending).clone()
    };
    let phase = phase_of(machine, &id)?;
    Some(match kind {
        2 => {
            let restart = match id.restart.checked_sub(1).filter(|_| random.chance(50)) {
                Some(earlier) => earlier,
                None => id.restart + 1,
            };
            (finished(EffectId { restart, ..id }), "an event of another life")
        }
        3 => {
            let visit = id.visit + 1 + random.below(2) as u32;
            (finished(EffectId { visit, ..id }), "an event of another visit")
        }
        4 => {
            let attempt = id.attempt + 1;
            (
                Event::TimerFired {
                    id: EffectId { attempt, ..id },
                },
                "an event of another attempt",
            )
        }
        5 => {
            let nodes = machine.pipeline().nodes.len() as u32;
            let step = BranchStep {
                fan_out: NodeIndex(random.below(nodes as usize) as u32),
                visit: 1,
                attempt: 1,
                edge: orchestra_graph::EdgeIndex(random.below(machine.pipeline().edges.len()) as u32),
                item: None,
            };
            let branch = id.branch.then(step);
            let id = EffectId { branch, ..id };
            if pending.contains(&id) {
                return None;
            }
            (finished(id), "an event of another branch")
        }
        6 => match phase {
            Phase::Running => (Event::TimerFired { id }, "a timer of a stage that runs"),
            Phase::BackOff => (finished(id), "the end of a stage that waits"),
            Phase::Asking(_) => (finished(id), "a success without an answer"),
            Phase::Parallel(_) => (finished(id), "the end of a block"),
            _ => return None,
        },
        _ => {
            let answer = Answer::choice(if random.chance(50) { "none of these" } else { " " });
            match phase {
                Phase::Asking(question) if question.accept(&answer).is_ok() => return None,
                Phase::Asking(_) => (Event::Answered { id, answer }, "an answer that is not offered"),
                // It is kept for the question that the stage asks next.
                Phase::Running => return None,
                _ => {
                    let answer = Answer::choice("Y");
                    (Event::Answered { id, answer }, "an answer that nobody asked for")
                }
            }
        }
    })
}

#[test]
fn events_that_fit_nothing_change_nothing() {
    let wanted = case_count(10_000) / 10;
    let mut random = Random::new(seed(700_000));
    let mut met: BTreeMap<&str, usize> = BTreeMap::new();
    for (seed, _, run) in recordings(700_000, 10 * wanted) {
        if met.values().sum::<usize>() >= wanted {
            break;
        }
        let mut machine = run.before.clone();
        machine.begin(&mut Vec::new());
        for (at, (event, _)) in run.turns.iter().enumerate() {
            machine.on(event.clone(), &mut Vec::new());
            // Most of what is waited for are stages; the rest is worth more tries.
            let rare = machine
                .pending()
                .iter()
                .any(|id| phase_of(&machine, id).is_some_and(|phase| phase != Phase::Running));
            if !random.chance(if rare { 40 } else { 5 }) {
                continue;
            }
            let Some((foreign, what)) = foreign(&mut random, &machine, &run.turns[..=at]) else {
                continue;
            };
            let before = machine.state().clone();
            let mut effects = Vec::new();
            machine.on(foreign.clone(), &mut effects);
            assert!(
                effects.is_empty(),
                "seed {seed}: {what}, {foreign:?} gives {effects:?}"
            );
            assert_eq!(*machine.state(), before, "seed {seed}: {what}, {foreign:?}");
            *met.entry(what).or_default() += 1;
        }
    }
    println!("{met:#?}");
    if wanted >= 1_000 {
        assert!(met.values().sum::<usize>() >= wanted, "{met:?}");
        assert!(
            met.len() >= 11 && met.values().all(|count| *count >= 5),
            "{met:?}"
        );
    }
}

#[test]
fn the_order_in_which_branches_end_leaves_path_and_outcomes_as_they_are() {
    // Where no branch is cut short, it does not matter for these which ends first.
    let mut compared = 0;
    for (seed, pipeline, script) in runs(seed(800_000), case_count(10_000) / 4) {
        let traces: Vec<_> = (0..3)
            .map(|nth| {
                let schedule = script.schedule.wrapping_add(nth);
                let script = Script {
                    schedule,
                    ..script.clone()
                };
                record(pipeline.clone(), &script).trace()
            })
            .collect();
        let forks = |step: &Step| matches!(step, Step::Fork { branches, .. } if *branches > 1);
        let cut = |step: &Step| match step {
            Step::Cancelled(_) => true,
            Step::BranchEnd { status, .. } => status == "cancelled",
            _ => false,
        };
        if traces.iter().any(|trace| trace.steps.iter().any(cut)) || !traces[0].steps.iter().any(forks) {
            continue;
        }
        compared += 1;
        for other in &traces[1..] {
            assert_eq!(traces[0].path, other.path, "seed {seed}");
            assert_eq!(traces[0].visits, other.visits, "seed {seed}");
            assert_eq!(traces[0].taken, other.taken, "seed {seed}");
            let words = |trace: &orchestra_oracle_tests::Trace| -> Vec<(String, String)> {
                let words = trace.outcomes.iter();
                words
                    .map(|(node, recorded)| (node.clone(), recorded.word.clone()))
                    .collect()
            };
            assert_eq!(words(&traces[0]), words(other), "seed {seed}");
        }
    }
    println!("{compared} runs");
    assert!(
        case_count(10_000) < 10_000 || compared > 100,
        "{compared} runs show little"
    );
}

#[test]
fn delays_are_a_matter_of_the_seed() {
    let delays = |run: &Recording| -> Vec<(String, Duration)> {
        let reported = run.effects().filter_map(|effect| match effect {
            Effect::Observe(Observation::StageRetrying { id, delay, .. }) => {
                Some((id.name(run.machine.pipeline()), *delay))
            }
            _ => None,
        });
        reported.collect()
    };
    let (mut same, mut other) = (0, 0);
    for (seed, _, run) in recordings(seed(900_000), case_count(10_000) / 20) {
        let pipeline = run.machine.pipeline().clone();
        let replay = |seed: u64| {
            let mut machine = Machine::prepare(pipeline.clone(), orchestra_core::Context::new(), seed);
            let before = machine.clone();
            let mut first = Vec::new();
            machine.begin(&mut first);
            let mut turns = Vec::new();
            for (event, _) in &run.turns {
                let mut effects = Vec::new();
                machine.on(event.clone(), &mut effects);
                turns.push((event.clone(), effects));
            }
            Recording {
                before,
                machine,
                first,
                turns,
            }
        };
        let own = run.before.state().totals.seed;
        assert_eq!(delays(&run), delays(&replay(own)), "seed {seed}");
        let changed = delays(&replay(own ^ 1));
        for ((name, delay), (same_name, changed)) in delays(&run).into_iter().zip(changed) {
            assert_eq!(name, same_name, "seed {seed}");
            if delay == changed { same += 1 } else { other += 1 }
        }
    }
    // Those without jitter stay as they are.
    assert!(
        same > 0 && other * 4 > same,
        "{same} delays are the same, {other} are not"
    );
}
