//! What happened in a run, in words: the form in which two readings of the rules are compared.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// Named values of a context.
pub(crate) type Values = BTreeMap<String, Value>;

/// A run from start to end. A restart leaves the steps, and begins everything else anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// How it ended.
    pub end: End,
    /// The latest recorded outcome of each node.
    pub outcomes: BTreeMap<String, Recorded>,
    /// The context at the end, without the mirrored attributes of the graph.
    pub context: Values,
    /// The nodes that ended, in order.
    pub path: Vec<String>,
    /// How often each node was visited.
    pub visits: BTreeMap<String, u32>,
    /// The attempts that failed: node, visit, attempt, reason.
    pub errors: Vec<(String, u32, u32, String)>,
    /// How often each node was tried again.
    pub retries: BTreeMap<String, u32>,
    /// How often each edge was taken, over all restarts; by its node and its place among the edges of that.
    pub taken: BTreeMap<(String, usize), u32>,
    /// How often a gate sent the run back.
    pub reroutes: u32,
    /// How often the run was restarted.
    pub restarts: u32,
}

/// The outcome of a node as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The outcome word.
    pub word: String,
    /// A summary, else the reason of a failure; empty for none.
    pub notes: String,
    /// The visit, such as `fan#1:left/build#2`.
    pub record: String,
}

/// Something that happened. Attempts and branches bear the names that the engine gives them, such as `build#1/2` and
/// `fan#1:left`.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An attempt at a node begins.
    Start(String),
    /// A handler is called.
    Run {
        /// The attempt.
        name: String,
        /// What it sees.
        context: Values,
    },
    /// An attempt gave an outcome.
    Outcome {
        /// The attempt.
        name: String,
        /// The outcome word; of the last attempt, the one that routing sees.
        word: String,
        /// Why it failed or wants to be tried again; empty for no reason.
        reason: String,
        /// Whether another attempt follows.
        again: bool,
    },
    /// The next attempt is waited for.
    Wait {
        /// The next attempt.
        name: String,
        /// How many there may be.
        attempts: u32,
        /// How long.
        delay: Delay,
    },
    /// What was begun is not needed any more.
    Cancelled(String),
    /// The way on was chosen.
    Choice {
        /// The branch; empty for the main line.
        branch: String,
        /// The node whose edges were chosen from.
        from: String,
        /// The way.
        way: Way,
        /// The word of the rule that decided.
        rule: String,
        /// The edges whose conditions were tested, by their place among the node's edges, and what came of it.
        tested: Vec<(usize, bool)>,
    },
    /// A parallel block begins.
    Fork {
        /// The attempt at its fan-out.
        name: String,
        /// How many branches it has.
        branches: u32,
        /// The edges whose conditions were tested, and what came of it.
        tested: Vec<(usize, bool)>,
    },
    /// A branch begins.
    BranchStart {
        /// Its name.
        branch: String,
        /// Its place among the branches that the block has.
        index: u32,
    },
    /// A branch ended.
    BranchEnd {
        /// Its name.
        branch: String,
        /// Its place among the branches that the block has.
        index: u32,
        /// How it ended, as one word.
        status: String,
        /// Why it failed; `None` where it did not.
        reason: Option<String>,
        /// How long it took, in nanoseconds.
        lasted: u64,
    },
    /// The branches of a block came together.
    Join {
        /// The attempt at its fan-out.
        name: String,
        /// How many succeeded.
        succeeded: u32,
        /// How many failed.
        failed: u32,
        /// How long it took, in nanoseconds.
        lasted: u64,
    },
    /// A person is asked.
    Asked {
        /// The attempt at the gate.
        name: String,
        /// Key, label and target of each choice.
        choices: Vec<(String, String, String)>,
        /// The choices that it does not offer, each with the conditions that do not hold.
        withheld: Vec<String>,
        /// The key of the choice that silence stands for.
        default: Option<String>,
        /// How many milliseconds an answer is waited for.
        timeout: Option<u64>,
    },
    /// A person answered.
    Answered {
        /// The attempt at the gate.
        name: String,
        /// The label of the choice, or the free text.
        answer: String,
    },
    /// Nobody answered in time.
    Unanswered {
        /// The attempt at the gate.
        name: String,
        /// The label of the choice that silence stands for.
        default: Option<String>,
    },
    /// An unsatisfied goal gate sends the run back.
    Reroute {
        /// The gate.
        gate: String,
        /// Where to.
        target: String,
        /// How often that happened, this time included.
        count: u32,
    },
    /// The run begins anew.
    Restart {
        /// The edge, by its node and its place among the edges of that.
        edge: (String, usize),
        /// How often that happened, this time included.
        count: u32,
    },
}

