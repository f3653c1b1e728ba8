//! Pictures: a graph as text that other programs draw, and the parts that all formats share.

mod mermaid;

pub use mermaid::print_mermaid;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::analysis::Analysis;
use crate::attribute::Known;
use crate::attributes::Attributes;
use crate::kind;
use crate::model::{Edge, Graph, NodeIndex};
use crate::text::Source;

/// Options for a picture of a graph.
///
/// ```
/// use orchestra_graph::{NodeState, PictureOptions};
/// let mut options = PictureOptions::default();
/// options.states.insert("build".to_owned(), NodeState::Done);
/// ```
#[derive(Clone, Debug)]
pub struct PictureOptions {
    /// The states of nodes in a run, by id. If any node has a state, nodes without one are drawn as pending.
    pub states: BTreeMap<String, NodeState>,
    /// The number of characters after which labels are broken into lines.
    pub wrap: usize,
}

impl Default for PictureOptions {
    fn default() -> PictureOptions {
        PictureOptions {
            states: BTreeMap::new(),
            wrap: 26,
        }
    }
}

/// The state of a node in a run.
///
/// ```
/// use orchestra_graph::{NodeState, PictureOptions, Source, load, print_mermaid};
/// let loaded = load(Source::new("a.dot", "digraph { start -> exit }"), &Default::default());
/// let mut options = PictureOptions::default();
/// options.states.insert("start".to_owned(), "done".parse::<NodeState>()?);
/// assert!(print_mermaid(&loaded.graph, &options).contains(NodeState::Done.paint().fill));
/// # Ok::<(), orchestra_graph::print::UnknownState>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeState {
    /// Not reached yet.
    #[default]
    Pending,
    /// In progress.
    Running,
    /// Succeeded.
    Done,
    /// Failed.
    Failed,
    /// Skipped by the run.
    Skipped,
    /// Failed, with another attempt to come.
    Retrying,
}

impl NodeState {
    /// All states.
    pub const ALL: [NodeState; 6] = [
        NodeState::Pending,
        NodeState::Running,
        NodeState::Done,
        NodeState::Failed,
        NodeState::Skipped,
        NodeState::Retrying,
    ];

    /// Returns the name, such as `running`.
    pub const fn word(self) -> &'static str {
        match self {
            NodeState::Pending => "pending",
            NodeState::Running => "running",
            NodeState::Done => "done",
            NodeState::Failed => "failed",
            NodeState::Skipped => "skipped",
            NodeState::Retrying => "retrying",
        }
    }

    /// Returns the colours of the state in pictures.
    pub const fn paint(self) -> Paint {
        match self {
            NodeState::Pending => Paint::new("#ffffff", "#9aa4b2", "#374151"),
            NodeState::Running => Paint::new("#dbeafe", "#1d4ed8", "#172554"),
            NodeState::Done => Paint::new("#dcf5e5", "#1a7f46", "#0b3b20"),
            NodeState::Failed => Paint::new("#fde2e1", "#c62828", "#5c1010"),
            NodeState::Skipped => Paint::new("#f3f4f6", "#b6bec9", "#6b7280"),
            NodeState::Retrying => Paint::new("#ffedd0", "#c2710c", "#5a3305"),
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The error for a text that is not the name of a [`NodeState`].
///
/// ```
/// let error = "finished".parse::<orchestra_graph::NodeState>().unwrap_err();
/// assert_eq!(error.to_string(), "`finished` is not the state of a node");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownState(pub String);

impl fmt::Display for UnknownState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not the state of a node", self.0)
    }
}

impl std::error::Error for UnknownState {}

impl FromStr for NodeState {
    type Err = UnknownState;

    /// # Errors
    /// Fails if no state has this name.
    fn from_str(word: &str) -> Result<NodeState, UnknownState> {
        let found = NodeState::ALL.into_iter().find(|state| state.word() == word);
        found.ok_or_else(|| UnknownState(word.to_owned()))
    }
}

