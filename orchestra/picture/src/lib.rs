//! Pictures of pipelines: SVG, with or without Graphviz, and text for terminals.
//!
//! # Glossary
//!
//! - **Shape**: the border of a node and its size around the text.
//! - **Face**: the appearance of a node: its text, shape name, colours and state.
//! - **Caption**: the text of an edge.
//! - **Cluster**: a subgraph that is drawn as a box.
//! - **Route**: the points of an edge between its nodes.
//! - **Back edge**: an edge that leads back to a node on the path to it.
//! - **Rank**: the length of the longest path to a node, without back edges.
//!
//! # Modules, in reading order
//!
//! - `svg`: the SVG writer.
//! - `shape`: the shapes of nodes.
//! - `measure`: the width of text.
//! - `layout`: the positions of all elements.
//! - `order`: back edges and ranks.
//! - `text`: a graph as text for terminals.
//! - `graphviz`: drawing with Graphviz.
//!
//! # Examples
//!
//! ```
//! use orchestra_graph::{PictureOptions, Source, load};
//! let loaded = load(Source::new("a.dot", "digraph a { start -> work -> exit }"), &Default::default());
//! let svg = orchestra_picture::svg(&loaded.graph, &PictureOptions::default())?;
//! assert!(svg.starts_with("<svg "));
//! # Ok::<(), orchestra_picture::PictureError>(())
//! ```

mod graphviz;
mod layout;
mod measure;
mod order;
mod shape;
mod svg;
mod text;

use std::time::Duration;

pub use graphviz::svg_by_graphviz;
pub use svg::svg;
pub use text::text;

use orchestra_graph::{Graph, PictureOptions, print_dot};

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

const GRAPHVIZ_TIMEOUT: Duration = Duration::from_secs(10);

/// Draws a graph as SVG: with Graphviz if it is installed and finishes in time, else with [`svg`].
///
/// # Errors
///
/// Fails under the same conditions as [`svg`].
///
/// ```
/// use orchestra_graph::{PictureOptions, Source, load};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit }"), &Default::default());
/// assert!(orchestra_picture::best_svg(&loaded.graph, &PictureOptions::default())?.contains("<svg"));
/// # Ok::<(), orchestra_picture::PictureError>(())
/// ```
pub fn best_svg(graph: &Graph, options: &PictureOptions) -> Result<String, PictureError> {
    svg_by_graphviz(&print_dot(graph, options), GRAPHVIZ_TIMEOUT).or_else(|_| svg(graph, options))
}
