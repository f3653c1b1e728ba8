//! What a handler sees of its stage.

use std::sync::Arc;

use orchestra_core::Context;
use orchestra_graph::{NodeIndex, Pipeline, Stage};

/// What a handler sees of its stage; cheap to clone.
#[derive(Clone)]
pub struct StageContext {
    pipeline: Arc<Pipeline>,
    node: NodeIndex,
    context: Context,
}

impl StageContext {
    /// The node, with its attributes.
    pub fn node(&self) -> Stage<'_> {
        self.pipeline.stage(self.node)
    }

    /// The run's context as it was when the stage began.
    pub fn context(&self) -> &Context {
        &self.context
    }
}
