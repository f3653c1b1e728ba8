//! The usage meter: it tracks the budget of a run, its usage of models, and the reservations of calls in progress.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use orchestra_core::{Budget, Room, Totals, Usage};
use orchestra_graph::table::Constant;
use orchestra_graph::{NodeIndex, Pipeline, Stage};
use tokio::sync::Notify;

use crate::stage_end::{Suspension, SuspensionCause};

/// The usage meter of one run. The sum of usage and reservations never exceeds the budget of the run.
#[derive(Default)]
pub(crate) struct UsageMeter {
    inner: Mutex<Inner>,
    released: Notify,
}

#[derive(Default)]
struct Inner {
    budget: Budget,
    used: Usage,
    reserved: Usage,
    /// The usage and reservations of each node whose stages call models.
    nodes: BTreeMap<u32, Account>,
}

#[derive(Clone, Copy, Default)]
struct Account {
    used: Usage,
    reserved: Usage,
}

impl Account {
    fn with_used(used: Usage) -> Account {
        Account {
            used,
            reserved: Usage::default(),
        }
    }

    fn room_for(&self, most: Usage, budget: Budget) -> Room {
        budget.room_for(self.used, self.reserved, most)
    }
}

impl UsageMeter {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the budget, and the usage so far of a run that may be resumed.
    pub(crate) fn open(&self, budget: Budget, totals: &Totals) {
        let mut inner = self.lock();
        inner.budget = budget;
        inner.used = totals.usage;
        inner.nodes = totals
            .spent
            .iter()
            .map(|(node, used)| (*node, Account::with_used(*used)))
            .collect();
    }

    /// Sets the budget of a run whose usage another process counts.
    pub(crate) fn limit(&self, budget: Budget) {
        self.lock().budget = budget;
    }

    pub(crate) fn used(&self, node: NodeIndex, usage: Usage) {
        let mut inner = self.lock();
        inner.used += usage;
        inner.nodes.entry(node.0).or_default().used += usage;
    }

    pub(crate) fn budget(&self) -> Budget {
        self.lock().budget
    }

    /// Returns the usage so far.
    pub(crate) fn spent(&self) -> Usage {
        self.lock().used
    }

    pub(crate) async fn reserve(
        &self,
        pipeline: &Pipeline,
        node: NodeIndex,
        most: Usage,
    ) -> Result<(), OverBudget> {
        let own = node_budget(pipeline.stage(node));
        loop {
            // Register for releases before the check, so that none is missed.
            let released = self.released.notified();
            {
                let mut inner = self.lock();
                let run = Account {
                    used: inner.used,
                    reserved: inner.reserved,
                };
                let account = inner.nodes.get(&node.0).copied().unwrap_or_default();
                let of_node = account.room_for(most, own);
                if of_node == Room::Never {
                    let id = pipeline.stage(node).id().to_owned();
                    return Err(OverBudget::of_node(id, own, account.used, most));
                }
                match run.room_for(most, inner.budget) {
                    // The error pauses the run, so wait for calls in progress first: their answers are paid for.
                    Room::Never if inner.reserved == Usage::default() => {
                        return Err(OverBudget::of_run(inner.budget, inner.used, most));
                    }
                    Room::Enough if of_node == Room::Enough => {
                        inner.reserved += most;
                        inner.nodes.entry(node.0).or_default().reserved += most;
                        return Ok(());
                    }
                    _ => {}
                }
            }
            released.await;
        }
    }

    pub(crate) fn release(&self, node: NodeIndex, most: Usage) {
        let mut inner = self.lock();
        inner.reserved = less(inner.reserved, most);
        if let Some(account) = inner.nodes.get_mut(&node.0) {
            account.reserved = less(account.reserved, most);
        }
        drop(inner);
        self.released.notify_waiters();
    }
}

/// Returns the budget that the attributes of the graph set for the whole run.
pub(crate) fn of_graph(pipeline: &Pipeline) -> Budget {
    budget_of(|name| pipeline.attribute(name))
}

/// Returns the budget that the attributes of a node set for its stages (`max_tokens` and `max_cost`).
///
/// ```
/// # use orchestra_graph::{Source, load};
/// let text = "digraph { start -> write -> exit; write [prompt=a, max_tokens=500] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let write = pipeline.stage(pipeline.find("write").expect("it is there"));
/// assert_eq!(orchestra_engine::node_budget(write).max_tokens, Some(500));
/// ```
pub fn node_budget(stage: Stage<'_>) -> Budget {
    budget_of(|name| stage.attribute(name))
}

