//! The finder of scripts: for each edge and each jump of a pipeline, a shortest path of a run that takes it (rule V5).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use orchestra_graph::{Loaded, PathStep, PathTarget, SharedPipeline};
use serde_json::Value;

use super::path_script::PathScript;
use super::reactions::Reactions;
use super::recording::{Recording, steps_in};
use super::state_key::StateKey;
use crate::context::Context;
use crate::effect::{Effect, Event};
use crate::machine::Machine;
use crate::path::Phase;

/// Maximum number of states times nodes, which limits the memory.
const MAX_NODES: usize = 20_000_000;
/// Maximum number of states of the first search. If there are more, coarser searches come before a longer one.
const FIRST_STATES: usize = 10_000;
/// Maximum number of paths to one target that are tried, because a path may have an order of events that no simulated run
/// has.
const MAX_TRIES: u32 = 50;

/// The options of a search for paths.
///
/// ```
/// assert_eq!(orchestra_core::PathOptions::default().max_states, 100_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathOptions {
    /// The maximum number of states.
    pub max_states: usize,
}

impl Default for PathOptions {
    fn default() -> PathOptions {
        PathOptions { max_states: 100_000 }
    }
}

/// The result of the search for a target.
///
/// ```
/// use orchestra_core::{PathVerdict, find_paths};
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> a -> exit; a -> b [condition=\"outcome=fail && outcome=success\"]; b -> exit }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let found = find_paths(&loaded, &Default::default()).expect("sound");
/// let verdicts: Vec<&str> = found.targets.iter().map(|found| found.verdict.word()).collect();
/// assert_eq!(verdicts, ["covered", "covered", "infeasible", "not found"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathVerdict {
    /// A script leads a run to it.
    Covered {
        /// The index of the script.
        script: usize,
        /// The number of outcomes, answers and timers on a shortest path to it.
        steps: usize,
    },
    /// No run takes it.
    Infeasible {
        /// The reason.
        reason: String,
    },
    /// The search did not reach it.
    NotFound {
        /// The extent of the search.
        reason: String,
    },
}

impl PathVerdict {
    /// Returns the verdict in one or two words.
    pub fn word(&self) -> &'static str {
        match self {
            PathVerdict::Covered { .. } => "covered",
            PathVerdict::Infeasible { .. } => "infeasible",
            PathVerdict::NotFound { .. } => "not found",
        }
    }
}

/// A target with its verdict.
///
/// ```
/// use orchestra_core::find_paths;
/// use orchestra_graph::{Source, load};
/// let loaded = load(Source::new("a.dot", "digraph { start -> exit }"), &Default::default());
/// let found = find_paths(&loaded, &Default::default()).expect("sound");
/// assert_eq!(found.targets[0].target.text, "edge start -> exit");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundTarget {
    /// The target.
    pub target: PathTarget,
    /// The verdict.
    pub verdict: PathVerdict,
}

/// The paths of a pipeline: its targets with their verdicts, and few scripts that cover them.
///
/// ```
/// use orchestra_core::find_paths;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> ask; ask -> exit [label=Yes]; ask -> work [label=No]; work -> ask; ask [shape=hexagon] }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let found = find_paths(&loaded, &Default::default()).expect("sound");
/// assert!(found.is_complete && found.targets.len() == 4);
/// assert_eq!(found.scripts[0].to_yaml(), "ask: [\"No\", \"Yes\"]\n");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FoundPaths {
    /// The targets.
    pub targets: Vec<FoundTarget>,
    /// The scripts.
    pub scripts: Vec<PathScript>,
    /// The number of states that were searched.
    pub states: usize,
    /// `false` if the search stopped at the maximum number of states before it reached all targets.
    pub is_complete: bool,
}

