//! Pictures of pipelines: SVG, with or without Graphviz, DOT, text for terminals, and scenes for programs that draw.
//!
//! # Glossary
//!
//! - **Shape**: the border of a node and its size around the text.
//! - **Face**: the appearance of a node: its text, shape name, colours and state.
//! - **Caption**: the text of an edge.
//! - **Cluster**: a subgraph that is drawn as a box.
//! - **Route**: the points of an edge between its nodes.
//! - **Back edge**: an edge that leads back to a node on the path to it.
//! - **Scene**: everything that a picture shows, as data with positions.
//! - **Rank**: the length of the longest path to a node, without back edges.
//!
//! # Modules, in reading order
//!
//! - `svg`: the SVG writer.
//! - `scene`: [`Scene`], which the SVG writer writes.
//! - `shape`: the shapes of nodes.
//! - `measure`: the width of text.
//! - `layout`: the positions of all elements.
//! - `order`: back edges and ranks.
//! - `text`: a graph as text for terminals.
//! - `dot`: a graph as DOT, for Graphviz.
//! - `graphviz`: drawing with Graphviz.
//! - `error`: [`PictureError`].
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

#![cfg_attr(docsrs, feature(doc_cfg))]

mod dot;
mod error;
mod graphviz;
mod layout;
mod measure;
mod order;
mod scene;
mod shape;
mod svg;
mod text;

use std::time::Duration;

pub use dot::dot;
pub use error::PictureError;
pub use graphviz::svg_by_graphviz;
pub use scene::{
    Figure, FigureForm, Scene, SceneCaption, SceneCluster, SceneEdge, SceneNode, SceneText, scene,
};
pub use svg::{svg, svg_with_links};
pub use text::text;

use orchestra_graph::{Graph, PictureOptions};

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
    svg_by_graphviz(&dot(graph, options), GRAPHVIZ_TIMEOUT).or_else(|_| svg(graph, options))
}