/// Reads a budget from attributes.
pub(crate) fn budget_of<'p>(attribute: impl Fn(&str) -> Option<Constant<&'p str>>) -> Budget {
    Budget {
        max_tokens: match attribute("max_tokens") {
            Some(Constant::Integer(most)) => u64::try_from(most).ok(),
            _ => None,
        },
        max_cost_micros: match attribute("max_cost") {
            Some(Constant::Float(dollars)) => Some(Budget::micros_of_dollars(dollars)),
            Some(Constant::Integer(dollars)) => u64::try_from(dollars)
                .ok()
                .map(|dollars| dollars.saturating_mul(1_000_000)),
            _ => None,
        },
    }
}

/// Returns the stricter limit of two budgets for each kind of usage.
pub(crate) fn stricter(one: Budget, other: Budget) -> Budget {
    let least = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    Budget {
        max_tokens: least(one.max_tokens, other.max_tokens),
        max_cost_micros: least(one.max_cost_micros, other.max_cost_micros),
    }
}

pub(crate) fn less(usage: Usage, by: Usage) -> Usage {
    Usage {
        input_tokens: usage.input_tokens.saturating_sub(by.input_tokens),
        output_tokens: usage.output_tokens.saturating_sub(by.output_tokens),
        cost_micros: usage.cost_micros.saturating_sub(by.cost_micros),
    }
}

/// The error of a call that might exceed the budget of the run or of its node. The call was not made.
///
/// ```
/// use orchestra_engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest, Engine, Usage};
/// # use orchestra_graph::{Source, load};
/// struct Greedy;
/// impl CodergenBackend for Greedy {
///     async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
///         let most = Usage { output_tokens: 1_000, ..Usage::default() };
///         let over = request.stage.reserve(most).await.unwrap_err();
///         assert_eq!((over.node.as_deref(), over.wanted), (Some("write"), most));
///         Err(over.into())
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph { start -> write -> exit; write [prompt=a, max_tokens=100] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let engine = Engine::builder().backend(Greedy).build()?;
/// let result = engine.start(pipeline, ()).await?.wait().await?;
/// assert!(!result.is_success());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverBudget {
    /// The node whose budget it is; `None` for the budget of the run.
    pub node: Option<String>,
    /// The budget.
    pub budget: Budget,
    /// The usage before the call.
    pub used: Usage,
    /// The maximum usage of the call.
    pub wanted: Usage,
    suspension: Option<Suspension>,
}

impl OverBudget {
    /// Creates the error for the budget of a node; the stage fails.
    pub fn of_node(node: String, budget: Budget, used: Usage, wanted: Usage) -> OverBudget {
        OverBudget {
            node: Some(node),
            budget,
            used,
            wanted,
            suspension: None,
        }
    }

    /// Creates the error for the budget of a run; the run is suspended.
    pub fn of_run(budget: Budget, used: Usage, wanted: Usage) -> OverBudget {
        let mut over = OverBudget {
            node: None,
            budget,
            used,
            wanted,
            suspension: None,
        };
        let suspension = Suspension::new(SuspensionCause::OverBudget, over.to_string());
        over.suspension = Some(suspension);
        over
    }

    /// Returns the suspension of the run whose budget is used up. Returns `None` if it is the budget of a node.
    pub fn suspension(&self) -> Option<&Suspension> {
        self.suspension.as_ref()
    }
}

impl std::fmt::Display for OverBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.node {
            Some(node) => write!(f, "the budget of node `{node}` is used up")?,
            None => f.write_str("the budget of the run is used up")?,
        }
        write!(
            f,
            ": {}, and the next call may take {} tokens",
            self.budget.compared(&self.used),
            self.wanted.tokens()
        )?;
        if self.wanted.cost_micros > 0 {
            write!(f, " and {:.4} US dollars", self.wanted.cost_usd())?;
        }
        Ok(())
    }
}

impl std::error::Error for OverBudget {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.suspension
            .as_ref()
            .map(|suspension| suspension as &(dyn std::error::Error + 'static))
    }
}
