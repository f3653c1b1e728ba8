//! The ids of effects, and the positions of execution paths in the branches of a run.

use std::sync::Arc;

use orchestra_graph::{EdgeIndex, NodeIndex, Pipeline, branch_id};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One branch on the path to an effect: a fan-out and one of its edges, or an item of its list.
///
/// ```
/// use orchestra_core::BranchStep;
/// use orchestra_graph::{EdgeIndex, NodeIndex};
/// let step = BranchStep { fan_out: NodeIndex(1), visit: 1, attempt: 1, edge: EdgeIndex(2), item: None };
/// assert!(step < BranchStep { attempt: 2, ..step });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BranchStep {
    /// The fan-out node.
    pub fan_out: NodeIndex,
    /// The number of the visit of the fan-out, starting at 1.
    pub visit: u32,
    /// The number of the attempt within the visit, starting at 1.
    pub attempt: u32,
    /// The edge of the branch.
    pub edge: EdgeIndex,
    /// The index of the branch's item, if the fan-out runs a branch for each item of a list (rule P7).
    pub item: Option<u32>,
}

impl BranchStep {
    /// Returns the id of the branch within its block: the id of the edge's target, with a number if several edges lead
    /// there, or with the index of the item, as in `review~0`.
    ///
    /// ```
    /// use orchestra_core::BranchStep;
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { start -> each -> review -> all -> exit; each [shape=component, foreach=files, foreach_max=9]
    ///     all [shape=tripleoctagon] }";
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let fan_out = pipeline.find("each").expect("declared");
    /// let (edge, _) = pipeline.stage(fan_out).edges().next().expect("it has a branch");
    /// let step = BranchStep { fan_out, visit: 1, attempt: 1, edge, item: Some(2) };
    /// assert_eq!(step.branch_id(&pipeline), "review~2");
    /// ```
    pub fn branch_id(&self, pipeline: &Pipeline) -> String {
        let id = branch_id(pipeline, self.edge);
        match self.item {
            Some(index) => format!("{id}~{index}"),
            None => id,
        }
    }
}

/// The serialized form of a step: its numbers, with that of the item only if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum SavedStep {
    Item([u32; 5]),
    Edge([u32; 4]),
}

/// A position in the branches of a run; empty for the main path (rule P1).
///
/// ```
/// use orchestra_core::{BranchPath, BranchStep};
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> fan; fan [shape=component]; fan -> a -> join; fan -> b -> join
///     join [shape=tripleoctagon]; join -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let fan_out = pipeline.find("fan").expect("declared");
/// let (edge, _) = pipeline.stage(fan_out).edges().nth(1).expect("two branches");
/// let path = BranchPath::default().then(BranchStep { fan_out, visit: 1, attempt: 1, edge, item: None });
/// assert_eq!(path.name(&pipeline), "fan#1:b");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BranchPath(Option<Arc<[BranchStep]>>);

impl BranchPath {
    /// Returns the steps, starting from the main path.
    pub fn steps(&self) -> &[BranchStep] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Returns `true` if this is the main path.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the path of a branch within this one.
    #[must_use]
    pub fn then(&self, step: BranchStep) -> BranchPath {
        BranchPath(Some(self.steps().iter().copied().chain([step]).collect()))
    }

    /// Returns the steps in the serialized form.
    pub(crate) fn to_saved(&self) -> Vec<SavedStep> {
        let steps = self.steps().iter();
        steps
            .map(|step| {
                let (fan_out, edge) = (step.fan_out.0, step.edge.0);
                match step.item {
                    Some(item) => SavedStep::Item([fan_out, step.visit, step.attempt, edge, item]),
                    None => SavedStep::Edge([fan_out, step.visit, step.attempt, edge]),
                }
            })
            .collect()
    }

