//! The positions of all elements, from the layered layout of the crate dagre, which runs on a separate thread.

use std::thread;

use dagre::graph::{Graph as DagreGraph, GraphOptions};
use dagre::{EdgeLabel, LayoutOptions, NodeLabel, RankDir, Ranker};
use orchestra_graph::print::{cluster_around, cluster_label};
use orchestra_graph::{Graph, NodeIndex};

use crate::error::PictureError;
use crate::order;
use crate::shape::{Point, at};

const MAX_NODES: usize = 2_000;
const MAX_EDGES: usize = 4_000;
/// Number of nodes and edges from which the better but slower ranking takes too long.
const MAX_EXACT: usize = 3_000;
/// Maximum number of layers that the edges of a large graph cross in total; the longest edges are then drawn straight.
const MAX_CROSSED: usize = 1_500;
/// The stack of the layout thread in bytes, because the layout recurses along paths.
const STACK: usize = 256 << 20;

/// The sizes of the elements to place.
pub(crate) struct Sizes {
    pub(crate) nodes: Vec<(f64, f64)>,
    /// The sizes of the captions of edges; zero for an edge without a caption.
    pub(crate) captions: Vec<(f64, f64)>,
}

/// The positions of all elements.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    /// The centres of nodes.
    pub(crate) nodes: Vec<Point>,
    pub(crate) edges: Vec<Route>,
    /// The drawn subgraphs with corner and size, outer ones first.
    pub(crate) clusters: Vec<(u32, Point, Point)>,
}

/// The route of an edge between its nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    /// The points from border to border of the rectangles around the nodes.
    pub(crate) points: Vec<Point>,
    /// The centre of the caption.
    pub(crate) caption: Option<Point>,
}

/// Places the nodes, edges and subgraphs of a graph.
pub(crate) fn place(graph: &Graph, sizes: &Sizes) -> Result<Positions, PictureError> {
    let (nodes, edges) = (graph.nodes.len(), graph.edges.len());
    if nodes > MAX_NODES || edges > MAX_EDGES {
        return Err(PictureError::TooLarge { nodes, edges });
    }
    if nodes == 0 {
        return Ok(Positions::default());
    }
    // A deep graph needs a deep stack, and a panic of the layout must not end the caller.
    let routed = routed_edges(graph);
    let attempt = |clusters: bool| {
        thread::scope(|scope| {
            let builder = thread::Builder::new().stack_size(STACK);
            let run = builder
                .spawn_scoped(scope, || try_layout(graph, sizes, clusters, &routed))
                .ok()?;
            run.join().ok().flatten()
        })
    };
    attempt(true)
        .or_else(|| attempt(false))
        .ok_or(PictureError::Layout)
}

fn try_layout(graph: &Graph, sizes: &Sizes, clusters: bool, routed: &[bool]) -> Option<Positions> {
    let mut dagre_graph: DagreGraph<NodeLabel, EdgeLabel> = DagreGraph::with_options(GraphOptions {
        directed: true,
        multigraph: true,
        compound: true,
    });
    for (index, (width, height)) in sizes.nodes.iter().enumerate() {
        let label = NodeLabel {
            width: *width,
            height: *height,
            ..NodeLabel::default()
        };
        dagre_graph.set_node(node_name(index), Some(label));
    }
    if clusters {
        set_clusters(graph, &mut dagre_graph);
    }
    let edges = graph.edges.iter().zip(&sizes.captions).zip(routed);
    for (index, ((edge, (width, height)), routed)) in edges.enumerate() {
        if !routed {
            continue;
        }
        let label = EdgeLabel {
            width: *width,
            height: *height,
            labelpos: dagre::layout::types::LabelPos::Center,
            ..EdgeLabel::default()
        };
        let (from, to) = (node_name(edge.from.at()), node_name(edge.to.at()));
        dagre_graph.set_edge(from, to, Some(label), Some(&index.to_string()));
    }
    dagre::layout(&mut dagre_graph, Some(options(graph)));
    collect(graph, &dagre_graph)
}

