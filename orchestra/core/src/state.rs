//! The state of a run: one plain struct.

use std::collections::BTreeMap;

use orchestra_graph::NodeIndex;
use serde_json::Value;

use crate::context::Context;
use crate::effect::EffectId;
use crate::outcome::Status;

/// Whether the run waits for something.
///
/// ```
/// use orchestra_core::{Context, Effect, Event, Machine, Outcome, Phase};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut effects = Vec::new();
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut effects);
/// let Phase::Running(id) = machine.state().phase else { panic!("it waits for a stage") };
/// machine.on(Event::NodeFinished { id, outcome: Outcome::success() }, &mut effects);
/// assert_eq!(machine.state().phase, Phase::Finished);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for a stage.
    Running(EffectId),
    /// It has ended.
    Finished,
}

/// The latest outcome of a node (Attractor 5.3).
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Outcome, Phase, Status};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// # let build = pipeline.find("build").expect("an edge names it");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let Phase::Running(id) = machine.state().phase else { panic!("it waits for a stage") };
/// machine.on(Event::NodeFinished { id, outcome: Outcome::fail("no compiler") }, &mut Vec::new());
/// let kept = machine.state().outcomes[build.at()].as_ref().expect("it ended");
/// assert_eq!((&kept.status, kept.notes.as_deref()), (&Status::Fail, Some("no compiler")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOutcome {
    /// How it ended.
    pub status: Status,
    /// A summary, or the reason of a failure.
    pub notes: Option<String>,
}

/// What routing sees of the stage that ran last (rule R4).
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Outcome, Phase};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> review; review -> fix [label=Fix]; review -> exit [label=Ship]; fix -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let Phase::Running(id) = machine.state().phase else { panic!("it waits for a stage") };
/// machine.on(Event::NodeFinished { id, outcome: Outcome::success().prefer("Fix") }, &mut Vec::new());
/// assert_eq!(machine.state().last.node, Some(id.node));
/// assert_eq!(machine.state().last.preferred_label, "Fix");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Last {
    /// The stage; `None` before the first.
    pub node: Option<NodeIndex>,
    /// How it ended.
    pub status: Status,
    /// The label that it prefers.
    pub preferred_label: String,
    /// The nodes that it suggests.
    pub suggested_next_ids: Vec<String>,
    /// Why it failed.
    pub failure_reason: String,
    /// What it gave, for first-match routing.
    pub output: BTreeMap<String, Value>,
}

/// A stage that keeps failing in the same way (rule R10).
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Outcome, Phase};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit; build [retry_target=build] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// for _ in 0..2 {
///     let Phase::Running(id) = machine.state().phase else { panic!("it waits for a stage") };
///     machine.on(Event::NodeFinished { id, outcome: Outcome::fail("no compiler") }, &mut Vec::new());
/// }
/// let failing = &machine.state().failing[0];
/// assert_eq!((failing.reason.as_str(), failing.count), ("no compiler", 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The stage.
    pub node: NodeIndex,
    /// How it fails.
    pub reason: String,
    /// How often running.
    pub count: u32,
}

/// The state of a run. Lists with an entry for each node are in the order of the table.
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Outcome, Phase};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let Phase::Running(id) = machine.state().phase else { panic!("it waits for a stage") };
/// machine.on(Event::NodeFinished { id, outcome: Outcome::success().set("size", 7) }, &mut Vec::new());
/// let state = machine.into_state();
/// assert_eq!((state.path.len(), state.begun, state.visits[id.node.at()]), (3, 3, 1));
/// assert_eq!(state.context.get("size"), Some(&7.into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// What the run waits for.
    pub phase: Phase,
    /// The named values.
    pub context: Context,
    /// How often each node was visited.
    pub visits: Vec<u32>,
    /// The latest outcome of each node.
    pub outcomes: Vec<Option<NodeOutcome>>,
    /// The nodes that ended, in order.
    pub path: Vec<NodeIndex>,
    /// How many stages began.
    pub begun: u64,
    /// What routing sees of the stage that ran last.
    pub last: Last,
    /// The stage that failed last and why, in words; empty where none failed.
    pub last_failure: String,
    /// The stages that keep failing.
    pub failing: Vec<Failing>,
    /// How often each edge led back, in first-match routing.
    pub revisits: BTreeMap<u32, u32>,
    /// The seed of every chance in the run.
    pub seed: u64,
}

impl State {
    pub(crate) fn new(nodes: usize, context: Context, seed: u64) -> State {
        State {
            phase: Phase::Finished,
            context,
            visits: vec![0; nodes],
            outcomes: vec![None; nodes],
            path: Vec::new(),
            begun: 0,
            last: Last {
                node: None,
                status: Status::Success,
                preferred_label: String::new(),
                suggested_next_ids: Vec::new(),
                failure_reason: String::new(),
                output: BTreeMap::new(),
            },
            last_failure: String::new(),
            failing: Vec::new(),
            revisits: BTreeMap::new(),
            seed,
        }
    }
}
