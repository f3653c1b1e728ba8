//! Upper bounds on what a run does: the visits and the attempts of each node, and of all nodes together.
//!
//! A run consists of a path from the start, and of one path for each restart. Each path is bounded by itself, with the
//! blocks on it. No run exceeds the bounds, but a condition on the context may keep all runs below them.

mod bound;
mod cause;
mod level;
mod relation;

use super::outcomes::outcomes;
use super::steps::Steps;
use crate::analysis::Analysis;
use crate::attribute::Known;
use crate::condition::Expression;
use crate::loaded::Loaded;
use crate::model::NodeIndex;
use crate::table::{Pipeline, Predicates};
use cause::Cause;
use level::{Path, Paths};
use relation::{Relation, attempts};

/// The maximum number of visits and attempts of a node in a run (rule V4).
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> build; build -> test; test -> exit
///     test -> build [condition=\"outcome=fail\"]; build [max_visits=3, max_retries=1] }";
/// let limits = load(Source::new("a.dot", text), &Default::default()).limits().expect("sound");
/// let build = &limits.nodes[0];
/// assert_eq!((&*build.node, build.visits, build.attempts), ("start", 1, 1));
/// let build = limits.node("build").expect("declared");
/// assert_eq!((build.visits, build.attempts), (3, 6));
/// assert_eq!(build.reason, "`max_visits=3` of `build`; up to 2 attempts each");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeLimit {
    /// The id of the node.
    pub node: String,
    /// The maximum number of visits. [`u64::MAX`] if there is no limit.
    pub visits: u64,
    /// The maximum number of attempts. [`u64::MAX`] if there is no limit.
    pub attempts: u64,
    /// The reason for the limit.
    pub reason: String,
    /// `true` if only the default of `max_node_visits` limits the node.
    pub by_default: bool,
    /// The number of paths to which the limit on visits applies: restarts of the run, and branches at the same time.
    pub(crate) paths: u64,
}

/// Upper bounds on the visits and attempts of a run (rule V4). No run exceeds them, counted from the start of the run over
/// all its restarts and branches.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> build; build -> exit; build -> build [condition=\"outcome=fail\"]
///     build [max_visits=3] }";
/// let limits = load(Source::new("a.dot", text), &Default::default()).limits().expect("sound");
/// assert_eq!((limits.visits, limits.attempts), (5, 5), "start and exit count too");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunLimits {
    /// The limits of the nodes, in the order of the node table.
    pub nodes: Vec<NodeLimit>,
    /// The maximum number of visits of all nodes together. [`u64::MAX`] if there is no limit.
    pub visits: u64,
    /// The maximum number of attempts at all nodes together. [`u64::MAX`] if there is no limit.
    pub attempts: u64,
}

impl RunLimits {
    /// Returns the limit of a node; `None` if the pipeline does not have it.
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let limits = load(Source::new("a.dot", "digraph { start -> exit }"), &Default::default()).limits().expect("sound");
    /// assert_eq!(limits.node("exit").map(|limit| limit.visits), Some(1));
    /// assert_eq!(limits.node("missing"), None);
    /// ```
    pub fn node(&self, id: &str) -> Option<&NodeLimit> {
        self.nodes.iter().find(|limit| limit.node == id)
    }
}

impl Loaded {
    /// Returns the limits of all runs of the pipeline (rule V4). Returns `None` if the report has errors.
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let loaded = load(Source::new("a.dot", "digraph { start -> a -> exit; a [max_retries=4] }"), &Default::default());
    /// let limits = loaded.limits().expect("sound");
    /// assert_eq!((limits.visits, limits.attempts), (3, 7));
    /// ```
    pub fn limits(&self) -> Option<RunLimits> {
        if self.report.has_errors() {
            return None;
        }
        run_limits(&self.analysis())
    }
}

/// Returns the limits of all runs of a pipeline. Returns `None` if it has no table.
pub(crate) fn run_limits(analysis: &Analysis<'_>) -> Option<RunLimits> {
    let pipeline = Pipeline::from_analysis(analysis)?;
    let words = outcomes(analysis);
    let conditions: Vec<Expression> = match &pipeline.predicates {
        Predicates::Expressions(expressions) => expressions.clone(),
        Predicates::Functions(_) => Vec::new(),
    };
    let mut steps = Steps::new(pipeline, &words);
    let relation = Relation::new(&mut steps, &conditions);
    let pipeline = steps.pipeline();
    let mut paths = Paths::new(pipeline, &relation);
    let first = paths.path(&[pipeline.start.0], &mut Vec::new());
    let targets: Vec<u32> = relation.reach(&[pipeline.start.0]).into_iter().collect();
    // A run that restarts may restart again only if a further restart lies ahead of one.
    let again = !relation.reach(&targets).is_empty();
    let most = pipeline.settings.max_restarts;
    let restarts = if targets.is_empty() {
        0
    } else if again {
        most
    } else {
        most.min(1)
    };
    let later = if restarts > 0 {
        paths.path(&targets, &mut Vec::new())
    } else {
        Path::default()
    };
    let run = Run {
        pipeline,
        first,
        later,
        restarts,
        repeats: relation.before_restarts(pipeline),
        is_bounded: !paths.are_too_many(),
    };
    Some(run.limits())
}