/// A delay in milliseconds; of one that hangs on chance the rules know the bounds alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The shortest.
    pub least: u64,
    /// The longest.
    pub most: u64,
}

/// Where a choice leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Along an edge.
    Edge {
        /// Its place among the edges of its node.
        position: usize,
        /// Its target.
        to: String,
    },
    /// To a retry target, to a join, or where a goal gate sends the run.
    Jump(String),
    /// The run ends here, as intended.
    End(bool),
    /// Nothing leads on.
    Fail(&'static str),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With success.
    Success,
    /// A stage failed, and nothing took its failure.
    StageFailed {
        /// The stage.
        node: String,
        /// Its reason.
        reason: String,
    },
    /// No edge of the node could be taken.
    NoMatchingEdge {
        /// The node.
        node: String,
        /// Its edges, their conditions, and the values that they saw.
        report: String,
    },
    /// The node has no edge and is not the exit.
    DeadEnd(String),
    /// The node is marked as a failure's end.
    FailureEnd {
        /// The node.
        node: String,
        /// Which stage failed last, and why.
        reason: String,
    },
    /// The node would have been visited too often.
    MaxVisits {
        /// The node.
        node: String,
        /// The bound.
        limit: u32,
        /// The attribute that sets it.
        attribute: String,
    },
    /// The stage failed in the same way too often.
    FailureBreaker {
        /// The stage.
        node: String,
        /// Its reason.
        reason: String,
        /// How often.
        count: u32,
    },
    /// An edge led back without being allowed to.
    Circular {
        /// Where it comes from.
        from: String,
        /// Where it leads.
        to: String,
    },
    /// A goal gate is unsatisfied, and nothing leads back, or has too often.
    GoalGate {
        /// The gate.
        node: String,
        /// Its outcome word.
        outcome: String,
        /// Why it failed.
        reason: String,
        /// How often the run may be sent back; `None` where no target is named.
        limit: Option<u32>,
    },
    /// The run would have been restarted too often.
    MaxRestarts {
        /// Where the edge comes from.
        from: String,
        /// Where it leads.
        to: String,
        /// The bound.
        limit: u32,
    },
    /// A branch led back to a fan-out around it.
    Reentry {
        /// Where it comes from.
        from: String,
        /// The fan-out.
        to: String,
    },
    /// A gate has nobody to ask.
    WaitsForHuman(String),
    /// Anything that the rules tested here do not speak of.
    Other(String),
}

impl End {
    /// The kind of the end, as one word.
    pub fn kind(&self) -> String {
        let text = format!("{self:?}");
        text.split([' ', '(']).next().unwrap_or_default().to_owned()
    }
}

impl Trace {
    /// The nodes that were visited, in order.
    pub fn visited(&self) -> Vec<&str> {
        let first = self.steps.iter().filter_map(|step| match step {
            Step::Start(name) => name.strip_suffix("/1"),
            _ => None,
        });
        first.map(node_of).collect()
    }

    /// Replaces bounds of delays by the delays of another trace that are within them.
    pub fn settle(&mut self, other: &Trace) {
        for (own, found) in self.steps.iter_mut().zip(&other.steps) {
            if let (Step::Wait { delay, .. }, Step::Wait { delay: found, .. }) = (own, found)
                && delay.least <= found.least
                && found.most <= delay.most
            {
                *delay = *found;
            }
        }
    }
}

/// The node of an attempt or visit that is named by its place.
pub fn node_of(name: &str) -> &str {
    let end = name.rfind('#').unwrap_or(name.len());
    name[..end].rsplit('/').next().unwrap_or_default()
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(f, "{step:?}")?;
        }
        writeln!(f, "end {:?}", self.end)?;
        writeln!(f, "outcomes {:?}", self.outcomes)?;
        writeln!(f, "context {:?}", self.context)?;
        writeln!(f, "path {:?}, visits {:?}", self.path, self.visits)?;
        writeln!(f, "errors {:?}, retries {:?}", self.errors, self.retries)?;
        write!(
            f,
            "taken {:?}, reroutes {}, restarts {}",
            self.taken, self.reroutes, self.restarts
        )
    }
}