    /// Creates the path with these steps from the serialized form.
    pub(crate) fn from_saved(steps: &[SavedStep]) -> BranchPath {
        let steps = steps.iter().map(|step| {
            let ([fan_out, visit, attempt, edge], item) = match *step {
                SavedStep::Item([fan_out, visit, attempt, edge, item]) => {
                    ([fan_out, visit, attempt, edge], Some(item))
                }
                SavedStep::Edge(numbers) => (numbers, None),
            };
            BranchStep {
                fan_out: NodeIndex(fan_out),
                visit,
                attempt,
                edge: EdgeIndex(edge),
                item,
            }
        });
        let steps: Arc<[BranchStep]> = steps.collect();
        BranchPath((!steps.is_empty()).then_some(steps))
    }

    /// Returns the path as text, such as `fan#1:left/fan2#1:a`. A repeated block includes its attempt, as in
    /// `fan#1.2:left`.
    pub fn name(&self, pipeline: &Pipeline) -> String {
        let mut name = String::new();
        for step in self.steps() {
            if !name.is_empty() {
                name.push('/');
            }
            name.push_str(pipeline.stage(step.fan_out).id());
            name.push('#');
            name.push_str(&step.visit.to_string());
            if step.attempt != 1 {
                name.push('.');
                name.push_str(&step.attempt.to_string());
            }
            name.push(':');
            name.push_str(&step.branch_id(pipeline));
        }
        name
    }
}

/// The id of an effect, derived from its position in the run and never from a counter.
///
/// ```
/// use orchestra_core::{Context, Effect, Machine};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut effects = Vec::new();
/// let machine = Machine::start(pipeline, Context::new(), 0, &mut effects);
/// let Some(Effect::RunNode { id, .. }) = effects.last() else { panic!("the first stage is to run") };
/// assert_eq!(id.name(machine.pipeline()), "build#1/1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EffectId {
    /// The number of restarts of the run before the effect (rule R9).
    pub restart: u32,
    /// The branch.
    pub branch: BranchPath,
    /// The node.
    pub node: NodeIndex,
    /// The number of the visit of the node, starting at 1.
    pub visit: u32,
    /// The number of the attempt within the visit, starting at 1.
    pub attempt: u32,
}

/// The serialized form of an effect id: numbers only, without the restart and the branch if they are zero or empty.
#[derive(Serialize, Deserialize)]
struct SerializedId {
    #[serde(default, skip_serializing_if = "is_zero")]
    restart: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    branch: Vec<SavedStep>,
    node: u32,
    visit: u32,
    attempt: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Serialize for EffectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SerializedId {
            restart: self.restart,
            branch: self.branch.to_saved(),
            node: self.node.0,
            visit: self.visit,
            attempt: self.attempt,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EffectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EffectId, D::Error> {
        let id = SerializedId::deserialize(deserializer)?;
        Ok(EffectId {
            restart: id.restart,
            branch: BranchPath::from_saved(&id.branch),
            node: NodeIndex(id.node),
            visit: id.visit,
            attempt: id.attempt,
        })
    }
}

impl EffectId {
    /// Returns the id as text, such as `build#2/1`, `fan#1:left/build#1/1` or `restart-1/build#1/1`. The node is left
    /// out if the pipeline does not have it.
    pub fn name(&self, pipeline: &Pipeline) -> String {
        let mut name = String::new();
        if self.restart > 0 {
            name.push_str(&format!("restart-{}/", self.restart));
        }
        if !self.branch.is_empty() {
            name.push_str(&self.branch.name(pipeline));
            name.push('/');
        }
        let id = pipeline.stage(self.node).id();
        name.push_str(&format!("{id}#{}/{}", self.visit, self.attempt));
        name
    }

    /// Returns the name of the visit, such as `build#2` or `fan#1:left/build#2`, under which its texts are stored.
    pub fn record(&self, pipeline: &Pipeline) -> String {
        let id = pipeline.stage(self.node).id();
        match self.branch.is_empty() {
            true => format!("{id}#{}", self.visit),
            false => format!("{}/{id}#{}", self.branch.name(pipeline), self.visit),
        }
    }
}
