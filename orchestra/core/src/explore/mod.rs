//! The exploration of a pipeline: all states that its runs may have, found by the machine itself.

mod path_script;
mod paths;
mod reactions;
mod recording;
mod state_key;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use orchestra_graph::{Loaded, Next, NodeIndex, Pipeline, PossibleSteps, RunLimits, SharedPipeline};

use crate::context::Context;
use crate::effect::{Effect, Event, Observation};
use crate::id::BranchPath;
use crate::machine::Machine;
pub use path_script::{PathEntry, PathScript};
pub use paths::{FoundPaths, FoundTarget, PathOptions, PathVerdict, find_paths};
use reactions::Reactions;
use state_key::StateKey;

/// Maximum number of states times nodes, which limits the memory.
const MAX_NODES: usize = 40_000_000;
/// Maximum number of violations that are listed.
const MAX_VIOLATIONS: usize = 20;

/// The options of an exploration.
///
/// ```
/// let options = orchestra_core::ExploreOptions::default();
/// assert_eq!((options.max_states, options.counts_all), (200_000, false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExploreOptions {
    /// The maximum number of states.
    pub max_states: usize,
    /// `true` if states with different numbers of visits and attempts are different. The largest numbers are then those
    /// of all runs, but there are far more states.
    pub counts_all: bool,
}

impl Default for ExploreOptions {
    fn default() -> ExploreOptions {
        ExploreOptions {
            max_states: 200_000,
            counts_all: false,
        }
    }
}

/// How runs may end.
///
/// ```
/// use orchestra_core::explore;
/// use orchestra_graph::{Source, load};
/// let loaded = load(Source::new("a.dot", "digraph { start -> work -> exit }"), &Default::default());
/// let found = explore(&loaded, &Default::default()).expect("sound");
/// let ends: Vec<(&str, &str)> = found.ends.iter().map(|end| (end.code, &*end.node)).collect();
/// assert_eq!(ends, [("stage_failed", "work"), ("success", "")]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct ExploredEnd {
    /// The code of the failure, or `success`.
    pub code: &'static str,
    /// The id of the node to which the failure belongs; empty if there is none.
    pub node: String,
    /// The number of steps that lead there.
    pub count: u64,
}

/// What an exploration found.
///
/// ```
/// use orchestra_core::explore;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> work -> exit; work -> never [condition=\"outcome=fail && outcome=success\"]; never -> exit }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let found = explore(&loaded, &Default::default()).expect("sound");
/// assert!(found.is_complete && found.violations.is_empty());
/// assert_eq!(found.reached, [true, true, true, false]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exploration {
    /// The number of different states.
    pub states: usize,
    /// The number of events that were tried.
    pub events: u64,
    /// `false` if there are more states than were explored.
    pub is_complete: bool,
    /// `false` if stages may end in more ways than were tried.
    pub tried_all_outcomes: bool,
    /// The ends of runs.
    pub ends: Vec<ExploredEnd>,
    /// `true` for each node that was reached, in the order of the node table.
    pub reached: Vec<bool>,
    /// `true` for each edge that was taken, in the order of the edge table.
    pub taken: Vec<bool>,
    /// The most visits and attempts of each node that were seen in one run.
    pub most: Vec<[u32; 2]>,
    /// The most visits and attempts of all nodes together that were seen in one run.
    pub most_in_all: [u64; 2],
    /// What contradicts the steps, the limits, or the machine itself. Each one is a bug of Orchestra.
    pub violations: Vec<String>,
}

