//! Runs of the machine along a path, in the time that a simulated run has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use orchestra_graph::{Contract, Next, NodeIndex, PathStep, Rule, SharedPipeline};
use serde_json::Value;

use super::path_script::{PathEntry, PathScript, is_default, may_time_out, readable};
use super::reactions::Reactions;
use crate::answer::Answer;
use crate::context::Context;
use crate::effect::{Effect, Event, Observation};
use crate::id::EffectId;
use crate::machine::Machine;
use crate::outcome::{Outcome, Status};
use crate::path::Phase;
use crate::question::Question;
use crate::state::State;

/// The smallest difference between the ends of two stages.
const TICK: Duration = Duration::from_millis(1);
/// The time for which a stage goes on after it was cancelled.
const CANCELLED: Duration = Duration::from_secs(1);
/// Maximum number of events after the path, to the end of the run.
const MAX_REST: usize = 200;

/// Returns the steps that targets may name in the effects of an event.
pub(super) fn steps_in(effects: &[Effect], before: Option<&State>, after: &State) -> Vec<PathStep> {
    let mut steps = Vec::new();
    for effect in effects {
        let Effect::Observe(observation) = effect else {
            continue;
        };
        match observation {
            Observation::Routed { from, decision, .. } => match (decision.next, decision.rule) {
                // In first-match routing, a revisit may be refused after the decision.
                (Next::Edge(edge), _) => {
                    let count = |state: &State| state.totals.taken.get(edge.at()).copied();
                    if count(after) != before.map_or(Some(0), count) {
                        steps.push(PathStep::Edge(edge));
                    }
                }
                (Next::Jump(_), Rule::RetryTarget | Rule::FallbackRetryTarget) => {
                    steps.push(PathStep::Failure(*from));
                }
                (Next::Jump(_), Rule::Join | Rule::FailureToRouting) => steps.push(PathStep::Join(*from)),
                _ => {}
            },
            Observation::ParallelBranchStarted { branch, .. } => {
                steps.extend(branch.steps().last().map(|step| PathStep::Edge(step.edge)));
            }
            Observation::StageRetrying { id, .. } => steps.push(PathStep::Retry(id.node)),
            Observation::InterviewTimeout { id, .. } => steps.push(PathStep::TimeOut(id.node)),
            Observation::GoalGateUnsatisfied { gate, .. } => steps.push(PathStep::GoalGate(*gate)),
            Observation::Restarted { edge, .. } => steps.push(PathStep::Restart(*edge)),
            _ => {}
        }
    }
    steps
}

/// The event that a run waits for.
#[derive(Clone)]
enum Waits {
    Stage,
    Question(Box<Question>),
    /// A timer that fires at a time.
    Timer(Duration),
}

#[derive(Clone)]
struct Open {
    id: EffectId,
    waits: Waits,
    since: Duration,
    /// The index of its entry in the script.
    entry: usize,
    /// The number of events before it.
    opened: usize,
}

/// A run of the machine along a path.
#[derive(Clone)]
pub(super) struct Recording<'f> {
    pipeline: &'f SharedPipeline,
    targets: &'f HashMap<PathStep, usize>,
    machine: Machine,
    now: Duration,
    open: Vec<Open>,
    /// The entries of each node, in the order in which its attempts began. `None` for an attempt without an end.
    entries: BTreeMap<u32, Vec<Option<PathEntry>>>,
    pub(super) reached: BTreeSet<usize>,
    pub(super) events: usize,
}

