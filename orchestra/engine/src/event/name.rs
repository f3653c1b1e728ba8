//! The node id in an event.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use orchestra_graph::{NodeIndex, SharedPipeline};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The id of a node. It is cheap to clone and dereferences to `str`.
///
/// ```
/// use orchestra_engine::{Engine, EventKind};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph { start -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start(pipeline, ()).await?;
/// let mut events = run.events();
/// let mut stages = Vec::new();
/// while let Some(event) = events.recv().await {
///     if let EventKind::StageStarted { stage, .. } = &event.kind {
///         stages.push(stage.node.clone());
///     }
/// }
/// assert_eq!(stages, ["start", "exit"]);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct NodeName(Of);

#[derive(Clone)]
enum Of {
    /// A node of a loaded pipeline, which owns the text.
    Pipeline(SharedPipeline, NodeIndex),
    /// The text of an event that was parsed.
    Text(Arc<str>),
}

impl NodeName {
    pub(crate) fn new(pipeline: &SharedPipeline, node: NodeIndex) -> NodeName {
        NodeName(Of::Pipeline(pipeline.clone(), node))
    }
}

/// Creates a node name with a text of its own, for example for an event built by hand.
impl From<&str> for NodeName {
    fn from(id: &str) -> NodeName {
        NodeName(Of::Text(id.into()))
    }
}

impl Deref for NodeName {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Of::Pipeline(pipeline, node) => pipeline.stage(*node).id(),
            Of::Text(text) => text,
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for NodeName {
    fn eq(&self, other: &NodeName) -> bool {
        **self == **other
    }
}

impl Eq for NodeName {}

impl PartialEq<str> for NodeName {
    fn eq(&self, other: &str) -> bool {
        &**self == other
    }
}

impl PartialEq<&str> for NodeName {
    fn eq(&self, other: &&str) -> bool {
        &**self == *other
    }
}

impl Serialize for NodeName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for NodeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeName, D::Error> {
        String::deserialize(deserializer).map(|id| NodeName(Of::Text(id.into())))
    }
}