/// The colours of a node, as `#rrggbb`. The text is readable on the fill, whatever the background of the picture.
///
/// ```
/// use orchestra_graph::NodeState;
/// let (failed, done) = (NodeState::Failed.paint(), NodeState::Done.paint());
/// assert_ne!(failed.fill, done.fill);
/// assert!(failed.fill.starts_with('#') && failed.fill.len() == 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    /// The fill colour.
    pub fill: &'static str,
    /// The colour of the outline.
    pub line: &'static str,
    /// The colour of the text.
    pub text: &'static str,
}

impl Paint {
    const fn new(fill: &'static str, line: &'static str, text: &'static str) -> Paint {
        Paint { fill, line, text }
    }
}

/// The appearance of a node in a picture.
///
/// ```
/// use orchestra_graph::{PictureOptions, Source, load, print};
/// let text = "digraph { start -> work -> exit; work [label=\"Write the report\"] }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let faces = print::faces(&loaded.graph, &PictureOptions { wrap: 10, ..PictureOptions::default() });
/// let work = &faces[loaded.graph.find("work").expect("declared").at()];
/// assert_eq!((work.shape, work.lines.len(), work.state), ("box", 2, None));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Face<'g> {
    /// The shape, which is one that Graphviz supports.
    pub shape: &'g str,
    /// The lines of the label.
    pub lines: Vec<String>,
    /// The colours.
    pub paint: Paint,
    /// The state, if the picture shows a run.
    pub state: Option<NodeState>,
}

/// Returns the appearance of each node, in the order of the graph.
///
/// ```
/// use orchestra_graph::{PictureOptions, Source, load, print};
/// let loaded = load(Source::new("a.dot", "digraph { start -> exit }"), &Default::default());
/// let faces = print::faces(&loaded.graph, &PictureOptions::default());
/// assert_eq!(faces[0].shape, "Mdiamond");
/// ```
pub fn faces<'g>(graph: &'g Graph, options: &PictureOptions) -> Vec<Face<'g>> {
    // The analysis finds start and exit even if only their ids identify them. It does not need the text for that.
    let nothing = Source::new("", "");
    let analysis = Analysis::new(graph, &nothing);
    let face = |(at, node): (NodeIndex, &'g crate::model::Node)| {
        let kind = analysis.kind(at);
        let state = if options.states.is_empty() {
            None
        } else {
            Some(options.states.get(&*node.id).copied().unwrap_or_default())
        };
        let written = node.attributes.filled(Known::Shape);
        let of_kind = || {
            kind::shapes_of(kind)
                .next()
                .unwrap_or(Known::Shape.default_text())
        };
        Face {
            shape: written.filter(|shape| is_shape(shape)).unwrap_or_else(of_kind),
            lines: wrap(node.label(), options.wrap),
            paint: state.map_or_else(|| paint_of(kind), NodeState::paint),
            state,
        }
    };
    graph.indexed_nodes().map(face).collect()
}

fn paint_of(kind: &str) -> Paint {
    const TEXT: &str = "#1f2937";
    match kind {
        kind::START => Paint::new("#e3f6ea", "#2f9e62", TEXT),
        kind::EXIT => Paint::new("#e8ebf0", "#4b5563", TEXT),
        kind::WAIT_HUMAN => Paint::new("#fff4d6", "#c98a12", TEXT),
        kind::CONDITIONAL => Paint::new("#f3ecff", "#8457c9", TEXT),
        kind::PARALLEL | kind::FAN_IN => Paint::new("#e2f5f8", "#1f8ea3", TEXT),
        kind::TOOL => Paint::new("#f1f3f5", "#5f6b7a", TEXT),
        kind::MANAGER_LOOP => Paint::new("#fdebf4", "#c2528b", TEXT),
        kind::SUBPIPELINE => Paint::new("#fdefe3", "#c0703a", TEXT),
        kind::CODERGEN => Paint::new("#eaf1ff", "#4c7bd9", TEXT),
        _ => Paint::new("#f7f7f2", "#7c7a55", TEXT),
    }
}