/// Returns for each edge whether the layout routes it: all edges, unless that would take too long.
fn routed_edges(graph: &Graph) -> Vec<bool> {
    let ranks = order::ranks(graph, &order::back_edges(graph));
    let span = |index: usize| {
        let edge = &graph.edges[index];
        let rank = |node: NodeIndex| ranks.get(node.at()).copied().unwrap_or_default();
        rank(edge.from).abs_diff(rank(edge.to))
    };
    let mut shortest_first: Vec<usize> = (0..graph.edges.len()).collect();
    shortest_first.sort_by_key(|index| span(*index));
    let mut routed = vec![true; graph.edges.len()];
    let mut reached = vec![false; graph.nodes.len()];
    let mut crossed = 0;
    for index in shortest_first {
        let edge = &graph.edges[index];
        let (from, to) = (edge.from.at(), edge.to.at());
        if from >= reached.len() || to >= reached.len() {
            // An edge with a missing end has no route.
            routed[index] = false;
            continue;
        }
        crossed += span(index).max(1);
        // One short edge into each node keeps the layers together.
        let first = !std::mem::replace(&mut reached[to], true);
        routed[index] = crossed <= MAX_CROSSED || (first && span(index) <= 1);
    }
    routed
}

fn options(graph: &Graph) -> LayoutOptions {
    let rankdir = graph
        .attributes
        .find("rankdir")
        .map(|attribute| attribute.value.to_string());
    LayoutOptions {
        rankdir: match rankdir.as_deref() {
            Some("LR") => RankDir::LR,
            Some("RL") => RankDir::RL,
            Some("BT") => RankDir::BT,
            _ => RankDir::TB,
        },
        nodesep: 34.0,
        ranksep: 44.0,
        edgesep: 16.0,
        ranker: match graph.nodes.len() + graph.edges.len() {
            0..MAX_EXACT => Ranker::NetworkSimplex,
            _ => Ranker::TightTree,
        },
        ..LayoutOptions::default()
    }
}

fn node_name(index: usize) -> String {
    format!("n{index}")
}

fn cluster_name(subgraph: u32) -> String {
    format!("c{subgraph}")
}

/// Adds the subgraphs that contain at least one node; an empty one has no position.
fn set_clusters(graph: &Graph, dagre_graph: &mut DagreGraph<NodeLabel, EdgeLabel>) {
    for (index, node) in graph.indexed_nodes() {
        let mut inside = node_name(index.at());
        let mut around = cluster_around(graph, node.subgraph);
        while let Some(cluster) = around {
            let name = cluster_name(cluster);
            let known = dagre_graph.has_node(&name);
            if !known {
                dagre_graph.set_node(name.clone(), Some(NodeLabel::default()));
            }
            dagre_graph.set_parent(&inside, Some(&name));
            if known {
                break;
            }
            let parent = graph
                .subgraphs
                .get(cluster as usize)
                .and_then(|subgraph| subgraph.parent);
            around = cluster_around(graph, parent);
            inside = name;
        }
    }
}

fn collect(graph: &Graph, dagre_graph: &DagreGraph<NodeLabel, EdgeLabel>) -> Option<Positions> {
    let centre = |name: &str| {
        let label = dagre_graph.node(name)?;
        Some((at(label.x?, label.y?), at(label.width, label.height)))
    };
    let mut positions = Positions::default();
    for index in 0..graph.nodes.len() {
        let (middle, _) = centre(&node_name(index))?;
        positions.nodes.push(middle);
    }
    for (index, edge) in graph.edges.iter().enumerate() {
        let name = |node: NodeIndex| node_name(node.at());
        let found = dagre_graph.edge(&name(edge.from), &name(edge.to), Some(&index.to_string()));
        let Some(label) = found else {
            let ends = [edge.from, edge.to].map(|node| positions.nodes.get(node.at()));
            let middle = ends[0].zip(ends[1]).map(|(from, to)| (*from + *to) * 0.5);
            positions.edges.push(Route {
                points: Vec::new(),
                caption: middle,
            });
            continue;
        };
        positions.edges.push(Route {
            points: label.points.iter().map(|point| at(point.x, point.y)).collect(),
            caption: label.x.zip(label.y).map(|(x, y)| at(x, y)),
        });
    }
    for subgraph in 0..graph.subgraphs.len() as u32 {
        if cluster_label(graph, subgraph).is_none() {
            continue;
        }
        if let Some((middle, size)) = centre(&cluster_name(subgraph)) {
            positions.clusters.push((subgraph, middle - size * 0.5, size));
        }
    }
    let finite = |point: &Point| point.x.is_finite() && point.y.is_finite();
    let finite_positions = positions.nodes.iter().all(finite)
        && positions
            .edges
            .iter()
            .all(|route| route.points.iter().all(finite));
    finite_positions.then_some(positions)
}
