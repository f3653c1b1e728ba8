//! The connection of an attempt to a run that another process decides about.

use std::pin::Pin;

use orchestra_core::{Answer, Question, Snapshot, Usage};
use serde_json::Value;

use crate::budget::OverBudget;
use crate::event::EventKind;
use crate::gates::interview::InterviewError;
use crate::run::history::{PastStage, StageHistory};
use crate::run::hosted_text::HostedText;

/// The future of a request to a run, as an [`AttemptPort`] returns it.
pub type PortFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The connection of an attempt to the run that it belongs to, which another process decides about. An
/// [`AttemptHost`](crate::AttemptHost) passes on the requests of the handler.
///
/// A connection that is lost does not answer: the attempt is cancelled then, so no request has an error for it.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use orchestra_core::{Effect, EffectId, Machine};
/// use orchestra_engine::*;
/// # use orchestra_graph::{Source, load};
///
/// /// The connection to a machine in the same process.
/// struct Here(Mutex<Machine>, EffectId);
///
/// impl AttemptPort for Here {
///     fn note(&self, _: serde_json::Value, _: bool, _: Usage) -> PortFuture<'_, ()> {
///         Box::pin(async {})
///     }
///     fn snapshot(&self, _: Snapshot) {}
///     fn history(&self) -> PortFuture<'_, StageHistory> {
///         let machine = self.0.lock().unwrap_or_else(|error| error.into_inner());
///         let history = StageHistory::from_machine(&machine, &self.1);
///         Box::pin(async { history })
///     }
///     fn latest(&self, _: Option<Vec<String>>) -> PortFuture<'_, Vec<PastStage>> {
///         Box::pin(async { Vec::new() })
///     }
///     fn texts(&self, _: Vec<String>) -> PortFuture<'_, Vec<HostedText>> {
///         Box::pin(async { Vec::new() })
///     }
///     fn reserve(&self, _: Usage) -> PortFuture<'_, Result<(), OverBudget>> {
///         Box::pin(async { Ok(()) })
///     }
///     fn release(&self, _: Usage) {}
///     fn ask(&self, _: Question) -> PortFuture<'_, Result<Answer, InterviewError>> {
///         Box::pin(async { Err(InterviewError::unavailable("nobody is there")) })
///     }
///     fn event(&self, event: EventKind) {
///         println!("{}", event.name());
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph { start -> write -> exit; write [prompt=a] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let host = Engine::builder().backend(SimulationBackend).build()?.host(pipeline, ())?;
/// let mut effects = Vec::new();
/// let machine = Machine::start(host.pipeline().clone(), Context::new(), 7, &mut effects);
/// let Some(Effect::RunNode { id, context }) = effects.pop() else { panic!("the first stage is to run") };
/// let port = Arc::new(Here(Mutex::new(machine), id.clone()));
/// let attempt = HostedAttempt::new(RunId::new("first")?, id, context);
/// let result = host.run(attempt, port, &Default::default()).await;
/// let HostedEnd::Outcome(outcome) = result.end else { panic!("it has an outcome") };
/// assert!(outcome.status.is_success());
/// assert_eq!(result.texts[1].text, "[Simulated] Response for stage: write");
/// # Ok(()) }
/// ```
pub trait AttemptPort: Send + Sync + 'static {
    /// Stores a note with the usage of the attempt since the last one; ready once both are durable (rule D1).
    fn note(&self, note: Value, checkpoint: bool, used: Usage) -> PortFuture<'_, ()>;

    /// Passes on the state of the files of the stage, which is stored together with the next note. Attempts without a
    /// workspace have none.
    fn snapshot(&self, snapshot: Snapshot);

    /// Returns the history of the stage ([`StageHistory::from_machine`]).
    fn history(&self) -> PortFuture<'_, StageHistory>;

    /// Returns the latest outcomes of nodes as the stage sees them; of all nodes if `nodes` is `None`
    /// ([`PastStage::latest`]).
    fn latest(&self, nodes: Option<Vec<String>>) -> PortFuture<'_, Vec<PastStage>>;

    /// Returns the texts that the visits with these [records](PastStage::record) stored.
    fn texts(&self, records: Vec<String>) -> PortFuture<'_, Vec<HostedText>>;

    /// Reserves the maximum usage of a call of a model; ready once it fits besides the other reservations of the run.
    fn reserve(&self, most: Usage) -> PortFuture<'_, Result<(), OverBudget>>;

    /// Releases a reservation.
    fn release(&self, most: Usage);

    /// Asks a person a question of the stage. Its id, such as `talk#1/1?2.1`, contains the number of notes before it and
    /// the number of the question since then, so an attempt that was interrupted asks again under the same id.
    fn ask(&self, question: Question) -> PortFuture<'_, Result<Answer, InterviewError>>;

    /// Passes on an event of the stage, without secrets.
    fn event(&self, event: EventKind);
}