/// Searches for paths to all [targets](Loaded::path_targets) of a pipeline: drives the state machine breadth-first, tries
/// what [`explore`](crate::explore()) tries, and stops when all targets that a run may take are reached. Returns `None` if
/// the pipeline has errors.
///
/// ```
/// use orchestra_core::find_paths;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> test -> exit; test [prompt=Test, max_retries=1] }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let found = find_paths(&loaded, &Default::default()).expect("sound");
/// let retry = found.targets.iter().find(|found| found.target.name == "retry_of_test").expect("a target");
/// assert_eq!(retry.verdict.word(), "covered");
/// ```
pub fn find_paths(loaded: &Loaded, options: &PathOptions) -> Option<FoundPaths> {
    let pipeline = SharedPipeline::from(loaded.pipeline()?);
    let targets = loaded.path_targets()?;
    let steps = targets.iter().zip(0..).map(|(target, at)| (target.step, at));
    let steps: HashMap<PathStep, usize> = steps.collect();
    let key = StateKey::new(&pipeline, false);
    let mut reactions = Reactions::new(&pipeline, &key);
    reactions.keep_scriptable(&pipeline);
    let left = targets
        .iter()
        .zip(0..)
        .filter(|(target, _)| target.infeasible.is_none())
        .map(|(_, at)| at);
    let mut search = Search {
        pipeline: &pipeline,
        steps: &steps,
        reactions: &reactions,
        states: 0,
        is_complete: true,
        left: left.collect(),
        tries: vec![0; targets.len()],
        paths: Vec::new(),
        links: Vec::new(),
    };
    let is_parallel = pipeline.nodes.iter().any(|node| node.fan_out.is_some());
    let max_states = options.max_states.min(MAX_NODES / pipeline.nodes.len().max(1));
    search.run(&key, max_states.min(FIRST_STATES), false);
    if !search.is_complete {
        search.run(&key.with_positions_only(), max_states, false);
        search.run(&key.without_context(), max_states.min(FIRST_STATES), false);
        search.run(&key, max_states, false);
    }
    if is_parallel {
        search.run(&key, max_states, true);
    }
    Some(search.found(targets))
}

/// The step that led to a state.
struct Link {
    /// The state before it, or the index of the inputs for a first state.
    from: Result<usize, usize>,
    event: Option<Event>,
}

/// A path to some targets.
struct FoundPath<'s> {
    start: usize,
    recording: Recording<'s>,
    /// The targets to which this is a shortest path, with its length.
    shortest: Vec<(usize, usize)>,
}

struct Search<'s> {
    pipeline: &'s SharedPipeline,
    steps: &'s HashMap<PathStep, usize>,
    reactions: &'s Reactions,
    states: usize,
    is_complete: bool,
    /// The targets that are not reached yet.
    left: BTreeSet<usize>,
    /// The number of paths to each target that no simulated run has.
    tries: Vec<u32>,
    paths: Vec<FoundPath<'s>>,
    links: Vec<Link>,
}

