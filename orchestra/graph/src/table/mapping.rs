//! The mapping from the nodes and edges of one pipeline to those of another, with which a run can be resumed under a
//! changed graph.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use super::content::Content;
use super::{EdgeRow, Pipeline};
use crate::kind;
use crate::model::{EdgeIndex, NodeIndex};

/// The mapping from the nodes and edges of an old pipeline to those of a new one (rule D6).
///
/// Nodes are identified by their ids. Edges are identified by the ids of their ends; parallel edges by label and
/// condition, then by label, then by condition, and finally by their order.
///
/// ```
/// use orchestra_graph::{Mapping, Source, load};
/// let pipeline = |text: &str| load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let old = pipeline("digraph { start -> build -> exit; build [prompt=Build] }");
/// let new = pipeline("digraph { start -> lint -> build -> exit; lint [prompt=Lint]; build [prompt=Build] }");
/// let mapping = Mapping::between(&old, &new);
/// let build = old.find("build").expect("declared");
/// assert_eq!(mapping.node(build), new.find("build"));
/// assert!(mapping.same_shape(build));
/// assert_eq!((mapping.nodes(), mapping.edges()), (4, 3));
/// let gone = old.stage(old.start).edges().next().expect("start -> build").0;
/// assert_eq!(mapping.edge(gone), None, "it leads to `lint` now");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    nodes_by_old: Vec<NodeMapping>,
    edges: Vec<Option<EdgeIndex>>,
    new_nodes: usize,
    new_edges: usize,
}

/// The new index of a node, and whether a run at this node can be resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NodeMapping {
    node: Option<NodeIndex>,
    same_shape: bool,
    same_join: bool,
}

impl Mapping {
    /// Finds the common nodes and edges of two pipelines. The pipelines that their stages run have mappings of their
    /// own.
    pub fn between(old: &Pipeline, new: &Pipeline) -> Mapping {
        Mapping::new(&Content::new(old), &Content::new(new))
    }

    pub(super) fn new(old: &Content<'_>, new: &Content<'_>) -> Mapping {
        let (before, after) = (old.pipeline(), new.pipeline());
        let nodes = after.nodes.iter().zip(0..);
        let by_id: HashMap<&str, NodeIndex> = nodes
            .map(|(row, at)| (after.text(row.id), NodeIndex(at)))
            .collect();
        let found: Vec<Option<NodeIndex>> = before
            .nodes
            .iter()
            .map(|row| by_id.get(before.text(row.id)).copied())
            .collect();
        let find = |node: NodeIndex| found.get(node.at()).copied().flatten();
        let indices = (0..).map(NodeIndex);
        let nodes_by_old = found.iter().zip(indices).map(|(node, at)| {
            let Some(node) = *node else {
                return NodeMapping::default();
            };
            let (old, new) = (before.stage(at), after.stage(node));
            let is_gate = |stage: super::Stage<'_>| stage.kind() == kind::WAIT_HUMAN;
            let joins = [old.row(), new.row()].map(|row| row.fan_out.as_ref().map(|fan_out| fan_out.join));
            NodeMapping {
                node: Some(node),
                same_shape: old.row().role == new.row().role
                    && joins[0].is_some() == joins[1].is_some()
                    && is_gate(old) == is_gate(new),
                same_join: match joins {
                    [Some(old), Some(new)] => find(old) == Some(new),
                    [old, new] => old == new,
                },
            }
        });
        Mapping {
            nodes_by_old: nodes_by_old.collect(),
            edges: edges(old, new, find),
            new_nodes: after.nodes.len(),
            new_edges: after.edges.len(),
        }
    }

    /// Returns the new index of an old node; `None` if the new pipeline has no node with its id.
    pub fn node(&self, old: NodeIndex) -> Option<NodeIndex> {
        self.nodes_by_old.get(old.at())?.node
    }

    /// Returns the new index of an old edge; `None` if the new pipeline has no such edge.
    pub fn edge(&self, old: EdgeIndex) -> Option<EdgeIndex> {
        *self.edges.get(old.at())?
    }

    /// Returns `true` if an old node still exists and has the same function in the flow: the same role, a fan-out or
    /// not, a human gate or not. Otherwise a run must not be resumed in the middle of the node.
    pub fn same_shape(&self, old: NodeIndex) -> bool {
        self.nodes_by_old
            .get(old.at())
            .is_some_and(|mapped| mapped.same_shape)
    }

