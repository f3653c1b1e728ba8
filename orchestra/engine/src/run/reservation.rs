//! Reservations for calls of models, in the meters of a run and its parent runs.

use std::sync::Arc;

use orchestra_core::{EffectId, Usage};
use orchestra_graph::NodeIndex;

use crate::budget::OverBudget;
use crate::run::port::AttemptPort;
use crate::run::state::Run;

/// A reservation for a call of a model. It is released when it is dropped.
///
/// ```
/// use orchestra_engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest, Engine, Usage};
/// # use orchestra_graph::{Source, load};
/// struct Careful;
/// impl CodergenBackend for Careful {
///     async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
///         let most = Usage { input_tokens: 500, output_tokens: 1_000, ..Usage::default() };
///         let reserved = request.stage.reserve(most).await?;
///         reserved.settle(Usage { input_tokens: 480, output_tokens: 20, ..Usage::default() });
///         Ok("A poem.".into())
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph { start -> write -> exit; write [prompt=a] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let engine = Engine::builder().backend(Careful).build()?;
/// let result = engine.start(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.usage.tokens(), 500);
/// # Ok(()) }
/// ```
#[must_use = "what is set aside is given back when it is dropped"]
pub struct Reservation {
    run: Arc<Run>,
    id: EffectId,
    most: Usage,
    /// The meters that hold the reservation: those of the run and its parent runs.
    held: Vec<(Arc<Run>, NodeIndex)>,
    /// The connection to the run, if another process has its meter.
    port: Option<Arc<dyn AttemptPort>>,
}

impl Reservation {
    pub(crate) async fn new(run: &Arc<Run>, id: &EffectId, most: Usage) -> Result<Reservation, OverBudget> {
        let mut reservation = Reservation {
            run: run.clone(),
            id: id.clone(),
            most,
            held: Vec::new(),
            port: None,
        };
        if let Some(port) = &run.port {
            port.reserve(most).await?;
            reservation.port = Some(port.clone());
            return Ok(reservation);
        }
        let (mut run, mut node) = (run, id.node);
        loop {
            run.models().meter.reserve(&run.pipeline, node, most).await?;
            reservation.held.push((run.clone(), node));
            let Some(parent) = &run.origin.parent else {
                return Ok(reservation);
            };
            (run, node) = (&parent.run, parent.stage.node);
        }
    }

    /// Returns the reserved usage.
    pub fn most(&self) -> Usage {
        self.most
    }

    /// Records the usage of the call without releasing the reservation. Use it if the stage must store the answer
    /// first: a run whose budget is used up is paused as soon as there are no more reservations.
    pub fn record(&self, used: Usage) {
        self.run.add_usage(&self.id, used);
    }

    /// Records the usage of the call and releases the reservation.
    pub fn settle(self, used: Usage) {
        self.run.add_usage(&self.id, used);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for (run, node) in &self.held {
            run.models().meter.release(*node, self.most);
        }
        if let Some(port) = &self.port {
            port.release(self.most);
        }
    }
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}