/// A run: the path from the start, and one for each restart.
struct Run<'p> {
    pipeline: &'p Pipeline,
    first: Path,
    later: Path,
    restarts: u32,
    /// `true` for each node that paths may visit which restart the run.
    repeats: Vec<bool>,
    is_bounded: bool,
}

impl Run<'_> {
    fn limits(&self) -> RunLimits {
        let nodes: Vec<NodeLimit> = (0..self.pipeline.nodes.len() as u32)
            .map(|node| self.limit(node))
            .collect();
        let both = |at: usize| {
            // All paths but the last one end with a restart.
            let last = self.first.sums[at].max(self.later.sums[at]);
            let first = self.before_restart(&self.first, at);
            let later = self.before_restart(&self.later, at);
            match u64::from(self.restarts) {
                0 => self.first.sums[at],
                restarts => first
                    .saturating_add(later.saturating_mul(restarts - 1))
                    .saturating_add(last),
            }
        };
        let (visits, attempts) = if self.is_bounded {
            (both(0), both(1))
        } else {
            (u64::MAX, u64::MAX)
        };
        RunLimits {
            nodes,
            visits,
            attempts,
        }
    }

    /// Returns the sum of a path that ends with a restart.
    fn before_restart(&self, path: &Path, at: usize) -> u64 {
        let counts = path.counts.iter().filter(|(node, _)| self.repeats(**node));
        let sum = counts.fold(0_u64, |sum, (node, count)| {
            let attempts = attempts(self.pipeline.stage(NodeIndex(*node)));
            let weight = if at == 0 { 1 } else { attempts };
            sum.saturating_add(count.visits.saturating_mul(weight))
        });
        sum.min(path.sums[at])
    }

    fn repeats(&self, node: u32) -> bool {
        self.repeats.get(node as usize).copied().unwrap_or_default()
    }

    fn limit(&self, node: u32) -> NodeLimit {
        let stage = self.pipeline.stage(NodeIndex(node));
        let id = stage.id().to_owned();
        if !self.is_bounded {
            return NodeLimit {
                node: id,
                visits: u64::MAX,
                attempts: u64::MAX,
                reason: "the pipeline has too many overlapping branches".to_owned(),
                by_default: false,
                paths: 1,
            };
        }
        let (first, later) = (self.first.counts.get(&node), self.later.counts.get(&node));
        let own = first.map_or(0, |count| count.visits);
        let more = later.map_or(0, |count| count.visits);
        let repeats = self.restarts > 0 && self.repeats(node);
        let visits = if repeats {
            own.saturating_add(more.saturating_mul(u64::from(self.restarts)))
        } else {
            own.max(more)
        };
        let attempts = attempts(stage);
        let larger = if more > own { later } else { first };
        let cause = larger.map_or(Cause::Once, |count| count.cause);
        let width = larger.map_or(1, |count| count.width);
        let mut reason = if visits == 0 {
            "no run visits it".to_owned()
        } else {
            self.describe(cause)
        };
        if visits > 0 && width > 1 {
            reason.push_str(&format!("; in up to {width} branches at the same time"));
        }
        if more > 0 && repeats {
            let limit = self.pipeline.settings.max_restarts;
            let default = default_of(self.pipeline.attribute("max_restarts").is_none());
            reason.push_str(&match self.restarts {
                1 => "; once more after a restart".to_owned(),
                _ => format!("; again after each restart (`max_restarts={limit}`{default})"),
            });
        }
        if visits > 0 && attempts > 1 {
            reason.push_str(&format!("; up to {attempts} attempts each"));
        }
        NodeLimit {
            node: id,
            visits,
            attempts: visits.saturating_mul(attempts),
            reason,
            by_default: visits > 0 && self.is_default(cause),
            paths: visits.div_ceil(own.max(more).max(1)).saturating_mul(width),
        }
    }

    /// Returns whether a cause is the default of `max_node_visits`.
    fn is_default(&self, cause: Cause) -> bool {
        let Cause::Node(node) = cause else { return false };
        let row = self.pipeline.stage(NodeIndex(node)).row();
        row.max_visits.is_none() && self.pipeline.attribute(Known::MaxNodeVisits.name()).is_none()
    }

    fn describe(&self, cause: Cause) -> String {
        let id = |node: u32| self.pipeline.stage(NodeIndex(node)).id();
        match cause {
            Cause::Once => "no run visits it again".to_owned(),
            Cause::Node(node) => match self.pipeline.stage(NodeIndex(node)).row().max_visits {
                Some(limit) => format!("`max_visits={limit}` of `{}`", id(node)),
                None => {
                    let limit = self.pipeline.settings.max_node_visits;
                    let default = default_of(self.is_default(cause));
                    format!("`max_node_visits={limit}`{default} at `{}`", id(node))
                }
            },
            Cause::Edge(edge) => {
                let row = self.pipeline.edge(crate::model::EdgeIndex(edge));
                format!("the limited edge `{}` -> `{}`", id(row.from.0), id(row.to.0))
            }
            Cause::Reroutes => {
                let limit = self.pipeline.settings.max_goal_gate_reroutes;
                let default = default_of(self.pipeline.attribute("max_goal_gate_reroutes").is_none());
                format!("`max_goal_gate_reroutes={limit}`{default}")
            }
            Cause::Block(fan_out) => format!("the attempts of the block at `{}`", id(fan_out)),
        }
    }
}

/// Returns the mark of a value that is a default.
fn default_of(is_default: bool) -> &'static str {
    if is_default { " (the default)" } else { "" }
}
