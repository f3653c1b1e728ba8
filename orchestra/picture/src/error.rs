//! The error of pictures.

use std::time::Duration;

/// The error of a picture that cannot be drawn.
///
/// A picture has at most 2,000 nodes and 4,000 edges.
///
/// ```
/// use orchestra_graph::{Graph, PictureOptions, Span};
/// use orchestra_picture::{PictureError, svg};
/// let mut graph = Graph::default();
/// (0..5_000).for_each(|number| {
///     graph.add_node(&format!("n{number}"), Span::default());
/// });
/// let error = svg(&graph, &PictureOptions::default()).unwrap_err();
/// assert!(matches!(error, PictureError::TooLarge { nodes: 5_000, edges: 0 }));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// The graph has more nodes or edges than a picture can show.
    #[error("{nodes} nodes and {edges} edges are too many for a picture")]
    TooLarge {
        /// Nodes of the graph.
        nodes: usize,
        /// Edges of the graph.
        edges: usize,
    },
    /// The nodes could not be placed.
    #[error("the nodes of the graph could not be placed")]
    Layout,
    /// The program `dot` is not installed, or cannot be started.
    #[error("the program `dot` of Graphviz cannot be started")]
    NoGraphviz(#[source] std::io::Error),
    /// The program `dot` failed.
    #[error("the program `dot` of Graphviz failed: {0}")]
    Graphviz(String),
    /// The program `dot` took too long and was ended.
    #[error("the program `dot` of Graphviz was ended after {0:?}")]
    TimedOut(Duration),
}
