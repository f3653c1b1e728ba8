//! Pieces of the output of models, as callbacks receive them.

use std::sync::Arc;

use crate::event::NodeName;
use crate::id::RunId;

/// A function that receives the output of models.
pub(crate) type OnText = Arc<dyn Fn(&StageText) + Send + Sync>;

/// A piece of the output of a stage's model, passed on while it is generated; without secrets.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use orchestra_engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest, Engine};
/// # use orchestra_graph::{Source, load};
/// struct Poet;
/// impl CodergenBackend for Poet {
///     async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
///         let mut text = request.stage.text();
///         ["Autumn ", "leaves"].map(|word| text.push(word));
///         Ok("Autumn leaves".into())
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph { start -> write -> exit; write [prompt=a] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let seen = Arc::new(Mutex::new(String::new()));
/// let sees = seen.clone();
/// let engine = Engine::builder().backend(Poet).on_text(move |piece| {
///     sees.lock().expect("nobody panics").push_str(&piece.text);
/// });
/// engine.build()?.start(pipeline, ()).await?.wait().await?;
/// assert_eq!(*seen.lock().expect("nobody panics"), "Autumn leaves");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageText {
    /// The id of the run.
    pub run: RunId,
    /// The node.
    pub node: NodeName,
    /// The branch, as events name it; `None` on the main path.
    pub branch: Option<String>,
    /// The number of the visit of the node, starting at 1.
    pub visit: u32,
    /// The number of the attempt within the visit, starting at 1.
    pub attempt: u32,
    /// The number of bytes of the same answer in the pieces before this one. An answer of the model starts at 0; the
    /// pieces before it belong to a complete or abandoned answer.
    pub offset: u64,
    /// The text of the piece.
    pub text: String,
}

impl StageText {
    /// Returns `true` if an answer of the model starts with this piece.
    pub fn starts_answer(&self) -> bool {
        self.offset == 0
    }
}