/// Explores the states of a pipeline breadth-first: in each state, all outcomes, answers and time-outs are tried, except outcomes that
/// nothing tells apart. States are
/// compared without elapsed time, notes, the history of the path, and counters that only a default limits. Returns `None`
/// if the pipeline has errors.
///
/// ```
/// use orchestra_core::explore;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> ask; ask -> exit [label=Yes]; ask -> work [label=No]; work -> ask; ask [shape=hexagon] }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let found = explore(&loaded, &Default::default()).expect("sound");
/// assert!(found.is_complete && found.taken.iter().all(|taken| *taken));
/// ```
pub fn explore(loaded: &Loaded, options: &ExploreOptions) -> Option<Exploration> {
    let pipeline = SharedPipeline::from(loaded.pipeline()?);
    let nodes = pipeline.nodes.len();
    let most_states = options.max_states.min(MAX_NODES / nodes.max(1));
    let mut search = Search {
        key: StateKey::new(&pipeline, options.counts_all),
        limits: loaded.limits()?,
        steps: loaded.possible_steps()?,
        counts_all: options.counts_all,
        possible: HashSet::new(),
        seen: HashSet::new(),
        queue: VecDeque::new(),
        ends: BTreeMap::new(),
        found: Exploration {
            is_complete: true,
            reached: vec![false; nodes],
            taken: vec![false; pipeline.edges.len()],
            most: vec![[0; 2]; nodes],
            ..Exploration::default()
        },
        pipeline: pipeline.clone(),
    };
    let reactions = Reactions::new(&pipeline, &search.key);
    search.found.tried_all_outcomes = !reactions.are_incomplete;
    let mut effects = Vec::new();
    for start in &reactions.starts {
        effects.clear();
        let context: Context = start.iter().cloned().collect();
        let start = Point {
            machine: Machine::start(pipeline.clone(), context, 0, &mut effects),
            counts: vec![[0; 2]; nodes].into(),
        };
        search.add(start, &effects);
    }
    while let Some(point) = search.queue.pop_front() {
        let mut waiting = Vec::new();
        point
            .machine
            .visit_paths(&mut |path, id| waiting.extend(reactions.events(path, &id)));
        for event in waiting {
            if search.seen.len() >= most_states {
                search.found.is_complete = false;
                search.queue.clear();
                break;
            }
            search.go_on(&point, event, &mut effects);
        }
    }
    Some(search.finish())
}

/// A state of the machine, with the visits and attempts of each node so far.
struct Point {
    machine: Machine,
    counts: Box<[[u32; 2]]>,
}

struct Search {
    pipeline: SharedPipeline,
    key: StateKey,
    limits: RunLimits,
    steps: PossibleSteps,
    /// The hashes of steps that were found to be possible.
    possible: HashSet<u64>,
    counts_all: bool,
    seen: HashSet<u64>,
    queue: VecDeque<Point>,
    ends: BTreeMap<(&'static str, String), u64>,
    found: Exploration,
}

impl Search {
    /// Applies an event to a copy of a state.
    fn go_on(&mut self, point: &Point, event: Event, effects: &mut Vec<Effect>) {
        let mut next = Point {
            machine: point.machine.clone(),
            counts: point.counts.clone(),
        };
        effects.clear();
        next.machine.on(event, effects);
        self.found.events += 1;
        // The machine refuses an answer that names no choice.
        if !effects.is_empty() {
            next.machine.forget_history();
            self.add(next, effects);
        }
    }

    /// Checks what led to a state, and adds the state if it is new.
    fn add(&mut self, mut point: Point, effects: &[Effect]) {
        let mut ended: Option<(BranchPath, NodeIndex, &str)> = None;
        for effect in effects {
            let observation = match effect {
                Effect::Observe(observation) => observation,
                Effect::Finish { failure } => {
                    let code = failure.as_ref().map_or("success", |failure| failure.code());
                    let node = failure.as_ref().and_then(|failure| failure.node());
                    let end = (code, node.unwrap_or_default().to_owned());
                    *self.ends.entry(end).or_default() += 1;
                    continue;
                }
                _ => continue,
            };
            match observation {
                Observation::StageStarted { id, .. } => self.count(&mut point, id.node, id.attempt == 1),
                Observation::StageCompleted { id, outcome, .. }
                | Observation::StageFailed {
                    id,
                    outcome,
                    will_retry: false,
                    ..
                } => ended = Some((id.branch.clone(), id.node, outcome.status.word())),
                Observation::Routed {
                    branch,
                    from,
                    decision,
                } => {
                    // In first-match routing, a revisit may be refused after the decision.
                    if let Next::Edge(edge) = decision.next
                        && point.machine.state().totals.taken.get(edge.at()) > Some(&0)
                    {
                        self.take(edge.at());
                    }
                    let outcome = ended
                        .as_ref()
                        .filter(|(at, node, _)| at == branch && node == from);
                    let outcome = outcome.map(|(_, _, word)| *word);
                    if !self.allow(*from, outcome, decision.next) {
                        let way = decision.describe(&self.pipeline, *from);
                        self.report(|| format!("the step `{way}` is not among the possible steps"));
                    }
                }
                Observation::ParallelBranchStarted { branch, .. } => {
                    if let Some(step) = branch.steps().last() {
                        self.take(step.edge.at());
                    }
                }
                _ => {}
            }
        }
        let mut sums = [0_u64; 2];
        for counts in &point.counts {
            sums[0] += u64::from(counts[0]);
            sums[1] += u64::from(counts[1]);
        }
        let most = &mut self.found.most_in_all;
        *most = [most[0].max(sums[0]), most[1].max(sums[1])];
        if sums[0] > self.limits.visits || sums[1] > self.limits.attempts {
            self.report(|| format!("a run has {} visits and {} attempts", sums[0], sums[1]));
        }
        let state = point.machine.state();
        let mut waits = false;
        point.machine.visit_paths(&mut |_, _| waits = true);
        if waits == state.totals.finished {
            let what = if waits {
                "is over and waits"
            } else {
                "waits for nothing"
            };
            self.report(|| format!("a run {what}"));
        }
        let counts = self.counts_all.then_some(&*point.counts);
        let hash = self.key.hash(state, counts);
        if self.seen.insert(hash) && waits {
            self.queue.push_back(point);
        }
    }

