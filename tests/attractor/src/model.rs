//! A model that does what a test says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use orchestra::engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest};
use orchestra::{Context, Outcome};

/// One call of the model.
#[derive(Clone, Debug)]
pub struct Call {
    /// The stage.
    pub node: String,
    /// Its prompt, expanded.
    pub prompt: String,
    /// Which attempt of the visit it is, from 1.
    pub attempt: u32,
    /// What the stage saw.
    pub context: Context,
}

/// A model whose stages succeed, unless a test gives their outcomes. It keeps its calls.
#[derive(Clone, Debug, Default)]
pub struct Model {
    replies: BTreeMap<String, Vec<CodergenReply>>,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Model {
    /// A model that answers `done`.
    pub fn new() -> Model {
        Model::default()
    }

    /// What a stage comes to, call by call; the last again and again.
    #[must_use]
    pub fn gives(mut self, node: &str, replies: impl IntoIterator<Item = impl Into<CodergenReply>>) -> Model {
        let replies = replies.into_iter().map(Into::into).collect();
        self.replies.insert(node.to_owned(), replies);
        self
    }

    /// A stage that always fails.
    #[must_use]
    pub fn fails(self, node: &str, reason: &str) -> Model {
        self.gives(node, [Outcome::fail(reason)])
    }

    /// The same model, not called yet.
    #[must_use]
    pub fn anew(&self) -> Model {
        Model {
            replies: self.replies.clone(),
            calls: Arc::default(),
        }
    }

    /// The calls, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// The stages that were called, in order.
    pub fn called(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.node).collect()
    }

    /// How often a stage was called.
    pub fn count(&self, node: &str) -> usize {
        self.calls().iter().filter(|call| call.node == node).count()
    }
}

impl CodergenBackend for Model {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let stage = &request.stage;
        let node = stage.node().id().to_owned();
        let turn = self.count(&node);
        let reply = self
            .replies
            .get(&node)
            .map(|replies| replies[turn.min(replies.len() - 1)].clone());
        self.calls.lock().unwrap().push(Call {
            node,
            prompt: request.prompt,
            attempt: stage.attempt(),
            context: stage.context().clone(),
        });
        Ok(reply.unwrap_or_else(|| "done".into()))
    }
}