/// Returns the text at an edge: its label, and the condition under which it is taken.
///
/// ```
/// use orchestra_graph::{Source, load, print};
/// let loaded = load(Source::new("a.dot", "digraph { a -> b [label=Yes, condition=\"x=1\"] }"), &Default::default());
/// assert_eq!(print::caption(&loaded.graph.edges[0], 20), ["Yes", "x=1"]);
/// ```
pub fn caption(edge: &Edge, width: usize) -> Vec<String> {
    let attributes: &Attributes = &edge.attributes;
    let condition = attributes
        .filled(Known::Condition)
        .or_else(|| attributes.filled(Known::ConditionValue))
        .or_else(|| match attributes.text(Known::ConditionType) {
            Some(word @ ("success" | "failure")) => Some(word),
            _ => None,
        });
    [attributes.filled(Known::Label), condition]
        .into_iter()
        .flatten()
        .flat_map(|text| wrap(text, width))
        .collect()
}

/// Returns whether taking the edge restarts the run.
///
/// ```
/// use orchestra_graph::{Source, load, print};
/// let loaded = load(Source::new("a.dot", "digraph { a -> b [loop_restart=true] }"), &Default::default());
/// assert!(print::is_restart(&loaded.graph.edges[0]));
/// ```
pub fn is_restart(edge: &Edge) -> bool {
    edge.attributes.flag(Known::LoopRestart)
}

const MAX_LINES: usize = 8;

/// Breaks a text into at most eight lines of about this many characters, at spaces if possible.
///
/// ```
/// use orchestra_graph::print::wrap;
/// assert_eq!(wrap("write the report", 10), ["write the", "report"]);
/// assert_eq!(wrap("write the report", usize::MAX), ["write the report"]);
/// ```
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(4);
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.trim().lines() {
        let mut line = String::new();
        let mut length = 0;
        for word in paragraph.split_whitespace() {
            let mut rest: Vec<char> = word.chars().filter(|c| !c.is_control()).take(2_000).collect();
            if length > 0 && length + 1 + rest.len() > width {
                lines.push(std::mem::take(&mut line));
                length = 0;
            }
            // A word that is only a little too long is not broken.
            while rest.len() > width.saturating_add(width / 2) {
                let tail = rest.split_off(width);
                lines.push(rest.into_iter().collect());
                rest = tail;
            }
            if length > 0 {
                line.push(' ');
                length += 1;
            }
            length += rest.len();
            line.extend(rest);
            if lines.len() > MAX_LINES {
                break;
            }
        }
        lines.push(line);
        if lines.len() > MAX_LINES {
            lines.truncate(MAX_LINES);
            if let Some(last) = lines.last_mut() {
                last.push('\u{2026}');
            }
            break;
        }
    }
    lines
}

/// Returns the innermost enclosing subgraph that is drawn as a box: one with a label, or with a name that begins with
/// `cluster`.
///
/// ```
/// use orchestra_graph::{Source, load, print};
/// let text = "digraph { subgraph cluster_a { subgraph plain { x } } }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let inner = loaded.graph.nodes[0].subgraph;
/// assert_eq!(print::cluster_around(&loaded.graph, inner), Some(0));
/// ```
pub fn cluster_around(graph: &Graph, subgraph: Option<u32>) -> Option<u32> {
    let mut at = subgraph?;
    loop {
        let found = graph.subgraphs.get(at as usize)?;
        if cluster_label(graph, at).is_some() {
            return Some(at);
        }
        // Outer subgraphs come before inner ones, so the loop ends.
        at = found.parent.filter(|parent| *parent < at)?;
    }
}