    /// Returns whether a step is possible. Each is looked up once.
    fn allow(&mut self, from: NodeIndex, outcome: Option<&str>, next: Next) -> bool {
        let (kind, to) = match next {
            Next::Edge(edge) => (0, edge.0),
            Next::Jump(node) => (1, node.0),
            Next::End { success } => (2, u32::from(success)),
            Next::Fail(_) => (3, 0),
        };
        let mut hasher = DefaultHasher::new();
        (from.0, outcome, kind, to).hash(&mut hasher);
        let step = hasher.finish();
        if self.possible.contains(&step) {
            return true;
        }
        let possible = self.steps.allow(from, outcome, next);
        if possible {
            self.possible.insert(step);
        }
        possible
    }

    fn take(&mut self, edge: usize) {
        if let Some(taken) = self.found.taken.get_mut(edge) {
            *taken = true;
        }
    }

    /// Counts an attempt, and compares it with the limit.
    fn count(&mut self, point: &mut Point, node: NodeIndex, is_visit: bool) {
        let Some(counts) = point.counts.get_mut(node.at()) else {
            return;
        };
        counts[0] += u32::from(is_visit);
        counts[1] += 1;
        let counts = *counts;
        self.found.reached[node.at()] = true;
        let most = &mut self.found.most[node.at()];
        *most = [most[0].max(counts[0]), most[1].max(counts[1])];
        let limit = self.limits.nodes.get(node.at());
        let exceeds = limit
            .is_none_or(|limit| u64::from(counts[0]) > limit.visits || u64::from(counts[1]) > limit.attempts);
        if exceeds {
            let id = self.pipeline.stage(node).id().to_owned();
            self.report(|| format!("`{id}` has {} visits and {} attempts", counts[0], counts[1]));
        }
    }

    fn report(&mut self, violation: impl FnOnce() -> String) {
        if self.found.violations.len() < MAX_VIOLATIONS {
            let violation = violation();
            if !self.found.violations.contains(&violation) {
                self.found.violations.push(violation);
            }
        }
    }

    fn finish(mut self) -> Exploration {
        self.found.states = self.seen.len();
        let ends = self.ends.into_iter();
        self.found.ends = ends
            .map(|((code, node), count)| ExploredEnd { code, node, count })
            .collect();
        self.found
    }
}

impl Exploration {
    /// Returns the nodes and edges of a pipeline that no explored run uses, as texts.
    ///
    /// ```
    /// use orchestra_core::explore;
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { start -> a -> exit; a -> a [condition=\"outcome=fail && outcome=success\"] }";
    /// let loaded = load(Source::new("a.dot", text), &Default::default());
    /// let found = explore(&loaded, &Default::default()).expect("sound");
    /// let (nodes, edges) = found.unused(&loaded.pipeline().expect("sound"));
    /// assert!(nodes.is_empty());
    /// assert_eq!(edges, ["a -> a"]);
    /// ```
    pub fn unused(&self, pipeline: &Pipeline) -> (Vec<String>, Vec<String>) {
        let id = |node: NodeIndex| pipeline.stage(node).id();
        let nodes = pipeline
            .stages()
            .zip(&self.reached)
            .filter(|(_, reached)| !**reached);
        let edges = pipeline
            .edges
            .iter()
            .zip(&self.taken)
            .filter(|(_, taken)| !**taken);
        (
            nodes.map(|(stage, _)| stage.id().to_owned()).collect(),
            edges
                .map(|(edge, _)| format!("{} -> {}", id(edge.from), id(edge.to)))
                .collect(),
        )
    }
}