    /// Returns `true` if an old fan-out still exists and its branches still end at the same node, and for a node that
    /// neither was nor is a fan-out. If the join of an open block has moved, branches may already have passed it.
    pub fn same_join(&self, old: NodeIndex) -> bool {
        self.nodes_by_old
            .get(old.at())
            .is_some_and(|mapped| mapped.same_join)
    }

    /// Returns the number of nodes of the new pipeline.
    pub fn nodes(&self) -> usize {
        self.new_nodes
    }

    /// Returns the number of edges of the new pipeline.
    pub fn edges(&self) -> usize {
        self.new_edges
    }

    /// Returns `true` if each node and each edge has the same index as before, and there are no others.
    pub fn is_identity(&self) -> bool {
        let nodes = self.nodes_by_old.iter().zip(0..);
        let edges = self.edges.iter().zip(0..);
        (self.nodes_by_old.len(), self.edges.len()) == (self.new_nodes, self.new_edges)
            && nodes
                .into_iter()
                .all(|(mapped, at)| mapped.node == Some(NodeIndex(at)))
            && edges.into_iter().all(|(edge, at)| *edge == Some(EdgeIndex(at)))
    }
}

/// The edges between one pair of nodes, in order.
#[derive(Default)]
struct Parallel {
    old: Vec<EdgeIndex>,
    new: Vec<EdgeIndex>,
}

fn edges(
    old: &Content<'_>,
    new: &Content<'_>,
    find: impl Fn(NodeIndex) -> Option<NodeIndex>,
) -> Vec<Option<EdgeIndex>> {
    let (before, after) = (old.pipeline(), new.pipeline());
    let mut groups: HashMap<(NodeIndex, NodeIndex), Parallel> = HashMap::new();
    for (row, at) in before.edges.iter().zip(0..) {
        if let (Some(from), Some(to)) = (find(row.from), find(row.to)) {
            groups.entry((from, to)).or_default().old.push(EdgeIndex(at));
        }
    }
    for (row, at) in after.edges.iter().zip(0..) {
        if let Some(group) = groups.get_mut(&(row.from, row.to)) {
            group.new.push(EdgeIndex(at));
        }
    }
    let mut found = vec![None; before.edges.len()];
    let mut pair = |pairs: Vec<(EdgeIndex, EdgeIndex)>| {
        for (old, new) in pairs {
            if let Some(mapped) = found.get_mut(old.at()) {
                *mapped = Some(new);
            }
        }
    };
    for mut group in groups.into_values() {
        if group.old.len() > 1 || group.new.len() > 1 {
            // Pair equal labels and conditions first, then equal labels, then equal conditions.
            pair(group.alike(
                |at| Some(both(old, before.edge(at))),
                |at| Some(both(new, after.edge(at))),
            ));
            pair(group.alike(|at| label(before, at), |at| label(after, at)));
            pair(group.alike(
                |at| condition(old, before.edge(at)),
                |at| condition(new, after.edge(at)),
            ));
        }
        pair(group.old.into_iter().zip(group.new).collect());
    }
    found
}

impl Parallel {
    /// Removes and returns the pairs with equal keys; edges with the same key are paired in order.
    fn alike<K: Hash + Eq>(
        &mut self,
        old: impl Fn(EdgeIndex) -> Option<K>,
        new: impl Fn(EdgeIndex) -> Option<K>,
    ) -> Vec<(EdgeIndex, EdgeIndex)> {
        let mut by_key: HashMap<K, VecDeque<EdgeIndex>> = HashMap::new();
        for at in &self.new {
            if let Some(key) = new(*at) {
                by_key.entry(key).or_default().push_back(*at);
            }
        }
        let mut pairs = Vec::new();
        self.old.retain(|at| {
            let free = old(*at).and_then(|key| by_key.get_mut(&key)?.pop_front());
            pairs.extend(free.map(|new| (*at, new)));
            free.is_none()
        });
        let taken: std::collections::HashSet<EdgeIndex> = pairs.iter().map(|(_, new)| *new).collect();
        self.new.retain(|at| !taken.contains(at));
        pairs
    }
}

fn both<'c>(content: &'c Content<'_>, row: &EdgeRow) -> (&'c str, &'c str) {
    (content.pipeline().text(row.label), content.condition(row))
}

fn label(pipeline: &Pipeline, edge: EdgeIndex) -> Option<&str> {
    Some(pipeline.text(pipeline.edge(edge).normalized_label)).filter(|label| !label.is_empty())
}

fn condition<'c>(content: &'c Content<'_>, row: &EdgeRow) -> Option<&'c str> {
    Some(content.condition(row)).filter(|condition| !condition.is_empty())
}
