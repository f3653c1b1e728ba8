//! The nodes that ended in a run, in order.

use std::fmt;

use orchestra_core::SharedPipeline;
use orchestra_graph::NodeIndex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The nodes that ended in a run, in order. A node occurs once for each time that it ended.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// # let path = Engine::builder().build()?.start(pipeline, ()).await?.wait().await?.path;
/// assert_eq!(path.iter().collect::<Vec<_>>().join(" -> "), "start -> exit");
/// assert_eq!(path.last(), Some("exit"));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Path(Nodes);

/// The nodes of a path, which may be long: indices if the pipeline is known, names if the path was deserialized.
#[derive(Clone)]
enum Nodes {
    Of(SharedPipeline, Vec<NodeIndex>),
    Read(Vec<String>),
}

impl Path {
    pub(crate) fn new(pipeline: SharedPipeline, nodes: Vec<NodeIndex>) -> Path {
        Path(Nodes::Of(pipeline, nodes))
    }

    /// Returns an iterator over the ids of the nodes.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        (0..self.len()).map(|at| match &self.0 {
            Nodes::Of(pipeline, nodes) => pipeline.stage(nodes[at]).id(),
            Nodes::Read(names) => names[at].as_str(),
        })
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Nodes::Of(_, nodes) => nodes.len(),
            Nodes::Read(names) => names.len(),
        }
    }

    /// Returns whether no node ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the node that ended last.
    pub fn last(&self) -> Option<&str> {
        self.iter().next_back()
    }

    /// Returns whether a node ended at least once.
    pub fn contains(&self, node: &str) -> bool {
        self.iter().any(|id| id == node)
    }

    /// Returns the ids, joined with a separator.
    pub fn join(&self, between: &str) -> String {
        self.iter().collect::<Vec<_>>().join(between)
    }

    /// Returns the ids as owned strings.
    pub fn to_vec(&self) -> Vec<String> {
        self.iter().map(str::to_owned).collect()
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: AsRef<str>> PartialEq<[T]> for Path {
    fn eq(&self, other: &[T]) -> bool {
        self.iter().eq(other.iter().map(AsRef::as_ref))
    }
}

impl<T: AsRef<str>, const N: usize> PartialEq<[T; N]> for Path {
    fn eq(&self, other: &[T; N]) -> bool {
        *self == other[..]
    }
}

impl<T: AsRef<str>> PartialEq<Vec<T>> for Path {
    fn eq(&self, other: &Vec<T>) -> bool {
        *self == other[..]
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Path) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Path, D::Error> {
        Vec::deserialize(deserializer).map(|names| Path(Nodes::Read(names)))
    }
}