impl<'f> Recording<'f> {
    /// Starts a run with some inputs.
    pub(super) fn start(
        pipeline: &'f SharedPipeline,
        targets: &'f HashMap<PathStep, usize>,
        inputs: &[(String, Value)],
    ) -> Recording<'f> {
        let context: Context = inputs.iter().cloned().collect();
        let mut effects = Vec::new();
        let machine = Machine::start(pipeline.clone(), context, 0, &mut effects);
        let mut recording = Recording {
            pipeline,
            targets,
            machine,
            now: Duration::ZERO,
            open: Vec::new(),
            entries: BTreeMap::new(),
            reached: BTreeSet::new(),
            events: 0,
        };
        recording.apply(&effects, None);
        recording
    }

    /// Applies an event. Returns `None` if no simulated run has this event next, because something else happens earlier.
    pub(super) fn follow(&mut self, event: Event) -> Option<()> {
        let id = match &event {
            Event::NodeFinished { id, .. } | Event::TimerFired { id } | Event::Answered { id, .. } => {
                id.clone()
            }
            _ => return None,
        };
        let at = self.time_of(&id, &event)?;
        self.now = at;
        let closed = self
            .open
            .iter()
            .position(|open| open.id == id && fits(&open.waits, &event))?;
        let closed = self.open.remove(closed);
        let entry = match (&event, &closed.waits) {
            (Event::NodeFinished { outcome, .. }, _) => Some(PathEntry::Ends {
                outcome: outcome.clone(),
                takes: at - closed.since,
            }),
            (Event::Answered { answer, .. }, Waits::Question(question)) => {
                Some(PathEntry::Answers(readable(question, answer)))
            }
            _ => None,
        };
        if let Some(entry) = entry {
            self.fill(&closed, entry);
        }
        let question = self.open.iter().find(|open| open.id == id);
        if let (Event::TimerFired { .. }, Some(open)) = (&event, question.cloned()) {
            if matches!(&open.waits, Waits::Question(question) if !may_time_out(question)) {
                return None;
            }
            self.fill(&open, PathEntry::Answers(Answer::timed_out()));
        }
        self.open.retain(|open| open.id != id);
        let before = self.machine.state().clone();
        let mut effects = Vec::new();
        self.machine.on(event, &mut effects);
        self.events += 1;
        self.apply(&effects, Some(&before));
        (!effects.is_empty()).then_some(())
    }

    /// Returns the time of an event. Answers are given at once, and stages end when the script says.
    fn time_of(&self, id: &EffectId, event: &Event) -> Option<Duration> {
        let own = self
            .open
            .iter()
            .find(|open| open.id == *id && fits(&open.waits, event))?;
        let at = match (event, &own.waits) {
            (Event::TimerFired { .. }, Waits::Timer(due)) => *due,
            (Event::Answered { .. }, _) if own.since == self.now => self.now,
            (Event::Answered { .. }, _) => return None,
            _ => {
                let is_other = |open: &&Open| open.id != *id && matches!(open.waits, Waits::Stage);
                let is_alone = !self.open.iter().any(|open| is_other(&open));
                // What happens at the same time must not depend on an order that only the driver knows.
                if is_alone && own.since == self.now && own.opened == self.events {
                    self.now
                } else {
                    self.now + TICK
                }
            }
        };
        // Something else would happen before.
        let is_timer = matches!(own.waits, Waits::Timer(_));
        for open in &self.open {
            match &open.waits {
                Waits::Timer(due) if open.id != *id && *due < at + TICK => return None,
                Waits::Timer(due) if open.id == *id && !is_timer && *due < at + TICK => return None,
                // Nobody answers it later, and it would wait for ever.
                Waits::Question(question) if at > self.now && question.timeout.is_none() => return None,
                Waits::Stage => {
                    let limit = self.pipeline.stage(open.id.node).duration("timeout");
                    if limit.is_some_and(|limit| at - open.since >= limit) {
                        return None;
                    }
                }
                _ => {}
            }
        }
        Some(at)
    }

    fn fill(&mut self, open: &Open, entry: PathEntry) {
        let entries = self.entries.entry(open.id.node.0).or_default();
        if let Some(slot) = entries.get_mut(open.entry) {
            *slot = Some(entry);
        }
    }

    /// Opens and closes what the machine asks for, and notes the targets that it reached.
    fn apply(&mut self, effects: &[Effect], before: Option<&State>) {
        for effect in effects {
            let (id, waits) = match effect {
                Effect::RunNode { id, .. } => (id, Waits::Stage),
                Effect::AskHuman { id, question } => (id, Waits::Question(question.clone())),
                Effect::StartTimer { id, delay } => (id, Waits::Timer(self.now + whole(*delay))),
                Effect::CancelEffect { id } => {
                    self.cancel(id);
                    continue;
                }
                _ => continue,
            };
            let entries = self.entries.entry(id.node.0).or_default();
            let entry = entries.len();
            if !matches!(waits, Waits::Timer(_)) {
                entries.push(None);
            }
            self.open.push(Open {
                id: id.clone(),
                waits,
                since: self.now,
                entry,
                opened: self.events,
            });
        }
        for step in steps_in(effects, before, self.machine.state()) {
            self.reached.extend(self.targets.get(&step));
        }
    }

    fn cancel(&mut self, id: &EffectId) {
        let cancelled: Vec<Open> = self.open.iter().filter(|open| open.id == *id).cloned().collect();
        self.open.retain(|open| open.id != *id);
        for open in cancelled {
            let entry = match open.waits {
                Waits::Stage => PathEntry::Ends {
                    outcome: Outcome::success(),
                    takes: self.now - open.since + CANCELLED,
                },
                Waits::Question(_) => PathEntry::Answers(Answer::timed_out()),
                Waits::Timer(_) => continue,
            };
            let node = self.entries.entry(open.id.node.0).or_default();
            if let Some(slot) = node.get_mut(open.entry)
                && slot.is_none()
            {
                *slot = Some(entry);
            }
        }
    }

    /// Continues to the end of the run: stages succeed, and gates get their answers in turn. Changes nothing if the run
    /// does not end soon.
    pub(super) fn finish(&mut self, reactions: &Reactions) {
        let mut rest = self.clone();
        let mut answers: BTreeMap<u32, usize> = BTreeMap::new();
        for _ in 0..MAX_REST {
            if rest.machine.state().totals.finished {
                *self = rest;
                return;
            }
            let Some(event) = rest.next_event(reactions, &mut answers) else {
                return;
            };
            if rest.follow(event).is_none() {
                return;
            }
        }
    }

    fn next_event(&self, reactions: &Reactions, answers: &mut BTreeMap<u32, usize>) -> Option<Event> {
        let mut waiting = Vec::new();
        self.machine.visit_paths(&mut |path, id| waiting.push((path, id)));
        let find = |wanted: fn(&Phase) -> bool| waiting.iter().find(|(path, _)| wanted(&path.phase));
        if let Some((path, id)) = find(|phase| matches!(phase, Phase::Asking(_))) {
            let Phase::Asking(question) = &path.phase else {
                return None;
            };
            let count = answers.entry(id.node.0).or_default();
            let events = reactions.events(path, id);
            let event = events.into_iter().nth(*count % question.options.len().max(1));
            *count += 1;
            return event;
        }
        if let Some((path, id)) = find(|phase| matches!(phase, Phase::Running)) {
            return reactions.events(path, id).into_iter().next();
        }
        let timers = self.open.iter().filter_map(|open| match open.waits {
            Waits::Timer(due) => Some((due, &open.id)),
            _ => None,
        });
        let (_, id) = timers.min_by_key(|(due, _)| *due)?;
        Some(Event::TimerFired { id: id.clone() })
    }

    /// Returns the script of the run.
    pub(super) fn script(self, inputs: BTreeMap<String, Value>) -> PathScript {
        let contract = Contract::from_pipeline(self.pipeline);
        let mut nodes = BTreeMap::new();
        for stage in self.pipeline.stages() {
            let Some(mut slots) = self.entries.get(&stage.index().0).cloned() else {
                continue;
            };
            // Stages that still run when the path ends must not end before, except those that its end began.
            for open in &self.open {
                let goes_on = matches!(open.waits, Waits::Stage) && open.opened < self.events;
                if open.id.node == stage.index()
                    && goes_on
                    && let Some(slot) = slots.get_mut(open.entry)
                {
                    *slot = Some(PathEntry::Ends {
                        outcome: Outcome::success(),
                        takes: self.now - open.since + CANCELLED,
                    });
                }
            }
            // What is left was begun last.
            let mut entries: Vec<PathEntry> = slots.into_iter().map_while(|entry| entry).collect();
            for entry in &mut entries {
                without_examples(&contract, stage.index(), entry);
            }
            // The last entry repeats.
            while let [.., before, last] = &entries[..]
                && before == last
                && matches!(last, PathEntry::Ends { outcome, .. } if *outcome == Outcome::success())
            {
                entries.pop();
            }
            if !entries.is_empty() && !is_default(self.pipeline, stage, &entries) {
                nodes.insert(stage.id().to_owned(), entries);
            }
        }
        PathScript {
            inputs,
            nodes,
            targets: self.reached.into_iter().collect(),
        }
    }
}

/// Removes the values that a simulated run sets by itself.
fn without_examples(contract: &Contract, node: NodeIndex, entry: &mut PathEntry) {
    if let PathEntry::Ends { outcome, .. } = entry
        && !matches!(outcome.status, Status::Fail | Status::Retry)
    {
        for field in contract.outputs(node, outcome.status.word()) {
            let value = outcome.context_updates.get(&field.key);
            if !field.optional && value == Some(&field.value_type.example(&field.key)) {
                outcome.context_updates.remove(&field.key);
            }
        }
    }
}

/// Returns whether an event ends what a run waits for.
fn fits(waits: &Waits, event: &Event) -> bool {
    matches!(
        (waits, event),
        (Waits::Stage, Event::NodeFinished { .. })
            | (Waits::Question(_), Event::Answered { .. })
            | (Waits::Timer(_), Event::TimerFired { .. })
    )
}

/// Returns a delay in whole milliseconds, which is the precision of timers.
fn whole(delay: Duration) -> Duration {
    Duration::from_millis(u64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}