impl Search<'_> {
    /// Searches breadth-first until nothing is left. Parallel stages end one branch after the other, or in all orders.
    fn run(&mut self, key: &StateKey, max_states: usize, all_orders: bool) {
        if self.left.is_empty() {
            return;
        }
        self.is_complete = true;
        let mut seen = HashSet::new();
        let mut queue = VecDeque::new();
        let mut effects = Vec::new();
        self.links.clear();
        for (start, values) in self.reactions.starts.iter().enumerate() {
            effects.clear();
            let context: Context = values.iter().cloned().collect();
            let machine = Machine::start(self.pipeline.clone(), context, 0, &mut effects);
            self.reach(&effects, None, &machine, Err(start), None);
            if seen.insert(key.hash(machine.state(), None)) {
                self.links.push(Link {
                    from: Err(start),
                    event: None,
                });
                queue.push_back((self.links.len() - 1, machine));
            }
        }
        while let Some((at, machine)) = queue.pop_front() {
            for event in self.events(&machine, all_orders) {
                if self.left.is_empty() {
                    self.states += seen.len();
                    return;
                }
                if seen.len() >= max_states {
                    self.states += seen.len();
                    self.is_complete = false;
                    return;
                }
                let mut next = machine.clone();
                effects.clear();
                next.on(event.clone(), &mut effects);
                // The machine refuses an answer that names no choice.
                if effects.is_empty() {
                    continue;
                }
                self.reach(&effects, Some(&machine), &next, Ok(at), Some(&event));
                next.forget_history();
                if seen.insert(key.hash(next.state(), None)) && !next.state().totals.finished {
                    self.links.push(Link {
                        from: Ok(at),
                        event: Some(event),
                    });
                    queue.push_back((self.links.len() - 1, next));
                }
            }
        }
        self.states += seen.len();
    }

    /// Returns the events to try in a state. Gates are answered at once, and the delay before an attempt ends only when no
    /// stage runs, because a simulated stage takes no more time than it must.
    fn events(&self, machine: &Machine, all_orders: bool) -> Vec<Event> {
        let mut waiting = Vec::new();
        machine.visit_paths(&mut |path, id| waiting.push((path, id)));
        let of = |wanted: fn(&Phase) -> bool| waiting.iter().filter(move |(path, _)| wanted(&path.phase));
        let mut events = Vec::new();
        let asking = of(|phase| matches!(phase, Phase::Asking(_))).take(1);
        let most = if all_orders { usize::MAX } else { 1 };
        let running = of(|phase| matches!(phase, Phase::Running)).take(most);
        let mut next: Vec<_> = asking.collect();
        if next.is_empty() {
            next.extend(running);
        }
        if next.is_empty() {
            next.extend(of(|phase| matches!(phase, Phase::BackOff)));
        }
        next.extend(of(|phase| matches!(phase, Phase::Parallel(_))));
        for (path, id) in next {
            events.extend(self.reactions.events(path, id));
        }
        events
    }

    /// Adds a path to each target in the effects of an event that is not reached yet.
    fn reach(
        &mut self,
        effects: &[Effect],
        before: Option<&Machine>,
        after: &Machine,
        from: Result<usize, usize>,
        event: Option<&Event>,
    ) {
        let steps = steps_in(effects, before.map(Machine::state), after.state());
        let targets = steps.iter().filter_map(|step| self.steps.get(step).copied());
        let new: BTreeSet<usize> = targets.filter(|target| self.left.contains(target)).collect();
        if new.is_empty() {
            return;
        }
        let (start, mut events) = self.trail(from);
        events.extend(event.cloned());
        let inputs = self.reactions.starts.get(start).map_or(&[][..], |values| values);
        let length = events.len();
        let mut recording = Recording::start(self.pipeline, self.steps, inputs);
        let followed = events.into_iter().all(|event| recording.follow(event).is_some());
        if !followed || !new.is_subset(&recording.reached) {
            for target in new {
                self.tries[target] += 1;
                if self.tries[target] >= MAX_TRIES {
                    self.left.remove(&target);
                }
            }
            return;
        }
        recording.finish(self.reactions);
        for target in &new {
            self.left.remove(target);
        }
        self.paths.push(FoundPath {
            start,
            recording,
            shortest: new.into_iter().map(|target| (target, length)).collect(),
        });
    }

    /// Returns the events that lead to a state, with the index of the inputs.
    fn trail(&self, from: Result<usize, usize>) -> (usize, Vec<Event>) {
        let mut events = Vec::new();
        let mut from = from;
        loop {
            let link = match from {
                Err(start) => {
                    events.reverse();
                    return (start, events);
                }
                Ok(at) => self.links.get(at),
            };
            let Some(link) = link else {
                return (0, Vec::new());
            };
            events.extend(link.event.clone());
            from = link.from;
        }
    }

    /// Selects few paths that cover all targets, and states the verdicts.
    fn found(self, targets: Vec<PathTarget>) -> FoundPaths {
        let mut lengths = BTreeMap::new();
        for path in &self.paths {
            lengths.extend(path.shortest.iter().copied());
        }
        let mut uncovered: BTreeSet<usize> = lengths.keys().copied().collect();
        let mut paths: Vec<Option<FoundPath<'_>>> = self.paths.into_iter().map(Some).collect();
        let mut scripts = Vec::new();
        let mut script_of = BTreeMap::new();
        while !uncovered.is_empty() {
            let gain = |path: &FoundPath<'_>| {
                let covered = path.recording.reached.intersection(&uncovered).count();
                (covered, usize::MAX - path.recording.events)
            };
            let best = paths
                .iter_mut()
                .max_by_key(|path| path.as_ref().map(&gain))
                .and_then(Option::take);
            let Some(best) = best.filter(|path| gain(path).0 > 0) else {
                break;
            };
            for target in &best.recording.reached {
                if uncovered.remove(target) {
                    script_of.insert(*target, scripts.len());
                }
            }
            let inputs = self.reactions.starts.get(best.start).cloned().unwrap_or_default();
            let first = self.reactions.starts.first().cloned().unwrap_or_default();
            let inputs: BTreeMap<String, Value> = inputs
                .into_iter()
                .filter(|input| !first.contains(input))
                .collect();
            scripts.push(best.recording.script(inputs));
        }
        let reason = |target: usize| {
            let states = self.states;
            if self.tries[target] > 0 {
                "it takes an order of events that no simulated run has".to_owned()
            } else if !self.is_complete {
                format!("the search stopped after {states} states")
            } else if self.reactions.are_incomplete {
                "no run reaches it with the context values that were tried".to_owned()
            } else {
                format!("no run reaches it; all {states} states were searched")
            }
        };
        let targets = targets.into_iter().enumerate().map(|(at, target)| {
            let verdict = match (&target.infeasible, lengths.get(&at), script_of.get(&at)) {
                (Some(reason), _, _) => PathVerdict::Infeasible {
                    reason: reason.clone(),
                },
                (None, Some(steps), Some(script)) => PathVerdict::Covered {
                    script: *script,
                    steps: *steps,
                },
                (None, _, _) => PathVerdict::NotFound { reason: reason(at) },
            };
            FoundTarget { target, verdict }
        });
        FoundPaths {
            targets: targets.collect(),
            scripts,
            states: self.states,
            is_complete: self.is_complete,
        }
    }
}