/// Returns the label on the box of a subgraph, or `None` if the subgraph is not drawn.
///
/// ```
/// use orchestra_graph::{Source, load, print};
/// let loaded = load(Source::new("a.dot", "digraph { subgraph cluster_a { x } }"), &Default::default());
/// assert_eq!(print::cluster_label(&loaded.graph, 0), Some("a"));
/// ```
pub fn cluster_label(graph: &Graph, subgraph: u32) -> Option<&str> {
    let subgraph = graph.subgraphs.get(subgraph as usize)?;
    let of_name = || {
        let name = subgraph.name.as_deref()?.strip_prefix("cluster")?;
        Some(name.trim_matches(['_', '-', ' ']))
    };
    match subgraph.label.as_deref().filter(|label| !label.trim().is_empty()) {
        Some(label) => Some(label),
        None => of_name(),
    }
}

/// The boxes of the drawn subgraphs with their nodes, outer ones before inner ones.
///
/// ```
/// use orchestra_graph::{Source, load, print};
/// let loaded = load(Source::new("a.dot", "digraph { a; subgraph cluster_x { b } }"), &Default::default());
/// let clusters = print::Clusters::new(&loaded.graph);
/// assert_eq!((clusters.nodes[&None].len(), &clusters.children[&None][..]), (1, &[0][..]));
/// ```
#[derive(Clone, Debug)]
pub struct Clusters {
    /// The direct nodes of the top level (`None`) and of each box.
    pub nodes: BTreeMap<Option<u32>, Vec<NodeIndex>>,
    /// The boxes directly inside the top level (`None`) and each box.
    pub children: BTreeMap<Option<u32>, Vec<u32>>,
}

impl Clusters {
    /// Finds the boxes of a graph.
    pub fn new(graph: &Graph) -> Clusters {
        let mut clusters = Clusters {
            nodes: BTreeMap::new(),
            children: BTreeMap::new(),
        };
        for (at, node) in graph.indexed_nodes() {
            let around = cluster_around(graph, node.subgraph);
            clusters.nodes.entry(around).or_default().push(at);
        }
        for (at, subgraph) in graph.subgraphs.iter().enumerate() {
            let at = at as u32;
            if cluster_label(graph, at).is_some() {
                let around = cluster_around(graph, subgraph.parent);
                clusters.children.entry(around).or_default().push(at);
            }
        }
        clusters
    }
}

fn is_shape(shape: &str) -> bool {
    SHAPES.binary_search(&shape).is_ok()
}

/// The polygon shapes of Graphviz that have the label inside.
const SHAPES: &[&str] = &[
    "Mcircle",
    "Mdiamond",
    "Msquare",
    "box",
    "box3d",
    "cds",
    "circle",
    "component",
    "cylinder",
    "diamond",
    "doublecircle",
    "doubleoctagon",
    "egg",
    "ellipse",
    "folder",
    "hexagon",
    "house",
    "invhouse",
    "invtrapezium",
    "invtriangle",
    "larrow",
    "lpromoter",
    "none",
    "note",
    "octagon",
    "oval",
    "parallelogram",
    "pentagon",
    "plain",
    "plaintext",
    "rarrow",
    "rect",
    "rectangle",
    "septagon",
    "square",
    "star",
    "tab",
    "trapezium",
    "triangle",
    "tripleoctagon",
    "underline",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_sorted() {
        assert!(SHAPES.is_sorted());
    }

    #[test]
    fn wrapping_breaks_long_words_and_keeps_line_ends() {
        assert_eq!(wrap("", 10), Vec::<String>::new());
        assert_eq!(wrap("a\nb\u{0}c", 10), ["a", "bc"]);
        assert_eq!(wrap(&"x".repeat(25), 10), ["x".repeat(10), "x".repeat(15)]);
        assert_eq!(wrap(&"word ".repeat(100_000), 10).len(), MAX_LINES);
        assert_eq!(wrap(&"x".repeat(1 << 20), 0).len(), MAX_LINES);
    }
}
